//! The account of a live world: CPU time, faults, and the events that follow from both.

use std::time::Duration;

use tierwise_core::units::Timestamp;

use super::cpu_budget::CpuBudget;
use super::faults::{FaultReport, Ledger};
use crate::fault::{FaultScope, Faults, HostFault};
use crate::pace::{DECISIONS, Pace};
use crate::tenant::TenantChanges;
use crate::topology::TierChange;

/// Time between rounds while monitoring is suspended: without accesses there is nothing to decide,
/// and rounds cost CPU time, too. A service's latency is then as old.
pub(super) const SUSPENDED_WAIT: Duration = Duration::from_secs(5);

/// Longest wait while too little is known of the daemon's own cost: monitoring that costs too much
/// is noticed within seconds. A round that does not decide costs a millisecond.
const LEARNING_WAIT: Duration = Duration::from_secs(1);

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
    /// Pace of rounds that decide.
    pub decisions: Pace,
    /// The current round decides.
    pub decides: bool,
    /// CPU time in the current round of work that is paid for apart: surveys and moves.
    pub apart: Duration,
    /// CPU time in the current round of observing the machine and of moves: what is left is the
    /// policy's.
    pub of_world: Duration,
    /// Failed reads of the current round.
    pub faults: Faults,
    pub ledger: Ledger,
    pub events: Vec<WorldEvent>,
}

impl DaemonAccount {
    /// An account without faults or events, of a budget and a cap in parts of one CPU.
    pub(super) fn new(budget: f64, cap: f64) -> Self {
        Self {
            cpu_budget: CpuBudget::new(budget, cap),
            decisions: Pace::new(budget, DECISIONS),
            decides: false,
            apart: Duration::ZERO,
            of_world: Duration::ZERO,
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
    pub(super) fn shortest_wait(&self, now: Timestamp, interval: Duration) -> Duration {
        let unpaid = self.decisions.wait(now);
        if self.cpu_budget.suspended() {
            return unpaid.max(SUSPENDED_WAIT);
        }
        if self.cpu_budget.is_learning() {
            return unpaid.min(LEARNING_WAIT);
        }
        let times = self.cpu_budget.throttle() / ROUNDS_PER_SAMPLING;
        if times > 1.0 { unpaid.max(interval.mul_f64(times)) } else { unpaid }
    }

    /// Starts a decision, unless the last ones are not paid for yet.
    pub(super) fn starts_decision(&mut self, now: Timestamp) -> bool {
        self.decides = self.decisions.is_paid(now);
        self.decides
    }

    /// Ends a round that took this CPU time. A round that did not decide is not charged: whoever
    /// wakes the daemon must not delay its decisions.
    pub(super) fn end_round(&mut self, now: Timestamp, cost: Duration) {
        let own = cost.saturating_sub(std::mem::take(&mut self.apart));
        self.cpu_budget.deciding(cost.saturating_sub(std::mem::take(&mut self.of_world)));
        if std::mem::take(&mut self.decides) {
            self.decisions.charge(now, own);
            self.cpu_budget.decided(own);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_has_what_the_world_leaves() {
        let (mut account, ms) = (DaemonAccount::new(0.01, 0.03), Duration::from_millis);
        account.of_world = ms(150);
        account.end_round(Timestamp::ZERO, ms(206));
        account.end_round(Timestamp::ZERO, ms(4));
        assert_eq!(account.cpu_budget.deciding_so_far(), ms(60));
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn decisions_wait_until_they_are_paid() {
        let (mut account, ms) = (DaemonAccount::new(0.01, 0.03), Duration::from_millis);
        let wait = |account: &DaemonAccount, now| account.shortest_wait(at(now), ms(1000));
        assert!(account.starts_decision(at(0)));
        // A survey of 200 ms was in the round; 2 ms are paid for per second.
        account.apart = ms(200);
        account.end_round(at(0), ms(206));
        assert_eq!(wait(&account, 0), ms(1000), "its own cost is not known yet");
        (0..=5).for_each(|n| account.cpu_budget.spent(at(1000 * n), Duration::ZERO));
        assert_eq!(wait(&account, 0), ms(3000));
        // A wake-up comes earlier, and its round is free.
        assert!(!account.starts_decision(at(1000)));
        account.end_round(at(1000), ms(4));
        assert_eq!(wait(&account, 1000), ms(2000));
        assert!(account.starts_decision(at(3000)));
        // Decisions of few tenants cost too little to wait for the next one, half a second later.
        account.end_round(at(3000), ms(1));
        assert_eq!(wait(&account, 3000), ms(500));
        assert!(account.starts_decision(at(3500)));
    }
}
