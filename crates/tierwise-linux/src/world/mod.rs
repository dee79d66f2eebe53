//! This host as a [`World`]: what the engine of the simulator drives, on a live kernel.
//!
//! - [`blocks`]: which memory of which process is which page of the engine's. A page is an aligned
//!   block of a process's addresses, by default as large as a huge page.
//! - [`survey`]: which blocks are there, and in which tier they lie.
//! - [`projector`]: what was seen of them, from a thread that looks ([`monitor`]).
//! - [`apply`]: how a plan becomes system calls.
//! - [`free_memory`]: what is free, and what strangers hold.
//! - [`faults`]: what could not be read, and what of it is worth saying.
//! - [`cpu_budget`]: what all that costs, and what is done less often when it costs too much.
//!
//! Nothing here decides anything. A process that ends, a control group that is removed, memory that
//! is unmapped while it is to be moved: all that is news for the engine, not an error. What cannot
//! be read is a fault of one process, group or guest, and costs nobody else anything; while it is
//! the machine that cannot be read, what was known is kept and nothing is moved ([`crate::fault`]).

mod account;
pub mod apply;
pub mod blocks;
pub mod cpu_budget;
pub mod faults;
pub mod free_memory;
#[cfg(test)]
mod hostile;
mod migrate;
pub mod monitor;
mod observe;
pub mod projector;
pub mod survey;
#[cfg(test)]
mod tests;

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
use crate::migrate::{Calls, Kernel};
use crate::monitor::{AccessMonitor, waits_still};
use crate::process::Reader;
use crate::roots::Roots;
use crate::tenant::{Readings, TenantSelector, TenantTracker};
use crate::topology::{Fingerprint, Host};
use account::Account;
pub use account::Event;
use apply::Migrator;
use blocks::Blocks;
use cpu_budget::CpuBudget;
use free_memory::FreeMemory;
use monitor::{LostMonitor, MonitorThread};
use projector::AccessProjector;
use survey::Survey;

/// Page tables are walked for the use of tenants without a control group at most so often: a walk
/// takes as long as a survey.
const WALK_INTERVAL: Duration = Duration::from_secs(5);

/// A world that nobody wakes looks again after so long at the latest.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// What a world answers that goes on whatever happens.
type Infallibly<T> = std::result::Result<T, Infallible>;

/// What a live world is made from.
#[derive(Debug, Clone)]
pub struct WorldConfig {
    /// The kernel's file systems.
    pub roots: Roots,
    /// Bytes of a block, a power of two.
    pub block: Bytes,
    /// How often processes and their blocks are looked after, at most.
    pub interval: Duration,
    /// How much moving may do.
    pub limits: crate::migrate::Limits,
    /// Decide, and move nothing.
    pub dry_run: bool,
    /// Share of one CPU for looking and deciding: above the first it looks less often, above
    /// the second not at all.
    pub cpu: (f64, f64),
}

/// This host.
pub struct LiveWorld<C: Calls = Kernel> {
    config: WorldConfig,
    host: Host,
    started: Instant,
    wake: Receiver<()>,
    tracker: TenantTracker,
    readings: Readings,
    blocks: Blocks,
    survey: Survey,
    monitor: Option<MonitorThread>,
    /// The kernel keeps this one waiting for a process.
    lost_monitor: Option<LostMonitor>,
    projector: AccessProjector,
    migrator: Migrator<C>,
    account: Account,
    next_survey: Timestamp,
    /// By tenant: the last reading, with what was reported and seen since the last observation.
    tenants: Vec<TenantReading>,
    reader: Reader,
    /// What the machine looked like when it was last read.
    machine: Fingerprint,
    free_memory: FreeMemory,
    /// There was a survey since strangers were counted.
    surveyed: bool,
}

impl LiveWorld<Kernel> {
    /// A world in which nothing is looked at yet. A message to `wake` ends a wait.
    pub fn new(config: WorldConfig, host: Host, wake: Receiver<()>) -> Self {
        let kernel = Kernel::new(config.roots.clone());
        Self::with_kernel(config, host, wake, kernel)
    }
}

impl<C: Calls> LiveWorld<C> {
    /// A world on another kernel: for tests.
    pub fn with_kernel(config: WorldConfig, host: Host, wake: Receiver<()>, calls: C) -> Self {
        let account = Account::new(CpuBudget::new(config.cpu.0, config.cpu.1));
        Self {
            host,
            started: Instant::now(),
            wake,
            tracker: TenantTracker::default(),
            readings: Readings::new(config.roots.clone(), WALK_INTERVAL),
            blocks: Blocks::new(config.block.0),
            survey: Survey::new(config.roots.clone()),
            monitor: None,
            lost_monitor: None,
            projector: AccessProjector::default(),
            migrator: Migrator::new(calls, &config.limits),
            account,
            next_survey: Timestamp::ZERO,
            tenants: Vec::new(),
            reader: Reader::default(),
            machine: Fingerprint::default(),
            free_memory: FreeMemory::default(),
            surveyed: true,
            config,
        }
    }

    /// Whether monitoring can start: not while the kernel keeps what was started before waiting.
    ///
    /// # Errors
    /// It still waits.
    pub fn can_monitor(&mut self) -> Result<()> {
        match &self.lost_monitor {
            Some(lost) if lost.is_waiting() => Err(waits_still()),
            _ => {
                self.lost_monitor = None;
                Ok(())
            }
        }
    }

    /// Monitors accesses this way from now on.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn monitor_with(&mut self, monitor: Box<dyn AccessMonitor>) -> Result<()> {
        self.monitor = Some(MonitorThread::start(monitor)?);
        Ok(())
    }

    /// These are the tenants from now on, by [`TenantId`]. Those that were at the same place with
    /// the same name and selector go on; if `again`, every page is reported to the engine once
    /// more, as to an engine that was just made.
    pub fn set_tenants(&mut self, tenants: Vec<(String, TenantSelector)>, again: bool) {
        self.tenants.resize_with(tenants.len(), TenantReading::default);
        self.tracker.set_tenants(tenants);
        if again {
            self.readings.forget();
            self.blocks = Blocks::new(self.config.block.0);
            self.survey.forget();
        }
        self.next_survey = Timestamp::ZERO;
    }

    /// A tenant reported its latency.
    pub fn report_latency(&mut self, tenant: TenantId, p99: Duration, operations: u64) {
        if let Some(reading) = self.tenants.get_mut(tenant.index()) {
            reading.p99 = reading.p99.max(Some(p99));
            reading.operations += operations;
        }
    }

    /// Whether it looks at pages.
    pub fn is_monitoring(&self) -> bool {
        self.monitor.is_some()
    }

    /// Decide and move, or only decide.
    pub fn set_dry_run(&mut self, dry_run: bool) {
        self.config.dry_run = dry_run;
    }

    /// The machine.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Who is whose.
    pub fn tracker(&self) -> &TenantTracker {
        &self.tracker
    }

    /// What it costs.
    pub fn cpu_budget(&self) -> &CpuBudget {
        &self.account.cpu_budget
    }

    /// Blocks that are managed.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes moved so far.
    pub fn moved_bytes(&self) -> u64 {
        self.migrator.moved_bytes()
    }

    /// Pages moved in a call during which their process exited: they may belong to another process.
    pub fn pages_in_doubt(&self) -> u64 {
        self.migrator.pages_in_doubt()
    }

    /// Free base pages by tier when the world was last observed, those on the CPUs' lists
    /// included.
    pub fn free(&self) -> &[Pages] {
        self.free_memory.free()
    }

    /// Base pages that a tenant held of each tier when it was last read, page cache included if it
    /// is control groups.
    pub fn usage(&self, tenant: TenantId) -> &[Pages] {
        self.tenants.get(tenant.index()).map_or(&[], |reading| &reading.usage)
    }

    /// What of a tenant's accesses seen lay in the fastest tier since the engine was last told, 0
    /// to 1.
    pub fn fast_access_ratio(&self, tenant: TenantId) -> Option<f64> {
        self.projector.fast_access_ratio(tenant)
    }

    /// The kernel's threads that promote page cache have used so much since they started.
    pub fn promoting(&mut self, total: Duration) {
        self.account.cpu_budget.caching(total);
    }

    /// Faults so far, by [`FaultScope::NAMES`].
    pub fn faults(&self) -> [u64; FaultScope::NAMES.len()] {
        self.account.ledger.totals()
    }

    /// Why the machine could not be read in the last round, if it could not: nothing is moved until
    /// it can.
    pub fn unreadable(&self) -> Option<&str> {
        self.account.ledger.machine()
    }

    /// Talking to tenants' services and guests has used so much of this process's time, which is
    /// not of the budget.
    pub fn polling(&mut self, total: Duration) {
        self.account.cpu_budget.polling(total);
    }

    /// Takes what happened since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.account.events)
    }

    /// Stops looking.
    ///
    /// # Errors
    /// Something that was taken from the kernel could not be given back.
    pub fn stop(&mut self) -> Result<()> {
        let stopped = self.monitor.take().map_or(Ok(()), MonitorThread::stop);
        stopped.and(self.can_monitor())
    }

    fn time(&self) -> Timestamp {
        Timestamp::ZERO + self.started.elapsed()
    }
}

impl<C: Calls> World for LiveWorld<C> {
    /// Nothing that happens on a machine ends its observation.
    type Error = Infallible;

    fn topology(&self) -> Topology {
        self.host.topology()
    }

    fn capabilities(&self) -> Capabilities {
        capabilities(self.is_monitoring())
    }

    fn now(&self) -> Timestamp {
        self.time()
    }

    fn observe(&mut self, out: &mut Observation) -> Infallibly<()> {
        out.clear();
        let now = self.time();
        self.account.read_cpu(now);
        let due = now >= self.next_survey && !self.account.cpu_budget.suspended();
        if due {
            self.survey(now, out);
        }
        out.bits_unread = true;
        self.monitor(out);
        self.hand_over(out);
        // Whether the machine can be read is known by a survey.
        if due {
            self.account.report_faults(now);
        }
        Ok(())
    }

    /// Placement and caps are the engine's wish only: a process allocates where the kernel lets it,
    /// and what it has too much of is demoted afterwards.
    fn migrate(&mut self, plan: &MigrationPlan, out: &mut Vec<MoveOutcome>) -> Infallibly<()> {
        self.carry_out(&plan.moves, out);
        Ok(())
    }

    fn wait_until(&mut self, deadline: Option<Timestamp>) -> Infallibly<bool> {
        let now = self.time();
        let until = deadline.map_or(MAX_WAIT, |d| d.since(now)).min(MAX_WAIT);
        let until = until.max(self.account.shortest_wait(self.config.interval));
        match self.wake.recv_timeout(until) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => Ok(true),
            Err(RecvTimeoutError::Disconnected) => Ok(false),
        }
    }
}

/// What a live world can show: reference bits and samples, if it looks at all. No hint faults: only
/// the kernel can make pages inaccessible to a process that does not take part.
pub fn capabilities(is_monitoring: bool) -> Capabilities {
    Capabilities {
        reference_bits: is_monitoring,
        samples: is_monitoring,
        ..Capabilities::default()
    }
}

/// Where the record of DAMON's threads that were taken is kept.
pub fn damon_record(state: &std::path::Path) -> PathBuf {
    state.join("damon.json")
}
