//! `memory.numa_stat`: a group's memory by node.
//!
//! ```text
//! anon N0=67108864 N1=16777216
//! file N0=8388608 N1=0
//! ...
//! ```
//!
//! Rows overlap (`shmem` is part of `file`, pages of the swap cache are in `file` and in `anon`),
//! and some count events instead of bytes (`workingset_*`, `pgdemote_*`). This module adds up the
//! five LRU lists, `inactive_anon`, `active_anon`, `inactive_file`, `active_file` and
//! `unevictable`: every page that can migrate between tiers is on exactly one of them, with MGLRU
//! or without. Kernel stacks, page tables and slab cannot migrate and do not count.
//!
//! ```
//! use std::path::Path;
//! use tierwise_core::units::Bytes;
//! use tierwise_linux::cgroup::numa_stat;
//!
//! let text = "anon N0=8192 N1=0\ninactive_anon N0=4096 N1=0\nactive_anon N0=4096 N1=0\n\
//!             kernel_stack N0=16384 N1=0\nactive_file N0=0 N1=12288\n\
//!             pgdemote_kswapd N0=99 N1=0\n";
//! let mut usage = Vec::new();
//! numa_stat::usage(Path::new("memory.numa_stat"), text, &mut usage)?;
//! assert_eq!(usage, [(0, Bytes(8192)), (1, Bytes(12288))]);
//! # Ok::<(), tierwise_linux::error::LinuxError>(())
//! ```

use std::path::Path;

use bstr::ByteSlice;
use tierwise_core::units::Bytes;

use crate::bytes::{parsed, shown, words};
use crate::error::{LinuxError, Result};

/// The LRU lists.
const LISTS: [&str; 5] =
    ["inactive_anon", "active_anon", "inactive_file", "active_file", "unevictable"];
/// The LRU lists of page cache.
const FILE_LISTS: [&str; 2] = ["inactive_file", "active_file"];

/// Adds a group's memory to the nodes of `usage`, which stays ascending by node.
///
/// # Errors
/// A row differs from the kernel's documentation.
pub fn usage(path: &Path, text: impl AsRef<[u8]>, usage: &mut Vec<(u32, Bytes)>) -> Result<()> {
    rows(path, text.as_ref(), &LISTS, usage)
}

/// Adds a group's page cache to the nodes of `usage`, which stays ascending by node.
///
/// # Errors
/// As [`usage`].
pub fn page_cache(
    path: &Path,
    text: impl AsRef<[u8]>,
    usage: &mut Vec<(u32, Bytes)>,
) -> Result<()> {
    rows(path, text.as_ref(), &FILE_LISTS, usage)
}

fn rows(path: &Path, text: &[u8], wanted: &[&str], usage: &mut Vec<(u32, Bytes)>) -> Result<()> {
    for (index, line) in text.lines().enumerate() {
        let mut row = words(line);
        if !row.next().is_some_and(|key| wanted.iter().any(|name| name.as_bytes() == key)) {
            continue;
        }
        for word in row {
            let (node, bytes) = of_node(word).ok_or_else(|| LinuxError::Format {
                path: path.to_owned(),
                line: Some(index + 1),
                found: format!("{:?}", shown(word)),
                expected: "bytes of a node, such as N0=4096",
            })?;
            add(usage, node, Bytes(bytes));
        }
    }
    Ok(())
}

/// Upper bound of the kernel's `MAX_NUMNODES`: a list of nodes stays short.
const NODES: u32 = 1024;

/// Parses `N0=4096`.
pub(crate) fn of_node(word: &[u8]) -> Option<(u32, u64)> {
    let (node, amount) = word.strip_prefix(b"N")?.split_once_str(b"=")?;
    Some((parsed(node).filter(|node| *node < NODES)?, parsed(amount)?))
}

/// Adds to one node of a list that is ascending by node.
pub(crate) fn add(usage: &mut Vec<(u32, Bytes)>, node: u32, bytes: Bytes) {
    match usage.binary_search_by_key(&node, |&(n, _)| n) {
        Ok(at) => usage[at].1 = Bytes(usage[at].1.0.saturating_add(bytes.0)),
        Err(at) => usage.insert(at, (node, bytes)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn damage_is_named_with_its_line() {
        let text = "anon N0=1\nactive_anon N0=1 N1:2\n";
        let message = usage(Path::new("memory.numa_stat"), text, &mut Vec::new()).unwrap_err();
        assert!(message.to_string().starts_with("memory.numa_stat:2: found \"N1:2\""), "{message}");
    }

    proptest! {
        #[test]
        fn every_byte_of_a_list_counts_once(
            of in prop::collection::vec((0u32..4, 0u64..1 << 40), 0..12)
        ) {
            let row = |(i, (node, bytes)): (usize, &(u32, u64))| {
                format!("{} N{node}={bytes}\n", LISTS[i % 5])
            };
            let text: String = of.iter().enumerate().map(row).collect();
            let mut sum = Vec::new();
            usage(Path::new("f"), &text, &mut sum).unwrap();
            let written = of.iter().map(|o| o.1).sum::<u64>();
            prop_assert_eq!(sum.iter().map(|u| u.1.0).sum::<u64>(), written);
            prop_assert!(sum.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }

        #[test]
        fn no_numa_stat_makes_it_panic(
            text in "(active_anon|N[0-9]{0,12}=?[0-9]{0,21}| |.{0,9}|\n){0,30}",
        ) {
            let _ = usage(Path::new("f"), &text, &mut Vec::new());
        }
    }
}
