//! `/proc/PID/numa_maps` (numa(7)): a process's pages by node.
//!
//! The kernel walks the page tables of the whole process to write it, with its `mmap_lock` held for reading: 17 ms for
//! each GiB of 4 KiB pages in a virtual machine with two processors. It is for processes that have no control group of
//! their own, and not for every tick: see [`super::Readings`].
//!
//! ```
//! use std::path::Path;
//! use tierwise_core::units::Bytes;
//! use tierwise_linux::tenant::numa_maps;
//!
//! let text = "55ce30600000 default heap anon=3 dirty=3 N0=2 N1=1 kernelpagesize_kB=4\n\
//!             7f10c0000000 default file=/hugepages/x huge anon=1 N1=1 kernelpagesize_kB=2048\n";
//! let mut usage = Vec::new();
//! numa_maps::usage(Path::new("numa_maps"), text, &mut usage)?;
//! assert_eq!(usage, [(0, Bytes(8192)), (1, Bytes(4096 + (2 << 20)))]);
//! # Ok::<(), tierwise_linux::error::LinuxError>(())
//! ```

use std::path::Path;

use tierwise_core::units::Bytes;

use crate::cgroup::numa_stat::{add, of_node};
use crate::error::{LinuxError, Result};

/// Adds a process's memory to the nodes of `usage`, which is kept ascending by node. Pages that processes share count
/// for each of them.
///
/// # Errors
/// A line that is not as the manual has it.
pub fn usage(path: &Path, text: &str, usage: &mut Vec<(u32, Bytes)>) -> Result<()> {
    for (index, line) in text.lines().enumerate() {
        let bad = |found: &str| LinuxError::Format {
            path: path.to_owned(),
            line: Some(index + 1),
            found: format!("{found:?}"),
            expected: "a mapping such as \"7f10a0000000 default anon=3 N0=2 N1=1 kernelpagesize_kB=4\"",
        };
        // Address and policy come first; a file's name has its spaces escaped.
        let words = || line.split(' ').skip(2);
        let kib = words().find_map(|w| w.strip_prefix("kernelpagesize_kB="));
        // A mapping without pages ends after its policy or its file.
        let Some(kib) = kib else { continue };
        let page: u64 = kib.parse().map_err(|_| bad(kib))?;
        for word in words().filter(|w| is_of_node(w)) {
            let (node, pages) = of_node(word).ok_or_else(|| bad(word))?;
            add(usage, node, Bytes(pages.saturating_mul(page).saturating_mul(1024)));
        }
    }
    Ok(())
}

/// `N` and a digit: `file=N0=x` begins otherwise.
fn is_of_node(word: &str) -> bool {
    word.strip_prefix('N').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::file;
    use crate::topology::fixture;

    #[test]
    fn a_whole_process_by_node() {
        let path = fixture::machine("hmat-two-tier").proc.join("101/numa_maps");
        let mut sum = Vec::new();
        usage(&path, &file::text(&path).unwrap(), &mut sum).unwrap();
        let node0 = (384 + 16_384 + 9) * 4096 + (2 << 20);
        assert_eq!(sum, [(0, Bytes(node0)), (1, Bytes((4096 + 1024) * 4096 + (2 << 20)))]);
    }

    #[test]
    fn damage_is_named_with_its_line() {
        let said =
            |text| usage(Path::new("numa_maps"), text, &mut Vec::new()).unwrap_err().to_string();
        let text = "1000 default\n2000 default N0=x kernelpagesize_kB=4\n";
        assert!(said(text).starts_with("numa_maps:2: found \"N0=x\""));
        assert!(
            said("1000 default N0=1 kernelpagesize_kB=big\n").starts_with("numa_maps:1: found")
        );
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "([0-9a-f]{4}|default|N[0-9]{0,12}=?[0-9]{0,21}|kernelpagesize_kB=[0-9]{0,21}| |.{0,5}|\n){0,30}") {
            let _ = usage(Path::new("f"), &text, &mut Vec::new());
        }
    }
}
