//! When the kernel scans.
//!
//! A scan poisons slow pages, and each of them that is accessed later costs a hint fault. What a
//! scan gains is seen in the next one: a page that was promoted is no candidate again, so the part
//! of poisoned pages that are candidates falls. If as many are candidates as before, the displaced
//! pages are used as much as the promoted ones, or the candidates were chance, and nothing was
//! gained. So each second of scanning is a *pass*, and is judged:
//!
//! ```text
//! effect = (candidates before / poisoned before - candidates / poisoned) * poisoned
//!          / promoted before                         (between 0 and 1; 1 for the first pass)
//! gain   = effect * promoted * horizon * m * saved * (1 / threshold - 1 / idle)
//! cost   = faults * fault + (promoted + demoted) * copy
//! ```
//!
//! While the gain is above the cost, another pass follows. Otherwise the next one starts when the
//! cost is [`MAX_SCANNING`] of the time since, or, at five times that, when many more fast pages
//! are idle than before: the workload has changed.

use std::time::Duration;

use super::{KernelReading, PERIOD, PromotionVictims, SteeringCosts};
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
    On { since: Timestamp, counts: Counts, before: Option<Counts> },
    /// A pause.
    Off { since: Timestamp, cost: f64, victims: Pages },
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

    pub(super) fn update(
        &mut self,
        now: Timestamp,
        counts: Counts,
        victims: &PromotionVictims,
        threshold: Duration,
        fast: Pages,
    ) {
        let start = |before| State::On { since: now, counts, before };
        match self.state {
            State::On { since, counts: first, before } if now.since(since) >= PERIOD => {
                let pass = counts.since(&first);
                let (gain, cost) = self.judge(&pass, before.as_ref(), victims, threshold);
                self.state = if gain >= cost && victims.pages > Pages(0) {
                    start(Some(pass))
                } else {
                    State::Off { since: now, cost, victims: victims.pages }
                };
            }
            State::Off { since, cost, victims: then } if victims.pages > Pages(0) => {
                let grown = (victims.pages.0.saturating_sub(then.0)) as f64;
                let has_changed = grown >= fast.0 as f64 * GROWN;
                let pause = self.pause(cost).div_f64(if has_changed { CHANGED } else { 1.0 });
                if cost == 0.0 || now.since(since) >= pause {
                    self.state = start(None);
                }
            }
            _ => {}
        }
    }

    /// Gain and cost of a pass in seconds.
    fn judge(
        &self,
        pass: &Counts,
        before: Option<&Counts>,
        victims: &PromotionVictims,
        threshold: Duration,
    ) -> (f64, f64) {
        let SteeringCosts { saved, copy, fault, .. } = self.costs;
        let idle = victims.idle.map_or(0.0, |idle| 1.0 / idle.as_secs_f64().max(1e-9));
        let hotter = (1.0 / threshold.as_secs_f64().max(1e-9) - idle).max(0.0);
        let each = HORIZON.as_secs_f64() * MISSES_PER_ACCESS * saved.as_secs_f64() * hotter;
        let gain = before.map_or(1.0, |before| effect(pass, before)) * pass.promoted as f64 * each;
        let copies = pass.promoted.saturating_add(pass.demoted) as f64;
        let cost = pass.faults as f64 * fault.as_secs_f64() + copies * copy.as_secs_f64();
        (gain, cost)
    }

    fn pause(&self, cost: f64) -> Duration {
        let seconds = cost / (MAX_SCANNING * self.costs.cpus.max(1.0));
        Duration::from_secs_f64(seconds.clamp(0.0, MAX_PAUSE.as_secs_f64())).max(PERIOD)
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
    const FAST: Pages = Pages(1000);
    const MS_50: Duration = Duration::from_millis(50);
    const IDLE: PromotionVictims =
        PromotionVictims { pages: Pages(400), idle: Some(Duration::from_millis(100)) };
    const NONE: PromotionVictims = PromotionVictims { pages: Pages(0), idle: None };

    fn second(n: u64) -> Timestamp {
        Timestamp(n * 1_000_000_000)
    }

    /// Whether it scans in each second, given (poisoned, candidates, promoted) per second of
    /// scanning. All poisoned pages fault.
    fn scans(passes: &[(u64, u64, u64)], victims: PromotionVictims, seconds: u64) -> Vec<bool> {
        let mut scanning = Scanning::new(COSTS);
        let (mut counts, mut passes) = (Counts::default(), passes.iter().copied());
        let mut on = Vec::new();
        for n in 0..seconds {
            if scanning.is_on() {
                let (poisoned, candidates, promoted) = passes.next().unwrap_or_default();
                counts.poisoned += poisoned;
                counts.faults += poisoned;
                counts.candidates += candidates;
                counts.promoted += promoted;
                counts.demoted += promoted;
            }
            scanning.update(second(n), counts, &victims, MS_50, FAST);
            on.push(scanning.is_on());
        }
        on
    }

    fn seconds_on(on: &[bool]) -> Vec<usize> {
        on.iter().enumerate().filter(|&(_, &on)| on).map(|(n, _)| n).collect()
    }

    #[test]
    fn nothing_is_scanned_without_victims() {
        assert!(seconds_on(&scans(&[(9000, 9000, 900); 20], NONE, 20)).is_empty());
    }

    #[test]
    fn passes_follow_while_candidates_fall() {
        let falling = [(9000, 900, 300), (9000, 600, 300), (9000, 300, 290), (9000, 10, 0)];
        assert_eq!(seconds_on(&scans(&falling, IDLE, 8)), [0, 1, 2, 3]);
    }

    #[test]
    fn passes_end_where_candidates_stay() {
        // 6000 faults of 5 us are 30 ms, 300 pairs of copies 1.5 ms: at 1 % the pause is 3.15 s.
        let same = [(6000, 900, 300); 9];
        assert_eq!(seconds_on(&scans(&same, IDLE, 12)), [0, 1, 6, 7]);
    }

    #[test]
    fn pass_without_promotions_is_the_last() {
        // 50 ms at 1 %.
        assert_eq!(seconds_on(&scans(&[(10_000, 0, 0); 9], IDLE, 12)), [0, 6]);
    }

    #[test]
    fn grown_victims_bring_the_next_pass_forward() {
        let mut scanning = Scanning::new(COSTS);
        scanning.state = State::Off { since: second(0), cost: 0.1, victims: Pages(100) };
        let mut at = |n, pages| {
            let victims = PromotionVictims { pages: Pages(pages), idle: None };
            scanning.update(second(n), Counts::default(), &victims, MS_50, FAST);
            scanning.is_on()
        };
        // 10 s, or 2 s if 62 pages more are idle.
        assert!(!at(1, 200));
        assert!(!at(3, 160));
        assert!(at(3, 163));
    }

    #[test]
    fn pause_has_bounds() {
        let scanning = Scanning::new(COSTS);
        assert_eq!(scanning.pause(0.0), PERIOD);
        assert_eq!(scanning.pause(f64::MAX), MAX_PAUSE);
        let many = Scanning::new(SteeringCosts { cpus: 64.0, ..COSTS });
        assert_eq!(many.pause(6.4), Duration::from_secs(10));
    }
}
