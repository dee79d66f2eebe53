//! The account of a live world: CPU time, faults, and the events that follow from both.

use std::time::Duration;

use tierwise_core::units::Timestamp;

use super::cpu_budget::CpuBudget;
use super::faults::{Ledger, Told};
use crate::fault::{Fault, FaultScope, Faults};
use crate::tenant::Changes;
use crate::topology::TierChange;

/// While nothing is looked at there is nothing to decide: rounds are so far apart, which cost
/// something too. A service's latency is then as old.
pub(super) const SUSPENDED_WAIT: Duration = Duration::from_secs(5);

/// Looks that are stretched more than so many times stretch rounds too: fewer of them find anything
/// new.
const ROUNDS_PER_SAMPLING: f64 = 16.0;

/// What happened that people may want to know.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Processes and tenants came and went.
    Tenants(Changes),
    /// Nodes came and went.
    Machine(TierChange),
    /// Something could not be read; or the machine, and nothing is moved until it can be.
    Fault(Fault),
    /// The machine can be read again.
    Readable,
    /// The way of looking failed.
    MonitoringLost(String),
    /// It looks less often than it was told to by this factor from now on, because of its CPU
    /// time.
    Throttled(f64),
    /// Its CPU time is above the cap: it does not look until it is below the budget.
    Suspended(bool),
    /// The kernel refused to move pages.
    Refused(String),
}

/// The daemon's cost, the faults of the current round, and events that nothing has taken yet.
#[derive(Debug)]
pub(super) struct Account {
    pub cpu_budget: CpuBudget,
    /// What could not be read in the current round.
    pub faults: Faults,
    pub ledger: Ledger,
    pub events: Vec<Event>,
}

impl Account {
    /// Without faults or events.
    pub fn new(cpu_budget: CpuBudget) -> Self {
        Self {
            cpu_budget,
            faults: Faults::default(),
            ledger: Ledger::default(),
            events: Vec::new(),
        }
    }

    /// Reads the CPU time used, and reports a change of the throttle.
    pub fn read_cpu(&mut self, now: Timestamp) {
        let (before, suspended) = (self.cpu_budget.throttle(), self.cpu_budget.suspended());
        let read = self.cpu_budget.read(now);
        self.faults.absorb(|| FaultScope::Machine, read);
        if self.cpu_budget.throttle() != before {
            self.events.push(Event::Throttled(self.cpu_budget.throttle()));
        }
        if self.cpu_budget.suspended() != suspended {
            self.events.push(Event::Suspended(self.cpu_budget.suspended()));
        }
    }

    /// Between two rounds that nobody asks for, by what CPU time is left.
    pub fn shortest_wait(&self, interval: Duration) -> Duration {
        if self.cpu_budget.suspended() {
            return SUSPENDED_WAIT;
        }
        let times = self.cpu_budget.throttle() / ROUNDS_PER_SAMPLING;
        if times > 1.0 { interval.mul_f64(times) } else { Duration::ZERO }
    }

    /// What could not be read becomes news, as far as it is any.
    pub fn report_faults(&mut self, now: Timestamp) {
        let events = &mut self.events;
        self.ledger.take(&mut self.faults, now, |told| {
            events.push(match told {
                Told::Fault(fault) => Event::Fault(fault),
                Told::Readable => Event::Readable,
            });
        });
    }
}
