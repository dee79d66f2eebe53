//! A trace file that is being written. An existing file stays until the new trace is whole.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::TraceError;
use crate::unnamed::UnnamedFile;

/// Names under which a part is kept beside a file that was not replaced: the first that is free.
/// Chosen, not measured: after a hundred failed recordings the user should act. More names fill
/// the disk unnoticed; fewer lose a part sooner.
const MAX_PARTS: u32 = 100;

/// A trace file that is being written, and its place.
#[derive(Debug)]
pub struct NewTrace {
    path: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// A new file under its final name: readers can follow it while it grows.
    New(File),
    /// It gets its name once it is whole.
    Beside { file: UnnamedFile, replaces: bool },
}

impl NewTrace {
    /// Opens a file for `path`. If nothing exists there, the file appears at once, so that readers
    /// can follow a trace while it grows.
    ///
    /// # Errors
    /// A file exists and `overwrite` is off; the existing file is not a regular one; or the
    /// directory is not writable.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, TraceError> {
        if let Some(there) = what_is_at(path)? {
            return Self::replacing(path, &there, overwrite);
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let place = Place::New(file.map_err(|source| TraceError::io(path, source))?);
        Ok(Self { path: path.to_owned(), place })
    }

    /// Like [`NewTrace::create`], but nothing appears at `path` before the trace is whole.
    ///
    /// # Errors
    /// Those of [`NewTrace::create`].
    pub fn beside(path: &Path, overwrite: bool) -> Result<Self, TraceError> {
        if let Some(there) = what_is_at(path)? {
            return Self::replacing(path, &there, overwrite);
        }
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        // The usual mode of a new file, which the umask reduces.
        let file = UnnamedFile::create(directory.unwrap_or(Path::new(".")), 0o666);
        let file = file.map_err(|source| TraceError::io(path, source))?;
        Ok(Self { path: path.to_owned(), place: Place::Beside { file, replaces: false } })
    }

    fn replacing(path: &Path, there: &fs::Metadata, overwrite: bool) -> Result<Self, TraceError> {
        let failed = |source| TraceError::io(path, source);
        if !there.is_file() {
            let kind = kind(there);
            let problem = format!("it is a {kind}; a trace is written to a regular file only");
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, problem)));
        }
        if !overwrite {
            let problem = "the file exists; --force replaces it";
            return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, problem)));
        }
        // A link stays a link, and its target is replaced.
        let path = fs::canonicalize(path).map_err(failed)?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        let file = UnnamedFile::create(directory, 0o600).map_err(failed)?;
        let permissions = fs::Permissions::from_mode(there.mode() & 0o7777);
        file.file().set_permissions(permissions).map_err(failed)?;
        Ok(Self { path, place: Place::Beside { file, replaces: true } })
    }

    /// Returns the file to write to.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn file(&self) -> Result<File, TraceError> {
        let file = match &self.place {
            Place::New(file) => file,
            Place::Beside { file, .. } => file.file(),
        };
        file.try_clone().map_err(|source| TraceError::io(&self.path, source))
    }

    /// Puts the whole trace in its place. It is on the disk when this returns.
    ///
    /// # Errors
    /// The disk is full or the directory cannot be written; a file that was there stays.
    pub fn finish(self) -> Result<(), TraceError> {
        let failed = |source| TraceError::io(&self.path, source);
        match self.place {
            Place::New(file) => file.sync_all().map_err(failed),
            Place::Beside { mut file, replaces } => {
                file.file().sync_all().map_err(failed)?;
                let path = &self.path;
                if replaces { file.replace(path) } else { file.name(path) }.map_err(failed)
            }
        }
    }

    /// Keeps a part of a trace and returns its path: the trace's name, or a name beside the file
    /// that has it.
    ///
    /// # Errors
    /// There is no free name, or the directory is not writable.
    pub fn keep(self) -> Result<PathBuf, TraceError> {
        let failed = |source| TraceError::io(&self.path, source);
        let mut file = match self.place {
            Place::New(_) => return Ok(self.path),
            Place::Beside { file, .. } => file,
        };
        for number in 0..MAX_PARTS {
            let mut name = self.path.clone().into_os_string();
            name.push(if number == 0 { ".part".into() } else { format!(".part{number}") });
            match file.name(Path::new(&name)) {
                Ok(()) => return Ok(name.into()),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(failed(e)),
            }
        }
        let problem = format!("{MAX_PARTS} parts of earlier traces are beside it; remove them");
        Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, problem)))
    }

    /// Removes the new file, whose content is not needed.
    pub fn discard(self) {
        let Place::New(file) = self.place else { return };
        let own = |there: fs::Metadata| {
            file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
        };
        // Another file may have that name by now. It stays.
        if fs::symlink_metadata(&self.path).is_ok_and(own) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn what_is_at(path: &Path) -> Result<Option<fs::Metadata>, TraceError> {
    match fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => match fs::read_link(path) {
            Ok(target) => {
                let target = target.display();
                let problem = format!(
                    "it is a symbolic link to {target}, which is not there; remove the link, or \
                     name {target} itself"
                );
                Err(TraceError::io(path, io::Error::new(io::ErrorKind::NotFound, problem)))
            }
            Err(_) => Ok(None),
        },
        other => other.map(Some).map_err(|source| TraceError::io(path, source)),
    }
}

fn kind(there: &fs::Metadata) -> &'static str {
    let kind = there.file_type();
    if kind.is_dir() {
        "directory"
    } else if kind.is_fifo() {
        "pipe"
    } else if kind.is_socket() {
        "socket"
    } else {
        "device"
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::io::Write;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn old_file_stays_until_new_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.twt");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let refused = NewTrace::create(&path, false).unwrap_err().to_string();
        assert!(refused.contains("the file exists; --force replaces it"), "{refused}");
        let dropped = NewTrace::create(&path, true).unwrap();
        dropped.file().unwrap().write_all(b"half").unwrap();
        dropped.discard();
        assert_eq!(text(&path), "old");
        let kept = NewTrace::create(&path, true).unwrap();
        kept.file().unwrap().write_all(b"part").unwrap();
        assert_eq!(text(&kept.keep().unwrap()), "part");
        assert_eq!(text(&path), "old");
        let new = NewTrace::create(&path, true).unwrap();
        new.file().unwrap().write_all(b"new").unwrap();
        new.finish().unwrap();
        assert_eq!(text(&path), "new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    }

    #[test]
    fn irregular_file_is_refused_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let _socket = UnixListener::bind(path("socket")).unwrap();
        fs::create_dir(path("directory")).unwrap();
        symlink("/dev/full", path("device")).unwrap();
        for name in ["socket", "directory", "device"] {
            let refused = NewTrace::create(&path(name), true).unwrap_err().to_string();
            assert!(refused.contains(&format!("it is a {name}")), "{refused}");
            assert!(fs::symlink_metadata(path(name)).is_ok());
        }
    }

    #[test]
    fn dangling_link_is_refused_with_remedy() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("t.twt");
        symlink("nowhere.twt", &link).unwrap();
        for overwrite in [false, true] {
            let refused = NewTrace::create(&link, overwrite).unwrap_err().to_string();
            assert!(refused.contains("a symbolic link to nowhere.twt"), "{refused}");
        }
    }

    #[test]
    fn missing_directory_is_named() {
        let refused = NewTrace::create(Path::new("/no/such/t.twt"), false).unwrap_err();
        assert_eq!(refused.to_string(), "/no/such/t.twt: there is no directory /no/such");
    }

    #[test]
    fn kill_leaves_nothing_beside_the_trace() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = directory.path().join("t.twt");
        // As a signal that ends the process: no destructor runs.
        std::mem::forget(NewTrace::beside(&path, false).unwrap());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        fs::write(&path, "old").unwrap();
        std::mem::forget(NewTrace::create(&path, true).unwrap());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[test]
    fn only_what_was_made_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.twt");
        NewTrace::create(&path, false).unwrap().discard();
        assert!(!path.exists());
        let new = NewTrace::create(&path, false).unwrap();
        fs::write(directory.path().join("other"), "another's").unwrap();
        fs::rename(directory.path().join("other"), &path).unwrap();
        new.discard();
        assert_eq!(text(&path), "another's");
    }
}
