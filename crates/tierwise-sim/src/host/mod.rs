//! The simulated host: a [`World`] in virtual time.
//!
//! Time advances in steps. In a step every running workload makes the progress that the latencies
//! of its misses allow, given its pages' tiers and their load; a step ends at the latest when a
//! workload's window ends. The access signals of software ([`crate::monitor`]) are computed on
//! demand.

mod advance;
mod check;
mod execute;
mod managed;
pub(crate) mod node;
mod reaccess;
mod serve;
mod surveyed;
mod touch;

use std::time::Duration;

use tierwise_core::migrate::{Budget, MigrationPlan, MoveOutcome, Placement};
use tierwise_core::observe::{Capabilities, Observation, Signals, TenantReading, TierReading};
use tierwise_core::topology::Topology;
use tierwise_core::units::{TenantId, TierId, Timestamp};
use tierwise_core::world::World;

use crate::costs::Costs;
use crate::error::SimError;
use crate::machine::{Machine, TierModel};
use crate::memory::Memory;
use crate::monitor::Monitors;
use crate::run::Watch;
use crate::stats::Stats;
use crate::workload::{Work, Workload, WorkloadState};

/// Start and stop of a workload, in nanoseconds of virtual time.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// Start, if it follows no other workload.
    pub start: u64,
    /// The workload at whose end it starts.
    pub after: Option<usize>,
    /// Stop, if the workload has not ended by then.
    pub stop: Option<u64>,
    /// Misses that each of its threads keeps in flight.
    pub memory_level_parallelism: f64,
    /// True if its threads have CPUs that nothing else uses.
    pub own_cpus: bool,
}

/// Faults that the soak test injects into a run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Injection {
    /// Share of the moves that fail because the page is locked, 0 to 1.
    pub busy_moves: f64,
    /// Share of the reference bits and samples that are reported for a page that is no longer
    /// there, 0 to 1.
    pub stale_reports: f64,
}

/// Longest step of time when nothing else happens: the time within which a hint fault is handled
/// and the bandwidths are computed again. Two scheduler ticks of a server kernel (HZ = 250 is 4
/// ms, 100 is 10).
const QUANTUM: Duration = Duration::from_millis(10);

/// Longest step when no policy waits for hint faults: long enough not to cost more than the
/// workloads' own windows, short enough for the kernel threads' shortest interval (a tenth of a
/// second).
const CALM_QUANTUM: Duration = Duration::from_millis(100);

/// Longest wait of the daemon between two rounds (`MAX_WAIT` in `world/mod.rs` of tierwise-linux).
/// A policy that waits for bits names no time.
const DAEMON_WAIT: Duration = Duration::from_secs(1);

/// A simulated machine with workloads on it.
pub struct SimulatedHost {
    machine: Machine,
    topology: Topology,
    costs: Costs,
    memory: Memory,
    workloads: Vec<Workload>,
    schedules: Vec<Schedule>,
    now: u64,
    end: Option<u64>,
    signals: Signals,
    /// Workloads with a longer sample period, and the period.
    sparse: Vec<(TenantId, u32)>,
    placement: Placement,
    monitors: Monitors,
    /// Work since the last observation, by workload.
    fresh: Vec<Work>,
    /// Not reported yet: allocations, frees and accesses.
    observation: Observation,
    utilisation: Vec<f64>,
    copies: execute::InFlightCopies,
    reaccess: reaccess::Reaccess,
    /// CPU time that threads beside the workloads took from each and that it has not waited for
    /// yet, in nanoseconds.
    stolen_ns: Vec<f64>,
    managed: Option<managed::ManagedTier>,
    stats: Stats,
    /// True if an event occurred that should not wait.
    attention: bool,
    /// True if hint faults occurred, and no other event that should not wait.
    faulted: bool,
    /// True if the start of a measured part should not wait for the next observation.
    waits_for_mark: bool,
    /// True if no policy decides yet: it waits for the start of a measured part.
    undecided: bool,
    injection: Injection,
    budget: Budget,
    seed: u64,
    check: bool,
    /// By workload: when the daemon whose DAMON is simulated may survey it again. Empty before its
    /// first round.
    survey_due: Vec<u64>,
    /// True once that daemon has reported the workloads' memory.
    surveyed: bool,
    watch: Watch,
}

impl SimulatedHost {
    /// Makes a machine at time zero. `end` is the virtual time at which the run ends.
    pub fn new(
        machine: Machine,
        costs: Costs,
        workloads: Vec<(Workload, Schedule)>,
        end: Option<Duration>,
        seed: u64,
    ) -> Self {
        let topology = machine.topology();
        let tiers = topology.tiers.len();
        let (mut workloads, schedules): (Vec<Workload>, Vec<_>) = workloads.into_iter().unzip();
        let cpus = machine.cpus.map_or(f64::INFINITY, f64::from);
        workloads.iter_mut().for_each(|workload| workload.cpu_limit = cpus);
        let mut memory = Memory::new(&topology, workloads.len());
        let reserve = |tier: &TierModel| tier.reserve.in_pages(machine.page_size);
        memory.set_reserve(machine.tiers.iter().map(reserve).collect());
        let page_cache = |tier: &TierModel| tier.page_cache.in_pages(machine.page_size);
        memory.set_page_cache(&machine.tiers.iter().map(page_cache).collect::<Vec<_>>());
        let mut monitors = Monitors::new(workloads.len(), seed);
        if let Some(attrs) = machine.damon {
            monitors.monitor_with(attrs, 1 << machine.granule_order, &workloads);
        }
        Self {
            memory,
            monitors,
            fresh: vec![Work::none(tiers); workloads.len()],
            stats: Stats::new(workloads.len(), tiers),
            utilisation: vec![0.0; tiers],
            copies: execute::InFlightCopies::new(tiers),
            reaccess: reaccess::Reaccess::new(workloads.len()),
            stolen_ns: vec![0.0; workloads.len()],
            managed: None,
            machine,
            topology,
            costs,
            workloads,
            schedules,
            now: 0,
            end: end.map(|d| d.as_nanos() as u64),
            signals: Signals::default(),
            sparse: Vec::new(),
            placement: Placement::default(),
            observation: Observation::default(),
            attention: false,
            faulted: false,
            waits_for_mark: false,
            undecided: false,
            injection: Injection::default(),
            budget: Budget::default(),
            seed,
            check: false,
            survey_due: Vec::new(),
            surveyed: false,
            watch: Watch::default(),
        }
    }

    /// Runs the checkers after every step from now on.
    pub fn set_check(&mut self, on: bool) {
        self.check = on;
    }

    /// Calls `watch` after steps.
    pub(crate) fn watch(&mut self, watch: Watch) {
        self.watch = watch;
    }

    /// Makes the checkers compare the moved bytes with a budget.
    pub fn set_budget(&mut self, budget: Budget) {
        self.budget = budget;
    }

    /// Makes the next wait end when a workload's measured part starts, if none has.
    pub(crate) fn wait_for_mark(&mut self) -> bool {
        let mut measured = self.stats.accounts.iter().zip(&self.workloads);
        self.waits_for_mark = measured.all(|(a, w)| a.measured_from.is_none() || w.leaves_memory);
        self.undecided = self.waits_for_mark;
        self.waits_for_mark
    }

    /// Injects faults into the run.
    pub fn inject(&mut self, injection: Injection) {
        self.injection = injection;
    }

    /// The statistics so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The workloads.
    pub fn workloads(&self) -> &[Workload] {
        &self.workloads
    }

    /// Promotions of a workload after which the page was accessed again before it left the faster
    /// tier; `None` for a service, whose accesses are not kept.
    pub fn reaccessed(&self, i: usize) -> Option<u64> {
        let workload = &self.workloads[i];
        let counted = self.stats.accounts[i].reaccessed + self.reaccess.pending(i, workload);
        workload.service().is_none().then_some(counted)
    }

    /// Physical memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Makes the stats keep a timeline with one point for each interval.
    pub fn keep_timeline(&mut self, every: Duration) {
        self.stats.keep_timeline(every);
    }

    /// Makes the stats keep a heat map, with rows of `pages` pages and a column for each interval.
    pub fn keep_heat_map(&mut self, pages: u32, columns_every: Duration) {
        self.stats.keep_heat_map(pages, columns_every);
    }

    fn is_over(&self) -> bool {
        self.end.is_some_and(|end| self.now >= end)
            || self
                .workloads
                .iter()
                .all(|p| matches!(p.state, WorkloadState::Ended | WorkloadState::OutOfMemory))
    }

    fn read_tiers(&self, out: &mut Vec<TierReading>) {
        out.clear();
        out.extend(self.topology.ids().map(|tier| TierReading {
            free: self.memory.free(tier),
            utilisation: self.utilisation[tier.index()].min(1.0),
            unmanaged: self.memory.page_cache(tier),
        }));
    }

    fn read_tenants(&mut self, out: &mut Vec<TenantReading>) {
        out.resize_with(self.workloads.len(), TenantReading::default);
        for (i, reading) in out.iter_mut().enumerate() {
            let work = &mut self.fresh[i];
            reading.usage.clear();
            reading.usage.extend_from_slice(self.memory.usage(i));
            reading.misses.clear();
            // In a managed tier software cannot know which memory served a tenant's misses.
            let known = |m: f64| if self.managed.is_some() { 0 } else { m as u64 };
            let tiers = self.topology.ids().zip(&work.misses);
            reading.misses.extend(tiers.map(|(tier, &misses)| {
                self.monitors.take_ticks(i, tier).unwrap_or_else(|| known(misses))
            }));
            reading.operations = work.operations as u64;
            let counts = self.machine.damon.is_none();
            reading.instructions = if counts { work.instructions as u64 } else { 0 };
            let service = self.workloads[i].service();
            reading.busy = Duration::from_nanos(work.busy_ns as u64);
            // Whole nanoseconds of both, so that no step counts as less than it was.
            let both = Duration::from_nanos((work.busy_ns + work.clients_ns).round() as u64);
            let has_clients = work.clients_ns > 0.0;
            reading.clients =
                if has_clients { both.saturating_sub(reading.busy) } else { Duration::ZERO };
            reading.cpus = self.workloads[i].cpus();
            reading.p99 = service.and_then(|s| s.last()).map(|last| last.p99);
            reading.running = self.workloads[i].state == WorkloadState::Running;
            work.clear();
            reading.counters = self.take_counters(i);
        }
    }

    /// The time by which the next round starts, if no event wakes the policy before.
    fn wakes_at(&self, deadline: Option<Timestamp>) -> Option<u64> {
        let longest = (self.machine.damon.is_some() && !self.undecided)
            .then(|| self.now + DAEMON_WAIT.as_nanos() as u64);
        let wake = deadline.map(|d| d.0).into_iter().chain(longest).min();
        // A kernel thread that is still copying does not start its next round.
        wake.map(|wake| wake.max(self.copies.busy_until()))
    }

    /// Returns true if a tier is below its low watermark and has a slower one to demote to.
    fn is_under_pressure(&self, tier: TierId) -> bool {
        self.topology.slower(tier).is_some()
            && self.memory.is_below(tier, tierwise_core::topology::WatermarkLevel::Low)
    }
}

impl World for SimulatedHost {
    type Error = SimError;

    fn topology(&self) -> Topology {
        self.topology.clone()
    }

    fn capabilities(&self) -> Capabilities {
        self.machine.capabilities()
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.now)
    }

    fn observe(&mut self, out: &mut Observation) -> Result<(), SimError> {
        // Hint faults alone are reported at once; bits and samples wait for the next reading.
        if !self.faulted {
            for i in 0..self.workloads.len() {
                self.report(i);
            }
        }
        self.monitors.aggregate_regions(self.now, &self.signals, &mut self.observation);
        self.report_damon();
        if self.machine.damon.is_some() {
            self.report_surveyed();
        }
        out.clear();
        std::mem::swap(out, &mut self.observation);
        out.move_cost = self.move_cost();
        out.kernel_costs = self.kernel_costs();
        self.read_tiers(&mut out.tiers);
        self.read_tenants(&mut out.tenants);
        self.memory.recycle();
        Ok(())
    }

    fn migrate(
        &mut self,
        plan: &MigrationPlan,
        out: &mut Vec<MoveOutcome>,
    ) -> Result<(), SimError> {
        self.execute(plan, out);
        if self.check { self.verify() } else { Ok(()) }
    }

    fn wait_until(&mut self, deadline: Option<Timestamp>) -> Result<bool, SimError> {
        self.attention = false;
        self.faulted = false;
        let wake = self.wakes_at(deadline);
        let is_due = |now: u64| wake.is_some_and(|wake| now >= wake);
        // A wait need not have a step.
        self.watch.step();
        while !self.is_over() && !self.attention && !self.faulted && !is_due(self.now) {
            self.advance(wake, if self.signals.hint_faults { QUANTUM } else { CALM_QUANTUM })?;
            self.watch.step();
            if self.check {
                self.verify()?;
            }
        }
        self.faulted &= !self.attention && !is_due(self.now) && !self.is_over();
        Ok(!self.is_over())
    }
}
