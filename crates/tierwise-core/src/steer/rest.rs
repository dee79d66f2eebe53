//! The kernel's rest between two scans.
//!
//! A thread's scans take at most a thirty-second part of its CPU time (`task_numa_work`). So after
//! a scan of all of its memory the kernel poisons nothing for up to several seconds, whatever the
//! scan period. Room that is made for a scan so long before it is lost fast memory: a seventh of
//! Redis' for five seconds. So the rest is measured, and room is made when the scan begins.

use std::time::Duration;

use crate::units::Timestamp;

/// The time after which a scan that was switched on has not begun at once: three readings.
const AT_ONCE: Duration = Duration::from_millis(300);

/// The time after which a scan that should have begun is late: the kernel may have nothing to
/// poison, because all slow pages wait for their faults.
const LATE: Duration = Duration::from_secs(2);

/// Time between two looks for a scan that is late. A reading takes 1.5 ms of an emulated CPU; ten
/// per second took 0.1 s of a program of ten seconds.
pub(super) const LATE_INTERVAL: Duration = Duration::from_millis(300);

/// The time by which a rest may end earlier than the last one: a reading within a scan.
const EARLIER: Duration = Duration::from_millis(100);

/// What is known of the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ScanRest {
    /// The last poisoned pages: when they were noticed, and all poisoned until then.
    last: Option<(Timestamp, u64)>,
    rest: Duration,
}

impl ScanRest {
    /// Handles a reading. `since` is when the kernel was last switched to scan, if it still scans,
    /// and `enough` the pages that are a scan of the tenants' memory: other processes have some.
    pub(super) fn follow(
        &mut self,
        now: Timestamp,
        poisoned: u64,
        enough: u64,
        since: Option<Timestamp>,
    ) {
        let Some((at, before)) = self.last else {
            self.last = Some((now, poisoned));
            return;
        };
        if poisoned.saturating_sub(before) < enough.max(1) {
            return;
        }
        let (idle, began) = (now.since(at), since.map(|since| now.since(since)));
        self.rest = match began {
            Some(waited) if waited > AT_ONCE => idle,
            _ => self.rest.min(idle),
        };
        self.last = Some((now, poisoned));
    }

    /// The rest that is left.
    pub(super) fn left(&self, now: Timestamp) -> Duration {
        self.last.map_or(Duration::ZERO, |(at, _)| self.rest.saturating_sub(now.since(at)))
    }

    /// The time for which a scan that was switched on at `since` need not be looked for.
    pub(super) fn until_scan(&self, now: Timestamp, since: Timestamp) -> Duration {
        let left = self.left(now).saturating_sub(EARLIER);
        if left.is_zero() && now.since(since) >= LATE { LATE_INTERVAL } else { left }
    }

    /// True if a scan that is switched on now is expected to begin at once.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.left(now).is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tenths: u64) -> Timestamp {
        Timestamp(tenths * 100_000_000)
    }

    #[test]
    fn rest_follows_scans_that_waited() {
        let mut rest = ScanRest::default();
        assert!(rest.is_over(at(0)), "nothing is known");
        rest.follow(at(0), 0, 1000, None);
        // A scan of two chunks.
        rest.follow(at(11), 5000, 1000, Some(at(10)));
        rest.follow(at(12), 9000, 1000, Some(at(10)));
        assert!(rest.is_over(at(13)));
        // The next one begins after 4.8 s, of which the kernel was to scan for 4.4.
        rest.follow(at(40), 9000, 1000, Some(at(16)));
        rest.follow(at(60), 12_000, 1000, Some(at(16)));
        assert!(!rest.is_over(at(107)) && rest.is_over(at(108)));
        assert_eq!(rest.left(at(78)), Duration::from_secs(3));
        rest.follow(at(65), 12_900, 1000, Some(at(65)));
        assert!(rest.is_over(at(108)), "pages of another process");
        // A scan that begins at once after 2 s shows that the rest is shorter.
        rest.follow(at(80), 13_000, 1000, Some(at(79)));
        assert!(!rest.is_over(at(99)) && rest.is_over(at(100)));
    }
}
