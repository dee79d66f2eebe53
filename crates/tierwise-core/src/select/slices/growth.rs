//! Control of the growth of shares: they wait if they exceeded the memory.

use std::time::Duration;

use crate::units::{Pages, Timestamp};

/// The first wait: a partition interval of a second, in which a live world reports the free and the
/// unmanaged memory again.
const MIN_WAIT: Duration = Duration::from_secs(1);

/// The maximum wait: freed memory is used within a minute.
const MAX_WAIT: Duration = Duration::from_secs(64);

/// Slices after a growth in which the growth counts as the cause of a shortage: the moves of one
/// slice are in the readings of the next, and a late reading is in the one after that. Chosen, not
/// measured: with more slices growth also waits for shortages that others caused; with fewer it
/// repeats one that it caused.
const CAUSED: u32 = 2;

/// The last growth, and the wait that followed.
#[derive(Debug, Clone, Default)]
pub(super) struct Growth {
    grew: Option<Timestamp>,
    wait: Duration,
    resumes: Timestamp,
}

impl Growth {
    /// Starts a slice. A growth without a shortage after it resets the wait.
    pub(super) fn started(&mut self, now: Timestamp, slice: Duration) {
        if self.grew.is_some_and(|grew| now.since(grew) > slice * CAUSED) {
            (self.grew, self.wait) = (None, Duration::ZERO);
        }
    }

    /// Returns true if growth has to wait.
    pub(super) fn waits(&self, now: Timestamp) -> bool {
        now < self.resumes
    }

    /// Records the growth of shares.
    pub(super) fn grew(&mut self, now: Timestamp, pages: Pages) {
        if pages > Pages(0) {
            self.grew = Some(now);
        }
    }

    /// Records that the tier was short and was relieved. A recent growth then starts a wait.
    pub(super) fn relieved(&mut self, now: Timestamp, slice: Duration) {
        if self.grew.take().is_some_and(|grew| now.since(grew) <= slice * CAUSED) {
            self.wait = (self.wait * 2).clamp(MIN_WAIT, MAX_WAIT);
            self.resumes = now + self.wait;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Duration = Duration::from_millis(100);

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp(milliseconds * 1_000_000)
    }

    #[test]
    fn relieved_growth_waits_twice_as_long() {
        let mut growth = Growth::default();
        growth.relieved(at(0), SLICE);
        assert!(!growth.waits(at(0)), "no share grew");
        for (now, wait) in [(100, 1000), (1200, 2000), (3300, 4000)] {
            growth.started(at(now), SLICE);
            growth.grew(at(now), Pages(4));
            growth.relieved(at(now + 100), SLICE);
            assert!(growth.waits(at(now + 99 + wait)));
            assert!(!growth.waits(at(now + 100 + wait)));
        }
        // Growth without a shortage resets the wait.
        growth.grew(at(8000), Pages(4));
        growth.started(at(8300), SLICE);
        growth.grew(at(8300), Pages(4));
        growth.relieved(at(8400), SLICE);
        assert!(!growth.waits(at(9400)));
    }
}
