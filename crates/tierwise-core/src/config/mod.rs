//! Configuration files: text becomes types once, and every error names the file, the line, the key,
//! the value found and the values allowed.
//!
//! ```
//! use tierwise_core::config::Document;
//!
//! let document = Document::parse("host.toml", "[tier]\ncapcity = \"16GiB\"\n").unwrap();
//! let root = document.root();
//! let tier = root.section("tier").unwrap();
//! let _capacity = tier.bytes_or("capacity", tierwise_core::units::Bytes(0)).unwrap();
//! let error = tier.finish().unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "host.toml:2: tier.capcity: unknown key; did you mean \"capacity\"?"
//! );
//! ```

mod error;
mod limits;
mod paged;
mod section;
mod slip;

pub use error::{ConfigError, nearest};
pub use section::Section;

use toml::Spanned;
use toml::de::DeTable;

/// A parsed file, kept with its text so that errors can name lines.
#[derive(Debug)]
pub struct Document<'a> {
    file: &'a str,
    text: &'a str,
    table: Spanned<DeTable<'a>>,
}

impl<'a> Document<'a> {
    /// Parses TOML. `file` is only a name for messages.
    ///
    /// # Errors
    /// The text is not valid TOML; the error has the line.
    pub fn parse(file: &'a str, text: &'a str) -> Result<Self, ConfigError> {
        match DeTable::parse(text) {
            Ok(table) => Ok(Self { file, text, table }),
            Err(error) => Err(ConfigError {
                file: file.to_owned(),
                line: line_of(text, error.span().map_or(0, |s| s.start)),
                key: String::new(),
                problem: format!("not valid TOML: {}", in_words(text, &error)),
            }),
        }
    }

    /// The top of the file.
    pub fn root(&self) -> Section<'_> {
        Section::new(self.file, self.text, String::new(), 0, Some(self.table.get_ref()))
    }
}

/// The parser's message, with the text found if the message only names the allowed text.
fn in_words(text: &str, error: &toml::de::Error) -> String {
    let found = error.span().and_then(|span| text.get(span.start..));
    let found = found.and_then(|rest| rest.lines().next()).map_or("", str::trim);
    if error.message().contains("expected newline") && !found.is_empty() {
        return format!("found {found:?} after the value; allowed: a new line or a comment");
    }
    error.message().trim_end().replace('\n', "; ")
}

/// The line, counted from one, of a byte offset.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|&&b| b == b'\n').count()
}
