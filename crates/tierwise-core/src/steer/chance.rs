//! The candidates that were accessed soon after they were poisoned by chance alone.
//!
//! A page that is accessed at random `r` times per second is a candidate with the probability
//! `1 - exp(-r t)` at the hot threshold `t`. Where all slow pages are accessed alike, as in a
//! program that passes over its memory, every scan finds candidates, and none of them is worth a
//! move. The pages that were not candidates show that rate: they wait for their hint faults.
//!
//! ```text
//! r      = faults / time for which poisoned pages waited
//! chance = (poisoned - candidates + chance) * (1 - exp(-r t))
//! ```
//!
//! The time for which pages waited follows from counts a tenth of a second apart. In which part of
//! that tenth the kernel poisoned a chunk is not known, and half of a B+ tree's pages had their
//! faults by the end of it. So `r` is the rate between counts in which no page was poisoned, where
//! those show [`ENOUGH_FAULTS`]: hot pages have had their faults by then. Otherwise it is the rate
//! of the whole pass, with the faults of all pages that were no candidates, and of those that were
//! by chance. They waited for the threshold at least. Both equations then contain their results:
//! they are repeated, from a chance of none.

use std::time::Duration;

use crate::units::Timestamp;

use super::scan::Counts;

/// The repetitions of the two equations. The chance is too small after few. Where half of all pages
/// are candidates by chance, ten leave an error of a seventh, and fifty one of a hundredth.
const REPETITIONS: u32 = 50;

/// The faults after which a rate is known to a tenth.
const ENOUGH_FAULTS: f64 = 100.0;

/// The pages that wait for their hint faults.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct FaultWaits {
    last: Option<(Timestamp, Counts)>,
    /// Of the poisoned pages without a fault, those that do not wait: their processes have exited.
    gone: u64,
    /// Page seconds since the start of the pass.
    time: f64,
    /// The faults since then between counts in which no page was poisoned, and the page seconds.
    settled: (f64, f64),
}

impl FaultWaits {
    /// Makes the pages wait so long that no candidate is explained by chance.
    #[cfg(test)]
    pub(super) fn leave_nothing_to_chance(&mut self) {
        self.time = f64::MAX;
    }
}

/// The candidates of a pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct HotShare {
    /// The part of them that chance does not explain, 0 to 1.
    pub hot: f64,
    /// Accesses per second of the other pages.
    pub cold_rate: f64,
}

impl HotShare {
    /// All of them hot.
    pub(super) const HOT: Self = Self { hot: 1.0, cold_rate: 0.0 };
}

impl FaultWaits {
    /// Handles a reading. No more than the slow pages can wait.
    pub(super) fn follow(&mut self, now: Timestamp, counts: Counts, slow: u64) {
        let all = counts.waiting();
        self.gone = match self.last {
            None => all,
            Some(_) => self.gone.max(all.saturating_sub(slow)).min(all),
        };
        if let Some((at, before)) = self.last.replace((now, counts)) {
            let waited = |counts: &Counts| counts.waiting().saturating_sub(self.gone) as f64;
            let (then, still, seconds) =
                (waited(&before), waited(&counts), now.since(at).as_secs_f64());
            self.time += (then + still) / 2.0 * seconds;
            if counts.poisoned == before.poisoned {
                self.settled.0 += (then - still).max(0.0);
                self.settled.1 += mean_of_decay(then, still) * seconds;
            }
        }
    }

    /// Starts a pass.
    pub(super) fn start(&mut self) {
        (self.time, self.settled) = (0.0, (0.0, 0.0));
    }

    /// Judges the candidates of the pass that started last, by its counts.
    pub(super) fn judge(&self, pass: &Counts, threshold: Duration) -> HotShare {
        let (found, seconds) = (pass.candidates as f64, threshold.as_secs_f64());
        let late = pass.faults.saturating_sub(pass.candidates) as f64;
        let time = self.time.max(late * seconds).max(f64::MIN_POSITIVE);
        let (mut chance, mut rate) = (0.0, 0.0);
        let (faults, waited) = self.settled;
        let settled = (faults >= ENOUGH_FAULTS).then_some(faults / waited);
        for _ in 0..REPETITIONS {
            rate = settled.unwrap_or((late + chance) / time);
            let cold = pass.poisoned as f64 - found + chance;
            chance = (cold.max(0.0) * -(-rate * seconds).exp_m1()).min(found);
        }
        let hot = if found > 0.0 { 1.0 - chance / found } else { 1.0 };
        HotShare { hot, cold_rate: rate }
    }
}

/// The mean of a number that decays exponentially from `then` to `still`.
fn mean_of_decay(then: f64, still: f64) -> f64 {
    // The last page has its fault at some time; a decay to nothing would take for ever.
    let (then, still) = (then.max(0.5), still.max(0.5));
    if then > still { (then - still) / (then / still).ln() } else { then }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(10);
    const THRESHOLD: Duration = Duration::from_millis(50);

    /// The counts so long after 10,000 pages were poisoned, `hot` of them in use all the time and
    /// the others at random so many times per second.
    fn counts(after: Duration, hot: f64, rate: f64) -> Counts {
        let by = |time: Duration| hot + (10_000.0 - hot) * -(-rate * time.as_secs_f64()).exp_m1();
        Counts {
            poisoned: 10_000,
            faults: by(after) as u64,
            candidates: by(after.min(THRESHOLD)) as u64,
            ..Counts::default()
        }
    }

    /// The candidates of a pass that is judged after a second, when `gone` pages wait for ever.
    fn judged(hot: f64, rate: f64, gone: u64) -> HotShare {
        let mut waiting = FaultWaits::default();
        let with_gone = |counts: Counts| Counts { poisoned: counts.poisoned + gone, ..counts };
        let at = |n: u32| Timestamp::ZERO + STEP * n;
        waiting.follow(at(0), with_gone(Counts::default()), 10_000);
        waiting.start();
        let mut last = Counts::default();
        for n in 0..=100 {
            last = counts(STEP * n, hot, rate);
            waiting.follow(at(n), with_gone(last), 10_000);
        }
        waiting.judge(&last, THRESHOLD)
    }

    #[test]
    fn pages_accessed_alike_are_not_hot() {
        for rate in [0.5, 3.0, 15.0] {
            let HotShare { hot, cold_rate } = judged(0.0, rate, 0);
            assert!(hot < 0.05, "{hot} of those at {rate}");
            assert!((cold_rate / rate - 1.0).abs() < 0.05, "{cold_rate} instead of {rate}");
        }
    }

    #[test]
    fn hot_pages_are_told_from_chance() {
        // 9000 cold pages at once per second: 439 of them within the threshold.
        let HotShare { hot, cold_rate } = judged(1000.0, 1.0, 0);
        assert!((hot - 1000.0 / 1439.0).abs() < 0.01, "{hot}");
        assert!((cold_rate - 1.0).abs() < 0.02, "{cold_rate}");
        assert!(judged(1000.0, 0.0, 0).hot > 0.999);
    }

    #[test]
    fn time_of_poisoning_makes_no_difference() {
        // Pages that are accessed five times per second, and readings a tenth of a second apart.
        for after in [0, 30, 70, 99] {
            let mut waiting = FaultWaits::default();
            let at = |ms: u64| Timestamp::ZERO + Duration::from_millis(ms);
            waiting.follow(at(0), Counts::default(), 10_000);
            waiting.start();
            let mut last = Counts::default();
            for reading in 1..=3_u64 {
                last = counts(Duration::from_millis(100 * reading - after), 500.0, 5.0);
                waiting.follow(at(100 * reading), last, 10_000);
            }
            let HotShare { hot, cold_rate } = waiting.judge(&last, THRESHOLD);
            assert!((cold_rate / 5.0 - 1.0).abs() < 0.01, "{cold_rate} after {after} ms");
            // 9,500 cold pages: 2,101 of them within the threshold.
            assert!((hot - 500.0 / 2601.0).abs() < 0.02, "{hot} after {after} ms");
        }
    }

    #[test]
    fn pages_of_ended_processes_do_not_wait() {
        assert_eq!(judged(1000.0, 1.0, 50_000), judged(1000.0, 1.0, 0));
    }

    #[test]
    fn pass_without_candidates_has_no_chance() {
        let found = FaultWaits::default().judge(&Counts::default(), THRESHOLD);
        assert_eq!(found, HotShare { hot: 1.0, cold_rate: 0.0 });
    }
}
