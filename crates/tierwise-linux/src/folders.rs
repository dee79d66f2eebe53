//! Walks over folders without allocating once its buffers have grown: control groups are walked each second.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, RawDir, openat};

use crate::error::{LinuxError, Result};

/// Bytes of directory entries read at once: a control group has some hundred files with names of twenty letters. One entry takes at most 280.
const ENTRIES: usize = 8192;

/// Whether to go into a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visit {
    /// On to those in it.
    Enter,
    /// Past it.
    Pass,
}

/// The buffers of a walk.
#[derive(Debug, Default)]
pub struct Folders {
    entries: Vec<u8>,
    /// Paths that are still to be visited, each ended by a NUL; the last is the next.
    pending: Vec<u8>,
    path: Vec<u8>,
}

impl Folders {
    /// Visits a folder and those below it as far as `visit` says so, each before those in it, in no other order. What is gone by the time it is
    /// entered is passed over, the first folder too.
    ///
    /// ```
    /// use tierwise_linux::folders::{Folders, Visit};
    ///
    /// let tree = tempfile::tempdir().unwrap();
    /// std::fs::create_dir_all(tree.path().join("web/blue/deep")).unwrap();
    /// std::fs::write(tree.path().join("web/file"), "").unwrap();
    /// let mut seen = Vec::new();
    /// let visit = |path: &std::path::Path| {
    ///     seen.push(path.strip_prefix(tree.path()).unwrap().to_owned());
    ///     Ok(if path.ends_with("blue") { Visit::Pass } else { Visit::Enter })
    /// };
    /// Folders::default().walk(tree.path(), visit).unwrap();
    /// assert_eq!(seen, ["", "web", "web/blue"].map(std::path::PathBuf::from));
    /// ```
    ///
    /// # Errors
    /// A folder cannot be listed, or `visit` fails.
    pub fn walk(
        &mut self,
        top: &Path,
        mut visit: impl FnMut(&Path) -> Result<Visit>,
    ) -> Result<()> {
        self.pending.clear();
        self.pending.extend_from_slice(top.as_os_str().as_bytes());
        self.pending.push(0);
        while self.next() {
            let path = Path::new(std::ffi::OsStr::from_bytes(&self.path[..self.path.len() - 1]));
            if visit(path)? == Visit::Enter {
                self.enter()?;
            }
        }
        Ok(())
    }

    /// Takes the next path, with its NUL.
    fn next(&mut self) -> bool {
        let Some(end) = self.pending.len().checked_sub(1) else { return false };
        let start = self.pending[..end].iter().rposition(|&byte| byte == 0).map_or(0, |at| at + 1);
        self.path.clear();
        self.path.extend_from_slice(&self.pending[start..]);
        self.pending.truncate(start);
        true
    }

    /// Puts the folders in the one at hand to those that are to be visited.
    fn enter(&mut self) -> Result<()> {
        let failed = |path: &[u8], e: rustix::io::Errno| {
            let path = Path::new(std::ffi::OsStr::from_bytes(&path[..path.len() - 1]));
            LinuxError::file(path, "list", io::Error::from(e))
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // A path with a NUL inside is no path of a file: it is not there.
        let Ok(path) = CStr::from_bytes_with_nul(&self.path) else { return Ok(()) };
        let folder = match openat(CWD, path, flags, Mode::empty()) {
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NODEV) => return Ok(()),
            other => other.map_err(|e| failed(&self.path, e))?,
        };
        self.entries.clear();
        self.entries.reserve(ENTRIES);
        let buffer: &mut [MaybeUninit<u8>] = self.entries.spare_capacity_mut();
        let mut entries = RawDir::new(&folder, buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                // A group that was removed while it is listed.
                Err(rustix::io::Errno::NOENT | rustix::io::Errno::NODEV) => break,
                other => other.map_err(|e| failed(&self.path, e))?,
            };
            let name = entry.file_name().to_bytes_with_nul();
            if entry.file_type() == FileType::Directory && name != b".\0" && name != b"..\0" {
                self.pending.extend_from_slice(&self.path[..self.path.len() - 1]);
                self.pending.push(b'/');
                self.pending.extend_from_slice(name);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_passed_over_and_what_fails_is_named() {
        let mut folders = Folders::default();
        let mut seen = 0;
        let mut count = |_: &Path| {
            seen += 1;
            Ok(Visit::Enter)
        };
        folders.walk(Path::new("/nowhere/at/all"), &mut count).unwrap();
        assert_eq!(seen, 1);
        let file = tempfile::NamedTempFile::new().unwrap();
        let said = folders.walk(file.path(), |_| Ok(Visit::Enter)).unwrap_err().to_string();
        assert!(said.contains("cannot list: Not a directory"), "{said}");
    }

    #[test]
    fn more_folders_than_one_reading_takes_are_all_visited() {
        let tree = tempfile::tempdir().unwrap();
        for n in 0..400 {
            std::fs::create_dir_all(tree.path().join(format!("a-name-of-some-length-{n}/below")))
                .unwrap();
        }
        let mut seen = 0;
        let visit = |_: &Path| {
            seen += 1;
            Ok(Visit::Enter)
        };
        Folders::default().walk(tree.path(), visit).unwrap();
        assert_eq!(seen, 801);
    }
}
