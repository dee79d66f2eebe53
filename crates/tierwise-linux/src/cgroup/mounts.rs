//! Check that this machine has cgroup v2 with the memory controller.

use std::path::Path;

use bstr::ByteSlice;

use crate::bytes::shown;
use crate::error::{LinuxError, Result};
use crate::file;
use crate::roots::Roots;

/// Returns the controllers of the root group, as `cgroup.controllers` lists them.
///
/// # Errors
/// cgroup v2 is not mounted at its place (the machine has v1, or both with the memory controller in
/// v1), or the memory controller is disabled. The error names the remedy.
pub fn check(roots: &Roots) -> Result<Vec<String>> {
    let Some(text) = file::text_if_there(&roots.cgroup.join("cgroup.controllers"))? else {
        return Err(not_v2(roots));
    };
    let controllers: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    if controllers.iter().any(|c| c == "memory") {
        return Ok(controllers);
    }
    Err(LinuxError::Missing {
        what: "cgroup v2 is mounted without the memory controller".into(),
        remedy: "boot without cgroup_disable=memory and without a cgroup v1 memory mount, or name \
                 tenants by pids"
            .into(),
    })
}

fn not_v2(roots: &Roots) -> LinuxError {
    let what = match file::bytes(&roots.proc.join("self/mounts")) {
        Ok(mounts) => describe(&mounts, &roots.cgroup),
        Err(_) => format!("cgroup v2 is not mounted on {}", roots.cgroup.display()),
    };
    let remedy =
        "boot with systemd.unified_cgroup_hierarchy=1, or name tenants by pids or as QEMU guests"
            .into();
    LinuxError::Missing { what, remedy }
}

/// Describes what is mounted instead.
fn describe(mounts: impl AsRef<[u8]>, cgroup: &Path) -> String {
    let mounted = |kind: &str, option: &str| {
        mounts.as_ref().lines().find_map(|line| {
            let mut fields = line.split_str(b" ").skip(1);
            let (path, of, options) = (fields.next()?, fields.next()?, fields.next()?);
            let has = option.is_empty() || options.split_str(b",").any(|o| o == option.as_bytes());
            (of == kind.as_bytes() && has).then(|| shown(path).to_string())
        })
    };
    match (mounted("cgroup", "memory"), mounted("cgroup2", "")) {
        (Some(v1), Some(v2)) => format!(
            "the memory controller belongs to cgroup v1 (mounted on {v1}); cgroup v2 on {v2} is \
             without it"
        ),
        (Some(v1), None) => format!("this machine has cgroup v1 (memory on {v1}) and not v2"),
        (None, Some(v2)) => format!("cgroup v2 is mounted on {v2} and not on {}", cgroup.display()),
        (None, None) => format!("cgroup v2 is not mounted on {}", cgroup.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::fixture;

    #[test]
    fn v2_lists_its_controllers() {
        let controllers = check(&fixture::machine("hmat-two-tier")).unwrap();
        assert!(controllers.contains(&"cpuset".to_owned()));
    }

    #[test]
    fn a_hybrid_machine_is_reported() {
        let message = check(&fixture::machine("cgroup-v1")).unwrap_err().to_string();
        assert!(
            message.starts_with(
                "the memory controller belongs to cgroup v1 (mounted on /sys/fs/cgroup/memory); \
                 cgroup v2 on /sys/fs/cgroup/unified is without it; boot with \
                 systemd.unified_cgroup_hierarchy=1"
            ),
            "{message}"
        );
    }

    #[test]
    fn cgroup_versions_are_distinguished() {
        let there = Path::new("/sys/fs/cgroup");
        let v1 = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n";
        assert!(describe(v1, there).contains("cgroup v1 (memory on /sys/fs/cgroup/memory)"));
        let v2 = "none /mnt/cg cgroup2 rw 0 0\nshort line\n";
        assert_eq!(
            describe(v2, there),
            "cgroup v2 is mounted on /mnt/cg and not on /sys/fs/cgroup"
        );
        assert!(describe("", there).contains("is not mounted"));
    }

    #[test]
    fn a_switched_off_controller_is_reported() {
        let (_dir, roots) = fixture::copy("one-node");
        fixture::put(&roots.cgroup.join("cgroup.controllers"), "cpu io pids\n");
        let message = check(&roots).unwrap_err().to_string();
        assert!(message.contains("without the memory controller; boot without"), "{message}");
        std::fs::remove_file(roots.cgroup.join("cgroup.controllers")).unwrap();
        std::fs::remove_dir_all(roots.proc.join("self")).unwrap();
        assert!(check(&roots).unwrap_err().to_string().contains("cgroup v2 is not mounted on"));
    }
}
