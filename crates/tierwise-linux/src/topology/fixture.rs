//! The machines of `tests/fixtures/linux`, for this crate's tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::roots::Roots;

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/linux").join(name)
}

/// Returns the directory trees of a machine.
pub(crate) fn machine(name: &str) -> Roots {
    Roots::under(directory(name))
}

/// Returns a copy of a machine, to change. Its guests run an installed QEMU.
pub(crate) fn copy(name: &str) -> (TempDir, Roots) {
    let dir = tempfile::tempdir().unwrap();
    copy_tree(&directory(name), dir.path());
    let roots = Roots::under(dir.path());
    let guests = [301, 302].map(|pid| roots.proc.join(pid.to_string()));
    if guests.iter().all(|guest| guest.exists()) {
        crate::qemu::process::install(dir.path(), &roots, &[301, 302]);
    }
    (dir, roots)
}

/// Writes a file of a copy, and creates the directories above it.
pub(crate) fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn copy_tree(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            fs::create_dir(&target).unwrap();
            copy_tree(&source, &target);
        } else if kind.is_symlink() {
            symlink(fs::read_link(&source).unwrap(), &target).unwrap();
        } else {
            fs::copy(&source, &target).unwrap();
        }
    }
}
