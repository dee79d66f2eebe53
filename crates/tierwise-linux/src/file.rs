//! Reads, parses and writes the kernel's small text files. Every error names the file.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::{self, FromStr};

use bstr::ByteSlice;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::bytes::{parsed, shown};
use crate::error::{LinuxError, Result, means_gone};

/// Longest file with one value: the longest value is an identity of 36 letters.
const MAX_VALUE: usize = 128;

/// Limit of a file that is read as a whole: a machine with a thousand CPUs and eight nodes has some
/// megabytes of `zoneinfo`, the longest such file.
const MAX_LEN: usize = 16 << 20;

/// Limit of a control group's path in bytes. A tenant may nest groups without end, and the work to
/// open a file grows with its depth: this limit takes seventeen steps.
pub(crate) const MAX_PATH: usize = 64 << 10;

/// Opens a file for reading. A file that is not the kernel's, such as a pipe without a writer, must
/// not block the daemon.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    #[cfg(test)]
    injected::answer(path)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    open_deep(path.as_os_str().as_bytes(), flags).map(File::from)
}

/// Opens a path of up to [`MAX_PATH`] bytes. The kernel takes `PATH_MAX` at once, so this goes
/// directory by directory, each from the one before.
pub(crate) fn open_deep(path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    // The limit includes the byte that ends the path.
    const AT_ONCE: usize = libc::PATH_MAX as usize - 1;
    if path.len() > MAX_PATH {
        return Err(Errno::NAMETOOLONG.into());
    }
    let (mut rest, mut above) = (path, None);
    while rest.len() > AT_ONCE {
        let end = rest[..AT_ONCE].rfind_byte(b'/').filter(|&end| end > 0);
        let end = end.ok_or(Errno::NAMETOOLONG)?;
        let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        above = Some(openat(directory(&above), &rest[..end], step, Mode::empty())?);
        rest = rest[end..].trim_start_with(|c| c == '/');
    }
    Ok(openat(directory(&above), rest, flags, Mode::empty())?)
}

fn directory(above: &Option<OwnedFd>) -> BorrowedFd<'_> {
    above.as_ref().map_or(CWD, AsFd::as_fd)
}

/// Replaces `out` by the content of a file that is not longer than [`MAX_LEN`].
pub(crate) fn read_whole(path: &Path, out: &mut Vec<u8>) -> Result<()> {
    if fill(path, out).map_err(|e| LinuxError::file(path, "read", e))? {
        return Ok(());
    }
    Err(LinuxError::Format {
        path: path.to_owned(),
        line: None,
        found: format!("more than {MAX_LEN} bytes"),
        expected: "a file of the kernel's, which are shorter",
    })
}

/// Like [`read_whole`], but returns false if the file does not exist, without making an error.
pub(crate) fn read_whole_if_there(path: &Path, out: &mut Vec<u8>) -> Result<bool> {
    match fill(path, out) {
        Err(e) if means_gone(&e) => Ok(false),
        Ok(true) => Ok(true),
        _ => read_whole(path, out).map(|()| true),
    }
}

/// Returns false if there is more.
fn fill(path: &Path, out: &mut Vec<u8>) -> io::Result<bool> {
    out.clear();
    open(path)?.take(MAX_LEN as u64 + 1).read_to_end(out)?;
    let whole = out.len() <= MAX_LEN;
    if !whole {
        out.clear();
    }
    Ok(whole)
}

/// Reads the whole content of a file.
///
/// # Errors
/// The file cannot be read.
pub fn bytes(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    read_whole(path, &mut bytes)?;
    Ok(bytes)
}

/// Reads a file whose content comes only from the kernel or the operator, as text.
///
/// # Errors
/// The file cannot be read, or is no text.
pub fn text(path: &Path) -> Result<String> {
    String::from_utf8(bytes(path)?).map_err(|e| LinuxError::Format {
        path: path.to_owned(),
        line: None,
        found: format!("{:?}", shown(e.as_bytes())),
        expected: "text",
    })
}

/// Reads a file's text if the file exists.
///
/// # Errors
/// The file exists but cannot be read.
pub fn text_if_there(path: &Path) -> Result<Option<String>> {
    match text(path) {
        Err(e) if e.is_gone() => Ok(None),
        other => other.map(Some),
    }
}

/// Reads a file that holds one value.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub fn value<T: FromStr>(path: &Path, expected: &'static str) -> Result<T> {
    with_value(path, |found| {
        parsed(found).ok_or_else(|| LinuxError::Format {
            path: path.to_owned(),
            line: None,
            found: format!("{:?}", shown(found)),
            expected,
        })
    })
}

/// True if a file holds exactly this word.
///
/// # Errors
/// The file cannot be read.
pub fn holds(path: &Path, word: &str) -> Result<bool> {
    with_value(path, |found| Ok(found == word.as_bytes()))
}

/// Passes a value to `take` without allocating. Content longer than any value is read to its end,
/// so that the error can name it.
fn with_value<T>(path: &Path, take: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
    let mut start = [0; MAX_VALUE];
    let mut file = open(path).map_err(|e| LinuxError::file(path, "read", e))?;
    let mut filled = 0;
    while filled < start.len() {
        match file.read(&mut start[filled..]) {
            Ok(0) => return take(start[..filled].trim_ascii()),
            Ok(read) => filled += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(LinuxError::file(path, "read", e)),
        }
    }
    take(bytes(path)?.trim_ascii())
}

/// Writes a value as the kernel requires: in one write, to an existing file.
///
/// # Errors
/// The file does not exist, or the kernel refuses the value.
pub fn write(path: &Path, value: &str) -> Result<()> {
    let failed = |e| LinuxError::file(path, format!("write {value:?}"), e);
    let mut file = fs::OpenOptions::new().write(true).truncate(true).open(path).map_err(failed)?;
    file.write_all(value.as_bytes()).map_err(failed)
}

/// Parses the kernel's list of numbers (`0-3,8`), as in `cpulist` and `nodelist`.
///
/// # Errors
/// The text is no such list.
pub fn list(path: &Path, text: impl AsRef<[u8]>) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    each_range(path, text.as_ref(), |range| numbers.extend(range))?;
    Ok(numbers)
}

/// Counts the numbers in such a list.
///
/// # Errors
/// As [`list`].
pub fn count(path: &Path, text: impl AsRef<[u8]>) -> Result<usize> {
    let mut count = 0;
    each_range(path, text.as_ref(), |range| count += range.count())?;
    Ok(count)
}

fn each_range(path: &Path, text: &[u8], mut take: impl FnMut(RangeInclusive<u32>)) -> Result<()> {
    let bad = || LinuxError::Format {
        path: path.to_owned(),
        line: None,
        found: format!("{:?}", shown(text.trim_ascii())),
        expected: "a list such as 0-3,8",
    };
    // The kernel writes them ascending, so their number has a bound.
    let mut least = 0;
    for part in text.trim_ascii().split_str(b",").filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once_str(b"-").unwrap_or((part, part));
        let first: u32 = parsed(first).ok_or_else(bad)?;
        let last: u32 = parsed(last).ok_or_else(bad)?;
        // A list of more than this is a damaged file, not a machine (MAX_NUMNODES is 1024, NR_CPUS
        // 8192).
        if first < least || last < first || last > 65_535 {
            return Err(bad());
        }
        least = last + 1;
        take(first..=last);
    }
    Ok(())
}

/// Errors that a test injects in place of the kernel's answers, on its own thread.
#[cfg(test)]
pub(crate) mod injected {
    use std::cell::RefCell;
    use std::io;
    use std::path::Path;

    type Answers = dyn Fn(&Path) -> Option<i32>;

    thread_local! {
        static ANSWERS: RefCell<Option<Box<Answers>>> = const { RefCell::new(None) };
    }

    /// Makes files answer these error numbers from now on.
    pub fn set(answers: impl Fn(&Path) -> Option<i32> + 'static) {
        ANSWERS.set(Some(Box::new(answers)));
    }

    /// Makes files answer with their content again.
    pub fn end() {
        ANSWERS.set(None);
    }

    pub fn answer(path: &Path) -> io::Result<()> {
        let number = ANSWERS.with_borrow(|answers| answers.as_ref().and_then(|a| a(path)));
        number.map_or(Ok(()), |number| Err(io::Error::from_raw_os_error(number)))
    }
}

/// Counts this process's open files below a directory: those of other tests do not count.
#[cfg(test)]
pub(crate) fn open_below(directory: &Path) -> usize {
    let entries = fs::read_dir("/proc/self/fd").unwrap();
    // A file that another test closes meanwhile no longer has a path.
    let paths = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    paths.filter(|path| path.starts_with(directory)).count()
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
        for bad in ["3-1", "a", "0-", "0-4000000000", "5,0-2", "0-65535,0-65535"] {
            let message = list(path, bad).unwrap_err().to_string();
            assert!(message.starts_with("cpulist: found"), "{message}");
        }
    }

    #[test]
    fn values_of_any_length_parse() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "on\n").unwrap();
        assert!(holds(file.path(), "on").unwrap() && !holds(file.path(), "off").unwrap());
        let long = "9".repeat(2 * MAX_VALUE);
        fs::write(file.path(), &long).unwrap();
        assert_eq!(value::<String>(file.path(), "a number").unwrap(), long);
        assert!(value::<u64>(file.path(), "a number").unwrap_err().to_string().contains(&long));
        fs::write(file.path(), b"4\xff").unwrap();
        let message = value::<u64>(file.path(), "a number").unwrap_err().to_string();
        assert!(message.ends_with("found \"4\\xff\"; expected a number"), "{message}");
        assert!(text(file.path()).unwrap_err().to_string().ends_with("expected text"));
    }

    #[test]
    fn endless_file_and_pipe_never_block() {
        let message = value::<u64>(Path::new("/dev/zero"), "a number").unwrap_err().to_string();
        assert!(message.contains("found more than 16777216 bytes"), "{message}");
        let tree = tempfile::tempdir().unwrap();
        let pipe = tree.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let message = value::<u64>(&pipe, "a number").unwrap_err().to_string();
        assert!(message.ends_with("found \"\"; expected a number"), "{message}");
    }

    #[test]
    fn missing_file_is_named_as_missing() {
        let error = value::<u64>(Path::new("/nowhere/at/all"), "a number").unwrap_err();
        assert!(error.is_gone());
        assert!(error.to_string().starts_with("/nowhere/at/all: cannot read: No such file"));
        assert!(write(Path::new("/nowhere/at/all"), "1").unwrap_err().is_gone());
    }
}
