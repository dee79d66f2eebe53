//! Mount points of the kernel's file systems. All paths that this crate reads or writes start here,
//! so that tests use a tree of their own and never the machine's.

use std::path::PathBuf;

/// Mount points of the kernel's file systems.
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
    /// The usual mount points of distributions.
    fn default() -> Self {
        Self { sys: "/sys".into(), proc: "/proc".into(), cgroup: "/sys/fs/cgroup".into() }
    }
}

impl Roots {
    /// Mount points in one directory: `sys`, `proc` and `cgroup`.
    pub fn under(directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        Self {
            sys: directory.join("sys"),
            proc: directory.join("proc"),
            cgroup: directory.join("cgroup"),
        }
    }
}
