//! The kernel's memory tiers, from `/sys/devices/virtual/memory_tiering`
//! (`Documentation/ABI/testing/sysfs-kernel-mm-memory-tiers`; since Linux 6.1).
//!
//! `memory_tierN/nodelist` lists the nodes of a tier. A lower N is faster: N is the abstract
//! distance (from HMAT's latency and bandwidth if there is an HMAT) divided by 128; DRAM's is 4.

use std::fs;
use std::path::PathBuf;

use crate::error::{LinuxError, Result};
use crate::file;
use crate::roots::Roots;

/// One of the kernel's tiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelTier {
    /// N of `memory_tierN`.
    pub rank: u32,
    /// Nodes, ascending.
    pub nodes: Vec<u32>,
}

/// Returns the kernel's tiers that have nodes, fastest first; `None` for a kernel without tiers
/// (before 6.1).
///
/// # Errors
/// A file cannot be read or is no list of nodes.
pub fn read(roots: &Roots) -> Result<Option<Vec<KernelTier>>> {
    let directory = directory(roots);
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(LinuxError::file(&directory, "list", e)),
    };
    let mut tiers = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| LinuxError::file(&directory, "list", e))?;
        let name = entry.file_name();
        let rank = name.to_str().and_then(|n| n.strip_prefix("memory_tier"));
        // The directory also holds `power`, `uevent` and the like.
        let Some(rank) = rank.and_then(|n| n.parse().ok()) else { continue };
        let path = entry.path().join("nodelist");
        let Some(text) = file::text_if_there(&path)? else { continue };
        let nodes = file::list(&path, &text)?;
        if !nodes.is_empty() {
            tiers.push(KernelTier { rank, nodes });
        }
    }
    tiers.sort_by_key(|tier| tier.rank);
    Ok(Some(tiers))
}

fn directory(roots: &Roots) -> PathBuf {
    roots.sys.join("devices/virtual/memory_tiering")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::fixture;

    #[test]
    fn the_lower_number_is_the_faster_tier() {
        // In the order of names, memory_tier30 and memory_tier22 would come before memory_tier4.
        let tiers = read(&fixture::machine("cxl-three-tier")).unwrap().unwrap();
        let report: Vec<_> = tiers.iter().map(|t| (t.rank, t.nodes.as_slice())).collect();
        assert_eq!(report, [(4, &[0, 1][..]), (22, &[2]), (30, &[3])]);
    }

    #[test]
    fn tiers_without_nodes_are_skipped() {
        let (_dir, roots) = fixture::copy("one-node");
        fixture::put(&directory(&roots).join("memory_tier9/nodelist"), "\n");
        fixture::put(&directory(&roots).join("uevent"), "");
        fixture::put(&directory(&roots).join("memory_tierx/nodelist"), "1\n");
        assert_eq!(read(&roots).unwrap().unwrap(), [KernelTier { rank: 4, nodes: vec![0] }]);
        fixture::put(&directory(&roots).join("memory_tier9/nodelist"), "one\n");
        let message = read(&roots).unwrap_err().to_string();
        assert!(message.contains("memory_tier9/nodelist: found \"one\""), "{message}");
    }

    #[test]
    fn a_kernel_before_them_has_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(&Roots::under(dir.path())).unwrap(), None);
    }
}
