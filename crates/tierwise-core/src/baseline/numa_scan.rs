//! The NUMA-balancing scanner: it makes pages inaccessible (`PROT_NONE`) piece by piece, so that
//! the next access to each is a hint fault.
//!
//! It follows `kernel/sched/fair.c` (`task_numa_work`, `task_scan_min`). A scan visits the next
//! `scan_size` of memory (`numa_balancing/scan_size_mb`, 256 MiB) that it can poison, but passes
//! over at most eight times as much. At the end of the address space it stops and the next scan
//! starts from the first address. The period is `scan_period_min` (1000 ms) divided by the number
//! of scans that the resident memory takes, and never so short that more than 2560 MiB per second
//! are scanned. Up to that size all memory is scanned once per `scan_period_min`.
//!
//! The kernel scans each process by itself, when the process runs. Here one cursor goes over all
//! pages, and a scan has the size of one scan for each running tenant together. The kernel also
//! lengthens the period of a process whose fast-tier pages keep faulting, up to 60 s. That is left
//! out, and cannot occur under memory tiering, where faults on slow pages do not count for it
//! (`task_numa_fault`).
//!
//! A page that is poisoned already stays as it was (`change_pte_range`), and counts only for the
//! distance passed over.

use std::time::Duration;

use crate::config::{ConfigError, Section};
use crate::migrate::{MigrationPlan, MoveOutcome, PageRange};
use crate::observe::{HintFault, Observation};
use crate::page::PageTable;
use crate::policy::PlanContext;
use crate::units::{Bytes, PageId, TierId, Timestamp};

/// `MAX_SCAN_WINDOW`: the maximum of a process's memory that is scanned per second.
const MAX_SCAN_WINDOW: Bytes = Bytes(2560 << 20);

/// `task_numa_work`: address space passed over, as a multiple of the memory poisoned.
const PASS_OVER: u64 = 8;

/// `numa_balancing/scan_delay_ms`: the time before the first scan of a new process, by default.
const SCAN_DELAY: Duration = Duration::from_millis(1000);

/// The shortest scan period: the kernel counts `numa_scan_period` in whole milliseconds.
const SHORTEST: Duration = Duration::from_millis(1);

/// The tiers whose pages are poisoned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tiers {
    /// All: conventional NUMA balancing (`NUMA_BALANCING_NORMAL`).
    All,
    /// All but the fastest: memory tiering (`NUMA_BALANCING_MEMORY_TIERING`).
    Slow,
}

/// The scanner, and the hint faults on poisoned pages since the last plan.
#[derive(Debug)]
pub(super) struct NumaScanner {
    size: Bytes,
    period_min: Duration,
    tiers: Tiers,
    cursor: u32,
    due: Timestamp,
    poisoned: Vec<u64>,
    faults: Vec<HintFault>,
}

impl NumaScanner {
    /// Reads `scan_size`, `scan_period_min_ms` and `scan_delay_ms`.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub(super) fn read(section: &Section<'_>, tiers: Tiers) -> Result<Self, ConfigError> {
        let period_min =
            section.millis_or("scan_period_min_ms", Duration::from_secs(1), 1..=60_000)?;
        let delay = section.millis_or("scan_delay_ms", SCAN_DELAY, 0..=600_000)?;
        Ok(Self {
            size: section.paged_or("scan_size", Bytes(256 << 20))?,
            period_min,
            tiers,
            cursor: 0,
            due: Timestamp::ZERO + delay,
            poisoned: Vec::new(),
            faults: Vec::new(),
        })
    }

    /// The time of the next scan.
    pub(super) fn due(&self) -> Timestamp {
        self.due
    }

    /// Keeps the hint faults for the plan. A page that faulted, was allocated or was freed is not
    /// poisoned.
    pub(super) fn on_observation(&mut self, obs: &Observation) {
        obs.allocated
            .iter()
            .flat_map(|allocated| allocated.pages())
            .for_each(|page| self.unpoison(page));
        obs.freed.iter().for_each(|&page| self.unpoison(page));
        for fault in &obs.hint_faults {
            self.unpoison(fault.page);
            self.faults.push(*fault);
        }
    }

    /// A page that moved has a new page table entry, which is not poisoned.
    pub(super) fn on_outcomes(&mut self, outcomes: &[MoveOutcome]) {
        outcomes.iter().filter(|o| o.result.is_ok()).for_each(|o| self.unpoison(o.page));
    }

    /// Lends the faults to the plan; [`NumaScanner::done_with`] takes the buffer back.
    pub(super) fn take_faults(&mut self) -> Vec<HintFault> {
        std::mem::take(&mut self.faults)
    }

    /// Takes the buffer of the handled faults back, so that its memory is used again.
    pub(super) fn done_with(&mut self, mut faults: Vec<HintFault>) {
        faults.clear();
        self.faults = faults;
    }

    /// Scans if a scan is due. Calls `visit` for each page that may be poisoned, with true if it
    /// was accessed since it was last poisoned.
    pub(super) fn run(
        &mut self,
        now: Timestamp,
        ctx: &mut PlanContext<'_>,
        plan: &mut MigrationPlan,
        visit: impl FnMut(PageId, bool, &PageTable),
    ) {
        if now < self.due {
            return;
        }
        let tasks = ctx.tenants.iter().filter(|t| t.running).count().max(1) as u64;
        let size = Bytes(self.size.0.saturating_mul(tasks));
        let resident = ctx.pages.present().in_bytes(ctx.topology.page_size);
        self.due = now + self.period(resident, size, tasks);
        self.scan(size.in_pages(ctx.topology.page_size).0.max(1), ctx.pages, plan, visit);
    }

    /// `task_scan_min`.
    fn period(&self, resident: Bytes, size: Bytes, tasks: u64) -> Duration {
        let scans = resident.0.div_ceil(size.0).max(1);
        let fastest = size.0 as f64 / (MAX_SCAN_WINDOW.0 * tasks) as f64;
        self.period_min.div_f64(scans as f64).max(Duration::from_secs_f64(fastest)).max(SHORTEST)
    }

    fn scan(
        &mut self,
        frames: u64,
        pages: &PageTable,
        plan: &mut MigrationPlan,
        mut visit: impl FnMut(PageId, bool, &PageTable),
    ) {
        let mut left = frames;
        let mut pass_over = frames.saturating_mul(PASS_OVER);
        while left > 0 && pass_over > 0 && (self.cursor as usize) < pages.len() {
            let page = PageId(self.cursor);
            self.cursor += 1;
            let Some(tier) = pages.tier(page) else { continue };
            pass_over = pass_over.saturating_sub(pages.frames(page));
            if self.tiers == Tiers::Slow && tier == TierId::FASTEST {
                continue;
            }
            let accessed = self.poison(page);
            visit(page, accessed, pages);
            if accessed {
                left = left.saturating_sub(pages.frames(page));
                append(&mut plan.poison, page);
            }
        }
        if self.cursor as usize >= pages.len() {
            self.cursor = 0;
        }
    }

    /// Poisons a page. Returns true if it was not poisoned yet.
    fn poison(&mut self, page: PageId) -> bool {
        let (word, bit) = (page.index() / 64, 1 << (page.index() % 64));
        if word >= self.poisoned.len() {
            self.poisoned.resize(word + 1, 0);
        }
        let before = self.poisoned[word];
        self.poisoned[word] |= bit;
        before & bit == 0
    }

    fn unpoison(&mut self, page: PageId) {
        if let Some(word) = self.poisoned.get_mut(page.index() / 64) {
            *word &= !(1 << (page.index() % 64));
        }
    }
}

/// Adds a page to the last range if the page follows that range, else as a new range.
fn append(ranges: &mut Vec<PageRange>, page: PageId) {
    match ranges.last_mut() {
        Some(last) if last.first.0 + last.count == page.0 => last.count += 1,
        _ => ranges.push(PageRange { first: page, count: 1 }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{PolicyFixture, SECOND};
    use super::*;

    fn scanner(text: &str, tiers: Tiers) -> NumaScanner {
        let document = crate::config::Document::parse("t.toml", text).unwrap();
        NumaScanner::read(&document.root(), tiers).unwrap()
    }

    fn scan(scanner: &mut NumaScanner, at: u64, machine: &mut PolicyFixture) -> Vec<(u32, u32)> {
        let mut plan = MigrationPlan::default();
        scanner.run(Timestamp(at), &mut machine.context(), &mut plan, |_, _, _| ());
        plan.poison.iter().map(|r| (r.first.0, r.count)).collect()
    }

    #[test]
    fn memory_tiering_poisons_slow_pages_once() {
        let mut machine = PolicyFixture::two_tiers();
        machine.allocated(0..4, 0).allocated(4..8, 1).allocated(10..12, 1);
        let mut scanner = scanner("", Tiers::Slow);
        assert_eq!(scan(&mut scanner, SECOND - 1, &mut machine), []);
        assert_eq!(scan(&mut scanner, SECOND, &mut machine), [(4, 4), (10, 2)]);
        assert_eq!(scan(&mut scanner, 2 * SECOND, &mut machine), [], "they are poisoned still");

        let fault = HintFault {
            page: PageId(5),
            poisoned_at: Timestamp(SECOND),
            at: Timestamp(SECOND + 1),
            write: false,
        };
        scanner.on_observation(&Observation { hint_faults: vec![fault], ..Observation::default() });
        assert_eq!(scan(&mut scanner, 3 * SECOND, &mut machine), [(5, 1)]);
    }

    #[test]
    fn scan_ends_at_its_size_and_resumes() {
        let mut machine = PolicyFixture::two_tiers();
        machine.allocated(0..10, 1);
        let mut scanner = scanner("scan_size = \"16KiB\"", Tiers::All);
        assert_eq!(scan(&mut scanner, SECOND, &mut machine), [(0, 4)]);
        // Ten pages take three scans, so a scan comes every third of a second.
        assert_eq!(scanner.due(), Timestamp(SECOND) + Duration::from_secs(1).div_f64(3.0));
        assert_eq!(scan(&mut scanner, 2 * SECOND, &mut machine), [(4, 4)]);
        assert_eq!(scan(&mut scanner, 3 * SECOND, &mut machine), [(8, 2)]);
        // The end of the address space was reached, so the scan starts from the first page.
        let moved =
            MoveOutcome { page: PageId(1), from: Some(TierId(1)), to: TierId(0), result: Ok(()) };
        scanner.on_outcomes(&[moved]);
        assert_eq!(scan(&mut scanner, 4 * SECOND, &mut machine), [(1, 1)]);
    }

    #[test]
    fn scan_skips_eight_times_its_size() {
        let mut machine = PolicyFixture::two_tiers();
        machine.allocated(0..40, 0).allocated(40..42, 1);
        let mut scanner = scanner("scan_size = \"16KiB\"", Tiers::Slow);
        assert_eq!(scan(&mut scanner, SECOND, &mut machine), [], "32 fast pages were passed over");
        assert_eq!(scan(&mut scanner, 2 * SECOND, &mut machine), [(40, 2)]);
    }

    #[test]
    fn the_period_has_the_kernels_floor() {
        let scanner = scanner("", Tiers::All);
        let size = Bytes(256 << 20);
        assert_eq!(scanner.period(Bytes(0), size, 1), Duration::from_secs(1));
        assert_eq!(scanner.period(Bytes(1 << 30), size, 1), Duration::from_millis(250));
        // 1000 ms / (2560 MB / 256 MB)
        assert_eq!(scanner.period(Bytes(1 << 40), size, 1), Duration::from_millis(100));
        // A page of a large program: the kernel counts in milliseconds.
        assert_eq!(scanner.period(Bytes(1 << 40), Bytes(4096), 1), Duration::from_millis(1));
    }
}
