//! The kernel's small text files: read, parsed and written with an error that names them.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::str::FromStr;

use crate::error::{LinuxError, Result};

/// The whole text of a file.
///
/// # Errors
/// It cannot be read.
pub fn text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|e| LinuxError::file(path, "read", e))
}

/// A file's text if the file is there.
///
/// # Errors
/// It is there and cannot be read.
pub fn text_if_there(path: &Path) -> Result<Option<String>> {
    match text(path) {
        Err(e) if e.is_gone() => Ok(None),
        other => other.map(Some),
    }
}

/// A file that holds one value.
///
/// # Errors
/// It cannot be read, or it holds something else.
pub fn value<T: FromStr>(path: &Path, expected: &'static str) -> Result<T> {
    let text = text(path)?;
    let found = text.trim();
    found.parse().map_err(|_| LinuxError::Format {
        path: path.to_owned(),
        line: None,
        found: format!("{found:?}"),
        expected,
    })
}

/// Writes a value as the kernel wants it: in one write, into a file that exists.
///
/// # Errors
/// The file is not there, or the kernel refuses the value.
pub fn write(path: &Path, value: &str) -> Result<()> {
    let failed = |e| LinuxError::file(path, format!("write {value:?}"), e);
    let mut file = fs::OpenOptions::new().write(true).truncate(true).open(path).map_err(failed)?;
    file.write_all(value.as_bytes()).map_err(failed)
}

/// The kernel's list of numbers (`0-3,8`), as in `cpulist` and `nodelist`.
///
/// # Errors
/// Something else is written there.
pub fn list(path: &Path, text: &str) -> Result<Vec<u32>> {
    let bad = || LinuxError::Format {
        path: path.to_owned(),
        line: None,
        found: format!("{:?}", text.trim()),
        expected: "a list such as 0-3,8",
    };
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.parse().map_err(|_| bad())?;
        let last: u32 = last.parse().map_err(|_| bad())?;
        // A list of more than this is a damaged file, not a machine (MAX_NUMNODES is 1024, NR_CPUS 8192).
        if last < first || last > 65_535 {
            return Err(bad());
        }
        numbers.extend(first..=last);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_as_the_kernel_writes_them() {
        let path = Path::new("cpulist");
        assert_eq!(list(path, "0-2,5\n").unwrap(), [0, 1, 2, 5]);
        assert_eq!(list(path, "\n").unwrap(), Vec::<u32>::new());
        for bad in ["3-1", "a", "0-", "0-4000000000"] {
            let said = list(path, bad).unwrap_err().to_string();
            assert!(said.starts_with("cpulist: found"), "{said}");
        }
    }

    #[test]
    fn a_missing_file_is_named_and_is_gone() {
        let error = value::<u64>(Path::new("/nowhere/at/all"), "a number").unwrap_err();
        assert!(error.is_gone());
        assert!(error.to_string().starts_with("/nowhere/at/all: cannot read: No such file"));
        assert!(write(Path::new("/nowhere/at/all"), "1").unwrap_err().is_gone());
    }
}
