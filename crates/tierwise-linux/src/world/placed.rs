//! Memory that programs have placed in slow tiers themselves, as they report it.
//!
//! A program may know better than any monitor which of its memory is seldom used. The daemon does
//! not promote that memory. A program's word holds for slow memory only: what it reports of fast
//! memory changes nothing, so that no tenant keeps more of the fastest tier than its share by a
//! false report. It concerns the program's own memory alone.

use std::collections::BTreeMap;

use tierwise_core::units::{Bytes, TenantId};

use super::LiveWorld;
use crate::migrate::Calls;
use crate::process::{AddressRange, Process};
use crate::tenant::TenantTracker;

/// Max ranges of a process: two heaps and the buffers that a program places. More would be kept of
/// every process, and searched for every range of resident memory.
pub const MAX_RANGES: usize = 256;

/// Max processes of a tenant whose reports are kept: with all their ranges 2 MiB.
pub const MAX_PROCESSES: usize = 512;

/// A range of addresses: the first, and the one after the last.
pub type PlacedRange = (u64, u64);

/// Refusal of a report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacedError {
    /// The ranges are not ascending, or one is empty, or two overlap.
    #[error(
        "range {0}: found {1:#x} to {2:#x}; allowed: ranges that ascend, end after they start, \
             and do not overlap"
    )]
    Order(usize, u64, u64),
    /// There are too many ranges.
    #[error("found {0} ranges; allowed: at most {MAX_RANGES}; report the largest")]
    Ranges(usize),
    /// Too many processes of the tenant have reported.
    #[error("{MAX_PROCESSES} processes of the tenant have reported; allowed: no more")]
    Processes,
    /// The process is no tenant's.
    #[error("the process belongs to no tenant")]
    NoTenant,
}

/// The reported ranges by process.
#[derive(Debug, Default)]
pub struct PlacedMemory {
    ranges: BTreeMap<Process, Vec<PlacedRange>>,
}

impl PlacedMemory {
    /// Replaces the ranges of a process; without any it has no report.
    ///
    /// # Errors
    /// The report is refused, and the one before holds.
    pub fn set(
        &mut self,
        process: Process,
        ranges: Vec<PlacedRange>,
        tracker: &TenantTracker,
    ) -> Result<(), PlacedError> {
        check(&ranges)?;
        let tenant = tracker.tenant_of(process).ok_or(PlacedError::NoTenant)?;
        if ranges.is_empty() {
            self.ranges.remove(&process);
            return Ok(());
        }
        // Those of processes that have ended make room.
        self.ranges.retain(|process, _| tracker.tenant_of(*process).is_some());
        let of_tenant = |other: &&Process| tracker.tenant_of(**other) == Some(tenant);
        let known = self.ranges.contains_key(&process);
        if !known && self.ranges.keys().filter(of_tenant).count() >= MAX_PROCESSES {
            return Err(PlacedError::Processes);
        }
        self.ranges.insert(process, ranges);
        Ok(())
    }

    /// Forgets the processes that have left.
    pub fn keep(&mut self, stays: impl Fn(&Process) -> bool) {
        self.ranges.retain(|process, _| stays(process));
    }

    /// The ranges of a process, ascending.
    pub fn of(&self, process: Process) -> &[PlacedRange] {
        self.ranges.get(&process).map_or(&[], Vec::as_slice)
    }
}

impl<C: Calls> LiveWorld<C> {
    /// Takes a process's report of the memory that it has placed in slow tiers, by ranges of
    /// addresses. It replaces the one before, and holds until the process ends. Memory of it that
    /// is in a slower tier is not promoted.
    ///
    /// # Errors
    /// The report is refused, and the one before holds.
    pub fn set_placed(
        &mut self,
        process: Process,
        ranges: Vec<PlacedRange>,
    ) -> Result<(), PlacedError> {
        self.survey.placed().set(process, ranges, &self.tracker)
    }

    /// Bytes of a tenant that are left in slower tiers, because its programs have placed them
    /// there. Zero while blocks are not surveyed.
    pub fn placed(&self, tenant: TenantId) -> Bytes {
        self.survey.left_placed(self.tracker.members(tenant))
    }
}

/// Checks a report without its process.
///
/// # Errors
/// There are too many ranges, or they do not ascend.
pub fn check(ranges: &[PlacedRange]) -> Result<(), PlacedError> {
    if ranges.len() > MAX_RANGES {
        return Err(PlacedError::Ranges(ranges.len()));
    }
    let mut last = 0;
    for (n, &(start, end)) in ranges.iter().enumerate() {
        if start < last || end <= start {
            return Err(PlacedError::Order(n, start, end));
        }
        last = end;
    }
    Ok(())
}

/// Bytes between two addresses that are placed.
pub fn overlap(placed: &[PlacedRange], start: u64, end: u64) -> u64 {
    let first = placed.partition_point(|range| range.1 <= start);
    let within = placed[first..].iter().take_while(|range| range.0 < end);
    within.map(|range| range.1.min(end) - range.0.max(start)).sum()
}

/// Takes placed memory out of ranges of resident pages.
///
/// ```
/// use tierwise_linux::process::AddressRange;
/// use tierwise_linux::world::placed::take_out;
///
/// let range = |start, end| AddressRange { start, end, huge: false };
/// let mut resident = vec![range(0, 10), range(20, 30)];
/// take_out(&[(2, 4), (8, 22)], &mut resident);
/// assert_eq!(resident, [range(0, 2), range(4, 8), range(22, 30)]);
/// ```
pub fn take_out(placed: &[PlacedRange], ranges: &mut Vec<AddressRange>) {
    if placed.is_empty() {
        return;
    }
    let mut left = Vec::with_capacity(ranges.len());
    for range in ranges.iter() {
        let mut start = range.start;
        let first = placed.partition_point(|placed| placed.1 <= start);
        for placed in placed[first..].iter().take_while(|placed| placed.0 < range.end) {
            if placed.0 > start {
                left.push(AddressRange { start, end: placed.0, ..*range });
            }
            start = placed.1;
        }
        if start < range.end {
            left.push(AddressRange { start, ..*range });
        }
    }
    *ranges = left;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reports_out_of_order_are_refused() {
        assert_eq!(check(&[(1, 2), (2, 9)]), Ok(()));
        for wrong in [[(1, 1), (2, 3)], [(4, 5), (2, 3)], [(1, 5), (4, 6)], [(3, 2), (4, 5)]] {
            let message = check(&wrong).unwrap_err().to_string();
            assert!(message.starts_with("range "), "{message}");
        }
        let many: Vec<PlacedRange> = (0..=MAX_RANGES as u64).map(|n| (2 * n, 2 * n + 1)).collect();
        assert_eq!(check(&many), Err(PlacedError::Ranges(MAX_RANGES + 1)));
        assert_eq!(check(&many[1..]), Ok(()));
    }

    proptest! {
        #[test]
        fn what_is_left_and_placed_is_all(
            placed in proptest::collection::btree_set(0_u64..100, 0..20),
            resident in proptest::collection::btree_set(0_u64..100, 0..20),
        ) {
            let pairs = |cuts: std::collections::BTreeSet<u64>| -> Vec<PlacedRange> {
                let cuts: Vec<u64> = cuts.into_iter().collect();
                cuts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
            };
            let (placed, resident) = (pairs(placed), pairs(resident));
            let mut left: Vec<AddressRange> = resident
                .iter()
                .map(|&(start, end)| AddressRange { start, end, huge: false })
                .collect();
            take_out(&placed, &mut left);
            for at in 0..100 {
                let within = |ranges: &[PlacedRange]| ranges.iter().any(|r| r.0 <= at && at < r.1);
                let stays = left.iter().any(|r| r.start <= at && at < r.end);
                prop_assert_eq!(stays, within(&resident) && !within(&placed));
                prop_assert_eq!(overlap(&placed, at, at + 1) == 1, within(&placed));
            }
        }
    }
}
