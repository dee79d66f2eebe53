//! Machines that consist of files, which a test can change.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A copy of a machine below tests/fixtures/linux.
pub struct MachineFixture(tempfile::TempDir);

impl MachineFixture {
    pub fn copy(name: &str) -> Self {
        let from =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/linux").join(name);
        let directory = tempfile::tempdir().unwrap();
        copy(&from, directory.path());
        Self(directory)
    }

    /// A machine on which tierwised can do everything: root, DAMON, a modern kernel.
    pub fn able(name: &str) -> Self {
        let machine = Self::copy(name);
        machine.put("proc/self/status", "Name:\ttierwise\nCapEff:\t000001ffffffffff\n");
        machine.put("proc/sys/kernel/osrelease", "6.12.9-cloud-amd64\n");
        machine.put("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
        machine.put("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "0\n");
        machine
    }

    pub fn put(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn root(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    /// Every file with its content, for a check that nothing was written.
    pub fn content(&self) -> Vec<(PathBuf, String)> {
        let mut all = Vec::new();
        list(self.0.path(), &mut all);
        all.sort();
        all
    }
}

fn list(directory: &Path, all: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            list(&path, all);
        } else if path.is_file() {
            let content = fs::read_to_string(&path).unwrap();
            all.push((path, content));
        }
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&source, &target);
        } else if kind.is_symlink() {
            symlink(fs::read_link(&source).unwrap(), &target).unwrap();
        } else {
            fs::copy(&source, &target).unwrap();
        }
    }
}
