//! Reads and writes the file of a model.

use std::fs::{self, FileType};
use std::io;
use std::path::Path;

/// Reads a model. A pipe or a device may have no end, and the daemon waits for it meanwhile.
///
/// # Errors
/// The file cannot be read, or is no regular file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    regular(fs::metadata(path)?.file_type())?;
    fs::read(path)
}

/// Writes a model under another name in the same directory, then renames it: a reader never gets
/// half a file. A link stays a link, and its target is replaced.
///
/// # Errors
/// The file cannot be written, or is no regular file.
#[cfg(feature = "learner")]
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    // The usual mode of a new file, which the umask reduces.
    let mut permissions = fs::Permissions::from_mode(0o666);
    if let Ok(there) = path.metadata() {
        // A rename would put a file in the place of a device.
        regular(there.file_type())?;
        permissions = there.permissions();
    }
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.permissions(permissions);
    let mut file = builder.tempfile_in(directory.unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Refuses what is neither a file nor a directory, of which the system says so itself.
fn regular(kind: FileType) -> io::Result<()> {
    if kind.is_file() || kind.is_dir() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))
}

#[cfg(all(test, feature = "learner"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_are_models() {
        let refused = read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(refused.to_string(), "it is no regular file");
        assert_eq!(read(Path::new("/")).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(read(Path::new("/no/such")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn devices_and_links_are_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        symlink("/dev/null", path("device")).unwrap();
        fs::write(path("model"), "old").unwrap();
        symlink(path("model"), path("link")).unwrap();
        let refused = write(&path("device"), b"new").unwrap_err();
        assert_eq!(refused.to_string(), "it is no regular file");
        write(&path("link"), b"new").unwrap();
        assert_eq!(fs::read(path("model")).unwrap(), b"new");
        for link in ["device", "link"] {
            assert!(path(link).is_symlink(), "{link}");
        }
    }
}
