//! The kernel's small text files: read, parsed and written with an error that names them.

use std::fs;
use std::io::{self, Read, Write};
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::{self, FromStr};

use crate::error::{LinuxError, Result};

/// A file of one value is shorter: the longest is an identity of 36 letters.
const LONGEST_VALUE: usize = 128;

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
    with_value(path, |found| match found.parse() {
        Ok(value) => Ok(value),
        Err(_) => Err(LinuxError::Format {
            path: path.to_owned(),
            line: None,
            found: format!("{found:?}"),
            expected,
        }),
    })
}

/// Whether a file holds this word and nothing else.
///
/// # Errors
/// It cannot be read.
pub fn holds(path: &Path, word: &str) -> Result<bool> {
    with_value(path, |found| Ok(found == word))
}

/// A value is read without allocating; a text that is longer than any value is read to its end all the same, to be named.
fn with_value<T>(path: &Path, take: impl FnOnce(&str) -> Result<T>) -> Result<T> {
    let mut bytes = [0; LONGEST_VALUE];
    let mut file = fs::File::open(path).map_err(|e| LinuxError::file(path, "read", e))?;
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(LinuxError::file(path, "read", e)),
        }
    }
    match str::from_utf8(&bytes[..filled]) {
        Ok(found) if filled < bytes.len() => take(found.trim()),
        _ => take(text(path)?.trim()),
    }
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
    let mut numbers = Vec::new();
    each_range(path, text, |range| numbers.extend(range))?;
    Ok(numbers)
}

/// How many numbers are in such a list.
///
/// # Errors
/// As [`list`].
pub fn count(path: &Path, text: &str) -> Result<usize> {
    let mut count = 0;
    each_range(path, text, |range| count += range.count())?;
    Ok(count)
}

fn each_range(path: &Path, text: &str, mut take: impl FnMut(RangeInclusive<u32>)) -> Result<()> {
    let bad = || LinuxError::Format {
        path: path.to_owned(),
        line: None,
        found: format!("{:?}", text.trim()),
        expected: "a list such as 0-3,8",
    };
    for part in text.trim().split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.parse().map_err(|_| bad())?;
        let last: u32 = last.parse().map_err(|_| bad())?;
        // A list of more than this is a damaged file, not a machine (MAX_NUMNODES is 1024, NR_CPUS 8192).
        if last < first || last > 65_535 {
            return Err(bad());
        }
        take(first..=last);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_as_the_kernel_writes_them() {
        let path = Path::new("cpulist");
        assert_eq!(list(path, "0-2,5\n").unwrap(), [0, 1, 2, 5]);
        assert_eq!(count(path, "0-2,5\n").unwrap(), 4);
        assert_eq!(list(path, "\n").unwrap(), Vec::<u32>::new());
        for bad in ["3-1", "a", "0-", "0-4000000000"] {
            let said = list(path, bad).unwrap_err().to_string();
            assert!(said.starts_with("cpulist: found"), "{said}");
        }
    }

    #[test]
    fn values_of_any_length_are_read_and_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "on\n").unwrap();
        assert!(holds(file.path(), "on").unwrap() && !holds(file.path(), "off").unwrap());
        let long = "9".repeat(2 * LONGEST_VALUE);
        fs::write(file.path(), &long).unwrap();
        assert_eq!(value::<String>(file.path(), "a number").unwrap(), long);
        assert!(value::<u64>(file.path(), "a number").unwrap_err().to_string().contains(&long));
    }

    #[test]
    fn a_missing_file_is_named_and_is_gone() {
        let error = value::<u64>(Path::new("/nowhere/at/all"), "a number").unwrap_err();
        assert!(error.is_gone());
        assert!(error.to_string().starts_with("/nowhere/at/all: cannot read: No such file"));
        assert!(write(Path::new("/nowhere/at/all"), "1").unwrap_err().is_gone());
    }
}
