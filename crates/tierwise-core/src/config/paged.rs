//! Sizes that code counts in pages.

use super::{ConfigError, Section};
use crate::units::Bytes;

/// The size of a base page: a smaller size would be no page.
const PAGE: Bytes = Bytes(4096);

impl Section<'_> {
    /// Reads a size that code counts in pages, in bytes, or returns the default.
    ///
    /// # Errors
    /// Those of [`Section::bytes`], and a size that is less than a base page.
    pub fn paged_or(&self, key: &'static str, default: Bytes) -> Result<Bytes, ConfigError> {
        let size = self.bytes_or(key, default)?;
        if size >= PAGE {
            return Ok(size);
        }
        let problem = format!("found {size}; allowed: a size from one page ({PAGE}) to 4096TiB");
        Err(self.error(key, problem))
    }
}
