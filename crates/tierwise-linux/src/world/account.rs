//! The account of a live world: CPU time, faults, and the events that follow from both.

use std::time::Duration;

use tierwise_core::units::Timestamp;

use super::cpu_budget::CpuBudget;
use super::faults::{FaultReport, Ledger};
use crate::fault::{FaultScope, Faults, HostFault};
use crate::tenant::TenantChanges;
use crate::topology::TierChange;

/// Time between rounds while monitoring is suspended: without accesses there is nothing to decide,
/// and rounds cost CPU time, too. A service's latency is then as old.
pub(super) const SUSPENDED_WAIT: Duration = Duration::from_secs(5);

/// Throttle factor above which rounds become rarer, too: with monitoring intervals that long, fewer
/// rounds find new accesses.
const ROUNDS_PER_SAMPLING: f64 = 16.0;

/// An event for the log.
#[derive(Debug, Clone, PartialEq)]
pub enum WorldEvent {
    /// Processes and tenants that came or ended.
    Tenants(TenantChanges),
    /// Nodes that came or went.
    Machine(TierChange),
    /// Failure to read something. While it is the machine, nothing is moved.
    Fault(HostFault),
    /// The machine can be read again.
    Readable,
    /// The access monitoring source failed.
    MonitoringLost(String),
    /// New throttle factor: intervals are this many times as long as configured, because of the
    /// daemon's CPU time.
    Throttled(f64),
    /// True: monitoring is suspended because CPU time is above the cap. False: it is on again,
    /// because CPU time is below the budget.
    Suspended(bool),
    /// The kernel refuses to move pages.
    Refused(String),
}

/// The daemon's cost, the faults of the current round, and events that nothing has taken yet.
#[derive(Debug)]
pub(super) struct DaemonAccount {
    pub cpu_budget: CpuBudget,
    /// Failed reads of the current round.
    pub faults: Faults,
    pub ledger: Ledger,
    pub events: Vec<WorldEvent>,
}

impl DaemonAccount {
    /// An account without faults or events.
    pub(super) fn new(cpu_budget: CpuBudget) -> Self {
        Self {
            cpu_budget,
            faults: Faults::default(),
            ledger: Ledger::default(),
            events: Vec::new(),
        }
    }

    /// Reads the CPU time used. A change of the throttle or a suspension becomes an event.
    pub(super) fn read_cpu(&mut self, now: Timestamp) {
        let (before, suspended) = (self.cpu_budget.throttle(), self.cpu_budget.suspended());
        let read = self.cpu_budget.read(now);
        self.faults.absorb(|| FaultScope::Machine, read);
        if self.cpu_budget.throttle() != before {
            self.events.push(WorldEvent::Throttled(self.cpu_budget.throttle()));
        }
        if self.cpu_budget.suspended() != suspended {
            self.events.push(WorldEvent::Suspended(self.cpu_budget.suspended()));
        }
    }

    /// Shortest wait between two rounds, by the CPU time left. A wake-up ends it earlier.
    pub(super) fn shortest_wait(&self, interval: Duration) -> Duration {
        if self.cpu_budget.suspended() {
            return SUSPENDED_WAIT;
        }
        let times = self.cpu_budget.throttle() / ROUNDS_PER_SAMPLING;
        if times > 1.0 { interval.mul_f64(times) } else { Duration::ZERO }
    }

    /// Turns faults into events, as far as they are worth reporting.
    pub(super) fn report_faults(&mut self, now: Timestamp) {
        let events = &mut self.events;
        self.ledger.take(&mut self.faults, now, |report| {
            events.push(match report {
                FaultReport::Fault(fault) => WorldEvent::Fault(fault),
                FaultReport::Readable => WorldEvent::Readable,
            });
        });
    }
}
