//! The times at which the kernel scans.
//!
//! A scan poisons slow pages, and each of them that is accessed later costs a hint fault. The next
//! scan shows the gain of a scan: a promoted page is no candidate again, so the part of poisoned
//! pages that are candidates falls. If that part does not fall, the displaced pages are used as
//! much as the promoted ones, or the candidates were accessed by chance. Then the scan gained
//! nothing. A *pass* is one scan of the tenants' slow memory. Each pass is judged:
//!
//! ```text
//! effect = (candidates before / poisoned before - candidates / poisoned) * poisoned
//!          / promoted before                         (between 0 and 1; 1 for the first pass)
//! gain   = effect * promoted * horizon * m * saved / (2 * threshold)
//! cost   = faults * fault + (promoted + demoted) * copy
//! ```
//!
//! `1 / threshold` is the minimum rate of accesses of a promoted page. Half of that is the maximum
//! rate of a displaced page. While the gain is at least the cost, another pass follows as soon as
//! the idle pages are counted again. Before it, as many idle pages are demoted as candidates found
//! no free page in the last pass. Otherwise the next pass starts when the cost less the gain is
//! [`MAX_SCANNING`] of the time since the last. If many more fast pages are idle than before, the
//! workload has changed, and the next pass starts when it is five times that part.

use std::time::Duration;

use super::{KernelReading, PromotionVictims, SteeringCosts};
use crate::units::{Pages, Timestamp};

/// Last-level misses per access to a page. The true number is between one and 64, the lines of a
/// page, and is not known; this is the geometric mean. A wrong gain costs passes that have no
/// effect, and the next pass shows that.
pub const MISSES_PER_ACCESS: f64 = 8.0;

/// The time for which a promoted page is expected to be used as it is now. Placement cannot help a
/// program that changes faster.
pub const HORIZON: Duration = Duration::from_secs(60);

/// The part of the machine's CPU time that passes may lose.
pub const MAX_SCANNING: f64 = 0.01;

/// The factor by which a pause is shorter when the workload has changed.
const CHANGED: f64 = 5.0;

/// The part of the fast tier by which the victims must have grown for a workload to count as
/// changed.
const GROWN: f64 = 1.0 / 16.0;

/// The part of the tenants' slow memory at which a pass is complete: the kernel passes over memory
/// that no process maps or no running thread uses.
const COMPLETE: f64 = 0.8;

/// The longest pass: memory of processes that do not run is not scanned.
const MAX_PASS: Duration = Duration::from_secs(10);

/// The shortest pause: the time between two readings without a scan.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause: the kernel's longest scan period by default.
pub const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Counts since the machine started, as in [`KernelReading`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    promoted: u64,
    candidates: u64,
    demoted: u64,
    faults: u64,
    poisoned: u64,
}

impl Counts {
    pub(super) fn of(reading: &KernelReading) -> Self {
        let &KernelReading { promoted, candidates, demoted, faults, poisoned, .. } = reading;
        Self { promoted, candidates, demoted, faults, poisoned }
    }

    /// The increase of the counts since `then`; zero for a counter that fell.
    fn since(&self, then: &Self) -> Self {
        Self {
            promoted: self.promoted.saturating_sub(then.promoted),
            candidates: self.candidates.saturating_sub(then.candidates),
            demoted: self.demoted.saturating_sub(then.demoted),
            faults: self.faults.saturating_sub(then.faults),
            poisoned: self.poisoned.saturating_sub(then.poisoned),
        }
    }
}

/// A pass that has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pass {
    counts: Counts,
    took: Duration,
    /// In seconds.
    cost: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// A pass.
    On { since: Timestamp, counts: Counts, before: Option<Pass>, scanned: Option<Timestamp> },
    /// A pause. After a pass that paid, it ends when the idle pages are counted.
    Off { since: Timestamp, pause: Duration, victims: Pages, before: Option<Pass> },
}

impl State {
    /// Makes a pause before the first of a series of passes.
    fn off(since: Timestamp, pause: Duration) -> Self {
        Self::Off { since, pause, victims: Pages(0), before: None }
    }
}

/// The conditions of a pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conditions {
    pub victims: PromotionVictims,
    pub threshold: Duration,
    /// Base pages of the fastest tier.
    pub fast: Pages,
    /// Base pages of the tenants in slower tiers.
    pub slow: Pages,
}

/// The result of [`Scanning::update`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The first of a series of passes starts.
    Started,
    /// A pass has ended after the time `took` with so many candidates. Another follows if it paid.
    Ended { took: Duration, candidates: u64, pays: bool },
    /// The pass or the pause continues.
    None,
}

/// Decides when the kernel scans.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scanning {
    costs: SteeringCosts,
    state: State,
}

impl Scanning {
    pub(super) fn new(costs: SteeringCosts) -> Self {
        Self { costs, state: State::off(Timestamp::ZERO, Duration::ZERO) }
    }

    pub(super) fn is_on(&self) -> bool {
        matches!(self.state, State::On { .. })
    }

    /// The whole length of the present pause; zero if there is none.
    pub(super) fn pause(&self) -> Duration {
        match self.state {
            State::On { .. } => Duration::ZERO,
            State::Off { pause, .. } => pause,
        }
    }

    /// Returns true if another pass of a series waits for the idle pages to be counted.
    pub(super) fn continues(&self) -> bool {
        matches!(self.state, State::Off { before: Some(_), .. })
    }

    /// The candidates that found no free page in the last pass of a series that continues. `rate`
    /// is in base pages per second: candidates beyond it were not promoted for another reason.
    pub(super) fn without_room(&self, rate: Option<Pages>) -> Pages {
        match self.state {
            State::Off { before: Some(Pass { counts, took, .. }), .. } => {
                // The kernel counts against the rate in whole seconds.
                let seconds = took.as_secs_f64().max(1.0);
                let most = rate.map_or(u64::MAX, |rate| (rate.0 as f64 * seconds) as u64);
                Pages(counts.candidates.min(most).saturating_sub(counts.promoted))
            }
            _ => Pages(0),
        }
    }

    /// Makes another pass follow, whatever the last pass gained.
    pub(super) fn repeat(&mut self, now: Timestamp) {
        self.state = State::off(now, Duration::ZERO);
    }

    /// Handles counts. A pass starts only with a fresh count of the idle pages. A count that finds
    /// none ends a series.
    pub(super) fn update(
        &mut self,
        now: Timestamp,
        counts: Counts,
        of: &Conditions,
        is_fresh: bool,
    ) -> Step {
        match self.state {
            State::On { .. } => self.follow_pass(now, counts, of),
            State::Off { since, pause, victims, before }
                if is_fresh && of.victims.pages > Pages(0) =>
            {
                let grown = of.victims.pages.0.saturating_sub(victims.0) as f64;
                let has_changed = grown >= of.fast.0 as f64 * GROWN;
                if now.since(since) < if has_changed { pause.div_f64(CHANGED) } else { pause } {
                    return Step::None;
                }
                self.state = State::On { since: now, counts, before, scanned: None };
                if before.is_none() { Step::Started } else { Step::None }
            }
            State::Off { before: Some(Pass { cost, .. }), .. } if is_fresh => {
                self.state = State::off(now, self.pause_after(cost));
                Step::None
            }
            State::Off { .. } => Step::None,
        }
    }

    fn follow_pass(&mut self, now: Timestamp, counts: Counts, of: &Conditions) -> Step {
        let State::On { since, counts: first, before, scanned } = &mut self.state else {
            return Step::None;
        };
        let pass = counts.since(first);
        let is_complete = pass.poisoned as f64 >= of.slow.0 as f64 * COMPLETE;
        if scanned.is_none() && (is_complete || now.since(*since) >= MAX_PASS) {
            *scanned = Some(now);
        }
        // The pages that were poisoned last have the threshold's time to be accessed.
        if scanned.is_none_or(|at| now.since(at) < of.threshold) {
            return Step::None;
        }
        let (before, took) = (*before, now.since(*since));
        let (gain, cost) =
            self.judge(&pass, before.as_ref().map(|before| &before.counts), of.threshold);
        let pays = gain >= cost && of.victims.pages > Pages(0);
        let victims = of.victims.pages;
        self.state = if pays {
            State::Off {
                since: now,
                pause: Duration::ZERO,
                victims,
                before: Some(Pass { counts: pass, took, cost }),
            }
        } else {
            State::Off { since: now, pause: self.pause_after(cost - gain), victims, before: None }
        };
        Step::Ended { took, candidates: pass.candidates, pays }
    }

    /// Gain and cost of a pass in seconds.
    fn judge(&self, pass: &Counts, before: Option<&Counts>, threshold: Duration) -> (f64, f64) {
        let SteeringCosts { saved, copy, fault, .. } = self.costs;
        let misses = MISSES_PER_ACCESS / (2.0 * threshold.as_secs_f64().max(1e-9));
        let each = HORIZON.as_secs_f64() * misses * saved.as_secs_f64();
        let gain = before.map_or(1.0, |before| effect(pass, before)) * pass.promoted as f64 * each;
        let copies = pass.promoted.saturating_add(pass.demoted) as f64;
        let cost = pass.faults as f64 * fault.as_secs_f64() + copies * copy.as_secs_f64();
        (gain, cost)
    }

    /// The pause after a pass that lost so many seconds.
    fn pause_after(&self, loss: f64) -> Duration {
        let seconds = loss / (MAX_SCANNING * self.costs.cpus.max(1.0));
        Duration::from_secs_f64(seconds.clamp(0.0, MAX_PAUSE.as_secs_f64())).max(MIN_PAUSE)
    }
}

/// The part of the previous pass's promotions that removed candidates from the slow tiers, 0 to 1.
fn effect(pass: &Counts, before: &Counts) -> f64 {
    if before.promoted == 0 || before.poisoned == 0 || pass.poisoned == 0 {
        return 0.0;
    }
    let part = |counts: &Counts| counts.candidates as f64 / counts.poisoned as f64;
    let fewer = (part(before) - part(pass)) * pass.poisoned as f64;
    (fewer / before.promoted as f64).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: SteeringCosts = SteeringCosts {
        saved: Duration::from_nanos(130),
        copy: Duration::from_nanos(2500),
        fault: Duration::from_nanos(5000),
        cpus: 1.0,
    };
    const IDLE: PromotionVictims = PromotionVictims {
        pages: Pages(400),
        idle: Some((Duration::from_millis(100), Duration::from_millis(100))),
    };

    fn tenth(n: u64) -> Timestamp {
        Timestamp(n * 100_000_000)
    }

    fn of(victims: u64) -> Conditions {
        Conditions {
            victims: PromotionVictims { pages: Pages(victims), ..IDLE },
            threshold: Duration::from_millis(50),
            fast: Pages(1000),
            slow: Pages(9000),
        }
    }

    /// The tenths of a second in which the kernel scans, given (poisoned, candidates, promoted) of
    /// each pass, which is done within a tenth. All poisoned pages fault.
    fn on(passes: &[(u64, u64, u64)], victims: u64, tenths: u64) -> Vec<u64> {
        let mut scanning = Scanning::new(COSTS);
        let (mut counts, mut passes) = (Counts::default(), passes.iter().copied());
        let mut on = Vec::new();
        let mut is_scanned = false;
        for n in 0..tenths {
            if scanning.is_on() && !is_scanned {
                let (poisoned, candidates, promoted) = passes.next().unwrap_or_default();
                counts.poisoned += poisoned;
                counts.faults += poisoned;
                counts.candidates += candidates;
                counts.promoted += promoted;
                counts.demoted += promoted;
            }
            is_scanned = scanning.is_on() && !is_scanned;
            scanning.update(tenth(n), counts, &of(victims), true);
            on.extend(scanning.is_on().then_some(n));
        }
        on
    }

    #[test]
    fn nothing_is_scanned_without_victims() {
        assert!(on(&[(9000, 9000, 900); 20], 0, 20).is_empty());
    }

    #[test]
    fn passes_follow_while_candidates_fall() {
        let falling = [(9000, 900, 300), (9000, 600, 300), (9000, 300, 290), (9000, 10, 0)];
        // A tenth of a second for the scan, another for accesses within the threshold.
        // Then idle pages are counted.
        assert_eq!(on(&falling, 400, 20), [0, 1, 3, 4, 6, 7, 9, 10]);
    }

    #[test]
    fn passes_end_where_candidates_stay() {
        // 9000 faults of 5 us are 45 ms, 300 pairs of copies 1.5 ms: at 1 % the pause is 4.65 s.
        let same = [(9000, 900, 300); 9];
        assert_eq!(on(&same, 400, 55), [0, 1, 3, 4, 52, 53]);
    }

    #[test]
    fn pass_without_promotions_is_the_last() {
        assert_eq!(on(&[(10_000, 0, 0); 9], 400, 50), [0, 1]);
    }

    #[test]
    fn series_ends_when_nothing_is_idle() {
        let mut scanning = Scanning::new(COSTS);
        scanning.update(tenth(0), Counts::default(), &of(400), true);
        let pass = Counts { poisoned: 9000, faults: 9000, promoted: 300, ..Counts::default() };
        scanning.update(tenth(1), pass, &of(400), false);
        scanning.update(tenth(2), pass, &of(400), false);
        assert!(scanning.continues());
        scanning.update(tenth(3), pass, &of(0), false);
        assert!(scanning.continues(), "not counted since");
        scanning.update(tenth(4), pass, &of(0), true);
        // 9000 faults of 5 us and 300 copies are 45.75 ms, of which a pause takes 1 %.
        assert_eq!((scanning.continues(), scanning.pause()), (false, Duration::from_millis(4575)));
    }

    #[test]
    fn candidates_without_room_are_counted() {
        let mut scanning = Scanning::new(COSTS);
        scanning.update(tenth(0), Counts::default(), &of(400), true);
        let pass = Counts { poisoned: 9000, candidates: 900, promoted: 300, ..Counts::default() };
        scanning.update(tenth(1), pass, &of(400), false);
        assert_eq!((scanning.continues(), scanning.without_room(None)), (false, Pages(0)));
        scanning.update(tenth(2), pass, &of(400), false);
        assert_eq!((scanning.continues(), scanning.without_room(None)), (true, Pages(600)));
        assert_eq!(scanning.without_room(Some(Pages(400))), Pages(100), "the rate allows 400");
        assert_eq!(scanning.without_room(Some(Pages(200))), Pages(0));
    }

    #[test]
    fn pass_of_memory_not_scanned_ends() {
        assert_eq!(on(&[(100, 0, 0)], 400, 105).len(), 101, "ten seconds and the threshold");
    }

    #[test]
    fn grown_victims_bring_the_next_pass_forward() {
        let mut scanning = Scanning::new(COSTS);
        let (since, pause) = (tenth(0), Duration::from_secs(10));
        scanning.state = State::Off { since, pause, victims: Pages(100), before: None };
        let mut at = |n, pages| {
            scanning.update(tenth(n), Counts::default(), &of(pages), n > 1);
            scanning.is_on()
        };
        // 10 s, or 2 s if 62 pages more are idle.
        assert!(!at(1, 900), "not counted");
        assert!(!at(10, 200));
        assert!(!at(30, 160));
        assert!(at(30, 163));
    }

    #[test]
    fn pause_stays_within_its_bounds() {
        let scanning = Scanning::new(COSTS);
        assert_eq!(scanning.pause_after(0.0), MIN_PAUSE);
        assert_eq!(scanning.pause_after(f64::MAX), MAX_PAUSE);
        let many = Scanning::new(SteeringCosts { cpus: 64.0, ..COSTS });
        assert_eq!(many.pause_after(6.4), Duration::from_secs(10));
    }
}
