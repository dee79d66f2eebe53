//! Demotion of a cgroup's coldest pages by the kernel: `memory.reclaim`
//! (`Documentation/admin-guide/cgroup-v2.rst`, Linux 5.19).
//!
//! Reclaim demotes to the next lower memory tier as long as there is one with room and
//! `numa/demotion_enabled` is on; otherwise it drops page cache and swaps. That is not demotion, so
//! it is not started unless the switch is on.

use std::path::Path;

use tierwise_core::units::Bytes;

use crate::error::{LinuxError, Result};
use crate::file;
use crate::roots::Roots;

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reclaimed {
    /// The kernel reclaimed at least what was asked for.
    All,
    /// It found less (`EAGAIN`), and does not say how much.
    Less,
}

/// Whether the kernel may demote.
///
/// # Errors
/// It may not, or cannot; with what to do about it.
pub fn probe(roots: &Roots) -> Result<()> {
    let switch = roots.sys.join("kernel/mm/numa/demotion_enabled");
    match file::text_if_there(&switch)?.as_deref().map(str::trim) {
        Some("true" | "1") => Ok(()),
        Some(_) => Err(LinuxError::Missing {
            what: "the kernel does not demote: reclaim would drop page cache and swap".into(),
            remedy: format!("write 1 to {}, or have Tierwise do it", switch.display()),
        }),
        None => Err(LinuxError::Missing {
            what: format!("this kernel cannot demote: {} is not there", switch.display()),
            remedy: "use Linux 5.15 or later built with CONFIG_NUMA and CONFIG_MIGRATION".into(),
        }),
    }
}

/// Has the kernel demote so many bytes of a cgroup, its children included. Waits until it has.
///
/// # Errors
/// The kernel may not demote ([`probe`]), the cgroup is gone, or it has no `memory.reclaim`.
pub fn demote(roots: &Roots, cgroup: &Path, bytes: Bytes) -> Result<Reclaimed> {
    probe(roots)?;
    let path = cgroup.join("memory.reclaim");
    match file::write(&path, &bytes.0.to_string()) {
        Ok(()) => Ok(Reclaimed::All),
        Err(LinuxError::File { source, .. }) if source.raw_os_error() == Some(libc::EAGAIN) => {
            Ok(Reclaimed::Less)
        }
        Err(e) if e.is_gone() && cgroup.is_dir() => Err(LinuxError::Missing {
            what: format!("{} is not there", path.display()),
            remedy: "use Linux 5.19 or later with the memory controller on cgroup v2, or write \
                     +memory to the parent's cgroup.subtree_control"
                .into(),
        }),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn nothing_is_reclaimed_unless_it_is_demotion() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        let cgroup = roots.cgroup.join("a");
        fs::create_dir_all(&cgroup).unwrap();
        fs::create_dir_all(roots.sys.join("kernel/mm/numa")).unwrap();
        let switch = roots.sys.join("kernel/mm/numa/demotion_enabled");
        let said = |e: Result<Reclaimed>| e.unwrap_err().to_string();
        assert!(said(demote(&roots, &cgroup, Bytes(1))).contains("cannot demote"));
        fs::write(&switch, "false\n").unwrap();
        assert!(said(demote(&roots, &cgroup, Bytes(1))).contains("write 1 to"));
        fs::write(&switch, "true\n").unwrap();
        assert!(said(demote(&roots, &cgroup, Bytes(1))).contains("Linux 5.19"));
        fs::write(cgroup.join("memory.reclaim"), "").unwrap();
        assert_eq!(demote(&roots, &cgroup, Bytes(4096)).unwrap(), Reclaimed::All);
        assert_eq!(fs::read_to_string(cgroup.join("memory.reclaim")).unwrap(), "4096");
        assert!(demote(&roots, &roots.cgroup.join("b"), Bytes(1)).unwrap_err().is_gone());
    }
}
