//! The error of configuration files, and the search for the known name nearest to a wrong one.

/// A configuration error: its place, the value found and the values allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {}{problem}", prefix(key))]
pub struct ConfigError {
    /// The file, as the user named it.
    pub file: String,
    /// Line, counted from one.
    pub line: usize,
    /// The key with its path (`tier.capacity`, `workload[1].trace`); empty for the whole file.
    pub key: String,
    /// The value found, the values allowed, and the remedy.
    pub problem: String,
}

fn prefix(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("{key}: ") }
}

/// The known name nearest to a wrong one, if any is near enough to be a typing mistake.
///
/// ```
/// use tierwise_core::config::nearest;
/// assert_eq!(nearest("mutli-clock", ["clock", "multi-clock", "tpp"]), Some("multi-clock"));
/// assert_eq!(nearest("xyzzy", ["clock", "tpp"]), None);
/// ```
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A name with a third of its letters wrong is a typing mistake; with more it is another word.
    let limit = 1 + wrong.len() / 3;
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(wrong, name), name))
        .filter(|&(distance, _)| distance <= limit)
        .min()
        .map(|(_, name)| name)
}
