//! Walks directories without allocating once its buffers have grown: control groups are walked
//! every second.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, OFlags, RawDir};
use rustix::io::Errno;

use crate::error::{LinuxError, Result, means_gone};
use crate::fault::Faults;
use crate::file::open_deep;

/// Buffer for directory entries in bytes: a control group has some hundred files with names of
/// twenty letters. One entry takes at most 280.
const ENTRIES: usize = 8192;

/// Decision about a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visit {
    /// Visit the directories in it.
    Enter,
    /// Skip its content.
    Pass,
}

/// The buffers of a walk.
#[derive(Debug, Default)]
pub struct Directories {
    entries: Vec<u8>,
    /// Directories that are still to be visited, as a stack: each as its name, and [`LENGTH`] bytes
    /// with the length of its parent's part of the current path.
    pending: Vec<u8>,
    path: Vec<u8>,
    faults: Faults,
}

/// Bytes of the length of a path and of a name.
const LENGTH: usize = 2 * size_of::<u32>();

impl Directories {
    /// Visits a directory and the directories below it as `visit` decides, parents first, in no
    /// other order. It skips directories that vanished, even the first.
    ///
    /// ```
    /// use tierwise_linux::directories::{Directories, Visit};
    ///
    /// let tree = tempfile::tempdir().unwrap();
    /// std::fs::create_dir_all(tree.path().join("web/blue/deep")).unwrap();
    /// std::fs::write(tree.path().join("web/file"), "").unwrap();
    /// let mut report = Vec::new();
    /// let visit = |path: &std::path::Path| {
    ///     report.push(path.strip_prefix(tree.path()).unwrap().to_owned());
    ///     Ok(if path.ends_with("blue") { Visit::Pass } else { Visit::Enter })
    /// };
    /// Directories::default().walk(tree.path(), visit).unwrap();
    /// assert_eq!(report, ["", "web", "web/blue"].map(std::path::PathBuf::from));
    /// ```
    ///
    /// A directory that cannot be listed is skipped and becomes a fault ([`Directories::faults`]).
    ///
    /// # Errors
    /// The machine lacks the resources to list directories, or `visit` fails.
    pub fn walk(
        &mut self,
        top: &Path,
        mut visit: impl FnMut(&Path) -> Result<Visit>,
    ) -> Result<()> {
        self.pending.clear();
        self.path.clear();
        self.push(top.as_os_str().as_bytes());
        while self.next() {
            let path = Path::new(OsStr::from_bytes(&self.path));
            if visit(path)? == Visit::Enter
                && let Err(e) = self.enter()
            {
                if e.is_of_machine() {
                    return Err(e);
                }
                self.faults.group(Path::new(OsStr::from_bytes(&self.path)), &e);
            }
        }
        Ok(())
    }

    /// Returns the faults of the walks since the list was last emptied.
    pub fn faults(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// Adds a directory below the current one to those to be visited.
    fn push(&mut self, name: &[u8]) {
        self.pending.extend_from_slice(name);
        // Paths and names are shorter than 4 GiB by far.
        for length in [self.path.len(), name.len()] {
            self.pending.extend_from_slice(&(length as u32).to_le_bytes());
        }
    }

    /// Goes to the next directory. Its parent is still the start of the path, because a directory
    /// is visited right before its children.
    fn next(&mut self) -> bool {
        let Some((names, lengths)) = self.pending.split_last_chunk::<LENGTH>() else {
            return false;
        };
        let ([above, name], _) = lengths.as_chunks::<{ LENGTH / 2 }>() else { return false };
        let (above, name) = (u32::from_le_bytes(*above), u32::from_le_bytes(*name));
        let start = names.len() - name as usize;
        self.path.truncate(above as usize);
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(&names[start..]);
        self.pending.truncate(start);
        true
    }

    /// Adds the children of the current directory to those to be visited.
    fn enter(&mut self) -> Result<()> {
        let mut entries = std::mem::take(&mut self.entries);
        entries.clear();
        entries.reserve(ENTRIES);
        let listed = self.list(entries.spare_capacity_mut());
        self.entries = entries;
        let path = Path::new(OsStr::from_bytes(&self.path));
        listed.map_err(|e| LinuxError::file(path, "list", e))
    }

    fn list(&mut self, buffer: &mut [MaybeUninit<u8>]) -> io::Result<()> {
        #[cfg(test)]
        crate::file::injected::answer(Path::new(OsStr::from_bytes(&self.path)))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = match open_deep(&self.path, flags) {
            Err(e) if means_gone(&e) => return Ok(()),
            other => other?,
        };
        let mut entries = RawDir::new(&directory, buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                // The group was removed during the listing.
                Err(Errno::NOENT | Errno::NODEV) => break,
                other => other?,
            };
            let name = entry.file_name().to_bytes();
            if entry.file_type() == FileType::Directory && name != b"." && name != b".." {
                self.push(name);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::injected;

    #[test]
    fn missing_entries_are_skipped_failures_named() {
        let mut directories = Directories::default();
        let mut report = 0;
        let mut count = |_: &Path| {
            report += 1;
            Ok(Visit::Enter)
        };
        directories.walk(Path::new("/nowhere/at/all"), &mut count).unwrap();
        assert_eq!(report, 1);
        let file = tempfile::NamedTempFile::new().unwrap();
        directories.walk(file.path(), |_| Ok(Visit::Enter)).unwrap();
        let message = &directories.faults().kept()[0].problem;
        assert!(message.contains("cannot list: Not a directory"), "{message}");
    }

    /// Counts the directories on the way down the deep tree of `levels`, and returns the faults.
    fn walk_deep(levels: usize) -> (usize, Vec<String>) {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("near/by")).unwrap();
        deep::make(tree.path(), levels);
        let mut directories = Directories::default();
        let (mut report, mut near) = (0, false);
        let visit = |path: &Path| {
            report += usize::from(path.file_name().is_some_and(|name| name.len() == 250));
            near |= path.ends_with("near/by");
            Ok(Visit::Enter)
        };
        directories.walk(tree.path(), visit).unwrap();
        assert!(near, "a sibling is visited whatever the depth beside it");
        deep::remove(tree.path(), levels);
        (report, directories.faults().kept().iter().map(|fault| fault.problem.clone()).collect())
    }

    #[test]
    fn tree_deeper_than_a_path_is_walked() {
        assert_eq!(walk_deep(100), (100, Vec::new()));
    }

    #[test]
    fn tree_beyond_the_limit_is_a_fault() {
        let (report, problems) = walk_deep(270);
        assert!(report < 270, "{report}");
        assert!(problems[0].contains("cannot list: File name too long"), "{problems:?}");
    }

    #[test]
    fn unlistable_directory_is_skipped_alone() {
        let tree = tempfile::tempdir().unwrap();
        for name in ["a", "bad", "c"] {
            std::fs::create_dir_all(tree.path().join(name).join("below")).unwrap();
        }
        let mut directories = Directories::default();
        let mut walk = |number| {
            injected::set(move |path| path.ends_with("bad").then_some(number));
            let mut report = 0;
            let visit = |_: &Path| {
                report += 1;
                Ok(Visit::Enter)
            };
            let answer = directories.walk(tree.path(), visit).map(|()| report);
            injected::end();
            answer
        };
        assert_eq!(walk(libc::EIO).unwrap(), 6);
        assert!(walk(libc::EMFILE).unwrap_err().is_of_machine());
        assert_eq!(directories.faults().counts(), [0, 1, 0, 0]);
    }

    #[test]
    fn large_directory_is_visited_completely() {
        let tree = tempfile::tempdir().unwrap();
        for n in 0..400 {
            std::fs::create_dir_all(tree.path().join(format!("a-name-of-some-length-{n}/below")))
                .unwrap();
        }
        let mut report = 0;
        let visit = |_: &Path| {
            report += 1;
            Ok(Visit::Enter)
        };
        Directories::default().walk(tree.path(), visit).unwrap();
        assert_eq!(report, 801);
    }
}

/// Directories whose paths exceed the kernel's limit, created and removed step by step.
#[cfg(test)]
pub(crate) mod deep {
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, unlinkat};

    /// Name of a level: twenty of them exceed the limit of a path.
    const NAME: [u8; 250] = [b'd'; 250];

    fn open(above: &OwnedFd) -> OwnedFd {
        openat(above, &NAME[..], OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    pub fn make(top: &Path, levels: usize) {
        let mut directory =
            openat(CWD, top, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..levels {
            mkdirat(&directory, &NAME[..], Mode::RWXU).unwrap();
            directory = open(&directory);
        }
    }

    /// Writes a file into the last level.
    pub fn put(top: &Path, levels: usize, name: &str, text: &str) {
        let top = openat(CWD, top, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let last = (0..levels).fold(top, |above, _| open(&above));
        let flags = OFlags::CREATE | OFlags::WRONLY;
        let file = openat(&last, name, flags, Mode::RUSR | Mode::WUSR).unwrap();
        std::io::Write::write_all(&mut std::fs::File::from(file), text.as_bytes()).unwrap();
    }

    pub fn take(top: &Path, levels: usize, name: &str) {
        let top = openat(CWD, top, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let last = (0..levels).fold(top, |above, _| open(&above));
        unlinkat(&last, name, AtFlags::empty()).unwrap();
    }

    pub fn remove(top: &Path, levels: usize) {
        let mut chain =
            vec![openat(CWD, top, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap()];
        (1..levels).for_each(|i| chain.push(open(&chain[i - 1])));
        for directory in chain[..levels].iter().rev() {
            unlinkat(directory, &NAME[..], AtFlags::REMOVEDIR).unwrap();
        }
    }
}
