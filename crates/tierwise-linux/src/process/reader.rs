//! A reader of small files that allocates nothing in the steady state: path and content keep their
//! memory.

use std::fmt::{self, Write};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::{self, FromStr};

use bstr::ByteSlice;

use crate::bytes::{parsed, shown};
use crate::error::{LinuxError, Result};
use crate::file::{open, read_whole, read_whole_if_there};

/// Maximum bytes per line: four times a path of `PATH_MAX` bytes, each escaped by four, with the
/// fields before and after it. Longer lines are cut.
const MAX_LINE: usize = 64 << 10;

/// A path and a content, whose memory is used again for every file.
#[derive(Debug, Default)]
pub struct Reader {
    path: PathBuf,
    name: String,
    bytes: Vec<u8>,
    /// Buffer through which lines are read.
    window: Vec<u8>,
}

impl Reader {
    /// Sets the path to a file below a directory.
    fn point(&mut self, directory: &Path, name: fmt::Arguments<'_>) {
        self.name.clear();
        // Writing to a String does not fail.
        let _ = self.name.write_fmt(name);
        self.path.clear();
        self.path.push(directory);
        self.path.push(&self.name);
    }

    /// Path below a directory. Nothing is read.
    pub fn below(&mut self, directory: &Path, name: &Path) -> &Path {
        self.path.clear();
        self.path.push(directory);
        self.path.push(name);
        &self.path
    }

    /// Reads the whole content of a file below a directory.
    ///
    /// # Errors
    /// The file cannot be read. [`LinuxError::is_gone`] tells if it does not exist.
    pub fn bytes(&mut self, directory: &Path, name: fmt::Arguments<'_>) -> Result<&[u8]> {
        self.point(directory, name);
        read_whole(&self.path, &mut self.bytes)?;
        Ok(&self.bytes)
    }

    /// Reads the whole content of a file below a directory; `None` if it does not exist. That case
    /// allocates no error.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn bytes_if_there(
        &mut self,
        directory: &Path,
        name: fmt::Arguments<'_>,
    ) -> Result<Option<&[u8]>> {
        self.point(directory, name);
        let there = read_whole_if_there(&self.path, &mut self.bytes)?;
        Ok(there.then_some(&self.bytes[..]))
    }

    /// Reads a file as [`Reader::bytes`] does, as text: for files that contain only the kernel's
    /// own words.
    ///
    /// # Errors
    /// As [`Reader::bytes`], or the content is not UTF-8.
    pub fn text(&mut self, directory: &Path, name: fmt::Arguments<'_>) -> Result<&str> {
        self.bytes(directory, name)?;
        self.as_text()
    }

    fn as_text(&self) -> Result<&str> {
        let found = || format!("{:?}", shown(&self.bytes));
        str::from_utf8(&self.bytes).map_err(|_| self.format(None, found(), "text"))
    }

    /// Reads a file as [`Reader::text`] does; `None` if it does not exist. That case allocates no
    /// error.
    ///
    /// # Errors
    /// The file exists and cannot be read, or is not UTF-8.
    pub fn text_if_there(
        &mut self,
        directory: &Path,
        name: fmt::Arguments<'_>,
    ) -> Result<Option<&str>> {
        match self.bytes_if_there(directory, name)?.is_some() {
            true => self.as_text().map(Some),
            false => Ok(None),
        }
    }

    /// Calls `take` with each line of a file below a directory, however long the file is; of a line
    /// that is too long, with its start. Lines that `take` refuses are skipped. Returns the error
    /// of the first one.
    ///
    /// # Errors
    /// The file cannot be read to its end.
    pub fn lines(
        &mut self,
        directory: &Path,
        name: fmt::Arguments<'_>,
        expected: &'static str,
        take: impl FnMut(&[u8]) -> bool,
    ) -> Result<Option<LinuxError>> {
        self.lines_while(directory, name, expected, || true, take).map(|(damage, _)| damage)
    }

    /// As [`Reader::lines`], as long as `go_on` is true, which is asked before each part of the
    /// file is read. The flag is false if the file was not read to its end.
    ///
    /// # Errors
    /// As [`Reader::lines`].
    pub fn lines_while(
        &mut self,
        directory: &Path,
        name: fmt::Arguments<'_>,
        expected: &'static str,
        go_on: impl FnMut() -> bool,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(Option<LinuxError>, bool)> {
        self.point(directory, name);
        let (mut number, mut damage) = (0, None);
        let read = each_line(&self.path, &mut self.window, go_on, |line| {
            number += 1;
            if !take(line) && damage.is_none() {
                damage = Some((number, format!("{:?}", shown(line))));
            }
        });
        let whole = read.map_err(|e| LinuxError::file(&self.path, "read", e))?;
        Ok((damage.map(|(line, found)| self.format(Some(line), found, expected)), whole))
    }

    /// Reads a file that holds one value.
    ///
    /// # Errors
    /// The file cannot be read, or holds something else.
    pub fn value<T: FromStr>(
        &mut self,
        directory: &Path,
        name: fmt::Arguments<'_>,
        expected: &'static str,
    ) -> Result<T> {
        self.bytes(directory, name)?;
        let found = self.bytes.trim_ascii();
        parsed(found).ok_or_else(|| self.format(None, format!("{:?}", shown(found)), expected))
    }

    /// Returns the error that the last file read does not have the expected content.
    pub fn format(
        &self,
        line: Option<usize>,
        found: impl Into<String>,
        expected: &'static str,
    ) -> LinuxError {
        LinuxError::Format { path: self.path.clone(), line, found: found.into(), expected }
    }

    /// Path and content of the last file read, for parsers that report both.
    pub fn last(&self) -> (&Path, &[u8]) {
        (&self.path, &self.bytes)
    }
}

/// Calls `take` with each line of a file. Each byte is scanned once. False if `go_on` ended it.
fn each_line(
    path: &Path,
    window: &mut Vec<u8>,
    mut go_on: impl FnMut() -> bool,
    mut take: impl FnMut(&[u8]),
) -> io::Result<bool> {
    let mut file = open(path)?;
    window.resize(MAX_LINE, 0);
    // Bytes of a line whose end was not read yet; true if the line is too long and its start was
    // passed on.
    let (mut held, mut cut) = (0, false);
    loop {
        if !go_on() {
            return Ok(false);
        }
        let read = match file.read(&mut window[held..]) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if read == 0 {
            if held > 0 && !cut {
                take(&window[..held]);
            }
            return Ok(true);
        }
        let (mut start, filled) = (0, held + read);
        while let Some(length) = window[start.max(held)..filled].find_byte(b'\n') {
            let end = start.max(held) + length;
            if !std::mem::take(&mut cut) {
                take(&window[start..end]);
            }
            (start, held) = (end + 1, 0);
        }
        window.copy_within(start..filled, 0);
        held = filled - start;
        if held == window.len() {
            if !cut {
                take(window);
            }
            (held, cut) = (0, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_values_and_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a1"), "42\n").unwrap();
        let mut reader = Reader::default();
        let value: u32 =
            reader.value(directory.path(), format_args!("a{}", 1), "a number").unwrap();
        assert_eq!(value, 42);
        assert!(reader.text(directory.path(), format_args!("a2")).unwrap_err().is_gone());
        assert_eq!(reader.text_if_there(directory.path(), format_args!("a2")).unwrap(), None);
        assert_eq!(
            reader.text_if_there(directory.path(), format_args!("a1")).unwrap(),
            Some("42\n")
        );
        for (content, found) in [(&b"x"[..], "\"x\""), (b"\xff4", "\"\\xff4\""), (b"", "\"\"")] {
            std::fs::write(directory.path().join("a1"), content).unwrap();
            let problem = reader.value::<u32>(directory.path(), format_args!("a1"), "a number");
            let problem = problem.unwrap_err().to_string();
            assert!(
                problem.ends_with(&format!("a1: found {found}; expected a number")),
                "{problem}"
            );
        }
        let problem =
            reader.value::<u32>(directory.path(), format_args!(""), "a number").unwrap_err();
        assert!(
            problem.to_string().ends_with("cannot read: Is a directory (os error 21)"),
            "{problem}"
        );
    }

    fn lines(content: &[u8]) -> Vec<Vec<u8>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        let (mut reader, mut lines) = (Reader::default(), Vec::new());
        let take = |line: &[u8]| {
            lines.push(line.to_owned());
            true
        };
        let directory = file.path().parent().unwrap();
        let name = file.path().file_name().unwrap().to_str().unwrap();
        reader.lines(directory, format_args!("{name}"), "a line", take).unwrap();
        lines
    }

    #[test]
    fn endless_line_is_cut_and_passed() {
        let mut content = vec![b'a'; 3 * MAX_LINE];
        content.extend(b"\nb\n");
        let found = lines(&content);
        assert_eq!((found[0].len(), &found[1..]), (MAX_LINE, &[b"b".to_vec()][..]));
    }

    #[test]
    fn reading_ends_between_parts_when_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"aaaa\n".repeat(MAX_LINE)).unwrap();
        let (mut parts, mut lines) = (0, 0);
        let two = || {
            parts += 1;
            parts <= 2
        };
        let (directory, name) = (file.path().parent().unwrap(), file.path().file_name().unwrap());
        let name = name.to_str().unwrap();
        let count = |_: &[u8]| {
            lines += 1;
            true
        };
        let read =
            Reader::default().lines_while(directory, format_args!("{name}"), "a", two, count);
        let (damage, whole) = read.unwrap();
        assert!(damage.is_none() && !whole && lines > 0 && lines < MAX_LINE, "{lines}");
    }

    #[test]
    fn first_bad_line_is_named_others_parse() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("f"), b"1\nev\xffil\n2\nbad\n").unwrap();
        let mut sum = 0;
        let take = |line: &[u8]| parsed::<u32>(line).map(|n| sum += n).is_some();
        let mut reader = Reader::default();
        let damage = reader.lines(directory.path(), format_args!("f"), "a number", take).unwrap();
        let problem = damage.unwrap().to_string();
        assert!(problem.ends_with("f:2: found \"ev\\xffil\"; expected a number"), "{problem}");
        assert_eq!(sum, 3);
    }

    proptest! {
        // Each case writes a file.
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn lines_are_those_of_the_whole(
            parts in prop::collection::vec((any::<u8>(), 1usize..40_000), 0..12),
        ) {
            let content: Vec<u8> = parts
                .iter()
                .flat_map(|&(byte, count)| std::iter::repeat_n(byte, count).chain(*b"\n"))
                .collect();
            let expected: Vec<Vec<u8>> = bstr::ByteSlice::lines_with_terminator(&content[..])
                .map(|line| line.strip_suffix(b"\n").unwrap_or(line).to_owned())
                .collect();
            prop_assert_eq!(lines(&content), expected);
        }
    }
}
