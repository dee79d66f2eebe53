//! The two parsers of the control socket as functions of bytes, with what holds of them.

use serde::Serialize;

use super::{client, server};

/// Longest refusal: a line that is quoted, escaped, and words around it.
const MAX_SAID: usize = 1 << 13;

/// A command is written and read as the same.
pub(crate) fn request(bytes: &[u8]) {
    check(server::parse, bytes);
}

/// An answer is written and read as the same.
pub(crate) fn answer(bytes: &[u8]) {
    check(client::parse, bytes);
}

fn check<T: Serialize + PartialEq + std::fmt::Debug>(
    parse: fn(&[u8]) -> Result<T, String>,
    bytes: &[u8],
) {
    match parse(bytes) {
        Ok(parsed) => {
            let written = serde_json::to_vec(&parsed).unwrap_or_default();
            assert_eq!(parse(&written), Ok(parsed));
        }
        Err(said) => assert!(said.len() < MAX_SAID && !said.contains('\n'), "{said:?}"),
    }
}
