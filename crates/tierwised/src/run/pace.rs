//! Pace of work whose cost other users can raise: the kernel's list of generations is as long as
//! there are control groups.

use std::time::{Duration, Instant};

/// Time between two turns of such work that costs little.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// Time per turn in which orders are given to the kernel, which answers when it has done each: a
/// round must not be long.
pub(super) const ORDERS: Duration = Duration::from_millis(50);

/// Longest rest: work that takes a CPU for seconds must not end for good.
const MAX_REST: Duration = Duration::from_secs(600);

/// The time of the next turn.
#[derive(Debug)]
pub(super) struct RestPace(Instant);

impl RestPace {
    /// The first turn is after an interval.
    pub(super) fn new() -> Self {
        Self(Instant::now() + INTERVAL)
    }

    /// True if it is time for the next turn.
    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.0
    }

    /// Rests after a turn that cost this CPU time, so that all turns together take this part of a
    /// CPU at most.
    pub(super) fn rest(&mut self, cost: Duration, part: f64) {
        self.0 = Instant::now() + rest(cost, part);
    }

    /// Rests for this time at least from now on.
    pub(super) fn wait(&mut self, time: Duration) {
        self.0 = self.0.max(Instant::now() + time);
    }
}

fn rest(cost: Duration, part: f64) -> Duration {
    let seconds = cost.as_secs_f64() / part.max(f64::MIN_POSITIVE);
    Duration::from_secs_f64(seconds.min(MAX_REST.as_secs_f64())).max(INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_shortens_no_rest() {
        let mut pace = RestPace::new();
        pace.rest(Duration::from_secs(1), 0.01);
        pace.wait(Duration::from_secs(50));
        assert!(pace.0 > Instant::now() + Duration::from_secs(80));
        pace.wait(Duration::from_secs(500));
        assert!(pace.0 > Instant::now() + Duration::from_secs(400));
    }

    #[test]
    fn dear_work_rests_in_proportion() {
        let ms = Duration::from_millis;
        assert_eq!(rest(ms(2), 0.01), INTERVAL);
        assert_eq!(rest(ms(250), 0.01), Duration::from_secs(25));
        assert_eq!(rest(ms(250), 0.0), MAX_REST);
        assert_eq!(rest(Duration::ZERO, 0.0), INTERVAL);
        assert_eq!(rest(Duration::MAX, f64::NAN), MAX_REST);
    }
}
