//! A workload that runs on the simulated host: where it is in its windows, and what it touches
//! there.
//!
//! Within a window a page's accesses are spread evenly: the k-th of n accesses happens when the
//! share `(k + phase) / n` of the window's work is done, where the phase is a hash of the page's
//! index, so that pages do not move in step. Everything that depends on when a page is accessed
//! (reference bits, hint faults, samples, stalls) follows from this rule; nothing is drawn by lot.

use tierwise_core::units::{PageId, TierId};
use tierwise_trace::{PageAccess, Window};

use crate::requests::tenant::Served;
use crate::service::RunningService;
use crate::windows::Windows;

/// No page, no row.
pub const NONE: u32 = u32::MAX;

/// A page of a workload.
#[derive(Debug, Clone, Copy)]
pub struct Local {
    /// Its number on the host; [`NONE`] while it is not mapped.
    pub page: u32,
    /// Its row in the current window; [`NONE`] if it is not accessed there.
    pub row: u32,
}

/// Misses that a tier serves in one pass over the current window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Misses {
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
}

impl Misses {
    fn add(&mut self, row: &PageAccess) {
        self.loads += u64::from(row.load_misses);
        self.stores += u64::from(row.store_misses);
    }

    fn sub(&mut self, row: &PageAccess) {
        self.loads -= u64::from(row.load_misses);
        self.stores -= u64::from(row.store_misses);
    }

    /// Both.
    pub fn total(self) -> u64 {
        self.loads + self.stores
    }
}

/// Misses of one pass over a workload's window that slow memory serves.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Slow {
    /// Loads.
    pub loads: f64,
    /// Stores.
    pub stores: f64,
}

/// What a workload has done since it was last asked, or ever.
#[derive(Debug, Clone, Default)]
pub struct Work {
    /// Instructions.
    pub instructions: f64,
    /// Operations.
    pub operations: f64,
    /// Misses served, by tier.
    pub misses: Vec<f64>,
    /// CPU time used, in nanoseconds: of all threads or servers.
    pub busy_ns: f64,
    /// Time in nanoseconds that the same work takes with everything fast and idle.
    pub all_fast_ns: f64,
    /// Time in nanoseconds that the same work takes under the oracle.
    pub oracle_ns: f64,
}

impl Work {
    /// Nothing, on a number of tiers.
    pub fn none(tiers: usize) -> Self {
        Self {
            instructions: 0.0,
            operations: 0.0,
            misses: vec![0.0; tiers],
            busy_ns: 0.0,
            all_fast_ns: 0.0,
            oracle_ns: 0.0,
        }
    }

    /// Starts over.
    pub fn clear(&mut self) {
        self.instructions = 0.0;
        self.operations = 0.0;
        self.misses.fill(0.0);
        self.busy_ns = 0.0;
        self.all_fast_ns = 0.0;
        self.oracle_ns = 0.0;
    }

    /// Adds a share of a workload's current window, times its dilation.
    pub fn add(&mut self, workload: &Workload, amount: f64) {
        let bound = workload.windows.bound();
        self.instructions += workload.window.instructions as f64 * amount;
        self.operations += workload.window.operations as f64 * amount;
        self.all_fast_ns += bound.all_fast_ns * amount / workload.parallelism;
        self.oracle_ns += bound.oracle_ns * amount / workload.parallelism;
        for (t, sum) in self.misses.iter_mut().enumerate() {
            let (loads, stores) = workload.served(t);
            *sum += (loads + stores) * amount;
        }
    }

    /// Adds what a service did, which takes the servers' time that it takes; `idle` is the fast
    /// tier's latency for a load and a store. The oracle's time for it is the time with everything
    /// fast: what a request touches is not known before it comes.
    pub fn add_service(&mut self, served: &Served, instructions: f64, idle: (f64, f64)) {
        let all_fast_ns = served.all_fast_ns(idle.0, idle.1);
        self.instructions += instructions;
        self.busy_ns += served.busy_ns;
        self.operations += served.started as f64;
        self.all_fast_ns += all_fast_ns;
        self.oracle_ns += all_fast_ns;
        for (sum, misses) in self.misses.iter_mut().zip(&served.tiers) {
            *sum += misses.loads + misses.stores;
        }
    }
}

/// How a workload stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Its start time has not come.
    Waiting,
    /// It runs.
    Running,
    /// It came to its end, or was stopped.
    Ended,
    /// The kernel killed it because no tier had room.
    OutOfMemory,
}

/// A workload.
#[derive(Debug)]
pub struct Workload {
    /// Its windows, in the order in which they run.
    pub windows: Windows,
    /// The current window.
    pub window: Window,
    /// Share of the current window's work that is done, 0 to 1.
    pub done: f64,
    /// Share of the current window whose accesses were reported.
    pub reported: f64,
    /// How it stands.
    pub state: State,
    /// Its pages.
    pub locals: Vec<Local>,
    /// Misses of the current window by the tier that would serve them now.
    pub misses: Vec<Misses>,
    /// Of the misses in the last tier, those that slow memory serves, where the CPU manages
    /// that tier.
    pub slow: Option<Slow>,
    /// Nanoseconds that the application owes to faults, stalls and flushes before it goes on.
    pub pending_stall_ns: f64,
    /// Threads that share the current window's work.
    pub parallelism: f64,
    /// Threads that share what each recorded thread did.
    pub threads: f64,
    /// Set if this is a service, which answers requests instead of running through windows.
    pub service: Option<Box<RunningService>>,
    /// Accesses to a row's page after which software sees it as accessed: 1, or for a granule
    /// [`crate::granule::median_touch`].
    pub reporting_touches: f64,
    /// Seed of the phases.
    phase_seed: u64,
}

impl Workload {
    /// A workload before its start, on a machine with `tiers` tiers.
    pub fn new(windows: Windows, tiers: usize, phase_seed: u64) -> Self {
        Self {
            windows,
            window: Window::default(),
            done: 0.0,
            reported: 0.0,
            state: State::Waiting,
            locals: Vec::new(),
            misses: vec![Misses::default(); tiers],
            slow: None,
            pending_stall_ns: 0.0,
            parallelism: 1.0,
            threads: 1.0,
            service: None,
            reporting_touches: 1.0,
            phase_seed,
        }
    }

    /// The page's place in its access cycle, 0 to 1.
    pub fn phase(&self, local: u32) -> f64 {
        // splitmix64's finaliser: neighbours get unrelated phases.
        let mut x = (u64::from(local) ^ self.phase_seed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Accesses to a row's page in the whole (dilated) window.
    pub fn accesses(&self, row: &PageAccess) -> f64 {
        (f64::from(row.loads) + f64::from(row.stores)).max(f64::from(row.supervised))
            * f64::from(self.windows.dilation())
    }

    /// Where software would next see a row's page accessed after the share `after` of the window is
    /// done.
    pub fn next_access(&self, row: &PageAccess, after: f64) -> Option<f64> {
        let n = self.accesses(row) / self.reporting_touches;
        if n <= 0.0 {
            return None;
        }
        let phase = self.phase(row.page);
        let k = (after * n - phase).floor() + 1.0;
        let at = (k.max(0.0) + phase) / n;
        (at < 1.0).then_some(at)
    }

    /// Whether software would see a row's page accessed after `from` and not after `to`.
    pub fn is_accessed(&self, row: &PageAccess, from: f64, to: f64) -> bool {
        let n = self.accesses(row) / self.reporting_touches;
        if n * (to - from) >= 1.0 {
            return true;
        }
        self.next_access(row, from).is_some_and(|at| at <= to)
    }

    /// The row of a page in the current window.
    pub fn row(&self, local: u32) -> Option<&PageAccess> {
        match self.locals[local as usize].row {
            NONE => None,
            row => Some(&self.window.accesses[row as usize]),
        }
    }

    /// Counts a page's misses of this window for the tier it lies in now.
    pub fn join_tier(&mut self, local: u32, tier: TierId) {
        if let Some(service) = &mut self.service {
            service.relocated(local, tier);
        }
        if let Some(row) = self.row(local).copied() {
            self.misses[tier.index()].add(&row);
        }
    }

    /// Stops counting them.
    pub fn leave_tier(&mut self, local: u32, tier: TierId) {
        if let Some(row) = self.row(local).copied() {
            self.misses[tier.index()].sub(&row);
        }
    }

    /// Loads and stores of the current window that a memory serves: a tier's, or, where the
    /// CPU manages the last tier, the fast and the slow memory's.
    pub fn served(&self, memory: usize) -> (f64, f64) {
        let of = |m: &Misses| (m.loads as f64, m.stores as f64);
        let here = of(&self.misses[memory]);
        match self.slow {
            None => here,
            Some(slow) if memory > 0 => (slow.loads, slow.stores),
            Some(slow) => {
                let all =
                    self.misses.iter().map(of).fold((0.0, 0.0), |a, m| (a.0 + m.0, a.1 + m.1));
                ((all.0 - slow.loads).max(0.0), (all.1 - slow.stores).max(0.0))
            }
        }
    }

    /// The number of a mapped page.
    pub fn page(&self, local: u32) -> Option<PageId> {
        self.locals.get(local as usize).map(|l| l.page).filter(|&p| p != NONE).map(PageId)
    }

    /// Forgets the rows of the window that has ended.
    pub fn clear_rows(&mut self) {
        for access in &self.window.accesses {
            if let Some(local) = self.locals.get_mut(access.page as usize) {
                local.row = NONE;
            }
        }
        self.misses.fill(Misses::default());
    }

    /// Threads that the window's instructions were spread over: its total over the busiest
    /// thread's.
    pub fn set_parallelism(&mut self) {
        let busiest = self.window.threads.iter().map(|t| t.instructions).max().unwrap_or(0);
        let recorded = if busiest == 0 {
            1.0
        } else {
            (self.window.instructions as f64 / busiest as f64).max(1.0)
        };
        self.parallelism = recorded * self.threads;
    }
}
