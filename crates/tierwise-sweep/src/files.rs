//! Reads the files of a plan.

use std::io::Read;
use std::path::{Path, PathBuf};

use tierwise_trace::model::unreadable;
use tierwise_trace::pipe;

/// Size limit of a text file in bytes, as in the `tierwise` command.
const MAX_TEXT: u64 = 4 << 20;

/// The text of a file.
///
/// # Errors
/// The file cannot be read, is too large, or is no text.
pub(crate) fn text(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = pipe::open(path).and_then(|file| file.take(MAX_TEXT).read_to_end(&mut bytes));
    read.map_err(|error| format!("{}: {}", path.display(), unreadable(path, &error)))?;
    if bytes.len() as u64 == MAX_TEXT {
        return Err(format!("{}: it is larger than 4 MiB", path.display()));
    }
    String::from_utf8(bytes).map_err(|_| format!("{}: it is not UTF-8 text", path.display()))
}

/// The TOML files of a directory, sorted.
///
/// # Errors
/// The directory cannot be read, or has none.
pub(crate) fn below(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error| format!("{}: {error}", directory.display());
    let mut files = Vec::new();
    for entry in directory.read_dir().map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|suffix| suffix == "toml") {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(format!("{}: there is no scenario (TOML) in it", directory.display()));
    }
    files.sort();
    Ok(files)
}
