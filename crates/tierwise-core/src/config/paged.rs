//! Sizes that are counted in pages.

use super::{ConfigError, Section};
use crate::units::Bytes;

/// The size of a base page: a smaller size would be no page.
const PAGE: Bytes = Bytes(4096);

impl Section<'_> {
    /// A size that is counted in pages, or the default.
    ///
    /// # Errors
    /// As [`Section::bytes`], and the size is less than a base page.
    pub fn paged_or(&self, key: &'static str, default: Bytes) -> Result<Bytes, ConfigError> {
        let size = self.bytes_or(key, default)?;
        if size >= PAGE {
            return Ok(size);
        }
        let problem = format!("found {size}; allowed: a size from one page ({PAGE}) to 4096TiB");
        Err(self.error(key, problem))
    }
}
