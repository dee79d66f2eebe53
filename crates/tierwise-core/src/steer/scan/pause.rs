//! The pause between two series of scans.

use std::time::Duration;

use super::{Conditions, EVIDENCE};
use crate::units::{Pages, Timestamp};

/// The part of the machine's CPU time that passes may lose.
pub const MAX_SCANNING: f64 = 0.01;

/// The factor by which a pause is shorter when the workload has changed.
const CHANGED: f64 = 5.0;

/// The time for which promoted pages must be used for the next change to be followed at once. A
/// series takes seconds, in which pages that are hot for 3.5 s (the lab's zigzag) are half over;
/// those of stairs are hot for ten. Chosen by these two.
const SHORT_LIFE: Duration = Duration::from_secs(5);

/// The shortest pause: the time between two readings without a scan.
pub(super) const MIN_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause: the kernel's longest scan period by default.
pub const MAX_PAUSE: Duration = Duration::from_secs(60);

/// A pause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pause {
    pub since: Timestamp,
    /// Its length while the workload stays as it is.
    pub length: Duration,
    /// Base pages that were idle or free at its start.
    pub idle: Pages,
    /// The pages promoted before it were soon idle.
    pub was_short: bool,
}

impl Pause {
    /// The time before the first series, which waits for nothing.
    pub(super) const NONE: Self =
        Self { since: Timestamp::ZERO, length: Duration::ZERO, idle: Pages(0), was_short: false };

    /// A pause after a pass that lost so many seconds of CPU time.
    pub(super) fn new(since: Timestamp, loss: f64, cpus: f64, idle: Pages) -> Self {
        Self { since, length: length(loss, cpus), idle, was_short: false }
    }

    /// True if the next series could start now, or after a change of the workload.
    pub(super) fn may_end(&self, now: Timestamp) -> bool {
        now.since(self.since) >= self.length.div_f64(CHANGED)
    }

    /// Handles a count of the idle pages. Returns true if the next series starts now. `has_gained`
    /// is true if the last one has, and no count since found nothing to do.
    pub(super) fn ends(&mut self, now: Timestamp, of: &Conditions, has_gained: bool) -> bool {
        let grown = of.idle.0.saturating_sub(self.idle.0) as f64;
        let has_changed = grown >= of.fast.0 as f64 * EVIDENCE;
        let is_early = has_gained && now.since(self.since) < SHORT_LIFE;
        self.was_short |= has_changed && is_early;
        let is_followed = has_changed && !self.was_short;
        let wait = if is_followed { self.length.div_f64(CHANGED) } else { self.length };
        of.has_work() && now.since(self.since) >= wait
    }
}

/// The pause after a pass that lost so many seconds.
fn length(loss: f64, cpus: f64) -> Duration {
    let seconds = loss / (MAX_SCANNING * cpus.max(1.0));
    Duration::from_secs_f64(seconds.clamp(0.0, MAX_PAUSE.as_secs_f64())).max(MIN_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Conditions under which a series starts as soon as the pause is over.
    fn of(idle: u64) -> Conditions {
        Conditions {
            free: Pages(0),
            idle: Pages(idle),
            places: Pages(idle),
            threshold: Duration::from_millis(50),
            is_longer: false,
            fast: Pages(1000),
            slow: Pages(9000),
            counting: Duration::ZERO,
            doubts_heat: true,
        }
    }

    fn second(n: u64) -> Timestamp {
        Timestamp(n * 1_000_000_000)
    }

    /// The second in which the next series starts, if from `changes` on `idle` pages are idle
    /// instead of a hundred.
    fn starts(has_gained: bool, changes: u64, idle: u64) -> Option<u64> {
        let length = Duration::from_secs(10);
        let mut pause = Pause { length, idle: Pages(100), ..Pause::NONE };
        let idle = |n| if n < changes { 100 } else { idle };
        (0..40).find(|&n| pause.ends(second(n), &of(idle(n)), has_gained))
    }

    #[test]
    fn grown_victims_bring_series_forward() {
        // A sixteenth of the fast tier are 62.5 pages, and a fifth of the pause two seconds.
        assert_eq!(starts(false, 1, 162), Some(10));
        assert_eq!(starts(false, 1, 163), Some(2));
        assert_eq!(starts(false, 7, 163), Some(7));
        assert_eq!(starts(false, 3, 0), None, "there is no place");
    }

    #[test]
    fn short_lived_pages_are_not_followed() {
        assert_eq!(starts(true, 4, 300), Some(10), "idle within five seconds");
        assert_eq!(starts(true, 5, 300), Some(5));
    }

    #[test]
    fn pause_stays_within_its_bounds() {
        assert_eq!(length(0.0, 1.0), MIN_PAUSE);
        assert_eq!(length(-1.0, 1.0), MIN_PAUSE, "it gained something");
        assert_eq!(length(f64::MAX, 1.0), MAX_PAUSE);
        assert_eq!(length(6.4, 64.0), Duration::from_secs(10));
    }
}
