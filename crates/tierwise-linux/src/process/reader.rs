//! Reads small files again and again without allocating: path and text keep their memory.

use std::fmt::{self, Write};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::{LinuxError, Result, says_gone};

/// A path and a text that are used again for every file read.
#[derive(Debug, Default)]
pub struct Reader {
    path: PathBuf,
    name: String,
    text: String,
}

impl Reader {
    /// Points at a file below a folder.
    fn point(&mut self, folder: &Path, name: fmt::Arguments<'_>) {
        self.name.clear();
        // Writing to a String does not fail.
        let _ = self.name.write_fmt(name);
        self.path.clear();
        self.path.push(folder);
        self.path.push(&self.name);
    }

    /// A path below a folder, of which nothing is read.
    pub fn below(&mut self, folder: &Path, name: &Path) -> &Path {
        self.path.clear();
        self.path.push(folder);
        self.path.push(name);
        &self.path
    }

    /// The whole text of a file below a folder.
    ///
    /// # Errors
    /// It cannot be read. [`LinuxError::is_gone`] tells whether it was not there.
    pub fn text(&mut self, folder: &Path, name: fmt::Arguments<'_>) -> Result<&str> {
        self.point(folder, name);
        self.read().map_err(|e| LinuxError::file(&self.path, "read", e))?;
        Ok(&self.text)
    }

    /// The whole text of a file below a folder, if the file is there. That it is not costs no error.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub fn text_if_there(
        &mut self,
        folder: &Path,
        name: fmt::Arguments<'_>,
    ) -> Result<Option<&str>> {
        self.point(folder, name);
        match self.read() {
            Ok(()) => Ok(Some(&self.text)),
            Err(e) if says_gone(&e) => Ok(None),
            Err(e) => Err(LinuxError::file(&self.path, "read", e)),
        }
    }

    fn read(&mut self) -> io::Result<()> {
        self.text.clear();
        File::open(&self.path)?.read_to_string(&mut self.text).map(drop)
    }

    /// A file that holds one value.
    ///
    /// # Errors
    /// It cannot be read, or it holds something else.
    pub fn value<T: FromStr>(
        &mut self,
        folder: &Path,
        name: fmt::Arguments<'_>,
        expected: &'static str,
    ) -> Result<T> {
        self.text(folder, name)?;
        let found = self.text.trim();
        found.parse().map_err(|_| self.format(None, format!("{found:?}"), expected))
    }

    /// What to say when the file read last is not what it should be.
    pub fn format(
        &self,
        line: Option<usize>,
        found: impl Into<String>,
        expected: &'static str,
    ) -> LinuxError {
        LinuxError::Format { path: self.path.clone(), line, found: found.into(), expected }
    }

    /// The path and the text read last, together: for parsers that name both.
    pub fn last(&self) -> (&Path, &str) {
        (&self.path, &self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_values_and_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a1"), "42\n").unwrap();
        let mut reader = Reader::default();
        let value: u32 = reader.value(folder.path(), format_args!("a{}", 1), "a number").unwrap();
        assert_eq!(value, 42);
        assert!(reader.text(folder.path(), format_args!("a2")).unwrap_err().is_gone());
        assert_eq!(reader.text_if_there(folder.path(), format_args!("a2")).unwrap(), None);
        assert_eq!(reader.text_if_there(folder.path(), format_args!("a1")).unwrap(), Some("42\n"));
        std::fs::write(folder.path().join("a1"), "x").unwrap();
        let said = reader.value::<u32>(folder.path(), format_args!("a1"), "a number").unwrap_err();
        assert!(said.to_string().ends_with("a1: found \"x\"; expected a number"), "{said}");
    }
}
