//! Huge pages: maps a workload's address space in 2 MiB pages where it is populated densely.
//!
//! The rule is stricter than that of the kernel's khugepaged, whose default of `max_ptes_none` is
//! 511. A 2 MiB range of one kind becomes one page if at least half of its base pages are ever
//! touched, so that memory grows by no more than a factor of two.

use std::collections::BTreeMap;

use tierwise_trace::{Allocation, PageAccess, PageBacking, Window};

/// log2 of the base pages of a 2 MiB page.
const ORDER: u8 = 9;
/// Base pages of a 2 MiB page.
const SPAN: u64 = 1 << ORDER;

#[derive(Debug, Default)]
struct Range {
    base_pages: u32,
    files: u32,
    /// True if a page of the range is ever unmapped. Such ranges stay in base pages, because a huge
    /// page is unmapped only as a whole.
    unmapped: bool,
}

/// Rewrites the windows so that dense ranges are one page each, allocated when the first of their
/// base pages was. Pages are numbered again.
pub fn coalesce(windows: &mut [Window]) {
    let (allocations, ranges) = survey(windows);
    let is_huge = |vpn: u64| {
        let range = &ranges[&(vpn / SPAN)];
        u64::from(range.base_pages) >= SPAN / 2 && range.files == 0 && !range.unmapped
    };
    let mut numbers: Vec<u32> = vec![u32::MAX; allocations.len()];
    let mut huge: BTreeMap<u64, u32> = BTreeMap::new();
    let mut next = 0u32;
    for window in windows {
        let mut kept = Vec::with_capacity(window.allocations.len());
        for allocation in &window.allocations {
            let range = allocation.vpn / SPAN;
            let joined = if is_huge(allocation.vpn) { huge.get(&range).copied() } else { None };
            numbers[allocation.page as usize] = joined.unwrap_or_else(|| {
                let allocated = if is_huge(allocation.vpn) {
                    Allocation { vpn: range * SPAN, order: ORDER, ..*allocation }
                } else {
                    *allocation
                };
                kept.push(Allocation { page: next, ..allocated });
                if allocated.order == ORDER {
                    huge.insert(range, next);
                }
                next += 1;
                next - 1
            });
        }
        window.allocations = kept;
        merge_accesses(&mut window.accesses, &numbers);
        window.unmaps.iter_mut().for_each(|p| *p = numbers[*p as usize]);
        window.unmaps.sort_unstable();
    }
}

fn survey(windows: &[Window]) -> (Vec<u64>, BTreeMap<u64, Range>) {
    let mut vpns = Vec::new();
    let mut ranges: BTreeMap<u64, Range> = BTreeMap::new();
    for window in windows {
        for allocation in &window.allocations {
            let index = allocation.page as usize;
            if index >= vpns.len() {
                vpns.resize(index + 1, 0);
            }
            vpns[index] = allocation.vpn;
            let range = ranges.entry(allocation.vpn / SPAN).or_default();
            range.base_pages += 1;
            range.files += u32::from(allocation.kind == PageBacking::File);
        }
        for &page in &window.unmaps {
            if let Some(range) =
                vpns.get(page as usize).and_then(|vpn| ranges.get_mut(&(vpn / SPAN)))
            {
                range.unmapped = true;
            }
        }
    }
    (vpns, ranges)
}

fn merge_accesses(accesses: &mut Vec<PageAccess>, numbers: &[u32]) {
    accesses.iter_mut().for_each(|a| a.page = numbers[a.page as usize]);
    accesses.sort_by_key(|a| a.page);
    accesses.dedup_by(|next, kept| {
        if next.page != kept.page {
            return false;
        }
        kept.loads = kept.loads.saturating_add(next.loads);
        kept.stores = kept.stores.saturating_add(next.stores);
        kept.load_misses = kept.load_misses.saturating_add(next.load_misses);
        kept.store_misses = kept.store_misses.saturating_add(next.store_misses);
        kept.supervised = kept.supervised.saturating_add(next.supervised);
        kept.thread = next.thread;
        true
    });
}
