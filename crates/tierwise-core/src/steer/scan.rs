//! When the kernel scans.
//!
//! A scan poisons slow pages, and each of them that is accessed later costs a hint fault. What a
//! scan gains is seen in the next one: a page that was promoted is no candidate again, so the part
//! of poisoned pages that are candidates falls. If as many are candidates as before, the displaced
//! pages are used as much as the promoted ones, or the candidates were chance, and nothing was
//! gained. So each scan of the tenants' slow memory is a *pass*, and is judged:
//!
//! ```text
//! effect = (candidates before / poisoned before - candidates / poisoned) * poisoned
//!          / promoted before                         (between 0 and 1; 1 for the first pass)
//! gain   = effect * promoted * horizon * m * saved / (2 * threshold)
//! cost   = faults * fault + (promoted + demoted) * copy
//! ```
//!
//! `1 / threshold` is the least rate of accesses of a promoted page, and half of that the most of
//! a displaced one. While the gain is above the cost, another pass follows. Otherwise the next one
//! starts when the cost is [`MAX_SCANNING`] of the time since, or, at five times that, when many
//! more fast pages are idle than before: the workload has changed.

use std::time::Duration;

use super::{KernelReading, PromotionVictims, SteeringCosts};
use crate::units::{Pages, Timestamp};

/// Last-level misses per access to a page: between one and 64, the lines of a page, and it is not
/// known which; this is the geometric mean. A wrong gain costs passes that have no effect, and the
/// next pass shows that.
pub const MISSES_PER_ACCESS: f64 = 8.0;

/// The time for which a promoted page is expected to be used as it is now: the time scale of a
/// program that is worth placing.
pub const HORIZON: Duration = Duration::from_secs(60);

/// The part of the machine's CPU time that passes without gain may take.
pub const MAX_SCANNING: f64 = 0.01;

/// How much sooner a pass may follow when the workload has changed.
const CHANGED: f64 = 5.0;

/// The part of the fast tier by which the victims must have grown for that.
const GROWN: f64 = 1.0 / 16.0;

/// The part of the tenants' slow memory that a pass scans: the kernel passes over what no process
/// maps or no running thread uses.
const COMPLETE: f64 = 0.8;

/// The longest pass: memory of processes that do not run is not scanned.
const MAX_PASS: Duration = Duration::from_secs(10);

/// The shortest pause.
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

    /// The counts since then; a counter that fell has not moved.
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

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// A pass.
    On { since: Timestamp, counts: Counts, before: Option<Counts>, scanned: Option<Timestamp> },
    /// A pause.
    Off { since: Timestamp, cost: f64, victims: Pages },
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
    /// A first pass starts.
    Started,
    /// A pass has ended with so many candidates, and another follows if it paid.
    Ended { candidates: u64, pays: bool },
    /// The pass or the pause goes on.
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
        let state = State::Off { since: Timestamp::ZERO, cost: 0.0, victims: Pages(0) };
        Self { costs, state }
    }

    pub(super) fn is_on(&self) -> bool {
        matches!(self.state, State::On { .. })
    }

    /// Starts a pass, whatever the last one gained.
    pub(super) fn start(&mut self, now: Timestamp, counts: Counts) {
        self.state = State::On { since: now, counts, before: None, scanned: None };
    }

    pub(super) fn update(&mut self, now: Timestamp, counts: Counts, of: &Conditions) -> Step {
        match self.state {
            State::On { .. } => self.follow_pass(now, counts, of),
            State::Off { since, cost, victims } if of.victims.pages > Pages(0) => {
                let grown = of.victims.pages.0.saturating_sub(victims.0) as f64;
                let has_changed = grown >= of.fast.0 as f64 * GROWN;
                let pause = self.pause(cost).div_f64(if has_changed { CHANGED } else { 1.0 });
                if cost > 0.0 && now.since(since) < pause {
                    return Step::None;
                }
                self.start(now, counts);
                Step::Started
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
        // What was poisoned last is judged by its access within the threshold.
        if scanned.is_none_or(|at| now.since(at) < of.threshold) {
            return Step::None;
        }
        let before = *before;
        let (gain, cost) = self.judge(&pass, before.as_ref(), of.threshold);
        let pays = gain >= cost && of.victims.pages > Pages(0);
        self.state = if pays {
            State::On { since: now, counts, before: Some(pass), scanned: None }
        } else {
            State::Off { since: now, cost, victims: of.victims.pages }
        };
        Step::Ended { candidates: pass.candidates, pays }
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

    fn pause(&self, cost: f64) -> Duration {
        let seconds = cost / (MAX_SCANNING * self.costs.cpus.max(1.0));
        Duration::from_secs_f64(seconds.clamp(0.0, MAX_PAUSE.as_secs_f64())).max(MIN_PAUSE)
    }
}

/// The part of the promotions of the pass before that took candidates out of the slow tiers.
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
            scanning.update(tenth(n), counts, &of(victims));
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
        assert_eq!(on(&falling, 400, 20), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn passes_end_where_candidates_stay() {
        // 9000 faults of 5 us are 45 ms, 300 pairs of copies 1.5 ms: at 1 % the pause is 4.65 s.
        let same = [(9000, 900, 300); 9];
        assert_eq!(on(&same, 400, 54), [0, 1, 2, 3, 51, 52, 53]);
    }

    #[test]
    fn pass_without_promotions_is_the_last() {
        assert_eq!(on(&[(10_000, 0, 0); 9], 400, 50), [0, 1]);
    }

    #[test]
    fn pass_of_memory_that_is_not_scanned_ends() {
        assert_eq!(on(&[(100, 0, 0)], 400, 105).len(), 101, "ten seconds and the threshold");
    }

    #[test]
    fn grown_victims_bring_the_next_pass_forward() {
        let mut scanning = Scanning::new(COSTS);
        scanning.state = State::Off { since: tenth(0), cost: 0.1, victims: Pages(100) };
        let mut at = |n, pages| {
            scanning.update(tenth(n), Counts::default(), &of(pages));
            scanning.is_on()
        };
        // 10 s, or 2 s if 62 pages more are idle.
        assert!(!at(10, 200));
        assert!(!at(30, 160));
        assert!(at(30, 163));
    }

    #[test]
    fn pause_has_bounds() {
        let scanning = Scanning::new(COSTS);
        assert_eq!(scanning.pause(0.0), MIN_PAUSE);
        assert_eq!(scanning.pause(f64::MAX), MAX_PAUSE);
        let many = Scanning::new(SteeringCosts { cpus: 64.0, ..COSTS });
        assert_eq!(many.pause(6.4), Duration::from_secs(10));
    }
}
