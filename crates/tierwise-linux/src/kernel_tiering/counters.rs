//! The kernel's counters of promotions, demotions and hint faults.

use std::path::Path;

use bstr::ByteSlice;

use crate::bytes::{parsed, shown};
use crate::error::{LinuxError, Result};
use crate::file;
use crate::roots::Roots;

/// VmstatCounters of `/proc/vmstat` since the machine started, in base pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VmstatCounters {
    /// Pages that were promoted at hint faults.
    pub promoted: u64,
    /// Pages whose hint fault was within the hot threshold.
    pub candidates: u64,
    /// Pages that were demoted, by kswapd or another part of reclaim.
    pub demoted: u64,
    /// Hint faults.
    pub hint_faults: u64,
    /// Page table entries that were poisoned.
    pub poisoned: u64,
}

/// The kernel's counters, in the order of [`VmstatCounters`].
const COUNTERS: [&[u8]; 5] = [
    b"pgpromote_success",
    b"pgpromote_candidate",
    DEMOTED,
    b"numa_hint_faults",
    b"numa_pte_updates",
];

/// The start of the names of counters of demoted pages, by the part of reclaim.
const DEMOTED: &[u8] = b"pgdemote_";

impl VmstatCounters {
    /// Reads them.
    ///
    /// # Errors
    /// The file cannot be read, or as [`VmstatCounters::parse`].
    pub fn read(roots: &Roots) -> Result<Self> {
        let path = roots.proc.join("vmstat");
        Self::parse(&path, &file::bytes(&path)?)
    }

    /// Reads the text of the file. Lines of other counters may hold anything.
    ///
    /// # Errors
    /// A counter is missing or no number: read as 0, it would count from the machine's
    /// start when it is back.
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self> {
        let problem = |line, found| LinuxError::Format {
            path: path.to_owned(),
            line,
            found,
            expected: "the counters of a kernel that promotes and demotes, each with a number",
        };
        let mut counts = [None; COUNTERS.len()];
        for (index, line) in text.lines().enumerate() {
            let (key, value) = line.split_once_str(b" ").unwrap_or((line, b""));
            let is_of = |name: &&[u8]| *name == key || *name == DEMOTED && key.starts_with(DEMOTED);
            let Some(counter) = COUNTERS.iter().position(is_of) else { continue };
            let value: u64 = parsed(value.trim_ascii())
                .ok_or_else(|| problem(Some(index + 1), format!("{:?}", shown(line))))?;
            let count = counts[counter].get_or_insert(0u64);
            *count = count.saturating_add(value);
        }
        let count =
            |i: usize| counts[i].ok_or_else(|| problem(None, format!("no {}", shown(COUNTERS[i]))));
        Ok(Self {
            promoted: count(0)?,
            candidates: count(1)?,
            demoted: count(2)?,
            hint_faults: count(3)?,
            poisoned: count(4)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demotions_of_all_kinds_are_added() {
        let text = b"pgpromote_success 5\npgpromote_candidate 8\npgdemote_kswapd 3\n\
                     pgdemote_direct 4\nnr_free 9\nnuma_hint_faults 6\nnuma_pte_updates 7\n";
        let counters = VmstatCounters::parse(Path::new("vmstat"), text).unwrap();
        let expected =
            VmstatCounters { promoted: 5, candidates: 8, demoted: 7, hint_faults: 6, poisoned: 7 };
        assert_eq!(counters, expected);
    }

    #[test]
    fn missing_counters_are_errors_others_not() {
        let parse = |text: &[u8]| VmstatCounters::parse(Path::new("vmstat"), text);
        let whole = b"nr_ev\xffil -1\n\nodd\npgpromote_success 18446744073709551615\n\
                      pgpromote_candidate 0\npgdemote_kswapd 18446744073709551615\n\
                      pgdemote_direct 4\nnuma_hint_faults 6\nnuma_pte_updates 7";
        let counters = parse(whole).unwrap();
        assert_eq!((counters.promoted, counters.demoted), (u64::MAX, u64::MAX));
        for cut in 1..whole.len() - 1 {
            // Cut within the last number, the file is whole as far as anyone can tell.
            assert!(parse(&whole[..cut]).is_err(), "{cut}");
        }
        let said = parse(b"pgdemote_kswapd -3\n").unwrap_err().to_string();
        assert!(said.starts_with("vmstat:1: found \"pgdemote_kswapd -3\"; expected"), "{said}");
    }
}
