//! Where the kernel's file systems are mounted. Everything that this crate reads or writes is found
//! from here, so that tests use a tree of their own and never the machine's.

use std::path::PathBuf;

/// The kernel's file systems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// sysfs.
    pub sys: PathBuf,
    /// procfs.
    pub proc: PathBuf,
    /// cgroup v2.
    pub cgroup: PathBuf,
}

impl Default for Roots {
    /// Where every distribution mounts them.
    fn default() -> Self {
        Self { sys: "/sys".into(), proc: "/proc".into(), cgroup: "/sys/fs/cgroup".into() }
    }
}

impl Roots {
    /// A tree under one directory: `sys`, `proc` and `cgroup` in it.
    pub fn under(directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        Self {
            sys: directory.join("sys"),
            proc: directory.join("proc"),
            cgroup: directory.join("cgroup"),
        }
    }
}
