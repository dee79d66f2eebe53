//! NUMA nodes with memory, from `/sys/devices/system/node`
//! (`Documentation/ABI/stable/sysfs-devices-node`).

use std::path::{Path, PathBuf};

use bstr::ByteSlice;
use tierwise_core::units::Bytes;

use crate::bytes::{parsed, shown, words};
use crate::error::{LinuxError, Result};
use crate::file;
use crate::process::Reader;
use crate::roots::Roots;

/// A node that is online and has memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryNode {
    /// The kernel's number of the node.
    pub id: u32,
    /// True if the node has CPUs. CXL memory and persistent memory have none.
    pub has_cpu: bool,
    /// Memory that the kernel's allocator manages (`MemTotal`).
    pub total: Bytes,
    /// Memory that is not in use (`MemFree`).
    pub free: Bytes,
    /// Distances to other nodes from the firmware's SLIT: 10 is the node itself, 20 is twice as
    /// far. One pair of node and distance per online node.
    pub distances: Vec<(u32, u32)>,
}

impl MemoryNode {
    /// Returns the distance to another node, if the kernel knows it.
    pub fn distance(&self, other: u32) -> Option<u32> {
        self.distances.iter().find(|&&(node, _)| node == other).map(|&(_, distance)| distance)
    }
}

/// Returns the nodes that are online and have memory, ascending.
///
/// # Errors
/// The kernel has no NUMA support, or a kernel file is malformed. A node that goes offline
/// meanwhile is left out.
pub fn read(roots: &Roots) -> Result<Vec<MemoryNode>> {
    let directory = directory(roots);
    let list = |name: &str| -> Result<Vec<u32>> {
        let path = directory.join(name);
        file::list(&path, &file::text(&path)?)
    };
    let online = match list("online") {
        Err(e) if e.is_gone() => return Err(no_numa(&directory)),
        other => other?,
    };
    let (has_memory, has_cpu) = (list("has_memory")?, list("has_cpu")?);
    let mut nodes = Vec::new();
    for &id in online.iter().filter(|id| has_memory.contains(id)) {
        match node(&directory, id, has_cpu.contains(&id), &online) {
            Err(e) if e.is_gone() => {}
            other => nodes.push(other?),
        }
    }
    Ok(nodes)
}

/// Returns the free memory of one node.
///
/// # Errors
/// The node went offline ([`LinuxError::is_gone`]), or its `meminfo` is malformed.
pub fn free(roots: &Roots, reader: &mut Reader, node: u32) -> Result<Bytes> {
    of_meminfo(roots, reader, node, "MemFree")
}

/// Returns the memory of one node that the kernel's allocator manages.
///
/// # Errors
/// As [`free`].
pub fn total(roots: &Roots, reader: &mut Reader, node: u32) -> Result<Bytes> {
    of_meminfo(roots, reader, node, "MemTotal")
}

fn of_meminfo(roots: &Roots, reader: &mut Reader, node: u32, key: &'static str) -> Result<Bytes> {
    reader.bytes(&roots.sys, format_args!("devices/system/node/node{node}/meminfo"))?;
    let (path, text) = reader.last();
    meminfo(path, text, key)
}

pub(super) fn directory(roots: &Roots) -> PathBuf {
    roots.sys.join("devices/system/node")
}

fn no_numa(directory: &Path) -> LinuxError {
    LinuxError::Missing {
        what: format!("this kernel has no NUMA nodes: {} does not exist", directory.display()),
        remedy: "boot one built with CONFIG_NUMA, as the distributions' are, with sysfs mounted"
            .into(),
    }
}

fn node(directory: &Path, id: u32, has_cpu: bool, online: &[u32]) -> Result<MemoryNode> {
    let directory = directory.join(format!("node{id}"));
    let path = directory.join("meminfo");
    let text = file::bytes(&path)?;
    let (total, free) = (meminfo(&path, &text, "MemTotal")?, meminfo(&path, &text, "MemFree")?);
    let path = directory.join("distance");
    let distances = distances(&path, &file::text(&path)?, online)?;
    Ok(MemoryNode { id, has_cpu, total, free, distances })
}

/// Parses a row of `Node 0 MemTotal:  985624 kB`.
fn meminfo(path: &Path, content: &[u8], key: &'static str) -> Result<Bytes> {
    for (index, line) in content.lines().enumerate() {
        let mut row = words(line).skip(2);
        if row.next().and_then(|w| w.strip_suffix(b":")) != Some(key.as_bytes()) {
            continue;
        }
        let kib = row.next().and_then(parsed::<u64>);
        return match kib.and_then(|kib| kib.checked_mul(1024)) {
            Some(bytes) => Ok(Bytes(bytes)),
            None => Err(LinuxError::Format {
                path: path.to_owned(),
                line: Some(index + 1),
                found: format!("{:?}", shown(line)),
                expected: "a size such as \"Node 0 MemTotal: 985624 kB\"",
            }),
        };
    }
    Err(LinuxError::Format {
        path: path.to_owned(),
        line: None,
        found: format!("no {key}"),
        expected: "MemTotal and MemFree of the node",
    })
}

/// Parses `10 20`: one distance per online node, in their order (`drivers/base/node.c`,
/// `node_read_distance`).
fn distances(path: &Path, text: &str, online: &[u32]) -> Result<Vec<(u32, u32)>> {
    let bad = || LinuxError::Format {
        path: path.to_owned(),
        line: None,
        found: format!("{:?}", text.trim()),
        expected: "one distance for each online node, such as 10 20",
    };
    let found: Option<Vec<u32>> = text.split_whitespace().map(|w| w.parse().ok()).collect();
    let found = found.ok_or_else(bad)?;
    // A node may go on- or offline after the list was read: only certain pairs are kept.
    if found.is_empty() {
        return Err(bad());
    }
    Ok(online.iter().copied().zip(found).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::fixture;

    #[test]
    fn two_nodes_as_a_guest_has_them() {
        let nodes = read(&fixture::machine("hmat-two-tier")).unwrap();
        assert_eq!(nodes.len(), 2);
        assert_eq!((nodes[0].id, nodes[0].has_cpu, nodes[1].has_cpu), (0, true, false));
        assert_eq!(nodes[0].total, Bytes(985_624 * 1024));
        assert_eq!(nodes[1].free, Bytes(1_019_204 * 1024));
        assert_eq!((nodes[0].distance(1), nodes[1].distance(1)), (Some(20), Some(10)));
        assert_eq!(nodes[0].distance(7), None);
    }

    #[test]
    fn node_vanishing_between_files_is_skipped() {
        let (_dir, roots) = fixture::copy("hmat-two-tier");
        std::fs::remove_file(directory(&roots).join("node1/meminfo")).unwrap();
        let nodes = read(&roots).unwrap();
        assert_eq!(nodes.iter().map(|n| n.id).collect::<Vec<_>>(), [0]);
        assert!(free(&roots, &mut Reader::default(), 1).unwrap_err().is_gone());
    }

    #[test]
    fn damage_is_named_with_its_line() {
        let (_dir, roots) = fixture::copy("one-node");
        let meminfo = directory(&roots).join("node0/meminfo");
        fixture::put(&meminfo, "Node 0 MemTotal: 12 kB\nNode 0 MemFree: many kB\n");
        let message = read(&roots).unwrap_err().to_string();
        assert!(
            message.contains("node0/meminfo:2: found \"Node 0 MemFree: many kB\""),
            "{message}"
        );
        fixture::put(&meminfo, "Node 0 MemTotal: 12 kB\n");
        assert!(read(&roots).unwrap_err().to_string().contains("no MemFree"));
        fixture::put(&meminfo, "Node 0 MemTotal: 12 kB\nNode 0 MemFree: 1 kB\n");
        fixture::put(&directory(&roots).join("node0/distance"), "10 far\n");
        assert!(read(&roots).unwrap_err().to_string().contains("node0/distance: found"));
    }

    #[test]
    fn kernel_without_numa_names_boot_option() {
        let dir = tempfile::tempdir().unwrap();
        let message = read(&Roots::under(dir.path())).unwrap_err().to_string();
        assert!(
            message.contains("has no NUMA nodes") && message.contains("CONFIG_NUMA"),
            "{message}"
        );
    }
}
