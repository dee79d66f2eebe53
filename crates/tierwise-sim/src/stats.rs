//! Statistics of a run: the work that each workload did, the misses that each tier served, the
//! moves, and the CPU time of monitoring and migration; with the timeline and the heat map, if they
//! are kept.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tierwise_core::units::{Pages, TierId};

use crate::memory::Memory;
use crate::requests::tenant::StepWork;
use crate::workload::{Work, Workload};

/// One workload's account.
#[derive(Debug, Clone)]
pub struct WorkloadAccount {
    /// Its work over the whole run.
    pub total: Work,
    /// Its work in the measured part.
    pub measured: Work,
    /// Start of the measured part, in nanoseconds.
    pub measured_from: Option<u64>,
    /// End of the workload, in nanoseconds.
    pub ended: Option<u64>,
    /// Time at which it ran out of memory, in nanoseconds.
    pub out_of_memory: Option<u64>,
    /// Base pages by tier when it ended.
    pub last_usage: Vec<Pages>,
    /// Pages moved to a faster tier.
    pub promotions: u64,
    /// Pages moved to a slower tier.
    pub demotions: u64,
    /// Promotions after which the page was accessed before it left the faster tier.
    pub reaccessed: u64,
    /// Servers' time of a service, in its measured part, in nanoseconds.
    pub busy_ns: f64,
    /// Time of monitoring and migration on its own path, in nanoseconds.
    pub overhead_ns: f64,
    /// Length of its current window, by the last step.
    window_ns: f64,
}

/// All accounts of a run.
#[derive(Debug)]
pub struct Stats {
    /// By workload.
    pub accounts: Vec<WorkloadAccount>,
    /// Bytes moved.
    pub migrated_bytes: f64,
    /// Bytes of the largest page moved.
    pub largest_move: f64,
    /// Time of background cores, in nanoseconds.
    pub background_ns: f64,
    heat: Option<Heat>,
    timeline: Option<Timeline>,
    last_time: u64,
    went_back: bool,
    stepped_ns: u64,
}

impl Stats {
    /// Makes empty accounts.
    pub fn new(workloads: usize, tiers: usize) -> Self {
        let account = WorkloadAccount {
            total: Work::none(tiers),
            measured: Work::none(tiers),
            measured_from: None,
            ended: None,
            out_of_memory: None,
            last_usage: vec![Pages(0); tiers],
            promotions: 0,
            demotions: 0,
            reaccessed: 0,
            busy_ns: 0.0,
            overhead_ns: 0.0,
            window_ns: 0.0,
        };
        Self {
            accounts: vec![account; workloads],
            migrated_bytes: 0.0,
            largest_move: 0.0,
            background_ns: 0.0,
            heat: None,
            timeline: None,
            last_time: 0,
            went_back: false,
            stepped_ns: 0,
        }
    }

    /// Keeps a heat map from now on, for a machine of `pages` pages.
    pub fn keep_heat_map(&mut self, pages: u32, every: Duration) {
        self.heat = Some(Heat::new(pages, every.as_secs_f64()));
    }

    /// The heat map, if one is kept.
    pub fn heat(&self) -> Option<&Heat> {
        self.heat.as_ref()
    }

    /// The heat map, if one is kept, to add accesses.
    pub fn heat_mut(&mut self) -> Option<&mut Heat> {
        self.heat.as_mut()
    }

    /// Keeps a timeline with one point for each interval from now on.
    pub fn keep_timeline(&mut self, every: Duration) {
        self.timeline = Some(Timeline::new(every, &self.accounts));
    }

    /// The timeline's points, if one is kept.
    pub fn timeline(&self) -> Option<&Timeline> {
        self.timeline.as_ref()
    }

    /// Adds a share of a workload's current window (times its dilation) to its account.
    pub fn work(&mut self, i: usize, workload: &Workload, amount: f64) {
        let account = &mut self.accounts[i];
        let measured = workload.windows.is_measured();
        account.total.add(workload, amount);
        if measured {
            account.measured.add(workload, amount);
        }
    }

    /// Adds a step of a service to its account. `idle` is the fast tier's latency for a load and a
    /// store.
    pub fn service(&mut self, i: usize, served: &StepWork, instructions: f64, idle: (f64, f64)) {
        let account = &mut self.accounts[i];
        account.total.add_service(served, instructions, idle);
        account.measured.add_service(served, instructions, idle);
        account.busy_ns += served.busy_ns;
    }

    /// Length of a workload's whole current window, in nanoseconds.
    pub fn recent_window_ns(&self, workload: usize) -> f64 {
        self.accounts[workload].window_ns
    }

    /// Sets the length of a workload's whole current window.
    pub fn set_window_ns(&mut self, workload: usize, ns: f64) {
        self.accounts[workload].window_ns = ns;
    }

    /// Starts the measured part, if it has not started already.
    pub fn start_measuring(&mut self, workload: usize, now: u64) {
        self.accounts[workload].measured_from.get_or_insert(now);
    }

    /// Records the end of a workload and its usage.
    pub fn end(&mut self, workload: usize, now: u64, usage: &[Pages]) {
        let account = &mut self.accounts[workload];
        account.ended = Some(now);
        account.last_usage.copy_from_slice(usage);
    }

    /// Records that a workload was killed because no tier had free memory.
    pub fn out_of_memory(&mut self, workload: usize, now: u64) {
        self.accounts[workload].out_of_memory = Some(now);
    }

    /// Counts a page that moved.
    pub fn moved(&mut self, workload: usize, promotion: bool, bytes: f64) {
        let account = &mut self.accounts[workload];
        account.promotions += u64::from(promotion);
        account.demotions += u64::from(!promotion);
        self.migrated_bytes += bytes;
        self.largest_move = self.largest_move.max(bytes);
    }

    /// Adds time of a background core, in nanoseconds.
    pub fn background(&mut self, ns: f64) {
        self.background_ns += ns;
    }

    /// Adds time that monitoring and migration took on the application's own path, in nanoseconds.
    pub fn application(&mut self, workload: usize, ns: f64) {
        self.accounts[workload].overhead_ns += ns;
    }

    /// CPU seconds of monitoring and migration.
    pub fn overhead_seconds(&self) -> f64 {
        let application: f64 = self.accounts.iter().map(|a| a.overhead_ns).sum();
        (application + self.background_ns) * 1e-9
    }

    /// Records that time advanced to `now`, and adds a point to the timeline if it is due. `usage`
    /// gives a workload's base pages by tier, `p99` the 99th percentile of a service's worst second
    /// since the last call.
    pub fn time<'a>(
        &mut self,
        now: u64,
        usage: impl Fn(usize) -> &'a [Pages],
        p99: impl FnMut(usize) -> Option<Duration>,
    ) {
        if let Some(timeline) = self.timeline.as_mut().filter(|t| t.is_due(now)) {
            timeline.add(now, &self.accounts, usage, p99);
        }
        self.went_back |= now < self.last_time;
        self.stepped_ns += now.saturating_sub(self.last_time);
        self.last_time = now;
    }

    /// The error in the time, if there is one.
    pub fn check_time(&self, now: u64) -> Option<String> {
        if self.went_back || now < self.last_time {
            return Some(format!("time went back to {now} ns"));
        }
        (self.stepped_ns != now)
            .then(|| format!("{now} ns passed in {} ns of steps", self.stepped_ns))
    }
}

/// The sums of a workload at the last point.
#[derive(Debug, Clone)]
struct Before {
    instructions: f64,
    operations: f64,
    fast: f64,
    misses: f64,
    promotions: u64,
    demotions: u64,
}

/// One workload at one point; rates are over the interval before it.
#[derive(Debug, Clone)]
pub struct WorkloadPoint {
    /// Instructions executed.
    pub instructions: f64,
    /// Misses served by the fastest tier.
    pub fast: f64,
    /// All misses.
    pub misses: f64,
    /// Pages promoted.
    pub promotions: u64,
    /// Pages demoted.
    pub demotions: u64,
    /// Base pages by tier.
    pub usage: Vec<Pages>,
    /// Operations.
    pub operations: f64,
    /// The 99th percentile of a service's worst second.
    pub p99: Option<Duration>,
}

/// A point of the timeline.
#[derive(Debug, Clone)]
pub struct StatsPoint {
    /// Virtual time in nanoseconds.
    pub at: u64,
    /// Length of the interval in nanoseconds.
    pub span: u64,
    /// By workload.
    pub workloads: Vec<WorkloadPoint>,
}

/// A timeline: one point for each interval.
#[derive(Debug)]
pub struct Timeline {
    every: u64,
    next: u64,
    last: u64,
    before: Vec<Before>,
    /// The points, in the order of time.
    pub points: Vec<StatsPoint>,
}

fn sums(account: &WorkloadAccount) -> Before {
    Before {
        instructions: account.total.instructions,
        operations: account.total.operations,
        fast: account.total.misses[0],
        misses: account.total.misses.iter().sum(),
        promotions: account.promotions,
        demotions: account.demotions,
    }
}

impl Timeline {
    /// Creates a timeline that starts with the accounts' current values.
    pub fn new(every: Duration, accounts: &[WorkloadAccount]) -> Self {
        let every = (every.as_nanos() as u64).max(1);
        let before = accounts.iter().map(sums).collect();
        Self { every, next: every, last: 0, before, points: Vec::new() }
    }

    /// Returns true if the next point is due.
    pub fn is_due(&self, now: u64) -> bool {
        now >= self.next
    }

    /// Adds a point.
    pub fn add<'a>(
        &mut self,
        now: u64,
        accounts: &[WorkloadAccount],
        usage: impl Fn(usize) -> &'a [Pages],
        mut p99: impl FnMut(usize) -> Option<Duration>,
    ) {
        let workloads =
            accounts.iter().zip(&mut self.before).enumerate().map(|(i, (account, b))| {
                let now = sums(account);
                let point = WorkloadPoint {
                    instructions: now.instructions - b.instructions,
                    fast: now.fast - b.fast,
                    misses: now.misses - b.misses,
                    promotions: now.promotions - b.promotions,
                    demotions: now.demotions - b.demotions,
                    usage: usage(i).to_vec(),
                    operations: now.operations - b.operations,
                    p99: p99(i),
                };
                *b = now;
                point
            });
        let workloads = workloads.collect();
        self.points.push(StatsPoint { at: now, span: now - self.last, workloads });
        self.last = now;
        self.next = (now / self.every + 1) * self.every;
    }
}

/// Rows of the finished heat map: as many as a reader can distinguish on a screen.
const ROWS: u32 = 96;

/// The misses by page (in groups, in the order of allocation) and by time. Its JSON keys are
/// stable.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HeatMap {
    /// Simulated pages in one row.
    pub pages_per_row: u32,
    /// Virtual seconds in one column.
    pub seconds_per_column: f64,
    /// Misses: one list per column (time), one number per row (pages).
    pub misses: Vec<Vec<f64>>,
    /// Share of each cell's misses that the fastest tier served.
    pub fast_share: Vec<Vec<f32>>,
}

/// A heat map that is being collected.
#[derive(Debug)]
pub struct Heat {
    pages_per_row: u32,
    seconds_per_column: f64,
    misses: Vec<Vec<f64>>,
    fast: Vec<Vec<f64>>,
    /// The time until which each workload's accesses are in the map, in nanoseconds.
    covered_until: Vec<u64>,
}

impl Heat {
    /// Makes an empty heat map for `pages` pages.
    pub fn new(pages: u32, seconds_per_column: f64) -> Self {
        Self {
            pages_per_row: pages.div_ceil(ROWS).max(1),
            seconds_per_column,
            misses: Vec::new(),
            fast: Vec::new(),
            covered_until: Vec::new(),
        }
    }

    /// Resumes a workload at `now`: its work from here on is not in the map yet.
    pub fn resume(&mut self, workload: usize, now: u64) {
        if workload >= self.covered_until.len() {
            self.covered_until.resize(workload + 1, 0);
        }
        self.covered_until[workload] = now;
    }

    /// Adds the accesses of a workload after the share `from` of its window and not after `to`,
    /// spread evenly over the time since the last call and `now`, in nanoseconds.
    pub fn add(
        &mut self,
        (index, workload): (usize, &Workload),
        memory: &Memory,
        (from, to): (f64, f64),
        now: u64,
    ) {
        let since = self.covered_until.get(index).copied().unwrap_or(now);
        self.resume(index, now);
        let amount = (to - from) * f64::from(workload.windows.dilation());
        for (column, share) in self.columns(since, now) {
            self.reach(column);
            self.add_column(column, amount * share, workload, memory);
        }
    }

    /// Returns the columns of a stretch of time, with each one's share of it.
    fn columns(&self, since: u64, now: u64) -> Vec<(usize, f64)> {
        let at = |ns: u64| ns as f64 * 1e-9 / self.seconds_per_column;
        let (start, end) = (at(since), at(now));
        let (first, last) = (start as usize, end as usize);
        if end <= start || first == last {
            return vec![(last, 1.0)];
        }
        let inside = |c: usize| end.min((c + 1) as f64) - start.max(c as f64);
        (first..=last).map(|c| (c, inside(c) / (end - start))).filter(|c| c.1 > 0.0).collect()
    }

    fn add_column(&mut self, column: usize, amount: f64, workload: &Workload, memory: &Memory) {
        for access in &workload.window.accesses {
            let Some(page) = workload.page(access.page) else { continue };
            let row = page.index() / self.pages_per_row as usize;
            let misses = (f64::from(access.load_misses) + f64::from(access.store_misses)) * amount;
            if row >= self.misses[column].len() {
                self.misses[column].resize(row + 1, 0.0);
                self.fast[column].resize(row + 1, 0.0);
            }
            self.misses[column][row] += misses;
            if memory.frame(page).tier() == Some(TierId::FASTEST) {
                self.fast[column][row] += misses;
            }
        }
    }

    fn reach(&mut self, column: usize) {
        while self.misses.len() <= column {
            self.misses.push(vec![0.0; ROWS as usize]);
            self.fast.push(vec![0.0; ROWS as usize]);
        }
    }

    /// The finished map.
    pub fn finish(&self) -> HeatMap {
        let share = |(&fast, &all): (&f64, &f64)| if all > 0.0 { (fast / all) as f32 } else { 0.0 };
        HeatMap {
            pages_per_row: self.pages_per_row,
            seconds_per_column: self.seconds_per_column,
            misses: self.misses.clone(),
            fast_share: (self.fast.iter().zip(&self.misses))
                .map(|(fast, all)| fast.iter().zip(all).map(share).collect())
                .collect(),
        }
    }
}
