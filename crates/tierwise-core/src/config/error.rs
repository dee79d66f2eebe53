//! The one kind of configuration error, and the nearest known name to a wrong one.

/// A refusal that tells its reader where to look and what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {}{problem}", if key.is_empty() { String::new() } else { format!("{key}: ") })]
pub struct ConfigError {
    /// The file, as the user named it.
    pub file: String,
    /// Line, counted from one.
    pub line: usize,
    /// The key with its path (`tier.capacity`, `workload[1].trace`); empty for the whole file.
    pub key: String,
    /// What was found, what is allowed, what to do.
    pub problem: String,
}

/// The known name nearest to a wrong one, if any is near enough to be a slip of the pen.
///
/// ```
/// use tierwise_core::config::nearest;
/// assert_eq!(nearest("mutli-clock", ["clock", "multi-clock", "tpp"]), Some("multi-clock"));
/// assert_eq!(nearest("xyzzy", ["clock", "tpp"]), None);
/// ```
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters wrong is a slip; more is another word.
    let limit = 1 + wrong.len() / 3;
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(wrong, name), name))
        .filter(|&(distance, _)| distance <= limit)
        .min()
        .map(|(_, name)| name)
}
