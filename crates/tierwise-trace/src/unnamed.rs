//! A file that has no name until it is whole: a process that ends before that leaves no file.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use tempfile::{Builder, TempPath};

/// Directory of a process's open files; a file is given a name through its entry.
const DESCRIPTORS: &str = "/proc/self/fd";

/// A file that is being written, in the directory where it will appear.
///
/// The file has no name (`O_TMPFILE`), so that the kernel frees it when the process ends, also by a
/// signal. Where a file system has no such files, as NFS, or `/proc` is not mounted, the file has a
/// hidden name. That name is removed when this value is dropped, but stays when a signal ends the
/// process.
#[derive(Debug)]
pub struct UnnamedFile {
    file: File,
    directory: PathBuf,
    name: Option<TempPath>,
}

impl UnnamedFile {
    /// Makes a file in `directory` with `mode`, which the umask reduces.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn create(directory: &Path, mode: u32) -> io::Result<Self> {
        let whole = |file, name| Self { file, directory: directory.to_owned(), name };
        if Path::new(DESCRIPTORS).is_dir() {
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            if let Ok(file) = open(directory, flags, Mode::from_raw_mode(mode)) {
                return Ok(whole(file.into(), None));
            }
        }
        // This call also reports an error of the directory.
        let named = Builder::new().permissions(Permissions::from_mode(mode)).tempfile_in(directory);
        let (file, name) = named?.into_parts();
        Ok(whole(file, Some(name)))
    }

    /// Returns the file to write to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Names the file `path`, and replaces an existing file.
    ///
    /// # Errors
    /// The directory is not writable; an existing file stays.
    pub fn replace(self, path: &Path) -> io::Result<()> {
        let name = match self.name {
            Some(name) => name,
            // No system call links a file over another; a rename of a second name does it.
            None => Builder::new()
                .make_in(&self.directory, |name| link(&self.file, name))?
                .into_temp_path(),
        };
        name.persist(path).map_err(|failed| failed.error)
    }

    /// Names the file `path` if nothing exists there. After an error another name can be tried.
    ///
    /// # Errors
    /// Something exists there, or the directory is not writable.
    pub fn name(&mut self, path: &Path) -> io::Result<()> {
        match self.name.take() {
            None => link(&self.file, path),
            Some(name) => name.persist_noclobber(path).map_err(|failed| {
                self.name = Some(failed.path);
                failed.error
            }),
        }
    }
}

fn link(file: &File, path: &Path) -> io::Result<()> {
    let entry = Path::new(DESCRIPTORS).join(file.as_raw_fd().to_string());
    Ok(linkat(CWD, &entry, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::fs;
    use std::io::Write;

    use super::*;

    /// The files that a kill would leave.
    fn left(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn nothing_is_left_before_the_name() {
        // A tmpfs has files without a name on every kernel.
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = directory.path().join("t");
        let mut first = UnnamedFile::create(directory.path(), 0o640).unwrap();
        first.file().write_all(b"first").unwrap();
        assert_eq!(left(directory.path()), 0);
        first.name(&path).unwrap();
        let mut second = UnnamedFile::create(directory.path(), 0o640).unwrap();
        second.file().write_all(b"second").unwrap();
        assert_eq!(second.name(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        second.replace(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        assert_eq!(left(directory.path()), 1);
    }

    #[test]
    fn hidden_name_serves_where_needed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t");
        let hidden = || {
            let (file, name) = tempfile::NamedTempFile::new_in(&directory).unwrap().into_parts();
            UnnamedFile { file, directory: directory.path().to_owned(), name: Some(name) }
        };
        hidden().name(&path).unwrap();
        let mut second = hidden();
        assert_eq!(second.name(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        second.replace(&path).unwrap();
        drop(hidden());
        assert_eq!(left(directory.path()), 1);
    }
}
