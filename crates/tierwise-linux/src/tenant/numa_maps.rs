//! `/proc/PID/numa_maps` (numa(7)): a process's pages by node.
//!
//! The kernel walks the page tables of the whole process to write it, and holds the process's
//! `mmap_lock` for reading: 17 ms per GiB of 4 KiB pages in a virtual machine with two CPUs. The
//! file is only for processes without a control group of their own, and not for every round: see
//! [`super::Readings`].
//!
//! ```
//! use tierwise_core::units::Bytes;
//! use tierwise_linux::tenant::numa_maps::add_line;
//!
//! let mut usage = Vec::new();
//! let heap = b"55ce30600000 default heap anon=3 dirty=3 N0=2 N1=1 kernelpagesize_kB=4";
//! let huge = b"7f10c0000000 default file=/hugepages/\xff huge anon=1 N1=1 kernelpagesize_kB=2048";
//! assert!(add_line(heap, &mut usage) && add_line(huge, &mut usage));
//! assert_eq!(usage, [(0, Bytes(8192)), (1, Bytes(4096 + (2 << 20)))]);
//! ```

use bstr::ByteSlice;
use tierwise_core::units::Bytes;

use crate::bytes::parsed;
use crate::cgroup::numa_stat::{add, of_node};

/// Format of a line, for error messages.
pub const EXPECTED: &str =
    "a mapping such as \"7f10a0000000 default anon=3 N0=2 N1=1 kernelpagesize_kB=4\"";

/// Adds a mapping's memory to the nodes of `usage`, which stays ascending by node. Pages that
/// processes share count for each of them. Returns false for a line that is not as the manual
/// describes it.
pub fn add_line(line: &[u8], usage: &mut Vec<(u32, Bytes)>) -> bool {
    // Address and policy come first; a file's name has its spaces escaped.
    let words = || line.split_str(b" ").skip(2);
    // A mapping without pages ends after its policy or its file.
    let Some(kib) = words().find_map(|w| w.strip_prefix(b"kernelpagesize_kB=")) else {
        return true;
    };
    let Some(page) = parsed::<u64>(kib) else { return false };
    let mut understood = true;
    for word in words().filter(|w| is_of_node(w)) {
        match of_node(word) {
            Some((node, pages)) => {
                add(usage, node, Bytes(pages.saturating_mul(page).saturating_mul(1024)));
            }
            None => understood = false,
        }
    }
    understood
}

/// True for `N` and a digit: `file=N0=x` starts otherwise.
fn is_of_node(word: &[u8]) -> bool {
    word.strip_prefix(b"N").is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit))
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
        let content = file::bytes(&path).unwrap();
        assert!(content.lines().all(|line| add_line(line, &mut sum)));
        let node0 = (384 + 16_384 + 9) * 4096 + (2 << 20);
        assert_eq!(sum, [(0, Bytes(node0)), (1, Bytes((4096 + 1024) * 4096 + (2 << 20)))]);
    }

    #[test]
    fn guest_name_options_parse_or_report() {
        let mut sum = Vec::new();
        // The kernel escapes spaces and equal signs of names.
        let name = br"1000 default file=/x\040N0\0759 N1=1 kernelpagesize_kB=4";
        assert!(add_line(name, &mut sum) && add_line(b"1000 default", &mut sum));
        assert_eq!(sum, [(1, Bytes(4096))]);
        for bad in [
            &b"1 default N0=x kernelpagesize_kB=4"[..],
            b"1 default N0=1 kernelpagesize_kB=big",
            b"1 default N4294967295=1 kernelpagesize_kB=4",
        ] {
            assert!(!add_line(bad, &mut sum));
        }
    }

    proptest! {
        #[test]
        fn no_numa_maps_makes_it_panic(text in "([0-9a-f]{4}|default|N[0-9]{0,12}=?[0-9]{0,21}|\
                                   kernelpagesize_kB=[0-9]{0,21}| \
                                   |.{0,5}|\n\
                                   ){0,30}") {
            for line in text.as_bytes().lines() {
                add_line(line, &mut Vec::new());
            }
        }
    }
}
