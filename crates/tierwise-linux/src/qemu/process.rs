//! Whether a process is a QEMU that may be believed, and whose.
//!
//! A process says of itself what it likes: its command line, its name, and in a mount namespace of
//! its own even the path of its executable. What it cannot choose is the file that it runs, if only
//! root can put files there, and its user. What runs in it belongs to its user all the same, who
//! may trace it: an executable tells what a process is, and its user whether to believe it.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use rustix::process::geteuid;

use crate::bytes::quoted;
use crate::roots::Roots;

/// Permissions of the group and of others to write, and the bit that keeps them from others' files
/// in a directory.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// What the kernel appends to the path of a file that is there no more.
const DELETED: &[u8] = b" (deleted)";

/// The user of a QEMU process.
///
/// # Errors
/// It is none, or one that may not be believed; in words, without the process's number.
pub(crate) fn user(roots: &Roots, pid: i32) -> Result<u32, String> {
    let exe = roots.proc.join(format!("{pid}/exe"));
    let path = fs::read_link(&exe).map_err(|e| format!("its executable is not known ({e})"))?;
    let shown = || quoted(path.as_os_str().as_bytes());
    if !is_name(&path) {
        return Err(format!("it runs {}, which is no QEMU", shown()));
    }
    let changeable = || format!("others than root may change {} that it runs", shown());
    // From the root down: nothing below a directory of another user's is looked at, where a file
    // system of theirs may let whoever asks wait.
    let directories: Vec<&Path> = path.ancestors().skip(1).collect();
    if !directories.into_iter().rev().all(is_safe_directory) {
        return Err(changeable());
    }
    let runs = cached(&exe).map_err(|e| format!("it runs {}: {e}", shown()))?;
    // The path is of its mount namespace. In ours the same file must be there.
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

/// Whether a process runs something that is called as QEMU is: `qemu-system-x86_64` of most
/// distributions, `qemu-kvm` of Red Hat's, `kvm` of older Debian's. To be believed it takes more
/// ([`user`]).
pub(crate) fn is_called_qemu(roots: &Roots, pid: i32) -> bool {
    fs::read_link(roots.proc.join(format!("{pid}/exe"))).is_ok_and(|path| is_name(&path))
}

fn is_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let name = name.strip_suffix(DELETED).unwrap_or(name);
    name.starts_with(b"qemu-system-") || name == b"qemu-kvm" || name == b"kvm"
}

/// What is known of a file without asking its file system, which may be the process's own.
fn cached(path: &Path) -> io::Result<Statx> {
    Ok(statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS)?)
}

/// Whether only root, or the user who runs this, may change a file; one that is kept by the given
/// bit counts as well.
fn is_safe(owner: u32, mode: u32, kept_by: u32) -> bool {
    let owned = owner == 0 || owner == geteuid().as_raw();
    owned && (mode & OTHERS_WRITE == 0 || mode & kept_by != 0)
}

fn is_safe_directory(directory: &Path) -> bool {
    fs::metadata(directory)
        .is_ok_and(|found| found.is_dir() && is_safe(found.uid(), found.mode(), STICKY))
}

/// A process's real user, which no program that it runs can change for it.
fn real_user(roots: &Roots, pid: i32) -> Option<u32> {
    let (status, _) = beginning(&roots.proc.join(format!("{pid}/status")), 0).ok()?;
    // The name stands above it, with its newlines escaped by the kernel.
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Uid:"))?;
    let word = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty())?;
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// The first bytes of a file, as many as a status, a pid file or the options that name a guest
/// have, and whose file it is. It is opened with these flags.
pub(crate) fn beginning(path: &Path, flags: i32) -> io::Result<(Vec<u8>, u32)> {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let (mut bytes, owner) = (Vec::new(), file.metadata()?.uid());
    file.take(MAX_LEN).read_to_end(&mut bytes)?;
    Ok((bytes, owner))
}

/// Bytes of a command line that are read: libvirt's have some ten thousand, with the name at the
/// front.
const MAX_LEN: u64 = 64 << 10;

/// For tests: makes processes of a tree run a QEMU of that tree, which only who runs the tests may
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
        // Anybody may call a file so, and write into it.
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
        // Its command line says QEMU.
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
