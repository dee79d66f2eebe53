//! Files that outlive the process: they record what was taken from the kernel, so that a successor
//! restores it, and what was hot, so that a successor need not learn it again.
//!
//! A file is written beside and renamed, so that a process that dies leaves the old one or the new
//! one. Nothing waits for the disk: the kernel's settings and DAMON's threads end with the machine,
//! so the files are of one boot, and a power loss makes them worthless. A file may still hold
//! anything when it is read: an unusable file is kept as `NAME.damaged` and reported, and never
//! prevents a start.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::geteuid;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bytes::shown;
use crate::error::{LinuxError, Result};
use crate::file;
use crate::roots::Roots;

/// Limit of a state file's bytes: a hundred times the size of all settings and a thousand kdamonds.
pub const MAX_LEN: u64 = 4 << 20;

/// Limit of damaged files kept side by side; more of them give no new information.
const MAX_KEPT: u32 = 9;

/// The content of a state file.
#[derive(Debug, PartialEq, Eq)]
pub enum StateFileContent<T> {
    /// The file does not exist.
    Nothing,
    /// The file is of another boot: the kernel started with its own settings again.
    OtherBoot,
    /// Valid content, written in this boot.
    Whole(T),
    /// Unusable content. The file was moved aside.
    Damaged(Damage),
}

/// A state file that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    path: PathBuf,
    problem: String,
    /// Its new path, or the reason why it could not be moved.
    kept: std::result::Result<PathBuf, String>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: cannot be used: {}; ", self.path.display(), self.problem)?;
        match &self.kept {
            Ok(kept) => write!(f, "kept as {}", kept.display()),
            Err(error) => write!(f, "cannot be moved aside ({error}): remove it"),
        }
    }
}

/// Reads the identity of this boot.
///
/// # Errors
/// The kernel does not provide it.
pub fn boot_id(roots: &Roots) -> Result<String> {
    file::value(&roots.proc.join("sys/kernel/random/boot_id"), "an identity of this boot")
}

/// Reads a JSON object that names its boot in the member `boot_member`. The boot is compared before
/// any other member counts.
///
/// # Errors
/// The file exists but is not readable.
pub fn read<T: DeserializeOwned>(
    path: &Path,
    boot_member: &str,
    boot_id: &str,
    check: impl FnOnce(&T) -> std::result::Result<(), String>,
) -> Result<StateFileContent<T>> {
    let bytes = match bytes(path)? {
        None => return Ok(StateFileContent::Nothing),
        Some(Ok(bytes)) => bytes,
        Some(Err(problem)) => return Ok(StateFileContent::Damaged(set_aside(path, problem))),
    };
    Ok(match parse(&bytes, boot_member, boot_id, check) {
        Ok(Some(content)) => StateFileContent::Whole(content),
        Ok(None) => StateFileContent::OtherBoot,
        Err(problem) => StateFileContent::Damaged(set_aside(path, problem)),
    })
}

/// Parses a state file of this boot; `None` if it is of another boot.
pub(crate) fn parse<T: DeserializeOwned>(
    bytes: &[u8],
    boot_member: &str,
    boot_id: &str,
    check: impl FnOnce(&T) -> std::result::Result<(), String>,
) -> std::result::Result<Option<T>, String> {
    if bytes.is_empty() {
        return Err("it is empty".into());
    }
    let value: Value =
        serde_json::from_slice(bytes).map_err(|e| format!("it is cut or is no JSON: {e}"))?;
    match value.get(boot_member).and_then(Value::as_str) {
        None => return Err(format!("it has no {boot_member:?}: another program wrote it")),
        Some(boot) if boot != boot_id => return Ok(None),
        Some(_) => {}
    }
    let content = serde_json::from_value(value).map_err(|e| unfit(&e))?;
    check(&content).map(|()| Some(content))
}

/// Returns the file's bytes, or the reason why they are no state.
fn bytes(path: &Path) -> Result<Option<std::result::Result<Vec<u8>, String>>> {
    // A pipe must not block, and a link must not lead elsewhere.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match open(path, flags, Mode::empty()) {
        Ok(descriptor) => File::from(descriptor),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(rustix::io::Errno::LOOP) => return Ok(Some(Err("it is a symbolic link".into()))),
        Err(rustix::io::Errno::NXIO) => return Ok(Some(Err("it is no file".into()))),
        Err(e) => return Err(LinuxError::file(path, "read", e.into())),
    };
    let failed = |e| LinuxError::file(path, "read", e);
    if !file.metadata().map_err(failed)?.is_file() {
        return Ok(Some(Err("it is no file".into())));
    }
    let mut bytes = Vec::new();
    match file.take(MAX_LEN + 1).read_to_end(&mut bytes) {
        Ok(read) if read as u64 > MAX_LEN => {
            Ok(Some(Err(format!("it has more than {MAX_LEN} bytes"))))
        }
        Ok(_) => Ok(Some(Ok(bytes))),
        Err(e) => Ok(Some(Err(format!("it cannot be read: {e}")))),
    }
}

fn set_aside(path: &Path, problem: String) -> Damage {
    let kept = aside(path);
    let kept = fs::rename(path, &kept).map(|()| kept).map_err(|e| e.to_string());
    Damage { path: path.to_owned(), problem, kept }
}

/// Returns the first free name; the last one is reused.
fn aside(path: &Path) -> PathBuf {
    let name = |number: u32| {
        let mut name = OsString::from(path);
        name.push(".damaged");
        if number > 1 {
            name.push(format!("-{number}"));
        }
        PathBuf::from(name)
    };
    let free = |path: &PathBuf| fs::symlink_metadata(path).is_err();
    (1..MAX_KEPT).map(name).find(free).unwrap_or_else(|| name(MAX_KEPT))
}

/// Describes a parse error without its message, which may quote the file.
fn unfit(error: &serde_json::Error) -> String {
    shown(error.to_string().as_bytes()).to_string()
}

/// Replaces a file. A process that dies meanwhile leaves the old file or the new one.
///
/// # Errors
/// The directory does not exist, is full, or is not writable.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let replace = || {
        let mut beside = tempfile::NamedTempFile::new_in(directory(path))?;
        beside.write_all(bytes)?;
        beside.persist(path).map(drop).map_err(|e| e.error)
    };
    replace().map_err(|e| LinuxError::file(path, "write", e))
}

/// Removes a file. A file that does not exist is no error.
///
/// # Errors
/// The file exists but cannot be removed.
pub fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(|e| LinuxError::file(path, "remove", e)),
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a directory that only this user may use, if it does not exist. An existing one must be
/// as safe: a user who may write to it may replace its files.
///
/// # Errors
/// The directory cannot be created, is no directory, belongs to a user who is neither root nor this
/// one, or others may write to it.
pub fn private_directory(path: &Path) -> Result<()> {
    // The mode applies from creation on: a later change would leave a gap.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|e| LinuxError::file(path, "make the directory", e))?;
    check_directory(path)
}

/// Creates a directory that others may enter, and only this user may write to, if it does not
/// exist. The mode of an existing one stays.
///
/// # Errors
/// As [`private_directory`].
pub fn public_directory(path: &Path) -> Result<()> {
    match DirBuilder::new().create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(LinuxError::file(path, "make the directory", e)),
        // Whatever the process's umask.
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(0o755))
            .map_err(|e| LinuxError::file(path, "chmod", e))?,
    }
    check_directory(path)
}

fn check_directory(path: &Path) -> Result<()> {
    let found = fs::metadata(path).map_err(|e| LinuxError::file(path, "examine", e))?;
    let shown = path.display();
    let (owner, mode) = (found.uid(), found.permissions().mode() & 0o7777);
    if owner != 0 && owner != geteuid().as_raw() {
        return Err(LinuxError::Missing {
            what: format!("{shown}: the directory belongs to user {owner}; allowed: root"),
            remedy: format!(
                "examine what is in it, then `chown root {shown}`, or configure another"
            ),
        });
    }
    if mode & 0o022 != 0 {
        return Err(LinuxError::Missing {
            what: format!("{shown}: the directory has mode {mode:04o}, and others may write to it"),
            remedy: format!(
                "examine what is in it, then `chmod 0700 {shown}`, or configure another"
            ),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
