//! Bytes that somebody else chose, as they may stand in a log, a notice or an answer: escaped, and no longer than a line.
//!
//! ```
//! use tierwise_linux::quote::quoted;
//!
//! assert_eq!(quoted("-ERR \x1b[2J\n"), r#""-ERR \x1b[2J\n""#);
//! assert_eq!(quoted("a".repeat(121)), format!("{:?} and 1 more byte", "a".repeat(120)));
//! ```

/// Most bytes that are shown: a line of a terminal, which is enough to see what they are.
pub const LONGEST: usize = 120;

/// The bytes in quotes: what is not printable ASCII is escaped, and what is beyond [`LONGEST`] is counted.
pub fn quoted(bytes: impl AsRef<[u8]>) -> String {
    let bytes = bytes.as_ref();
    let shown = &bytes[..bytes.len().min(LONGEST)];
    let more = match bytes.len() - shown.len() {
        0 => String::new(),
        1 => " and 1 more byte".into(),
        more => format!(" and {more} more bytes"),
    };
    format!("\"{}\"{more}", shown.escape_ascii())
}
