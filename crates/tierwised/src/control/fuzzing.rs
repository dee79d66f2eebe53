//! The two parsers of the control socket as functions of bytes, with their invariants.

use serde::Serialize;

use super::{client, server};

/// Max bytes of a refusal: a quoted, escaped line and the words around it.
const MAX_PROBLEM: usize = 1 << 13;

/// A command survives the round trip through JSON.
pub(crate) fn request(bytes: &[u8]) {
    check(server::parse, bytes);
}

/// An answer survives the round trip through JSON.
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
        Err(message) => {
            assert!(message.len() < MAX_PROBLEM && !message.contains('\n'), "{message:?}")
        }
    }
}
