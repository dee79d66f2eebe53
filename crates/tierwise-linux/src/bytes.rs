//! Kernel text that other users can influence: it stays bytes, because names of processes, files
//! and groups may hold any.
//!
//! Parsers work on bytes. Only output for people becomes text, and only through [`shown`].

use std::fmt::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::{self, FromStr};

use bstr::ByteSlice;

/// Limit of the bytes of a name that are shown: longer than usual paths, and still one line of a
/// log.
const MAX_LEN: usize = 512;

/// Formats a name for people: escapes what is not printable, and cuts what is too long.
///
/// Its `Debug` is in quotes.
///
/// ```
/// use tierwise_linux::bytes::shown;
///
/// assert_eq!(shown(b"ev\xffil\n\x1b[2J").to_string(), r"ev\xffil\n\u{1b}[2J");
/// assert_eq!(format!("{:?}", shown(b"a \"b\"")), r#""a \"b\"""#);
/// assert_eq!(shown(&[b'a'; 9000]).to_string().len(), 512 + "…".len());
/// // systemd's own escapes stay readable.
/// assert_eq!(shown(br"my\x2dapp.slice").to_string(), r"my\x2dapp.slice");
/// ```
pub fn shown(bytes: &[u8]) -> Shown<'_> {
    Shown(bytes)
}

/// Formats a path for people.
pub fn shown_path(path: &Path) -> Shown<'_> {
    Shown(path.as_os_str().as_bytes())
}

/// The result of [`shown`].
#[derive(Clone, Copy)]
pub struct Shown<'a>(&'a [u8]);

impl Shown<'_> {
    fn write(self, f: &mut fmt::Formatter<'_>, quoted: bool) -> fmt::Result {
        for (start, end, c) in self.0[..self.0.len().min(MAX_LEN)].char_indices() {
            match c {
                char::REPLACEMENT_CHARACTER => {
                    self.0[start..end].iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
                }
                '"' if quoted => f.write_str("\\\"")?,
                '\\' | '"' | '\'' => f.write_char(c)?,
                _ => write!(f, "{}", c.escape_debug())?,
            }
        }
        if self.0.len() > MAX_LEN { f.write_char('…') } else { Ok(()) }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, false)
    }
}

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        self.write(f, true)?;
        f.write_char('"')
    }
}

/// Limit of the bytes of a peer's answer that are shown: one line of a terminal, enough to
/// recognise it.
const MAX_QUOTED: usize = 120;

/// Formats a peer's answer in quotes: escaped like [`shown`], and cut to a line.
///
/// ```
/// use tierwise_linux::bytes::quoted;
///
/// assert_eq!(quoted("-ERR \x1b[2J\n"), r#""-ERR \u{1b}[2J\n""#);
/// assert_eq!(quoted("a".repeat(121)), format!("{:?} and 1 more byte", "a".repeat(120)));
/// ```
pub fn quoted(bytes: impl AsRef<[u8]>) -> String {
    let bytes = bytes.as_ref();
    let start = &bytes[..bytes.len().min(MAX_QUOTED)];
    let more = match bytes.len() - start.len() {
        0 => String::new(),
        1 => " and 1 more byte".into(),
        more => format!(" and {more} more bytes"),
    };
    format!("{:?}{more}", shown(start))
}

/// Parses a number, or another ASCII word, with nothing around it.
///
/// ```
/// use tierwise_linux::bytes::parsed;
///
/// assert_eq!(parsed::<u64>(b"42"), Some(42));
/// assert_eq!(parsed::<u64>(b"4\xff"), None);
/// ```
pub fn parsed<T: FromStr>(word: &[u8]) -> Option<T> {
    str::from_utf8(word).ok()?.parse().ok()
}

/// Splits bytes into words at spaces.
pub fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Parses a hexadecimal number.
pub fn hexadecimal(word: &[u8]) -> Option<u64> {
    u64::from_str_radix(str::from_utf8(word).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_become_one_printable_line(bytes: Vec<u8>) {
            for text in [shown(&bytes).to_string(), format!("{:?}", shown(&bytes))] {
                prop_assert!(text.chars().all(|c| !c.is_control()), "{text:?}");
                // A byte becomes at most an escape of one character.
                let longest_escape = char::MAX.escape_unicode().len();
                prop_assert!(text.len() <= MAX_LEN * longest_escape + 8);
            }
        }
    }
}
