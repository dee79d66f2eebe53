//! Converts DAMON's reports to a trace's windows, without input or output.
//!
//! DAMON checks one page of each region every sampling interval. Over an aggregation interval it
//! counts how often the page was found accessed (`nr_accesses`). It assumes that the pages of a
//! region are alike. So a window gives every resident page of a region `nr_accesses` loads, each of
//! which counts as a miss: DAMON detects neither caches nor writes. An *access* of such a trace is
//! therefore "one check found the page accessed", and never more than
//! [`AccessReport::max_accesses`] in a window.
//!
//! In the first window every page appears. The windows after it are the phase "run", which a
//! scenario can measure alone.

use std::collections::BTreeMap;

use tierwise_linux::monitor::{AccessReport, ProcessRegion};
use tierwise_linux::process::{AddressRange, Process};
use tierwise_trace::{Allocation, PageAccess, PageBacking, ThreadShare, Window};

/// Bytes of a page of the trace: the base page.
pub const PAGE_SIZE: u64 = 4096;

/// The resident pages of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resident {
    /// The process.
    pub process: Process,
    /// Page ranges, ascending, in bytes.
    pub ranges: Vec<AddressRange>,
}

/// The pages of a recording so far.
#[derive(Debug, Default)]
pub struct RecordedPages {
    /// The number of each page that exists now.
    pages: BTreeMap<(Process, u64), u32>,
    allocated: u32,
    windows: u64,
}

impl RecordedPages {
    /// Makes the window of a collection: DAMON's `report`, among the pages `resident` now. A new
    /// page is allocated and counts as accessed at least once, because a touch made it resident; a
    /// page that is no longer resident is unmapped.
    pub fn window(
        &mut self,
        report: &AccessReport,
        resident: &[Resident],
        instructions: u64,
        out: &mut Window,
    ) {
        out.clear();
        out.instructions = instructions;
        out.threads.push(ThreadShare { thread: 0, instructions });
        if self.windows == 1 {
            out.marks.push("run".into());
        }
        self.windows += 1;
        let mut before = std::mem::take(&mut self.pages);
        for process in resident {
            let who = process.process;
            let own = report.regions.iter().filter(|r| r.process == who);
            let mut regions = Ascending { regions: own.collect(), at: 0 };
            let ranges = process.ranges.iter();
            for address in ranges.flat_map(|r| (r.start..r.end).step_by(PAGE_SIZE as usize)) {
                let old = before.remove(&(who, address));
                let checks = regions.accesses(address);
                let page = old.unwrap_or_else(|| self.allocation(address, out));
                self.pages.insert((who, address), page);
                let loads = if old.is_none() { checks.max(1) } else { checks };
                if loads > 0 {
                    out.accesses.push(access(page, loads));
                }
            }
        }
        out.unmaps.extend(before.into_values());
        out.unmaps.sort_unstable();
        out.accesses.sort_unstable_by_key(|access| access.page);
    }

    fn allocation(&mut self, address: u64, out: &mut Window) -> u32 {
        let page = self.allocated;
        self.allocated += 1;
        let vpn = address / PAGE_SIZE;
        out.allocations.push(Allocation {
            page,
            vpn,
            kind: PageBacking::Anon,
            order: 0,
            thread: 0,
        });
        page
    }
}

fn access(page: u32, loads: u32) -> PageAccess {
    PageAccess {
        page,
        loads,
        stores: 0,
        load_misses: loads,
        store_misses: 0,
        supervised: 0,
        thread: 0,
    }
}

/// The regions of a process, for queries with ascending addresses.
struct Ascending<'a> {
    regions: Vec<&'a ProcessRegion>,
    at: usize,
}

impl Ascending<'_> {
    /// Returns how often the region at an address was found accessed; 0 outside all regions.
    fn accesses(&mut self, address: u64) -> u32 {
        while self.regions.get(self.at).is_some_and(|r| r.region.end <= address) {
            self.at += 1;
        }
        let here = self.regions.get(self.at).filter(|r| r.region.start <= address);
        here.map_or(0, |r| r.region.nr_accesses)
    }
}

#[cfg(test)]
mod tests {
    use tierwise_linux::damon::HostRegion;

    use super::*;

    const KI: u64 = 1024;

    fn process(pid: i32) -> Process {
        Process { pid, start_time: 1 }
    }

    fn report(regions: &[(i32, u64, u64, u32)]) -> AccessReport {
        let region = |&(pid, start, end, nr_accesses): &(i32, u64, u64, u32)| ProcessRegion {
            process: process(pid),
            region: HostRegion { start: start * KI, end: end * KI, nr_accesses, age: 0 },
        };
        let regions = regions.iter().map(region).collect();
        AccessReport { regions, max_accesses: 20, ..AccessReport::default() }
    }

    fn resident(pid: i32, ranges: &[(u64, u64)]) -> Resident {
        let range = |&(start, end): &(u64, u64)| AddressRange {
            start: start * KI,
            end: end * KI,
            huge: false,
        };
        Resident { process: process(pid), ranges: ranges.iter().map(range).collect() }
    }

    fn loads(window: &Window) -> Vec<(u32, u32)> {
        window.accesses.iter().map(|a| (a.page, a.loads)).collect()
    }

    #[test]
    fn resident_pages_share_their_regions_accesses() {
        let mut projection = RecordedPages::default();
        let mut window = Window::default();
        // 0 to 16 KiB is hot, 16 to 40 cold; 8 to 12 and 20 to 32 are not resident.
        let report = report(&[(7, 0, 16, 20), (7, 16, 40, 0)]);
        let here = [resident(7, &[(0, 8), (12, 20), (32, 40)])];
        projection.window(&report, &here, 1000, &mut window);
        let vpns: Vec<u64> = window.allocations.iter().map(|b| b.vpn).collect();
        assert_eq!(vpns, [0, 1, 3, 4, 8, 9]);
        assert_eq!(loads(&window), [(0, 20), (1, 20), (2, 20), (3, 1), (4, 1), (5, 1)]);
        assert!(window.accesses.iter().all(|a| a.load_misses == a.loads && a.stores == 0));
        assert_eq!((window.instructions, window.threads[0].instructions), (1000, 1000));

        projection.window(&report, &here, 1000, &mut window);
        assert_eq!(
            loads(&window),
            [(0, 20), (1, 20), (2, 20)],
            "cold pages are not accessed again"
        );
        assert!(window.allocations.is_empty() && window.unmaps.is_empty());
    }

    #[test]
    fn pages_go_and_come_back_as_others() {
        let mut projection = RecordedPages::default();
        let mut window = Window::default();
        projection.window(&report(&[(7, 0, 8, 5)]), &[resident(7, &[(0, 8)])], 1, &mut window);
        projection.window(&report(&[(7, 0, 8, 5)]), &[resident(7, &[(4, 8)])], 1, &mut window);
        assert_eq!((window.unmaps.as_slice(), loads(&window)), (&[0][..], vec![(1, 5)]));
        projection.window(&report(&[(7, 0, 8, 5)]), &[resident(7, &[(0, 8)])], 1, &mut window);
        assert_eq!(
            loads(&window),
            [(1, 5), (2, 5)],
            "the number of a page that went is not given again"
        );
        projection.window(&report(&[]), &[], 1, &mut window);
        assert_eq!(window.unmaps, [1, 2], "its process has ended");
    }

    #[test]
    fn processes_keep_their_pages_apart() {
        let mut projection = RecordedPages::default();
        let mut window = Window::default();
        let both = [resident(7, &[(0, 4)]), resident(9, &[(0, 4)])];
        projection.window(&report(&[(7, 0, 4, 3), (9, 0, 4, 9)]), &both, 1, &mut window);
        assert_eq!(loads(&window), [(0, 3), (1, 9)]);
        // A process without samples in this window: its pages stay as they are.
        projection.window(&report(&[(9, 0, 4, 9)]), &both, 1, &mut window);
        assert_eq!(loads(&window), [(1, 9)]);
        assert!(window.unmaps.is_empty());
    }
}
