//! The pause between two series of scans.

use std::time::Duration;

use super::{Conditions, EVIDENCE, Judgement};
use crate::units::{Pages, Timestamp};

/// The part of the machine's CPU time that passes may lose.
pub const MAX_SCANNING: f64 = 0.01;

/// The factor by which a pause is shorter when the workload has changed.
const CHANGED: f64 = 5.0;

/// The time from the start of a series for which its pages must be used for the next change to be
/// followed at once. The lab's zigzag uses its pages for 3.5 s, of which a series takes up to two;
/// stairs for ten. Chosen by these two.
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
    pub earned: Duration,
    /// Its length if the pages of the last series save nothing.
    pub unearned: Duration,
    /// Base pages that were idle or free at its start.
    pub idle: Pages,
    /// The start of the last series, if that has gained.
    pub gained: Option<Timestamp>,
    /// The pages of that series were soon idle.
    pub was_short: bool,
}

impl Pause {
    /// The time before the first series, which waits for nothing.
    pub(super) const NONE: Self = Self {
        since: Timestamp::ZERO,
        earned: Duration::ZERO,
        unearned: Duration::ZERO,
        idle: Pages(0),
        gained: None,
        was_short: false,
    };

    /// A pause that starts now, by the judgement of the last pass.
    pub(super) fn new(
        since: Timestamp,
        judgement: &Judgement,
        cpus: f64,
        idle: Pages,
        gained: Option<Timestamp>,
    ) -> Self {
        let Judgement { spent, earned, .. } = *judgement;
        Self {
            since,
            earned: length(spent - earned, cpus),
            unearned: length(spent, cpus),
            idle,
            gained,
            was_short: false,
        }
    }

    /// Its length, unless the workload changes.
    pub(super) fn length(&self) -> Duration {
        if self.was_short { self.unearned } else { self.earned }
    }

    /// True if the next series could start now, or after a change of the workload.
    pub(super) fn may_end(&self, now: Timestamp) -> bool {
        let least = if self.was_short { self.unearned } else { self.earned.div_f64(CHANGED) };
        now.since(self.since) >= least
    }

    /// Handles a count of the idle pages. Returns true if the next series starts now.
    pub(super) fn ends(&mut self, now: Timestamp, of: &Conditions) -> bool {
        let grown = of.idle.0.saturating_sub(self.idle.0) as f64;
        let has_changed = grown >= of.fast.0 as f64 * EVIDENCE;
        let is_early = self.gained.is_some_and(|started| now.since(started) < SHORT_LIFE);
        self.was_short |= has_changed && is_early;
        let is_over = now.since(self.since) >= self.length();
        of.has_work() && (is_over || has_changed && self.may_end(now))
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
    /// instead of a hundred. The pause starts after two seconds.
    fn starts(gained: Option<u64>, changes: u64, idle: u64) -> Option<u64> {
        let mut pause = Pause {
            since: second(2),
            earned: Duration::from_secs(10),
            unearned: Duration::from_secs(20),
            idle: Pages(100),
            gained: gained.map(second),
            was_short: false,
        };
        (2..40).find(|&n| pause.ends(second(n), &of(if n < changes { 100 } else { idle })))
    }

    #[test]
    fn grown_victims_bring_series_forward() {
        // A sixteenth of the fast tier are 62.5 pages, and a fifth of the pause two seconds.
        assert_eq!(starts(None, 3, 162), Some(12));
        assert_eq!(starts(None, 3, 163), Some(4));
        assert_eq!(starts(None, 7, 163), Some(7));
        assert_eq!(starts(None, 3, 0), None, "there is no place");
    }

    #[test]
    fn short_lived_pages_save_nothing() {
        assert_eq!(starts(Some(0), 4, 300), Some(22), "idle within five seconds");
        assert_eq!(starts(Some(0), 5, 300), Some(5));
        assert_eq!(starts(None, 4, 300), Some(4), "they gained nothing before either");
    }

    #[test]
    fn pause_stays_within_its_bounds() {
        assert_eq!(length(0.0, 1.0), MIN_PAUSE);
        assert_eq!(length(-1.0, 1.0), MIN_PAUSE, "it gained something");
        assert_eq!(length(f64::MAX, 1.0), MAX_PAUSE);
        assert_eq!(length(6.4, 64.0), Duration::from_secs(10));
    }
}
