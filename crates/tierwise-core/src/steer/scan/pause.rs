//! The pause between two series of scans.

use std::time::Duration;

use super::{Conditions, EVIDENCE};
use crate::units::{Pages, Timestamp};

/// The part of the machine's CPU time that passes may lose.
pub const MAX_SCANNING: f64 = 0.01;

/// The factor by which a pause is shorter when the workload has changed.
const CHANGED: f64 = 5.0;

/// The time for which promoted pages must be used for the next change to be followed at once: they
/// save nothing if half of them are idle within it. They became idle between two counts, in the
/// middle as far as is known. The lab's zigzag uses its pages for 3.5 s, of which finding them
/// takes half; stairs for ten. Chosen by these two.
const SHORT_LIFE: Duration = Duration::from_secs(3);

/// The factor by which more pages are idle than a series has promoted and were in use, from which
/// on most of them are older.
pub(super) const OLDER: f64 = 2.0;

/// The shortest pause: the time between two readings without a scan.
pub(super) const MIN_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause: the kernel's longest scan period by default.
pub const MAX_PAUSE: Duration = Duration::from_secs(60);

/// A pause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pause {
    pub since: Timestamp,
    /// The last count of the idle pages.
    pub counted: Timestamp,
    /// Base pages that were idle or free at its start.
    pub idle: Pages,
    /// Base pages that the series before it has promoted and that were in use.
    pub used: f64,
    /// Its length while the workload stays as it is.
    pub length: Duration,
    /// Its length if the pages of the series save nothing.
    pub unearned: Duration,
    /// The last count found that the workload has changed.
    pub has_changed: bool,
    /// Free pages were filled in it.
    pub has_filled: bool,
}

impl Pause {
    /// The time before the first series, which waits for nothing.
    pub(super) const NONE: Self = Self {
        since: Timestamp::ZERO,
        counted: Timestamp::ZERO,
        idle: Pages(0),
        used: 0.0,
        length: Duration::ZERO,
        unearned: Duration::ZERO,
        has_changed: false,
        has_filled: false,
    };

    /// True if the next series could start now, or after a change of the workload.
    pub(super) fn may_end(&self, now: Timestamp) -> bool {
        now.since(self.since) >= self.length.div_f64(CHANGED)
    }

    /// The time until the next series could start, if the last count found a change.
    pub(super) fn recount(&self, now: Timestamp) -> Option<Duration> {
        let left = self.length.div_f64(CHANGED).saturating_sub(now.since(self.since));
        (self.has_changed && !left.is_zero()).then_some(left)
    }

    /// Handles a count of the idle pages. Returns true if the next series starts now.
    pub(super) fn ends(&mut self, now: Timestamp, of: &Conditions) -> bool {
        let (fast, time) = (of.fast.0 as f64, now.since(self.since));
        let grown = of.idle.0.saturating_sub(self.idle.0) as f64;
        let has_gained = self.used >= fast * EVIDENCE;
        let are_of_series = (self.used / 2.0..self.used * OLDER).contains(&grown);
        // The pages became idle at some time since the last count.
        let life = (time + self.counted.since(self.since)) / 2;
        self.counted = now;
        if has_gained && are_of_series && life < SHORT_LIFE {
            (self.length, self.used) = (self.unearned, 0.0);
            // The change was noticed, and is not followed.
            self.idle = of.idle;
        }
        self.has_changed = of.idle.0.saturating_sub(self.idle.0) as f64 >= fast * EVIDENCE;
        of.has_work() && (time >= self.length || self.has_changed && self.may_end(now))
    }
}

/// The pause after a loss of so many seconds of CPU time.
pub(super) fn length(loss: f64, cpus: f64) -> Duration {
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
            in_use: Pages(0),
            places: Pages(idle),
            threshold: Duration::from_millis(50),
            is_longer: false,
            fast: Pages(1000),
            slow: Pages(9000),
            counting: Duration::ZERO,
            doubts_heat: true,
            spare: Pages(0),
        }
    }

    fn second(n: u64) -> Timestamp {
        Timestamp(n * 1_000_000_000)
    }

    /// The second in which the next series starts, if from `changes` on `idle` pages are idle
    /// instead of a hundred.
    fn starts(used: f64, changes: u64, idle: u64) -> Option<u64> {
        let (length, unearned) = (Duration::from_secs(10), Duration::from_secs(30));
        let mut pause = Pause { length, unearned, used, idle: Pages(100), ..Pause::NONE };
        let idle = |n| if n < changes { 100 } else { idle };
        (0..40).find(|&n| pause.ends(second(n), &of(idle(n))))
    }

    #[test]
    fn grown_victims_bring_series_forward() {
        // A sixteenth of the fast tier are 62.5 pages, and a fifth of the pause two seconds.
        assert_eq!(starts(0.0, 1, 162), Some(10));
        assert_eq!(starts(0.0, 1, 163), Some(2));
        assert_eq!(starts(0.0, 7, 163), Some(7));
        assert_eq!(starts(0.0, 3, 0), None, "there is no place");
    }

    #[test]
    fn change_seen_early_is_counted_again() {
        let mut pause = Pause { length: Duration::from_secs(10), idle: Pages(100), ..Pause::NONE };
        assert!(!pause.ends(second(1), &of(100)));
        assert_eq!(pause.recount(second(1)), None, "no change");
        assert!(!pause.ends(second(1), &of(300)));
        assert_eq!(pause.recount(second(1)), Some(Duration::from_secs(1)), "a fifth of ten");
        assert!(pause.ends(second(2), &of(300)));
        assert_eq!(pause.recount(second(2)), None);
    }

    #[test]
    fn short_lived_pages_save_nothing() {
        assert_eq!(starts(400.0, 2, 300), Some(30), "half of them are idle within three seconds");
        assert_eq!(starts(400.0, 3, 300), Some(30), "between the second and the third");
        assert_eq!(starts(400.0, 4, 300), Some(4));
        assert_eq!(starts(400.0, 2, 299), Some(2), "most of them are in use");
        assert_eq!(starts(100.0, 2, 299), Some(30));
        assert_eq!(starts(100.0, 2, 300), Some(2), "most of the idle ones are older");
    }

    #[test]
    fn pause_stays_within_its_bounds() {
        assert_eq!(length(0.0, 1.0), MIN_PAUSE);
        assert_eq!(length(-1.0, 1.0), MIN_PAUSE, "it gained something");
        assert_eq!(length(f64::MAX, 1.0), MAX_PAUSE);
        assert_eq!(length(6.4, 64.0), Duration::from_secs(10));
    }
}
