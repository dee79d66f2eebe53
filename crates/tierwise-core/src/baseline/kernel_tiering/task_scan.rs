//! The scan of one process's memory, on the clock of its own run time (`kernel/sched/fair.c`; the
//! rules are alike in 6.12 and 7.3).
//!
//! - `task_tick_numa`: a scan is due when the task has run for one period since its stamp, and the
//!   wall clock has reached the process's next scan. The stamp advances by a period each time, even
//!   if the wall clock has not reached the next scan.
//! - `task_numa_work`: the first due time only sets the next scan, `scan_delay` later. A scan takes
//!   `scan_size` of address space in which it poisons anything, and passes over eight times as much
//!   at most. It adds two ticks to the stamp, and 32 times the run time that the scan took, so that
//!   scanning takes 3 % of the task's time at most. A task's run time is counted at the scheduler's
//!   tick, so a scan shorter than a tick may cost nothing.
//! - `update_task_scan_period`: the first counted fault after each pass over the memory doubles the
//!   period, up to `scan_period_max`, and the next scan is one period away. That is the branch for
//!   faults none of which is local or shared. Under memory tiering it is the only one:
//!   `task_numa_fault` counts a fault on a slow page only if the page was promoted, a page on the
//!   slow node is never local (`numa_migrate_check`), and its faults are private because its
//!   `last_cpupid` has the time of its scan.
//! - `task_scan_min`, `task_scan_max`: the bounds of the period.
//! - `init_numa_balancing`: the first thread that a process makes sets the process's next scan,
//!   `scan_delay` later: it finds one user of the memory, its maker. So the first due time of a
//!   process with threads scans, and that of another one only sets the next scan.
//! - `init_numa_balancing`: a thread, or a program started by vfork (`posix_spawn`, Python's
//!   `subprocess`), has a stamp from its start, and keeps as its first period the `scan_delay` at
//!   its fork. A program started by a plain fork takes `task_scan_start`.
//!
//! Not modelled: threads scan one process in turns (a tenant is one task here, the mean of its
//! threads), and 6.12 and later skip areas that the thread has not accessed (`vma_is_accessed`).

use std::time::Duration;

use crate::config::{ConfigError, Section};
use crate::page::PageTable;
use crate::units::{Bytes, PageId, Pages, TenantId, TierId, Timestamp};

/// A scheduler tick at `HZ` = 250, as Debian and Ubuntu configure it.
pub(super) const TICK: Duration = Duration::from_millis(4);

/// `task_numa_work`: the run time that passes for each unit of run time that a scan took.
const SCAN_SHARE: u32 = 32;

/// `task_numa_work`: address space passed over, as a multiple of the address space scanned.
const PASS_OVER: u64 = 8;

/// `MAX_SCAN_WINDOW`: MiB of a process that are scanned per second at most.
const MAX_SCAN_WINDOW: u64 = 2560;

/// The scanner's settings (`/sys/kernel/debug/sched/numa_balancing`).
#[derive(Debug, Clone, Copy)]
pub(super) struct ScanSettings {
    size: Bytes,
    period_min: Duration,
    period_max: Duration,
    delay: Duration,
    /// `None`: `task_scan_start`.
    first_period: Option<Duration>,
    /// Run time of each process's thread when the policy starts.
    ran: Duration,
    /// Processes have made a thread.
    threaded: bool,
}

impl ScanSettings {
    /// Reads `scan_size`, `scan_period_min_ms`, `scan_period_max_ms`, `scan_delay_ms`,
    /// `first_period_ms` (1000; 0 for `task_scan_start`), `ran_ms` (0: as the world reports) and
    /// `threaded`.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub(super) fn read(section: &Section<'_>) -> Result<Self, ConfigError> {
        let ms = Duration::from_millis;
        let first = section.millis_or("first_period_ms", ms(1000), 0..=600_000)?;
        Ok(Self {
            size: section.paged_or("scan_size", Bytes(256 << 20))?,
            period_min: section.millis_or("scan_period_min_ms", ms(1000), 1..=600_000)?,
            period_max: section.millis_or("scan_period_max_ms", ms(60_000), 1..=600_000)?,
            delay: section.millis_or("scan_delay_ms", ms(1000), 0..=600_000)?,
            first_period: Some(first).filter(|period| !period.is_zero()),
            ran: section.millis_or("ran_ms", Duration::ZERO, 0..=3_600_000)?,
            threaded: section.flag_or("threaded", false)?,
        })
    }

    /// `scan_period_max_ms`, which is also the period in which the hot threshold is adjusted.
    pub(super) fn period_max(&self) -> Duration {
        self.period_max
    }

    /// The run time of a process's thread that the policy finds at its start; zero if the world's
    /// readings count.
    pub(super) fn ran(&self) -> Duration {
        self.ran
    }

    /// `task_nr_scan_windows`: scans that the resident memory takes.
    fn windows(&self, resident: Bytes) -> u32 {
        u32::try_from(resident.0.div_ceil(self.size.0).max(1)).unwrap_or(u32::MAX)
    }

    /// `task_scan_min`, and `task_scan_start` of a process without a NUMA group.
    fn shortest(&self, resident: Bytes) -> Duration {
        let size_mib = (self.size.0 >> 20).max(1);
        let windows = (MAX_SCAN_WINDOW / size_mib).max(1);
        let floor = Duration::from_millis(1000 / windows);
        whole_ms(self.period_min / self.windows(resident)).max(floor).max(Duration::from_millis(1))
    }

    /// `task_scan_max`.
    fn longest(&self, resident: Bytes) -> Duration {
        whole_ms(self.period_max / self.windows(resident)).max(self.shortest(resident))
    }
}

/// The kernel counts periods in whole milliseconds.
fn whole_ms(time: Duration) -> Duration {
    Duration::from_millis(time.as_millis() as u64)
}

/// The memory of a process that may be scanned.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScannedProcess<'a> {
    pub(super) settings: &'a ScanSettings,
    /// The process's memory in all tiers.
    pub(super) resident: Bytes,
    /// All pages, those of other tenants among them.
    pub(super) pages: &'a PageTable,
    /// Run time of poisoning one base page.
    pub(super) poison_cost: Duration,
    pub(super) page_size: Bytes,
}

/// One process and its scanning thread.
#[derive(Debug, Clone)]
pub(super) struct TaskScan {
    tenant: TenantId,
    /// `sum_exec_runtime`.
    run_time: Duration,
    /// `node_stamp`, in run time.
    stamp: Duration,
    /// `numa_scan_period`; `None` until the first due time.
    period: Option<Duration>,
    /// `mm->numa_next_scan`; `None` before the first due time.
    next_scan: Option<Timestamp>,
    /// `mm->numa_scan_seq`: whole passes over the memory.
    passes: u64,
    /// `numa_scan_seq` of the task: the passes whose faults were accounted.
    accounted: u64,
    /// `mm->numa_scan_offset`.
    cursor: u32,
}

impl TaskScan {
    /// A process whose thread has run for `ran` at `now`. If it has made a thread, the delay of its
    /// first scan began then: it has passed if the process is older than the policy.
    pub(super) fn new(
        tenant: TenantId,
        settings: &ScanSettings,
        ran: Duration,
        now: Timestamp,
    ) -> Self {
        let delay = if ran.is_zero() { settings.delay } else { Duration::ZERO };
        Self {
            tenant,
            run_time: ran,
            stamp: Duration::ZERO,
            period: settings.first_period,
            next_scan: settings.threaded.then_some(now + delay),
            passes: 0,
            accounted: 0,
            cursor: 0,
        }
    }

    /// Adds run time of the task.
    pub(super) fn ran(&mut self, time: Duration) {
        self.run_time += time;
    }

    /// Sets the run time of the task.
    pub(super) fn set_run_time(&mut self, time: Duration) {
        self.run_time = time;
    }

    /// The earliest time at which a scan can be due.
    pub(super) fn due(&self, now: Timestamp) -> Timestamp {
        let missing = (self.stamp + self.period.unwrap_or_default()).saturating_sub(self.run_time);
        // The tick that finds the scan due comes after the due time.
        let at = now + missing + TICK;
        self.next_scan.map_or(at, |next| at.max(next))
    }

    /// `task_tick_numa`. Scans if a scan is due: calls `poison` for each page of a tier other than
    /// the fastest, which returns true if the page was not poisoned yet.
    pub(super) fn tick(
        &mut self,
        now: Timestamp,
        process: &ScannedProcess<'_>,
        poison: impl FnMut(PageId) -> bool,
    ) {
        let ScannedProcess { settings, resident, pages, poison_cost, page_size } = *process;
        let mut due = false;
        while self.run_time > self.stamp + self.period.unwrap_or_default() {
            let start = settings.shortest(resident);
            self.stamp += *self.period.get_or_insert(start);
            due |= match self.next_scan {
                Some(next) => now >= next,
                None => {
                    self.next_scan = Some(now + settings.delay);
                    settings.delay.is_zero()
                }
            };
        }
        if due {
            self.next_scan = Some(now + self.period.unwrap_or_default());
            let poisoned = self.scan(settings.size.in_pages(page_size), pages, poison);
            let took = poison_cost.saturating_mul(u32::try_from(poisoned.0).unwrap_or(u32::MAX));
            let ticks = (took.as_nanos() / TICK.as_nanos()) as u32;
            self.stamp += 2 * TICK + SCAN_SHARE * TICK * ticks;
        }
    }

    /// `task_numa_work`'s loop. Returns the base pages that it poisoned.
    fn scan(
        &mut self,
        size: Pages,
        pages: &PageTable,
        mut poison: impl FnMut(PageId) -> bool,
    ) -> Pages {
        let mut left = size.0.max(1);
        let mut pass_over = left.saturating_mul(PASS_OVER);
        let mut poisoned = Pages(0);
        while left > 0 && pass_over > 0 && (self.cursor as usize) < pages.len() {
            let (passed, found) = self.scan_piece(left.min(pass_over), pages, &mut poison);
            poisoned += found;
            if found > Pages(0) {
                left = left.saturating_sub(passed);
            }
            pass_over = pass_over.saturating_sub(passed);
        }
        if self.cursor as usize >= pages.len() {
            // `reset_ptenuma_scan`
            self.cursor = 0;
            self.passes += 1;
        }
        poisoned
    }

    /// Passes over up to `size` base pages of the process. Returns the base pages passed over and
    /// those poisoned.
    fn scan_piece(
        &mut self,
        size: u64,
        pages: &PageTable,
        poison: &mut impl FnMut(PageId) -> bool,
    ) -> (u64, Pages) {
        let (mut passed, mut found) = (0, Pages(0));
        while passed < size && (self.cursor as usize) < pages.len() {
            let page = PageId(self.cursor);
            self.cursor += 1;
            let Some(tier) = pages.tier(page).filter(|_| pages.tenant(page) == self.tenant) else {
                continue;
            };
            let frames = pages.frames(page);
            passed += frames;
            if tier != TierId::FASTEST && poison(page) {
                found += Pages(frames);
            }
        }
        (passed, found)
    }

    /// `task_numa_fault` and `update_task_scan_period`, for a fault that promoted its page.
    pub(super) fn on_promoted(&mut self, at: Timestamp, settings: &ScanSettings, resident: Bytes) {
        if self.accounted == self.passes {
            return;
        }
        self.accounted = self.passes;
        let period = self.period.unwrap_or_default() * 2;
        let period = period.min(settings.longest(resident));
        self.period = Some(period);
        self.next_scan = Some(at + period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Document;
    use crate::page::{Attributes, PageKind};

    const PAGE: Bytes = Bytes(4096);
    const MS: Duration = Duration::from_millis(1);

    fn settings(text: &str) -> ScanSettings {
        let document = Document::parse("t.toml", text).unwrap();
        ScanSettings::read(&document.root()).unwrap()
    }

    fn table(pages: u32) -> PageTable {
        let mut table = PageTable::default();
        let (tenant, tier) = (TenantId(0), TierId(1));
        for page in 0..pages {
            let attributes = Attributes { tenant, tier, kind: PageKind::Anon, order: 0 };
            table.insert(PageId(page), attributes);
        }
        table
    }

    /// A task that always runs, whose first fault after each scan is promoted. Returns the times of
    /// its scans in milliseconds.
    struct Machine {
        settings: ScanSettings,
        task: TaskScan,
        pages: PageTable,
        cost: Duration,
        now: Timestamp,
    }

    impl Machine {
        fn new(text: &str, pages: u32) -> Self {
            let settings = settings(text);
            let (cost, now) = (Duration::ZERO, Timestamp::ZERO);
            let task = TaskScan::new(TenantId(0), &settings, settings.ran(), now);
            Self { settings, task, pages: table(pages), cost, now }
        }

        /// Runs the task for `share` of each tick until `end` ms; `promotes` the faults of scans.
        fn scans(&mut self, end: u64, share: f64, promotes: bool) -> Vec<u64> {
            let mut times = Vec::new();
            while self.now < Timestamp(end * 1_000_000) {
                self.now = self.now + TICK;
                self.task.ran(TICK.mul_f64(share));
                let mut poisoned = 0;
                let resident = self.pages.present().in_bytes(PAGE);
                let process = ScannedProcess {
                    settings: &self.settings,
                    resident,
                    pages: &self.pages,
                    poison_cost: self.cost,
                    page_size: PAGE,
                };
                self.task.tick(self.now, &process, |_| {
                    poisoned += 1;
                    true
                });
                if poisoned > 0 {
                    times.push(self.now.0 / 1_000_000);
                    if promotes {
                        self.task.on_promoted(self.now, &self.settings, resident);
                    }
                }
            }
            times
        }
    }

    #[test]
    fn promoted_faults_double_the_period() {
        let times = Machine::new("", 10).scans(40_000, 1.0, true);
        // The first due time, after a second, only sets the next scan. The rest follows: 2, 4, 8
        // and 16 s between scans, and the two ticks that each scan adds.
        let between: Vec<u64> = times.windows(2).map(|two| two[1] - two[0]).collect();
        assert_eq!(between.len(), 4, "{times:?}");
        for (found, expected) in between.into_iter().zip([2000, 4000, 8000, 16_000]) {
            assert!((expected..=expected + 12).contains(&found), "{times:?}");
        }
    }

    #[test]
    fn without_promotions_the_period_stays() {
        let times = Machine::new("", 10).scans(10_000, 1.0, false);
        assert!((8..=9).contains(&times.len()), "{times:?}");
    }

    #[test]
    fn a_waiting_task_is_scanned_less() {
        let half = Machine::new("", 10).scans(20_000, 0.5, false);
        assert!((8..=9).contains(&half.len()), "a second of run time is two of the wall: {half:?}");
    }

    #[test]
    fn scans_take_three_percent_at_most() {
        let mut machine = Machine::new("scan_period_min_ms = 100\nfirst_period_ms = 0", 100);
        let fast = machine.scans(10_000, 1.0, false).len();
        // 100 pages of 400 us: 40 ms, so 32 times 40 ms must pass before the next period counts.
        machine.cost = 400_000 * Duration::from_nanos(1);
        let slow = machine.scans(20_000, 1.0, false).len();
        assert!(fast > 80, "{fast}");
        assert!((6..=8).contains(&slow), "every 1.28 + 0.1 s: {slow}");
    }

    #[test]
    fn a_forked_program_takes_the_set_period() {
        let mut forked = Machine::new("scan_period_min_ms = 100\nfirst_period_ms = 0", 10);
        let mut spawned = Machine::new("scan_period_min_ms = 100", 10);
        assert!(forked.scans(5000, 1.0, false).len() > 30);
        assert!(spawned.scans(5000, 1.0, false).len() < 5);
    }

    /// A guest's Memcached had run for 653 ms, and was scanned within 380 ms of run time. The next
    /// scan follows after two periods and the pause that the first one causes.
    #[test]
    fn threaded_process_scans_when_first_due() {
        let mut threaded = Machine::new("ran_ms = 653\nthreaded = true", 10);
        threaded.cost = 1_600_000 * Duration::from_nanos(1);
        let times = threaded.scans(4000, 1.0, true);
        assert_eq!(times.len(), 2, "{times:?}");
        // 10 pages of 1.6 ms are four ticks: 32 times 16 ms.
        assert!((348..=356).contains(&times[0]), "{times:?}");
        assert!((2868..=2888).contains(&times[1]), "{times:?}");
    }

    /// A guest's stairs has one thread, and had run for 549 ms: its first scan came 1.46 s later.
    #[test]
    fn unthreaded_process_waits_for_the_delay() {
        let times = Machine::new("ran_ms = 549\nscan_delay_ms = 100", 10).scans(2000, 1.0, true);
        assert!((1452..=1460).contains(&times[0]), "{times:?}");
    }

    #[test]
    fn scan_counts_address_space_not_pages() {
        let mut machine = Machine::new("scan_size = \"16KiB\"", 10);
        let pages = &machine.pages;
        // Only page 1 is not poisoned yet: its piece of four pages counts as scanned.
        let found = machine.task.scan(Pages(4), pages, |page| page == PageId(1));
        assert_eq!((found, machine.task.cursor, machine.task.passes), (Pages(1), 4, 0));
        // Nothing to poison: eight pieces are passed over, which ends the memory.
        machine.task.scan(Pages(4), pages, |_| false);
        assert_eq!((machine.task.cursor, machine.task.passes), (0, 1));
    }

    #[test]
    fn period_keeps_within_the_kernels_bounds() {
        let settings = settings("");
        assert_eq!(settings.shortest(Bytes(1 << 30)), 250 * MS);
        assert_eq!(settings.shortest(Bytes(1 << 40)), 100 * MS, "2560 MiB per second");
        assert_eq!(settings.longest(Bytes(1 << 30)), 15_000 * MS);
    }
}
