//! A workload on the simulated host: its position in its windows, and the pages that it touches
//! there.
//!
//! Within a window a page's accesses are spread evenly: the k-th of n accesses happens when the
//! share `(k + phase) / n` of the window's work is done, where the phase is a hash of the page's
//! index, so that pages do not move in step. Everything that depends on when a page is accessed
//! (reference bits, hint faults, samples, stalls) follows from this rule; nothing is random.

use tierwise_core::units::{PageId, TierId};
use tierwise_trace::{PageAccess, Window};

use crate::hash::mix;
use crate::requests::tenant::StepWork;
use crate::service::RunningService;
use crate::windows::Windows;

/// The index of a page without a row.
pub const NONE: u32 = u32::MAX;

/// A page of a workload.
#[derive(Debug, Clone, Copy)]
pub struct Local {
    /// Its number on the host; [`NONE`] while it is not mapped.
    pub page: u32,
    /// Its row in the current window; [`NONE`] if it is not accessed there.
    pub row: u32,
}

/// The number on the host of a mapped page among a workload's pages.
pub(crate) fn page_of(locals: &[Local], local: u32) -> Option<PageId> {
    locals.get(local as usize).map(|l| l.page).filter(|&p| p != NONE).map(PageId)
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

    /// Loads and stores together.
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

/// Work of a workload since the last reading, or over the whole run.
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
    /// CPU time that its client used, in nanoseconds.
    pub clients_ns: f64,
    /// Time in nanoseconds that the same work takes with all memory fast, at idle latency.
    pub all_fast_ns: f64,
    /// Time in nanoseconds that the same work takes under the oracle.
    pub oracle_ns: f64,
}

impl Work {
    /// Returns no work, for a number of tiers.
    pub fn none(tiers: usize) -> Self {
        Self {
            instructions: 0.0,
            operations: 0.0,
            misses: vec![0.0; tiers],
            busy_ns: 0.0,
            clients_ns: 0.0,
            all_fast_ns: 0.0,
            oracle_ns: 0.0,
        }
    }

    /// Sets all sums to zero.
    pub fn clear(&mut self) {
        self.instructions = 0.0;
        self.operations = 0.0;
        self.misses.fill(0.0);
        self.busy_ns = 0.0;
        self.clients_ns = 0.0;
        self.all_fast_ns = 0.0;
        self.oracle_ns = 0.0;
    }

    /// Adds a share of a workload's current window, times its dilation.
    pub fn add(&mut self, workload: &Workload, amount: f64) {
        let bound = workload.windows.bound();
        self.instructions += workload.window.instructions as f64 * amount;
        self.operations += workload.window.operations as f64 * amount;
        // Threads beyond the CPUs take turns, whatever the memory.
        let parallelism = workload.parallelism.min(workload.cpu_limit);
        self.all_fast_ns += bound.all_fast_ns * amount / parallelism;
        self.oracle_ns += bound.oracle_ns * amount / parallelism;
        for (t, sum) in self.misses.iter_mut().enumerate() {
            let (loads, stores) = workload.served(t);
            *sum += (loads + stores) * amount;
        }
    }

    /// Adds a service's work, which takes the servers' time; `idle` is the fast tier's latency for
    /// a load and a store. The oracle's time for it is the time with all memory fast: a request's
    /// pages are not known before it arrives.
    pub fn add_service(&mut self, served: &StepWork, instructions: f64, idle: (f64, f64)) {
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

/// State of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkloadState {
    /// Its start time has not come.
    Waiting,
    /// It runs.
    Running,
    /// It came to its end, or was stopped.
    Ended,
    /// The kernel killed it because no tier had free memory.
    OutOfMemory,
}

/// The two kinds of workloads.
#[derive(Debug)]
pub enum WorkloadKind {
    /// Replays its windows as fast as its misses allow.
    Windows {
        /// Nanoseconds of faults, stalls and flushes that it pays before it continues.
        pending_stall_ns: f64,
    },
    /// Answers requests at the times at which they arrive. Its only window allocates its units.
    Service(Box<RunningService>),
}

/// A workload: its windows or requests, its pages, and its progress.
#[derive(Debug)]
pub struct Workload {
    /// Windows or a service.
    pub kind: WorkloadKind,
    /// Its windows, in the order in which they run.
    pub windows: Windows,
    /// The current window.
    pub window: Window,
    /// Share of the current window's work that is done, 0 to 1.
    pub done: f64,
    /// Share of the current window whose accesses were reported.
    pub reported: f64,
    /// By row of the current window, the share at which software would next detect an access;
    /// empty before the window's first report of reference bits.
    pub detections: Vec<f64>,
    /// Its state.
    pub state: WorkloadState,
    /// Its pages.
    pub locals: Vec<Local>,
    /// Misses of the current window by the tier that would serve them now.
    pub misses: Vec<Misses>,
    /// The misses in the last tier that slow memory serves, where the CPU manages that tier.
    pub slow: Option<Slow>,
    /// Threads that share the current window's work.
    pub parallelism: f64,
    /// CPUs of the machine, if they are limited.
    pub cpu_limit: f64,
    /// Threads that share what each recorded thread did.
    pub threads: f64,
    /// Share of the time beside misses in which it waits for its client.
    pub client_share: f64,
    /// Its memory stays when it ends.
    pub leaves_memory: bool,
    /// Accesses to a row's page after which software detects an access: 1, or for a granule
    /// [`crate::granule::median_touch`].
    pub reporting_touches: f64,
    /// Objects alive when all were marked last, of a program whose objects are followed.
    pub marked_objects: u64,
    /// Seed of the phases.
    phase_seed: u64,
}

impl Workload {
    /// Makes a workload before its start, on a machine with `tiers` tiers.
    pub fn new(windows: Windows, tiers: usize, phase_seed: u64) -> Self {
        Self {
            kind: WorkloadKind::Windows { pending_stall_ns: 0.0 },
            windows,
            window: Window::default(),
            done: 0.0,
            reported: 0.0,
            detections: Vec::new(),
            state: WorkloadState::Waiting,
            locals: Vec::new(),
            misses: vec![Misses::default(); tiers],
            slow: None,
            parallelism: 1.0,
            cpu_limit: f64::INFINITY,
            threads: 1.0,
            client_share: 0.0,
            leaves_memory: false,
            reporting_touches: 1.0,
            marked_objects: 0,
            phase_seed,
        }
    }

    /// The service, if it is one.
    pub fn service(&self) -> Option<&RunningService> {
        match &self.kind {
            WorkloadKind::Service(service) => Some(service),
            WorkloadKind::Windows { .. } => None,
        }
    }

    /// The service, if it is one, for changes.
    pub fn service_mut(&mut self) -> Option<&mut RunningService> {
        match &mut self.kind {
            WorkloadKind::Service(service) => Some(service),
            WorkloadKind::Windows { .. } => None,
        }
    }

    /// CPUs that it could use.
    pub fn cpus(&self) -> f64 {
        self.service().map_or(self.parallelism, |s| s.tenant.servers() as f64)
    }

    /// Lengthens its path by the stall of one thread; the other threads continue.
    pub fn charge_stall(&mut self, ns: f64) {
        match &mut self.kind {
            WorkloadKind::Service(service) => service.tenant.charge_stall(ns),
            WorkloadKind::Windows { pending_stall_ns } => {
                *pending_stall_ns += ns / self.parallelism
            }
        }
    }

    /// Pays pending stalls out of `ns` nanoseconds and returns the part that they took.
    pub fn pay_stall(&mut self, ns: f64) -> f64 {
        let WorkloadKind::Windows { pending_stall_ns } = &mut self.kind else { return 0.0 };
        let paid = pending_stall_ns.min(ns);
        *pending_stall_ns -= paid;
        paid
    }

    /// Nanoseconds from `now` to the end of its window, which takes `window_ns` as a whole, or of a
    /// service's interval.
    pub fn remaining_ns(&self, now: u64, window_ns: f64) -> u64 {
        match &self.kind {
            WorkloadKind::Service(service) => service.interval_ends().saturating_sub(now),
            WorkloadKind::Windows { pending_stall_ns } => {
                let rest = pending_stall_ns + (1.0 - self.done) * window_ns;
                // Rounded up, so that the window is over when the time is.
                (rest.ceil() as u64).saturating_add(1)
            }
        }
    }

    /// Nanoseconds until a share of its window is done; the window takes `window_ns` as a whole.
    pub fn reaches_ns(&self, share: f64, window_ns: f64) -> u64 {
        let WorkloadKind::Windows { pending_stall_ns } = &self.kind else { return u64::MAX };
        let rest = pending_stall_ns + (share - self.done).max(0.0) * window_ns;
        // Rounded up, so that the share is reached when the time is over.
        (rest.ceil() as u64).saturating_add(1)
    }

    /// The page's place in its access cycle, 0 to 1. Neighbours get unrelated phases.
    pub fn phase(&self, local: u32) -> f64 {
        (mix(u64::from(local) ^ self.phase_seed) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Accesses to a row's page in the whole (dilated) window.
    pub fn accesses(&self, row: &PageAccess) -> f64 {
        (f64::from(row.loads) + f64::from(row.stores)).max(f64::from(row.supervised))
            * f64::from(self.windows.dilation())
    }

    /// Returns the share at which software would next detect an access to a row's page after the
    /// share `after` is done.
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

    /// Returns true if software would detect an access to a row's page after `from` and not after
    /// `to`.
    pub fn is_accessed(&self, row: &PageAccess, from: f64, to: f64) -> bool {
        self.is_accessed_throughout(row, from, to)
            || self.next_access(row, from).is_some_and(|at| at <= to)
    }

    /// Returns true if any share of the window as long as that from `from` to `to` has an access to
    /// a row's page that software would detect.
    pub fn is_accessed_throughout(&self, row: &PageAccess, from: f64, to: f64) -> bool {
        self.accesses(row) * (to - from) >= self.reporting_touches
    }

    /// The row of a page in the current window.
    pub fn row(&self, local: u32) -> Option<&PageAccess> {
        match self.locals[local as usize].row {
            NONE => None,
            row => Some(&self.window.accesses[row as usize]),
        }
    }

    /// Counts a page's misses of this window for its current tier.
    pub fn join_tier(&mut self, local: u32, tier: TierId) {
        if let Some(service) = self.service_mut() {
            service.relocated(local, tier);
        }
        if let Some(row) = self.row(local).copied() {
            self.misses[tier.index()].add(&row);
        }
    }

    /// Stops counting a page's misses for a tier.
    pub fn leave_tier(&mut self, local: u32, tier: TierId) {
        if let Some(row) = self.row(local).copied() {
            self.misses[tier.index()].sub(&row);
        }
    }

    /// Returns the loads and stores of the current window that a memory serves. `memory` is the
    /// number of a tier or, where the CPU manages the last tier, 0 for fast and 1 for slow memory.
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
        page_of(&self.locals, local)
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

    /// Sets the number of threads over which the window's instructions are spread: the sum of all
    /// threads' instructions, divided by the busiest thread's.
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
