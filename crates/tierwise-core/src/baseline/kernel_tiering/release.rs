//! The kernel releases that differ in a rule of memory tiering.

use crate::config::{ConfigError, Section};

/// A kernel release, by the sources that were read: Debian's 6.12.117 and 7.3.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Release {
    /// 6.12.
    V6_12,
    /// 7.3.
    V7_3,
}

impl Release {
    /// Reads `kernel`: "6.12" or "7.3" (the default).
    ///
    /// # Errors
    /// It names another release.
    pub(super) fn read(section: &Section<'_>) -> Result<Self, ConfigError> {
        let known = [("6.12", Self::V6_12), ("7.3", Self::V7_3)];
        section.choice_or("kernel", Self::V7_3, &known)
    }
}
