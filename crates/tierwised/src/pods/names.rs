//! What a runtime says of pods, checked: whoever may create a pod chooses these bytes.

use std::collections::BTreeMap;

use super::wishes::is_ours;

/// Most bytes of a name: a DNS subdomain's.
const MAX_NAME: usize = 253;

/// Most annotations of a pod that are kept: six for the pod and for each of ten containers.
const MAX_ANNOTATIONS: usize = 66;

/// Most bytes of an annotation's value that is kept: a latency endpoint with a long path.
const MAX_VALUE: usize = 512;

/// Checks a name: every name and id of Kubernetes has these characters alone.
///
/// # Errors
/// It has others, is empty, or too long. The text says what it names.
pub fn checked_name(what: &str, found: String) -> Result<String, String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    if found.is_empty() || found.len() > MAX_NAME || !found.bytes().all(allowed) {
        let shown: String = found.chars().take(40).collect();
        return Err(format!(
            "a pod's {what}: found {shown:?}; allowed: 1 to {MAX_NAME} letters, digits, -, . and _"
        ));
    }
    Ok(found)
}

/// The annotations of Tierwise among a pod's, each cut to a length beyond all that is allowed.
pub fn kept_annotations(all: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let ours = all.into_iter().filter(|(key, _)| is_ours(key));
    ours.take(MAX_ANNOTATIONS).map(|(key, value)| (cut(&key), cut(&value))).collect()
}

/// At most [`MAX_VALUE`] bytes of a text. What is cut is refused when it is parsed.
fn cut(text: &str) -> String {
    let end = (0..=MAX_VALUE.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text[..end.unwrap_or(0)].to_owned()
}
