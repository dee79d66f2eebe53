//! Physical addresses of a node: its memory blocks (`/sys/devices/system/node/node<N>/memory<M>`,
//! each `/sys/devices/system/memory/block_size_bytes` long).

use std::fs;

use crate::error::{LinuxError, Result};
use crate::file;
use crate::roots::Roots;

/// Ranges of the node's physical memory, start and end in bytes, ascending, neighbours joined. The
/// kernel skips holes inside a block.
///
/// # Errors
/// The node does not exist, its memory has no blocks (`CONFIG_MEMORY_HOTPLUG` is off), or the block
/// size is not a hexadecimal number.
pub fn ranges(roots: &Roots, node: u32) -> Result<Vec<(u64, u64)>> {
    let size_path = roots.sys.join("devices/system/memory/block_size_bytes");
    let text = file::text(&size_path)?;
    let size = u64::from_str_radix(text.trim(), 16).ok().filter(|&s| s > 0);
    let size = size.ok_or_else(|| LinuxError::Format {
        path: size_path,
        line: None,
        found: format!("{:?}", text.trim()),
        expected: "a hexadecimal number of bytes",
    })?;
    let directory = roots.sys.join(format!("devices/system/node/node{node}"));
    let entries = fs::read_dir(&directory).map_err(|e| LinuxError::file(&directory, "list", e))?;
    let block = |name: &str| name.strip_prefix("memory")?.parse::<u64>().ok();
    let mut blocks: Vec<u64> =
        entries.flatten().filter_map(|e| block(&e.file_name().to_string_lossy())).collect();
    blocks.sort_unstable();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for block in blocks {
        let (start, end) =
            (block.saturating_mul(size), block.saturating_add(1).saturating_mul(size));
        match ranges.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => ranges.push((start, end)),
        }
    }
    if ranges.is_empty() {
        return Err(LinuxError::Missing {
            what: format!("{} lists no memory blocks", directory.display()),
            remedy:
                "the node has no memory, or the kernel lacks CONFIG_MEMORY_HOTPLUG; let Tierwise \
                     look at processes instead of physical memory"
                    .into(),
        });
    }
    Ok(ranges)
}

/// Ranges of several nodes, as [`ranges`].
///
/// # Errors
/// As [`ranges`].
pub fn of_nodes(roots: &Roots, nodes: &[u32]) -> Result<Vec<(u64, u64)>> {
    let mut all = Vec::new();
    for &node in nodes {
        all.extend(ranges(roots, node)?);
    }
    all.sort_unstable();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_memory_blocks_are_joined() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        let node = roots.sys.join("devices/system/node/node1");
        for name in ["memory10", "memory9", "memory12", "memory_side_cache", "cpu0"] {
            fs::create_dir_all(node.join(name)).unwrap();
        }
        let memory = roots.sys.join("devices/system/memory");
        fs::create_dir_all(&memory).unwrap();
        assert!(ranges(&roots, 1).unwrap_err().is_gone());
        fs::write(memory.join("block_size_bytes"), "8000000\n").unwrap();
        let block = 0x800_0000;
        assert_eq!(ranges(&roots, 1).unwrap(), [(9 * block, 11 * block), (12 * block, 13 * block)]);
        assert!(ranges(&roots, 2).unwrap_err().is_gone());
        fs::create_dir_all(roots.sys.join("devices/system/node/node3")).unwrap();
        assert!(ranges(&roots, 3).unwrap_err().to_string().contains("no memory blocks"));
        fs::write(memory.join("block_size_bytes"), "zero").unwrap();
        assert!(ranges(&roots, 1).unwrap_err().to_string().contains("hexadecimal"));
    }
}
