//! Regions that a scheme reports: `tried_regions/<n>/{start,end,nr_accesses,age}`.

use std::path::Path;

use crate::error::Result;
use crate::process::Reader;

/// A DAMON region on this host, in bytes: virtual addresses of a process (`vaddr`) or physical ones
/// (`paddr`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostRegion {
    /// First address.
    pub start: u64,
    /// First address after the region.
    pub end: u64,
    /// Checks of the last aggregation interval that found the region accessed, of `aggregation /
    /// sampling`.
    pub nr_accesses: u32,
    /// Aggregation intervals for which the access count has not changed much.
    pub age: u32,
}

/// Reads every region below `tried_regions` into `out`, ascending by address.
///
/// The kernel numbers them from 0 without gaps, so the first missing number ends the list. A region
/// that vanishes while it is read (another program has them cleared) is left out.
///
/// ```
/// use tierwise_linux::damon::regions::{HostRegion, read};
/// use tierwise_linux::process::Reader;
///
/// let tried = tempfile::tempdir().unwrap();
/// std::fs::create_dir(tried.path().join("0")).unwrap();
/// for (name, value) in [("start", 4096), ("end", 12288), ("nr_accesses", 20), ("age", 3)] {
///     std::fs::write(tried.path().join("0").join(name), format!("{value}\n")).unwrap();
/// }
/// let mut regions = Vec::new();
/// read(tried.path(), &mut Reader::default(), &mut regions).unwrap();
/// assert_eq!(regions, [HostRegion { start: 4096, end: 12288, nr_accesses: 20, age: 3 }]);
/// ```
///
/// # Errors
/// A file exists and cannot be read, or does not hold a number.
pub fn read(directory: &Path, reader: &mut Reader, out: &mut Vec<HostRegion>) -> Result<()> {
    out.clear();
    for n in 0u32.. {
        let start = match reader.value(directory, format_args!("{n}/start"), "an address in bytes")
        {
            Err(e) if e.is_gone() => break,
            other => other?,
        };
        match rest(directory, n, start, reader) {
            Err(e) if e.is_gone() => (),
            other => out.push(other?),
        }
    }
    out.sort_unstable();
    Ok(())
}

fn rest(directory: &Path, n: u32, start: u64, reader: &mut Reader) -> Result<HostRegion> {
    let end = reader.value(directory, format_args!("{n}/end"), "an address in bytes")?;
    let nr_accesses =
        reader.value(directory, format_args!("{n}/nr_accesses"), "a count of samples")?;
    let age =
        reader.value(directory, format_args!("{n}/age"), "a count of aggregation intervals")?;
    if end <= start {
        return Err(reader.format(None, format!("a region from {start} to {end}"), "start < end"));
    }
    Ok(HostRegion { start, end, nr_accesses, age })
}

/// Region that contains an address, in an ascending list.
pub fn find(regions: &[HostRegion], address: u64) -> Option<&HostRegion> {
    let after = regions.partition_point(|r| r.start <= address);
    regions.get(after.checked_sub(1)?).filter(|r| address < r.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn write(directory: &Path, n: usize, region: &HostRegion) {
        let directory = directory.join(n.to_string());
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("start"), format!("{}\n", region.start)).unwrap();
        std::fs::write(directory.join("end"), format!("{}\n", region.end)).unwrap();
        std::fs::write(directory.join("nr_accesses"), format!("{}\n", region.nr_accesses)).unwrap();
        std::fs::write(directory.join("age"), format!("{}\n", region.age)).unwrap();
    }

    fn region(start: u64, end: u64) -> HostRegion {
        HostRegion { start, end, nr_accesses: 1, age: 2 }
    }

    #[test]
    fn vanished_entries_are_skipped_wrong_ones_named() {
        let tree = tempfile::tempdir().unwrap();
        write(tree.path(), 0, &region(8192, 12288));
        write(tree.path(), 1, &region(0, 4096));
        write(tree.path(), 2, &region(4096, 8192));
        std::fs::remove_file(tree.path().join("1/age")).unwrap();
        let (mut reader, mut out) = (Reader::default(), Vec::new());
        read(tree.path(), &mut reader, &mut out).unwrap();
        assert_eq!(out, [region(4096, 8192), region(8192, 12288)]);

        std::fs::write(tree.path().join("2/end"), "many").unwrap();
        let error = read(tree.path(), &mut reader, &mut out).unwrap_err();
        assert!(error.to_string().contains("2/end: found \"many\""), "{error}");
        std::fs::write(tree.path().join("2/end"), "4096").unwrap();
        assert!(read(tree.path(), &mut reader, &mut out).is_err());
        read(&tree.path().join("absent"), &mut reader, &mut out).unwrap();
        assert!(out.is_empty());
    }

    proptest! {
        // Each case writes files.
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn regions_come_back_as_written(
            sizes in proptest::collection::vec((1u64..1 << 30, 0u32..200, 0u32..9), 0..5)
        ) {
            let tree = tempfile::tempdir().unwrap();
            let mut at = 0;
            let mut written = Vec::new();
            for (n, &(size, nr_accesses, age)) in sizes.iter().enumerate() {
                let region = HostRegion { start: at, end: at + size, nr_accesses, age };
                write(tree.path(), n, &region);
                written.push(region);
                at += size + 7;
            }
            let mut out = Vec::new();
            read(tree.path(), &mut Reader::default(), &mut out).unwrap();
            prop_assert_eq!(&out, &written);
            for region in &written {
                prop_assert_eq!(find(&out, region.end - 1), Some(region));
                prop_assert_eq!(find(&out, region.end), None);
            }
        }
    }
}
