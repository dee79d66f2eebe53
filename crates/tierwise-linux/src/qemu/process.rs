//! Checks that a process is a trustworthy QEMU, and returns its user.
//!
//! A process controls its command line, its name, and in a mount namespace of its own even the path
//! of its executable. It does not control the file that it runs, if only root can write there, or
//! its user. The code that runs in it still belongs to its user, who may trace it. So the
//! executable identifies the process, and its user decides the trust.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use rustix::process::geteuid;

use crate::bytes::quoted;
use crate::roots::Roots;

/// Write permissions of the group and of others, and the bit that protects other users' files in a
/// directory.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Suffix that the kernel appends to the path of a deleted file.
const DELETED: &[u8] = b" (deleted)";

/// Returns the user of a QEMU process.
///
/// # Errors
/// The process is no QEMU, or not a trustworthy one. The text leaves out the pid.
pub(crate) fn user(roots: &Roots, pid: i32) -> Result<u32, String> {
    let exe = roots.proc.join(format!("{pid}/exe"));
    let path = fs::read_link(&exe).map_err(|e| format!("its executable is not known ({e})"))?;
    let shown = || quoted(path.as_os_str().as_bytes());
    if !is_name(&path) {
        return Err(format!("it runs {}, which is no QEMU", shown()));
    }
    let changeable = || format!("others than root may change {} that it runs", shown());
    // From the root down: nothing below another user's directory is read, because that user's file
    // system may block the caller.
    let directories: Vec<&Path> = path.ancestors().skip(1).collect();
    if !directories.into_iter().rev().all(is_safe_directory) {
        return Err(changeable());
    }
    let runs = cached(&exe).map_err(|e| format!("it runs {}: {e}", shown()))?;
    // The path belongs to the process's mount namespace. Ours must have the same file there.
    let here = cached(&path);
    let file = |of: &Statx| (of.stx_dev_major, of.stx_dev_minor, of.stx_ino);
    if here.ok().as_ref().map(file) != Some(file(&runs)) {
        let shown = shown();
        return Err(format!(
            "the file {shown} that it runs is not the one there: it was replaced, or is of a \
             container"
        ));
    }
    let is_file = u32::from(runs.stx_mode) & libc::S_IFMT == libc::S_IFREG;
    if !is_file || !is_safe(runs.stx_uid, runs.stx_mode.into(), 0) {
        return Err(changeable());
    }
    real_user(roots, pid).ok_or_else(|| "its user is not known".to_owned())
}

/// True if the name of a process's executable is one of QEMU's: `qemu-system-x86_64` of most
/// distributions, `qemu-kvm` of Red Hat's, `kvm` of older Debian's. Trust needs more ([`user`]).
pub(crate) fn is_called_qemu(roots: &Roots, pid: i32) -> bool {
    fs::read_link(roots.proc.join(format!("{pid}/exe"))).is_ok_and(|path| is_name(&path))
}

fn is_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let name = name.strip_suffix(DELETED).unwrap_or(name);
    name.starts_with(b"qemu-system-") || name == b"qemu-kvm" || name == b"kvm"
}

/// Reads a file's cached attributes without a call to its file system, which may be the process's
/// own.
fn cached(path: &Path) -> io::Result<Statx> {
    Ok(statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS)?)
}

/// True if only root or the current user may change a file. A file protected by the given bit
/// counts as well.
fn is_safe(owner: u32, mode: u32, kept_by: u32) -> bool {
    let owned = owner == 0 || owner == geteuid().as_raw();
    owned && (mode & OTHERS_WRITE == 0 || mode & kept_by != 0)
}

fn is_safe_directory(directory: &Path) -> bool {
    fs::metadata(directory)
        .is_ok_and(|found| found.is_dir() && is_safe(found.uid(), found.mode(), STICKY))
}

/// Returns a process's real user, which no program that it runs can change.
fn real_user(roots: &Roots, pid: i32) -> Option<u32> {
    let (status, _) = beginning(&roots.proc.join(format!("{pid}/status")), 0).ok()?;
    // The name comes before it, with its newlines escaped by the kernel.
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Uid:"))?;
    let word = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty())?;
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Reads the start of a file, as much as a status, a pid file or the options with a guest's name
/// need, and its owner. `flags` are for opening it.
pub(crate) fn beginning(path: &Path, flags: i32) -> io::Result<(Vec<u8>, u32)> {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let (mut bytes, owner) = (Vec::new(), file.metadata()?.uid());
    file.take(MAX_LEN).read_to_end(&mut bytes)?;
    Ok((bytes, owner))
}

/// Limit of a command line's bytes: libvirt's have about ten thousand, with the name at the start.
const MAX_LEN: u64 = 64 << 10;

/// For tests: makes processes of a tree run a QEMU of that tree, which only the tests' user may
/// change.
#[cfg(test)]
pub(crate) fn install(directory: &Path, roots: &Roots, pids: &[i32]) {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let program = directory.join("usr/bin/qemu-system-x86_64");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::write(&program, "").unwrap();
    for (path, mode) in
        [(&program, 0o755), (&directory.join("usr/bin"), 0o755), (&directory.join("usr"), 0o755)]
    {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    for pid in pids {
        let exe = roots.proc.join(format!("{pid}/exe"));
        let _ = fs::remove_file(&exe);
        symlink(&program, exe).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::topology::fixture;

    #[test]
    fn qemu_is_known_by_protected_executable() {
        let (dir, roots) = fixture::copy("hmat-two-tier");
        let program = dir.path().join("usr/bin/qemu-system-x86_64");
        assert_eq!(user(&roots, 301), Ok(64055));
        // Any user may give a file this name and write to it.
        fs::set_permissions(&program, fs::Permissions::from_mode(0o775)).unwrap();
        assert!(user(&roots, 301).unwrap_err().starts_with("others than root may change"));
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let directory = program.parent().unwrap();
        fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(user(&roots, 301).unwrap_err().starts_with("others than root may change"));
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
        // Replaced since it started, or only in its own mount namespace.
        fixture::put(&directory.join("other"), "");
        let exe = roots.proc.join("301/exe");
        fs::remove_file(&exe).unwrap();
        symlink(directory.join("qemu-system-x86_64 (deleted)"), &exe).unwrap();
        let message = user(&roots, 301).unwrap_err();
        assert!(message.contains("it runs") && is_called_qemu(&roots, 301), "{message}");
        // Its command line names QEMU.
        fs::remove_file(&exe).unwrap();
        symlink(directory.join("other"), &exe).unwrap();
        let message = user(&roots, 301).unwrap_err();
        assert!(
            message.ends_with("other\", which is no QEMU") && !is_called_qemu(&roots, 301),
            "{message}"
        );
        assert!(user(&roots, 999).unwrap_err().starts_with("its executable is not known"));
    }
}
