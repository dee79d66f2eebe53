//! Pace: work waits until its part of the CPU budget has paid for what the work has cost so far.
//!
//! The budget has three parts for work whose cost grows with the number of tenants, and the rest is
//! for all other: the start, reading accesses and free memory, waiting processes. With few tenants
//! each kind of work costs so little that it never waits.
//!
//! ```
//! use std::time::Duration;
//! use tierwise_core::units::Timestamp;
//! use tierwise_linux::pace::Pace;
//!
//! // A fifth of 1 % of a CPU: 2 ms per second.
//! let mut pace = Pace::new(0.01, 0.2);
//! let now = Timestamp(5_000_000_000);
//! assert!(pace.is_paid(now));
//! pace.charge(now, Duration::from_millis(6));
//! assert_eq!(pace.wait(now), Duration::from_secs(3));
//! ```

use std::time::Duration;

use tierwise_core::units::Timestamp;

/// Part of the CPU budget for surveys: the largest, because a survey reads files of every process.
pub const SURVEYS: f64 = 0.35;

/// Part of the CPU budget for turns of access monitoring. A report is of use for minutes.
pub const TURNS: f64 = 0.2;

/// Part of the CPU budget for decisions, as much as for turns: a decision without new reports
/// changes little.
pub const DECISIONS: f64 = 0.2;

/// The longest pause: a new process is found within a minute, and a changed reading has an effect
/// within one.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The time in which this part of a CPU pays for a cost.
pub(crate) fn pause(cost: Duration, part: f64) -> Duration {
    let seconds = cost.as_secs_f64() / part;
    Duration::try_from_secs_f64(seconds).map_or(MAX_PAUSE, |pause| pause.min(MAX_PAUSE))
}

/// One kind of work, and the time at which its cost so far will be paid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    part: f64,
    paid: Timestamp,
}

impl Pace {
    /// Work that may take a share of a budget, which is a part of one CPU. Nothing is owed yet.
    pub fn new(budget: f64, share: f64) -> Self {
        Self { part: budget * share, paid: Timestamp::ZERO }
    }

    /// Charges the cost of work that was done until now.
    pub fn charge(&mut self, now: Timestamp, cost: Duration) {
        let owed = self.paid.max(now) + pause(cost, self.part);
        self.paid = owed.min(now + MAX_PAUSE);
    }

    /// The time until the next work may start.
    pub fn wait(&self, now: Timestamp) -> Duration {
        self.paid.since(now)
    }

    /// True if the next work may start.
    pub fn is_paid(&self, now: Timestamp) -> bool {
        now >= self.paid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn pause_is_as_long_as_budgeted() {
        assert_eq!(pause(5 * MS, 0.005), Duration::from_secs(1));
        assert_eq!(pause(100 * MS, 0.005), Duration::from_secs(20));
        assert_eq!(pause(1000 * MS, 0.005), MAX_PAUSE);
        assert_eq!(pause(MS, 0.0), MAX_PAUSE);
        assert_eq!(pause(Duration::ZERO, 0.0), MAX_PAUSE, "nothing can be paid from no budget");
        assert_eq!(pause(Duration::MAX, f64::MAX), Duration::ZERO);
    }

    #[test]
    fn costs_add_up_to_a_minute() {
        let mut pace = Pace::new(0.01, 0.2);
        pace.charge(at(10), 4 * MS);
        pace.charge(at(11), 2 * MS);
        assert_eq!(pace.wait(at(11)), Duration::from_secs(2));
        assert!(!pace.is_paid(at(12)) && pace.is_paid(at(13)));
        // An hour without work saves nothing up.
        pace.charge(at(3600), 2 * MS);
        assert_eq!(pace.wait(at(3600)), Duration::from_secs(1));
        (0..9).for_each(|_| pace.charge(at(3600), 100 * MS));
        assert_eq!(pace.wait(at(3600)), MAX_PAUSE);
    }

    #[test]
    fn cheap_work_never_waits() {
        let mut pace = Pace::new(f64::MAX, DECISIONS);
        pace.charge(at(1), Duration::from_secs(3600));
        assert!(pace.is_paid(at(1)));
    }
}
