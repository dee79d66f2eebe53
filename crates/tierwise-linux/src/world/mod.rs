//! This Linux host as a [`World`]: the engine that runs in the simulator runs here on a live
//! kernel.
//!
//! - [`blocks`]: maps processes' memory to the engine's pages. A page is an aligned block of a
//!   process's addresses, by default as large as a huge page.
//! - [`survey`]: finds the blocks of each process and the tier of each.
//! - [`heat`]: remembers what was hot, over a restart of the daemon and of programs.
//! - [`placed`]: memory that programs have placed in slow tiers themselves.
//! - [`projector`]: attributes accesses to blocks. A thread collects them ([`monitor`]).
//! - `last_readings`: what was last read of processes that are monitored in turns.
//! - `fault_evidence`: the hotness of slow blocks by their pages' hint faults.
//! - [`apply`]: turns a plan into system calls. `turns`: the order of its moves. `shifts`: what
//!   they change of the tenants' memory until it is read again.
//! - [`free_memory`]: reads free memory and computes unmanaged memory.
//! - [`faults`]: counts what could not be read, and limits how much of it is logged.
//! - [`cpu_budget`]: measures the daemon's CPU time, and lengthens intervals above the budget.
//!
//! Nothing here decides anything. Processes end, control groups are removed, and memory is unmapped
//! while it is being moved. The engine learns of all that as events, not as errors. A failure to
//! read one process, control group or guest is a fault of that one and costs no other tenant
//! anything. While the machine itself cannot be read, the last known state is kept and nothing is
//! moved ([`crate::fault`]).

mod account;
pub mod apply;
pub mod blocks;
pub mod cpu_budget;
mod exchange;
mod fault_evidence;
pub mod faults;
pub mod free_memory;
pub mod heat;
#[cfg(test)]
mod hostile;
mod last_readings;
mod migrate;
pub mod monitor;
mod observe;
pub mod placed;
pub mod projector;
mod remember;
pub mod shifts;
mod survey;
#[cfg(test)]
mod tests;
mod turns;
mod unknown;

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use tierwise_core::migrate::{MigrationPlan, MoveOutcome};
use tierwise_core::observe::{Capabilities, Observation, TenantReading};
use tierwise_core::topology::Topology;
use tierwise_core::units::{Bytes, Pages, TenantId, Timestamp};
use tierwise_core::world::World;

use crate::error::Result;
use crate::fault::FaultScope;
use crate::migrate::{Calls, HostKernel};
use crate::monitor::{AccessMonitor, thread_cpu, waits_still};
use crate::process::Reader;
use crate::roots::Roots;
use crate::tenant::{Readings, TenantSelector, TenantTracker};
use crate::topology::{Fingerprint, LinuxHost};
use account::DaemonAccount;
pub use account::WorldEvent;
use apply::Migrator;
use blocks::Blocks;
use cpu_budget::CpuBudget;
use free_memory::FreeMemory;
use heat::HeatMemory;
use monitor::{LostMonitor, MonitorThread};
use projector::AccessProjector;
use survey::Survey;
use unknown::UnknownTenants;

/// Shortest time between two page table walks that count the usage of tenants without a control
/// group: a walk takes as long as a survey.
const WALK_INTERVAL: Duration = Duration::from_secs(5);

/// Time between two readings of the CPUs' lists while only tenants are surveyed: no share follows
/// from unmanaged memory then, and who needs the free pages reads the lists
/// ([`LiveWorld::read_lists`]).
const LISTS: Duration = Duration::from_secs(10);

/// Longest wait between two rounds without a wake-up.
pub const MAX_WAIT: Duration = Duration::from_secs(1);

/// Result of an operation that cannot fail.
type Infallibly<T> = std::result::Result<T, Infallible>;

/// Configuration of a live world.
#[derive(Debug, Clone)]
pub struct WorldConfig {
    /// Mount points of the kernel's file systems.
    pub roots: Roots,
    /// Bytes of a block, a power of two.
    pub block: Bytes,
    /// Shortest time between two surveys of processes and their blocks.
    pub interval: Duration,
    /// Limits on migration.
    pub limits: crate::migrate::Limits,
    /// Plans are made, and no page is moved.
    pub dry_run: bool,
    /// Parts of one CPU for access monitoring and decisions: the budget, above which intervals are
    /// lengthened, and the cap, above which monitoring is suspended.
    pub cpu: (f64, f64),
}

/// This Linux host, with its tenants and their memory.
pub struct LiveWorld<C: Calls = HostKernel> {
    config: WorldConfig,
    host: LinuxHost,
    started: Instant,
    wake: Receiver<()>,
    tracker: TenantTracker,
    readings: Readings,
    blocks: Blocks,
    survey: Survey,
    /// What was hot before; `None` if it is not remembered.
    heat: Option<HeatMemory>,
    monitor: Option<MonitorThread>,
    /// Monitoring thread that still waits in the kernel for a process.
    lost_monitor: Option<LostMonitor>,
    projector: AccessProjector,
    migrator: Migrator<C>,
    account: DaemonAccount,
    next_survey: Timestamp,
    /// Time from which a survey of the tenants alone reads the CPUs' lists again.
    next_lists: Timestamp,
    /// By tenant: the last reading, with the latencies and accesses reported since the last
    /// observation.
    tenants: Vec<TenantReading>,
    unknown: UnknownTenants,
    reader: Reader,
    /// State of the machine's nodes at the last survey.
    machine: Fingerprint,
    free_memory: FreeMemory,
    /// Blocks are surveyed, and not only tenants.
    surveys_blocks: bool,
    max_wait: Duration,
    /// A survey has finished since unmanaged memory was last computed.
    surveyed: bool,
}

impl LiveWorld<HostKernel> {
    /// A world without access monitoring. A message to `wake` ends a wait.
    pub fn new(config: WorldConfig, host: LinuxHost, wake: Receiver<()>) -> Self {
        let kernel = HostKernel::new(config.roots.clone());
        Self::with_kernel(config, host, wake, kernel)
    }
}

impl<C: Calls> LiveWorld<C> {
    /// A world with other system calls: for tests.
    pub fn with_kernel(config: WorldConfig, host: LinuxHost, wake: Receiver<()>, calls: C) -> Self {
        let account = DaemonAccount::new(config.cpu.0, config.cpu.1);
        Self {
            host,
            started: Instant::now(),
            wake,
            tracker: TenantTracker::default(),
            readings: Readings::new(config.roots.clone(), WALK_INTERVAL),
            blocks: Blocks::new(config.block.0),
            survey: Survey::new(config.roots.clone()),
            heat: None,
            monitor: None,
            lost_monitor: None,
            projector: AccessProjector::new(monotonic()),
            migrator: Migrator::new(calls, &config.limits),
            account,
            next_survey: Timestamp::ZERO,
            next_lists: Timestamp::ZERO,
            tenants: Vec::new(),
            unknown: UnknownTenants::default(),
            reader: Reader::default(),
            machine: Fingerprint::default(),
            free_memory: FreeMemory::default(),
            surveys_blocks: true,
            max_wait: MAX_WAIT,
            surveyed: true,
            config,
        }
    }

    /// Checks that access monitoring can start: a monitoring thread that was started before must
    /// not wait in the kernel any longer.
    ///
    /// # Errors
    /// The thread still waits.
    pub fn can_monitor(&mut self) -> Result<()> {
        match &self.lost_monitor {
            Some(lost) if lost.is_waiting() => Err(waits_still()),
            _ => {
                if let Some(Err(e)) = self.lost_monitor.take().map(LostMonitor::end) {
                    tracing::warn!("access monitoring could not be stopped cleanly: {e}");
                }
                Ok(())
            }
        }
    }

    /// Monitors accesses with this source from now on.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn monitor_with(&mut self, monitor: Box<dyn AccessMonitor>) -> Result<()> {
        self.monitor = Some(MonitorThread::start(monitor)?);
        Ok(())
    }

    /// Replaces the tenants; their order gives the [`TenantId`]s. A tenant that had the same place,
    /// name and selector continues. With `again`, every page is reported to the engine once more,
    /// as a newly created engine requires.
    pub fn set_tenants(&mut self, tenants: Vec<(String, TenantSelector)>, again: bool) {
        self.tenants.resize_with(tenants.len(), TenantReading::default);
        self.tracker.set_tenants(tenants);
        if again {
            self.readings.forget();
            // The new engine knows nothing of them.
            self.tenants.iter_mut().for_each(|reading| reading.running = false);
            self.heat.iter_mut().for_each(HeatMemory::start_again);
            self.blocks = Blocks::new(self.config.block.0);
            self.survey.forget();
        }
        self.next_survey = Timestamp::ZERO;
    }

    /// Sets which tenants are services, by [`TenantId`]: the CPU time of others is not read. Every
    /// tenant counts as one until this is called.
    pub fn set_services(&mut self, services: Vec<bool>) {
        self.readings.set_services(services);
    }

    /// Sets the target for the P99 of a call that moves pages of these tenants, where it is shorter
    /// than the configured one.
    pub fn set_call_targets(&mut self, targets: impl IntoIterator<Item = (TenantId, Duration)>) {
        self.migrator.set_targets(targets);
    }

    /// Records a latency that a tenant reported.
    pub fn report_latency(&mut self, tenant: TenantId, p99: Duration, operations: u64) {
        if let Some(reading) = self.tenants.get_mut(tenant.index()) {
            reading.p99 = reading.p99.max(Some(p99));
            reading.operations += operations;
        }
    }

    /// True if access monitoring is on.
    pub fn is_monitoring(&self) -> bool {
        self.monitor.is_some()
    }

    /// Turns the dry run on or off: plans are made, and no page is moved.
    pub fn set_dry_run(&mut self, dry_run: bool) {
        self.config.dry_run = dry_run;
    }

    /// Surveys the tenants' blocks from now on, or only the tenants themselves: for a daemon that
    /// moves no page. Reports no block as freed; an engine that continues after that is a new one.
    pub fn set_survey(&mut self, blocks: bool) {
        self.surveys_blocks = blocks;
        self.blocks = Blocks::new(self.config.block.0);
        self.survey.forget();
    }

    /// Sets the longest wait between two rounds; [`MAX_WAIT`] at most.
    pub fn set_max_wait(&mut self, max_wait: Duration) {
        self.max_wait = max_wait.min(MAX_WAIT);
    }

    /// The longest wait between two rounds.
    pub fn max_wait(&self) -> Duration {
        self.max_wait
    }

    /// The machine.
    pub fn host(&self) -> &LinuxHost {
        &self.host
    }

    /// The processes of each tenant.
    pub fn tracker(&self) -> &TenantTracker {
        &self.tracker
    }

    /// The daemon's CPU time and throttle.
    pub fn cpu_budget(&self) -> &CpuBudget {
        &self.account.cpu_budget
    }

    /// Number of managed blocks.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// True if the last round had no time for all moves of its plan.
    pub fn is_moving(&self) -> bool {
        self.migrator.is_unfinished()
    }

    /// Bytes moved so far.
    pub fn moved_bytes(&self) -> u64 {
        self.migrator.moved_bytes()
    }

    /// Pages moved in a call during which their process exited. They may belong to another process.
    pub fn pages_in_doubt(&self) -> u64 {
        self.migrator.pages_in_doubt()
    }

    /// Free base pages by tier when the world was last observed, those on the CPUs' lists
    /// included.
    pub fn free(&self) -> &[Pages] {
        self.free_memory.free()
    }

    /// Those of the free base pages that are on no CPU's list.
    pub fn unlisted(&self) -> &[Pages] {
        self.free_memory.unlisted()
    }

    /// Those of the free pages that promotions leave, at the last reading of the CPUs' lists.
    pub fn withheld(&self) -> &[Pages] {
        self.free_memory.withheld()
    }

    /// Reads the CPUs' lists of free pages, between two observations.
    pub fn read_lists(&mut self) {
        self.free_memory.read_lists(&self.config.roots, &self.host);
        self.next_lists = self.time() + LISTS;
    }

    /// Reads free memory again, between two observations.
    pub fn read_free(&mut self) {
        let read = self.free_memory.read(&self.config.roots, &self.host);
        self.account.faults.absorb(|| FaultScope::Machine, read);
    }

    /// Base pages that a tenant held in each tier at its last reading. For control groups they
    /// include page cache.
    pub fn usage(&self, tenant: TenantId) -> &[Pages] {
        self.tenants.get(tenant.index()).map_or(&[], |reading| &reading.usage)
    }

    /// Part of a tenant's accesses in the last access report that lay in the fastest tier, 0 to 1.
    /// `None` if no access was found.
    pub fn fast_access_ratio(&self, tenant: TenantId) -> Option<f64> {
        self.projector.fast_access_ratio(tenant)
    }

    /// Records the CPU time of the kernel threads that promote page cache, in all since they
    /// started.
    pub fn promoting(&mut self, total: Duration) {
        self.account.cpu_budget.caching(total);
    }

    /// Faults so far, by [`FaultScope::NAMES`].
    pub fn faults(&self) -> [u64; FaultScope::NAMES.len()] {
        self.account.ledger.totals()
    }

    /// Reason why the machine could not be read in the last round. While there is one, nothing is
    /// moved.
    pub fn unreadable(&self) -> Option<&str> {
        self.account.ledger.machine()
    }

    /// Sets the clock of this process's CPU time for answering HTTP, which does not count against
    /// the budget.
    pub fn answering(&mut self, clock: fn() -> Duration) {
        self.account.cpu_budget.answering(clock);
    }

    /// Records this process's CPU time for polling tenants' services and guests, in all. It does
    /// not count against the budget.
    pub fn polling(&mut self, total: Duration) {
        self.account.cpu_budget.polling(total);
    }

    /// Adds CPU time of this process in which the kernel demoted at its request. It counts as
    /// migration.
    pub fn moving(&mut self, more: Duration) {
        self.account.cpu_budget.moving(more);
    }

    /// Adds CPU time of the policy, in which it set the kernel's course.
    pub fn deciding(&mut self, more: Duration) {
        self.account.cpu_budget.deciding(more);
    }

    /// Ends a round that took this CPU time of the calling thread. A round that decided is followed
    /// by the next one once the budget has paid for it ([`crate::pace`]).
    pub fn end_round(&mut self, cost: Duration) {
        let now = self.time();
        self.account.end_round(now, cost);
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Vec<WorldEvent> {
        std::mem::take(&mut self.account.events)
    }

    /// Lets access monitoring end by itself: the kernel ends a kdamond only between two checks, and
    /// one after the other.
    pub fn release_monitoring(&mut self) {
        if let Some(monitor) = self.monitor.take() {
            self.lost_monitor = monitor.leave();
        }
    }

    /// True while released monitoring ends, for as long as that may take.
    pub fn is_releasing(&self) -> bool {
        self.lost_monitor.as_ref().is_some_and(LostMonitor::may_end)
    }

    /// Stops access monitoring, and waits for it.
    ///
    /// # Errors
    /// A kernel setting that was taken over could not be restored.
    pub fn stop(&mut self) -> Result<()> {
        let stopped = self.monitor.take().map_or(Ok(()), MonitorThread::stop);
        if let Some(lost) = &self.lost_monitor {
            lost.wait();
        }
        stopped.and(self.can_monitor())
    }

    fn time(&self) -> Timestamp {
        Timestamp::ZERO + self.started.elapsed()
    }
}

impl<C: Calls> World for LiveWorld<C> {
    /// No event on the machine ends an observation.
    type Error = Infallible;

    fn topology(&self) -> Topology {
        self.host.topology()
    }

    fn capabilities(&self) -> Capabilities {
        let hint_faults = self.monitor.as_ref().is_some_and(MonitorThread::has_hint_faults);
        capabilities(self.is_monitoring(), hint_faults)
    }

    fn now(&self) -> Timestamp {
        self.time()
    }

    fn observe(&mut self, out: &mut Observation) -> Infallibly<()> {
        let before = thread_cpu();
        out.clear();
        self.migrator.start_round();
        let now = self.time();
        self.account.read_cpu(now);
        let due = now >= self.next_survey && !self.account.cpu_budget.suspended();
        if due {
            self.paced_survey(now, out);
        }
        out.bits_unread = true;
        self.monitor(out);
        self.hand_over(out);
        // Only a survey finds out whether the machine can be read.
        if due {
            self.account.report_faults(now);
        }
        self.account.of_world += thread_cpu().saturating_sub(before);
        Ok(())
    }

    fn affords_decision(&mut self) -> bool {
        let now = self.time();
        self.account.starts_decision(now)
    }

    /// Applies the moves of a plan. Placement and caps have no effect here: a process allocates
    /// where the kernel lets it, and the excess is demoted afterwards.
    fn migrate(&mut self, plan: &MigrationPlan, out: &mut Vec<MoveOutcome>) -> Infallibly<()> {
        let before = thread_cpu();
        self.apply_moves(&plan.moves, out);
        let took = thread_cpu().saturating_sub(before);
        self.account.apart += took;
        self.account.of_world += took;
        Ok(())
    }

    fn wait_until(&mut self, deadline: Option<Timestamp>) -> Infallibly<bool> {
        let now = self.time();
        let until = deadline.map_or(self.max_wait, |d| d.since(now)).min(self.max_wait);
        let mut shortest = self.account.shortest_wait(now, self.config.interval);
        if self.migrator.is_unfinished() && !self.account.cpu_budget.suspended() {
            shortest = shortest.min(self.config.interval);
        }
        // A round that is wanted sooner decides nothing before that is paid for.
        let wanted = if self.max_wait < MAX_WAIT { self.max_wait } else { Duration::MAX };
        let until = until.max(shortest.min(wanted));
        match self.wake.recv_timeout(until) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => Ok(true),
            Err(RecvTimeoutError::Disconnected) => Ok(false),
        }
    }
}

/// Signals that a live world provides: reference bits and samples while access monitoring is on,
/// and hint faults if its source reports them ([`AccessMonitor::has_hint_faults`]). The kernel then
/// decides which pages are poisoned, and a plan's own ranges have no effect.
pub fn capabilities(is_monitoring: bool, has_hint_faults: bool) -> Capabilities {
    Capabilities {
        reference_bits: is_monitoring,
        samples: is_monitoring,
        hint_faults: is_monitoring && has_hint_faults,
        ..Capabilities::default()
    }
}

/// The monotonic clock, which the kernel's records have, too.
fn monotonic() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Path of the file that records the kdamonds in use.
pub fn damon_record(state: &std::path::Path) -> PathBuf {
    state.join("damon.json")
}
