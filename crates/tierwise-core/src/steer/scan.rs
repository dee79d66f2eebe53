//! The times at which the kernel scans.
//!
//! A scan poisons slow pages, and each of them that is accessed later costs a hint fault. A *pass*
//! is one scan of the tenants' slow memory; passes that follow each other are a *series*. A pass
//! ends when all pages were scanned and had the threshold's time to be accessed. It ends early as
//! soon as no place is left, because a further promotion would displace a page in use or exceed the
//! rate, and as soon as there are [`MAX_CANDIDATES`] candidates per place, because the threshold
//! then distinguishes too little. Without slow pages, or with places for less than [`EVIDENCE`] of
//! the fast tier, there is no pass.
//!
//! The next count of the idle pages shows the gain of a pass. A promoted page takes the place of an
//! idle one, or a free one. If it is used, there is one idle or free page less. If the promoted
//! pages were accessed by chance, they are idle themselves, and as many are idle as before. All
//! idle and free pages count for this, whichever of them are victims. They vary by themselves. So
//! the effect is computed over as many passes as have promoted [`EVIDENCE`] of the fast tier, and
//! is 1 before the first such number. By each pass, the next one is judged:
//!
//! ```text
//! effect = (idle before these passes - idle now) / promoted by them    (between 0 and 1)
//! next   = candidates - promoted + promoted / e              (at most the places that are left)
//! hot    = (free + effect * (next - free) / 2) / threshold
//! gain   = (h * hot + (1 - h) * free * cold rate) * horizon * m * saved
//! cost   = faults * fault + (2 * next - free) * copy + the time of counting idle pages
//! ```
//!
//! A page that is accessed once per threshold on average, at random times, is missed by a pass with
//! the probability `1 / e`. `1 / threshold` is the minimum rate of accesses of a promoted page.
//! Half of that is the maximum rate of a displaced page. `free` of the pages take a free place, and
//! displace none: memory that kswapd has freed is used again. `h` is the part of the candidates
//! that chance does not explain, where victims may be idle by chance, too (`super::chance`), and
//! else 1: the others are worth no displaced page. While the gain is at least the cost, another
//! pass follows. Before it, as many idle pages are demoted as candidates found no free page in the
//! last pass. Otherwise the next series starts when the loss is [`MAX_SCANNING`] of the time since
//! the last: the loss is what the pass took less what its pages save (`misses_of_hot`). If many
//! more fast pages are idle than before, the workload has changed, and the next series starts when
//! it is five times that part. That holds if the promoted pages were used for [`SHORT_LIFE`]: a
//! workload that changes faster is not worth following.
//!
//! A series has gained if promoted pages of [`EVIDENCE`] of the fast tier were in use. The workload
//! has changed before it, so it may change again: the next counts of the idle pages may take
//! [`MAX_SCANNING`] of the time, too, until one starts no series. Other counts may take
//! [`MAX_COUNTING`].

use std::time::Duration;

use super::chance::{FaultWaits, HotShare};
use super::{KernelReading, MIN_THRESHOLD, SteeringCosts};
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

/// The part of the machine's CPU time that counts of the idle pages may take where no scan gains:
/// they walk the tenants' page tables.
pub const MAX_COUNTING: f64 = 0.003;

/// The factor by which a pause is shorter when the workload has changed.
const CHANGED: f64 = 5.0;

/// The time for which promoted pages must be used for the next change to be followed at once. A
/// series takes seconds, in which pages that are hot for 3.5 s (the lab's zigzag) are half over;
/// those of stairs are hot for ten. Chosen by these two.
const SHORT_LIFE: Duration = Duration::from_secs(5);

/// The part of the fast tier by which the idle pages must have grown for a workload to count as
/// changed.
const GROWN: f64 = 1.0 / 16.0;

/// The part of the fast tier that must have been promoted for the idle pages to show an effect: as
/// much as they vary by themselves.
pub const EVIDENCE: f64 = GROWN;

/// The part of the tenants' slow memory at which a pass is complete: the kernel passes over memory
/// that no process maps or no running thread uses.
const COMPLETE: f64 = 0.8;

/// The candidates per place at which a pass ends. The kernel promotes candidates in the order of
/// their faults, whichever are hotter; with twice as many candidates as victims a shorter threshold
/// finds the hotter half, and the rest of the pass would only cost faults. Chosen, not measured.
pub(super) const MAX_CANDIDATES: u64 = 2;

/// The longest pass: memory of processes that do not run is not scanned.
const MAX_PASS: Duration = Duration::from_secs(10);

/// The shortest pause: the time between two readings without a scan.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause: the kernel's longest scan period by default.
pub const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Counts since the machine started, as in [`KernelReading`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub promoted: u64,
    pub candidates: u64,
    pub demoted: u64,
    pub faults: u64,
    pub poisoned: u64,
}

impl Counts {
    pub(super) fn of(reading: &KernelReading) -> Self {
        let &KernelReading { promoted, candidates, demoted, faults, poisoned, .. } = reading;
        Self { promoted, candidates, demoted, faults, poisoned }
    }

    /// Poisoned pages that have had no hint fault.
    pub(super) fn waiting(&self) -> u64 {
        self.poisoned.saturating_sub(self.faults)
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

/// The passes since the last pause.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Series {
    /// Idle and free base pages when the effect was last computed, or before the first pass.
    idle: Pages,
    /// Base pages promoted since then.
    promoted: u64,
    /// The part of the promoted pages that are in use, 0 to 1.
    effect: f64,
    /// Base pages that the series has promoted and that were in use.
    used: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// A pass that began with these counts.
    On { since: Timestamp, counts: Counts, series: Series, scanned: Option<Timestamp> },
    /// A pass that began with the counts `first` has ended, and is judged when the idle pages are
    /// counted.
    Judge { first: Counts, pass: Counts, took: Duration, series: Series },
    /// A pause. At its start so many base pages were idle or free.
    /// The pages promoted before it were soon idle.
    Off { since: Timestamp, pause: Duration, idle: Pages, was_short: bool },
}

/// The conditions of a pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conditions {
    /// The free ones of the pages that promotions may displace.
    pub free: Pages,
    /// All base pages of the fastest tier that are idle or free.
    pub idle: Pages,
    /// The victims that the rate allows to displace now.
    pub places: Pages,
    pub threshold: Duration,
    /// The threshold became longer after the last pass, which is therefore repeated.
    pub is_longer: bool,
    /// Base pages of the fastest tier.
    pub fast: Pages,
    /// Base pages of the tenants in slower tiers.
    pub slow: Pages,
    /// CPU time of counting idle pages since the last pass was judged.
    pub counting: Duration,
    /// Victims may be idle by chance, so candidates must be hotter than chance makes them.
    pub doubts_heat: bool,
}

impl Conditions {
    /// True if there are pages to promote, and enough places for them.
    fn has_work(&self) -> bool {
        let enough = (self.fast.0 as f64 * EVIDENCE).max(1.0);
        self.places.0 as f64 >= enough && self.slow > Pages(0)
    }
}

/// What another pass like the last one would bring, and what that one has brought.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// The part of the candidates that chance does not explain, 0 to 1.
    pub hot: f64,
    /// Accesses per second of the other slow pages.
    pub cold_rate: f64,
    /// The part of the promoted pages that are in use, 0 to 1.
    pub effect: f64,
    /// Seconds that it would save.
    pub gain: f64,
    /// CPU time in seconds that it would take.
    pub cost: f64,
    /// CPU time that the last pass took, less what its pages save, in seconds.
    pub loss: f64,
}

/// The result of [`Scanning::update`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The first of a series of passes starts.
    Started,
    /// A pass has ended after the time `took` with so many candidates of so many poisoned pages.
    Ended { took: Duration, candidates: u64, poisoned: u64 },
    /// The series or the pause continues, or the series ends.
    None,
}

/// Decides when the kernel scans.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scanning {
    costs: SteeringCosts,
    state: State,
    /// The last series has gained, and no count since has found nothing to do.
    has_gained: bool,
    waiting: FaultWaits,
    judgement: Option<Judgement>,
}

impl Scanning {
    pub(super) fn new(costs: SteeringCosts) -> Self {
        let (since, pause) = (Timestamp::ZERO, Duration::ZERO);
        let state = State::Off { since, pause, idle: Pages(0), was_short: false };
        let waiting = FaultWaits::default();
        Self { costs, state, has_gained: false, waiting, judgement: None }
    }

    pub(super) fn set_costs(&mut self, costs: SteeringCosts) {
        self.costs = costs;
    }

    pub(super) fn is_on(&self) -> bool {
        matches!(self.state, State::On { .. })
    }

    /// True if there is no series.
    pub(super) fn is_paused(&self) -> bool {
        matches!(self.state, State::Off { .. })
    }

    /// The whole length of the present pause; zero if there is none.
    pub(super) fn pause(&self) -> Duration {
        match self.state {
            State::On { .. } | State::Judge { .. } => Duration::ZERO,
            State::Off { pause, .. } => pause,
        }
    }

    /// Returns true if victims could start a series now, or after a change of the workload.
    pub(super) fn may_start(&self, now: Timestamp) -> bool {
        match self.state {
            State::On { .. } | State::Judge { .. } => false,
            State::Off { since, pause, .. } => now.since(since) >= pause.div_f64(CHANGED),
        }
    }

    /// Returns true if a pass waits for the idle pages to be counted.
    pub(super) fn wants_count(&self) -> bool {
        matches!(self.state, State::Judge { .. })
    }

    pub(super) fn judgement(&self) -> Option<Judgement> {
        self.judgement
    }

    /// True if the last series has gained, and no count since has found nothing to do.
    pub(super) fn has_gained(&self) -> bool {
        self.has_gained
    }

    /// The part of the machine's CPU time that counts of the idle pages may take.
    pub(super) fn counting(&self) -> f64 {
        if self.has_gained { MAX_SCANNING } else { MAX_COUNTING }
    }

    /// Base pages that the present pass has promoted; zero without one.
    pub(super) fn promoted(&self, now: &Counts) -> u64 {
        match &self.state {
            State::On { counts, .. } => now.since(counts).promoted,
            State::Judge { .. } | State::Off { .. } => 0,
        }
    }

    /// The candidates that found no free page in a pass that has just ended. `rate` is in base
    /// pages per second: candidates beyond it were not promoted for another reason.
    pub(super) fn without_room(&self, rate: Option<Pages>) -> Pages {
        match self.state {
            State::Judge { pass, took, .. } => {
                // The kernel counts against the rate in whole seconds.
                let seconds = took.as_secs_f64().max(1.0);
                let most = rate.map_or(u64::MAX, |rate| (rate.0 as f64 * seconds) as u64);
                Pages(pass.candidates.min(most).saturating_sub(pass.promoted))
            }
            State::On { .. } | State::Off { .. } => Pages(0),
        }
    }

    /// Handles counts. A pass starts only with a fresh count of the idle pages.
    pub(super) fn update(
        &mut self,
        now: Timestamp,
        counts: Counts,
        of: &Conditions,
        is_fresh: bool,
    ) -> Step {
        self.waiting.follow(now, counts, of.slow.0);
        let was_on = self.is_on();
        let step = self.step(now, counts, of, is_fresh);
        if self.is_on() && !was_on {
            self.waiting.start();
        }
        step
    }

    fn step(&mut self, now: Timestamp, counts: Counts, of: &Conditions, is_fresh: bool) -> Step {
        match self.state {
            State::On { .. } => return self.follow_pass(now, counts, of),
            State::Judge { first, pass, mut series, .. } if is_fresh => {
                let before = series.idle.min(of.idle);
                series.add(&pass, of);
                // Pages that the pass poisoned last have their faults after its end.
                let all = counts.since(&first);
                let found = if of.doubts_heat {
                    self.waiting.judge(&all, of.threshold)
                } else {
                    HotShare::HOT
                };
                let pass = Counts { faults: all.faults, ..pass };
                let judgement = self.judge(&pass, found, series.effect, of);
                let Judgement { gain, cost, loss, .. } = judgement;
                self.judgement = Some(judgement);
                let follows = of.has_work() && (gain >= cost || of.is_longer);
                self.has_gained = series.used >= of.fast.0 as f64 * EVIDENCE;
                self.state = if follows {
                    State::On { since: now, counts, series, scanned: None }
                } else {
                    let pause = self.pause_after(loss);
                    State::Off { since: now, pause, idle: before, was_short: false }
                };
            }
            State::Off { since, pause, idle: before, was_short } if is_fresh => {
                let grown = of.idle.0.saturating_sub(before.0) as f64;
                let has_changed = grown >= of.fast.0 as f64 * GROWN;
                let is_early = self.has_gained && now.since(since) < SHORT_LIFE;
                let was_short = was_short || has_changed && is_early;
                let is_followed = has_changed && !was_short;
                let wait = if is_followed { pause.div_f64(CHANGED) } else { pause };
                if of.has_work() && now.since(since) >= wait {
                    let series = Series { idle: of.idle, promoted: 0, effect: 1.0, used: 0.0 };
                    self.state = State::On { since: now, counts, series, scanned: None };
                    return Step::Started;
                }
                self.state = State::Off { since, pause, idle: before, was_short };
                self.has_gained &= !was_short && !self.may_start(now);
            }
            State::Judge { .. } | State::Off { .. } => {}
        }
        Step::None
    }

    fn follow_pass(&mut self, now: Timestamp, counts: Counts, of: &Conditions) -> Step {
        let State::On { since, counts: first, series, scanned } = &mut self.state else {
            return Step::None;
        };
        let pass = counts.since(first);
        let is_complete = pass.poisoned as f64 >= of.slow.0 as f64 * COMPLETE;
        if scanned.is_none() && (is_complete || now.since(*since) >= MAX_PASS) {
            *scanned = Some(now);
        }
        let places = of.places.0;
        let has_places =
            pass.promoted < places && pass.candidates < places.saturating_mul(MAX_CANDIDATES);
        // The pages that were poisoned last have the threshold's time to be accessed.
        if has_places && scanned.is_none_or(|at| now.since(at) < of.threshold) {
            return Step::None;
        }
        let (first, series, took) = (*first, *series, now.since(*since));
        self.state = State::Judge { first, pass, took, series };
        Step::Ended { took, candidates: pass.candidates, poisoned: pass.poisoned }
    }

    /// Judges another pass like the one that has ended.
    fn judge(&self, pass: &Counts, found: HotShare, effect: f64, of: &Conditions) -> Judgement {
        let SteeringCosts { saved, copy, fault, .. } = self.costs;
        let left = pass.candidates.saturating_sub(pass.promoted) as f64;
        let missed = pass.promoted as f64 / std::f64::consts::E;
        let next = (left + missed).min(of.places.0 as f64);
        let free = next.min(of.free.0 as f64);
        let least = 1.0 / of.threshold.as_secs_f64().max(1e-9);
        let hot = found.hot * (free + effect * (next - free) / 2.0) * least;
        let cold = (1.0 - found.hot) * free * found.cold_rate.min(least);
        // Seconds saved by one access per second.
        let of_miss = HORIZON.as_secs_f64() * saved.as_secs_f64();
        let worth = MISSES_PER_ACCESS * of_miss;
        let scan = pass.faults as f64 * fault.as_secs_f64() + of.counting.as_secs_f64();
        let copies = |pages: f64| pages * copy.as_secs_f64();
        let promoted = pass.promoted as f64;
        let earned = found.hot * effect * promoted * misses_of_hot(least) * of_miss;
        Judgement {
            hot: found.hot,
            cold_rate: found.cold_rate,
            effect,
            gain: (hot + cold) * worth,
            cost: scan + copies(2.0 * next - free),
            loss: scan + copies(2.0 * promoted) - earned,
        }
    }

    /// The pause after a pass that lost so many seconds.
    fn pause_after(&self, loss: f64) -> Duration {
        let seconds = loss / (MAX_SCANNING * self.costs.cpus.max(1.0));
        Duration::from_secs_f64(seconds.clamp(0.0, MAX_PAUSE.as_secs_f64())).max(MIN_PAUSE)
    }
}

/// Misses per second of a page of which only is known that it has `least` accesses per second at
/// least: the mean if rates are spread evenly over the orders of magnitude, up to the shortest
/// threshold's rate. Hot pages of Redis, of a B+ tree and of stairs had 100 to 600. A page that is
/// not promoted yet is judged by the least rate, because a scan may find few more.
fn misses_of_hot(least: f64) -> f64 {
    let most = MIN_THRESHOLD.as_secs_f64().recip();
    if least < most { (most - least) / (most / least).ln() } else { least }
}

impl Series {
    /// Adds a pass that has ended.
    fn add(&mut self, pass: &Counts, of: &Conditions) {
        self.promoted = self.promoted.saturating_add(pass.promoted);
        if self.promoted as f64 >= of.fast.0 as f64 * EVIDENCE {
            let fewer = self.idle.saturating_sub(of.idle).0 as f64;
            let effect = (fewer / self.promoted.max(1) as f64).min(1.0);
            let used = self.used + effect * self.promoted as f64;
            *self = Self { idle: of.idle, promoted: 0, effect, used };
        }
    }
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

    fn tenth(n: u64) -> Timestamp {
        Timestamp(n * 100_000_000)
    }

    fn of(victims: u64) -> Conditions {
        Conditions {
            free: Pages(0),
            idle: Pages(victims),
            places: Pages(victims),
            threshold: Duration::from_millis(50),
            is_longer: false,
            fast: Pages(1000),
            slow: Pages(9000),
            counting: Duration::ZERO,
            doubts_heat: true,
        }
    }

    /// The tenths of a second in which the kernel scans, given (promoted, victims after it) of each
    /// pass, which is done within a tenth. 9000 pages are poisoned, and all of them fault.
    fn on(mut victims: u64, passes: &[(u64, u64)], tenths: u64) -> Vec<u64> {
        let mut scanning = Scanning::new(COSTS);
        let (mut counts, mut passes) = (Counts::default(), passes.iter().copied());
        let mut on = Vec::new();
        let mut is_scanned = false;
        let mut counted = victims;
        for n in 0..tenths {
            if scanning.is_on() && !is_scanned {
                let (promoted, left) = passes.next().unwrap_or((0, victims));
                victims = left;
                counts.poisoned += 9000;
                counts.faults += 9000;
                counts.promoted += promoted;
                counts.candidates += promoted;
                counts.demoted += promoted;
            }
            is_scanned = scanning.is_on() && !is_scanned;
            if !scanning.is_on() {
                counted = victims;
            }
            scanning.update(tenth(n), counts, &of(counted), true);
            scanning.waiting.leave_nothing_to_chance();
            on.extend(scanning.is_on().then_some(n));
        }
        on
    }

    #[test]
    fn nothing_is_scanned_without_victims() {
        assert!(on(0, &[(900, 0); 20], 20).is_empty());
    }

    #[test]
    fn passes_follow_while_victims_fall() {
        let falling = [(300, 600), (300, 320), (290, 50), (0, 50)];
        // A tenth of a second for the scan, another for accesses within the threshold.
        // Then idle pages are counted. For 50 victims a fourth pass does not pay.
        assert_eq!(on(900, &falling, 20), [0, 1, 3, 4, 6, 7]);
    }

    #[test]
    fn pass_that_removes_no_victim_ends() {
        // 9000 faults of 5 us are 45 ms, 300 pairs of copies 1.5 ms: at 1 % the pause is 4.65 s.
        assert_eq!(on(400, &[(300, 400); 9], 55), [0, 1, 50, 51]);
    }

    #[test]
    fn few_promotions_show_no_effect_yet() {
        let mut series = Series { idle: Pages(400), promoted: 0, effect: 1.0, used: 0.0 };
        let mut effect = |promoted, victims| {
            series.add(&Counts { promoted, ..Counts::default() }, &of(victims));
            series.effect
        };
        // A sixteenth of the fast tier are 62.5 pages.
        assert_eq!(effect(40, 420), 1.0);
        assert_eq!(effect(40, 430), 0.0, "80 pages, and none of them in use");
        assert_eq!(effect(100, 380), 0.5, "of the last hundred only");
    }

    #[test]
    fn pages_promoted_by_chance_end_a_series() {
        // The first pass finds what is in use; the second one's pages are soon idle, and it ends
        // early, because 100 victims were left.
        let (first, second) = ((300, 100), (300, 400));
        assert_eq!(on(400, &[first, second], 15), [0, 1, 3]);
    }

    #[test]
    fn pass_without_promotions_is_the_last() {
        assert_eq!(on(400, &[(0, 400); 9], 40), [0, 1]);
    }

    #[test]
    fn longer_threshold_repeats_a_pass() {
        let mut scanning = Scanning::new(COSTS);
        scanning.update(tenth(0), Counts::default(), &of(400), true);
        let pass = Counts { poisoned: 9000, faults: 9000, ..Counts::default() };
        scanning.update(tenth(1), pass, &of(400), false);
        scanning.update(tenth(2), pass, &of(400), false);
        let longer = Conditions { is_longer: true, ..of(400) };
        scanning.update(tenth(3), pass, &longer, true);
        assert!(scanning.is_on());
    }

    #[test]
    fn series_ends_when_nothing_is_idle() {
        let mut scanning = Scanning::new(COSTS);
        scanning.update(tenth(0), Counts::default(), &of(400), true);
        let pass = Counts { poisoned: 9000, faults: 9000, ..Counts::default() };
        scanning.update(tenth(1), pass, &of(400), false);
        scanning.update(tenth(2), pass, &of(400), false);
        assert!(scanning.wants_count());
        scanning.update(tenth(3), pass, &of(0), false);
        assert!(scanning.wants_count(), "not counted since");
        scanning.update(tenth(4), pass, &of(0), true);
        // 9000 faults of 5 us are 45 ms, of which a pause takes 1 %.
        assert_eq!(
            (scanning.wants_count(), scanning.pause()),
            (false, Duration::from_millis(4500))
        );
    }

    #[test]
    fn candidates_without_room_are_counted() {
        let mut scanning = Scanning::new(COSTS);
        scanning.update(tenth(0), Counts::default(), &of(400), true);
        let pass = Counts { poisoned: 9000, candidates: 700, promoted: 100, ..Counts::default() };
        scanning.update(tenth(1), pass, &of(400), false);
        assert_eq!((scanning.wants_count(), scanning.without_room(None)), (false, Pages(0)));
        scanning.update(tenth(2), pass, &of(400), false);
        assert_eq!((scanning.wants_count(), scanning.without_room(None)), (true, Pages(600)));
        assert_eq!(scanning.without_room(Some(Pages(400))), Pages(300), "the rate allows 400");
        assert_eq!(scanning.without_room(Some(Pages(100))), Pages(0));
    }

    #[test]
    fn faults_after_a_pass_are_its_cost() {
        let mut scanning = Scanning::new(COSTS);
        scanning.update(tenth(0), Counts::default(), &of(400), true);
        let pass = Counts { poisoned: 9000, faults: 1000, ..Counts::default() };
        scanning.update(tenth(1), pass, &of(400), false);
        scanning.update(tenth(2), pass, &of(400), false);
        let later = Counts { faults: 9000, ..pass };
        scanning.update(tenth(3), later, &of(400), true);
        assert_eq!(scanning.pause(), Duration::from_secs_f64(9000.0 * 5e-6 / MAX_SCANNING));
    }

    #[test]
    fn pass_ends_with_the_last_victim() {
        let ends_with = |promoted| {
            let mut scanning = Scanning::new(COSTS);
            scanning.update(tenth(0), Counts::default(), &of(400), true);
            let counts = Counts { poisoned: 500, promoted, ..Counts::default() };
            scanning.update(tenth(1), counts, &of(400), false);
            scanning.wants_count()
        };
        assert!(!ends_with(399));
        assert!(ends_with(400));
    }

    #[test]
    fn candidates_without_room_repeat_a_pass() {
        let follows = |candidates| {
            let mut scanning = Scanning::new(COSTS);
            scanning.update(tenth(0), Counts::default(), &of(400), true);
            let pass =
                Counts { poisoned: 9000, faults: 9000, promoted: 60, demoted: 60, candidates };
            scanning.update(tenth(1), pass, &of(400), false);
            scanning.update(tenth(2), pass, &of(400), false);
            scanning.waiting.leave_nothing_to_chance();
            scanning.update(tenth(3), pass, &of(340), true);
            scanning.is_on()
        };
        // One page saves 0.62 ms in a minute: 9000 faults are 73 pages. 22 of 60 are expected.
        assert!(!follows(60 + 50));
        assert!(follows(60 + 53));
    }

    #[test]
    fn free_places_need_no_effect() {
        let follows = |free| {
            let mut scanning = Scanning::new(COSTS);
            scanning.update(tenth(0), Counts::default(), &of(400), true);
            let pass = Counts {
                poisoned: 9000,
                faults: 9000,
                promoted: 300,
                demoted: 300,
                candidates: 340,
            };
            scanning.update(tenth(1), pass, &of(400), false);
            scanning.update(tenth(2), pass, &of(400), false);
            let as_idle_as_before = Conditions { free: Pages(free), ..of(400) };
            scanning.update(tenth(3), pass, &as_idle_as_before, true);
            scanning.is_on()
        };
        assert_eq!([follows(0), follows(100)], [false, true]);
    }

    #[test]
    fn gain_is_followed_by_more_counts() {
        let mut scanning = Scanning::new(COSTS);
        let mut part = |n, counts, victims| {
            scanning.update(tenth(n), counts, &of(victims), true);
            scanning.counting()
        };
        assert_eq!(part(0, Counts::default(), 400), MAX_COUNTING);
        let pass = Counts { poisoned: 9000, faults: 9000, promoted: 340, ..Counts::default() };
        part(1, pass, 400);
        part(2, pass, 400);
        // 340 pages took the places of 340 idle ones. The pause is 1 s, or 0.2 s after a change.
        assert_eq!(part(3, pass, 60), MAX_SCANNING);
        assert_eq!(part(4, pass, 60), MAX_SCANNING, "no series could have started");
        assert_eq!(part(20, pass, 60), MAX_COUNTING, "nothing has changed");
    }

    #[test]
    fn short_lived_pages_are_not_followed() {
        let starts = |gained, changed_at: u64| {
            let mut scanning = Scanning::new(COSTS);
            let (since, pause) = (tenth(0), Duration::from_secs(20));
            scanning.state = State::Off { since, pause, idle: Pages(100), was_short: false };
            scanning.has_gained = gained;
            (0..400).find(|&n| {
                let idle = if n < changed_at { 100 } else { 300 };
                scanning.update(tenth(n), Counts::default(), &of(idle), true);
                scanning.is_on()
            })
        };
        // A fifth of the pause, unless pages that gained were idle within five seconds.
        assert_eq!([starts(false, 30), starts(true, 60)], [Some(40), Some(60)]);
        assert_eq!(starts(true, 30), Some(200));
    }

    #[test]
    fn few_places_start_no_series() {
        let starts = |places| {
            let mut scanning = Scanning::new(COSTS);
            let of = Conditions { places: Pages(places), ..of(400) };
            scanning.update(tenth(0), Counts::default(), &of, true);
            scanning.is_on()
        };
        // A sixteenth of the fast tier are 62.5 pages.
        assert_eq!([starts(62), starts(63)], [false, true]);
    }

    #[test]
    fn pass_with_many_candidates_ends() {
        let ends_with = |candidates| {
            let mut scanning = Scanning::new(COSTS);
            scanning.update(tenth(0), Counts::default(), &of(400), true);
            let counts = Counts { poisoned: 900, promoted: 10, candidates, ..Counts::default() };
            scanning.update(tenth(1), counts, &of(400), false);
            scanning.wants_count()
        };
        assert!(!ends_with(799));
        assert!(ends_with(800));
    }

    #[test]
    fn nothing_is_scanned_without_slow_pages() {
        let mut scanning = Scanning::new(COSTS);
        let nothing_slow = Conditions { slow: Pages(0), ..of(400) };
        scanning.update(tenth(0), Counts::default(), &nothing_slow, true);
        assert!(!scanning.is_on());
        scanning.update(tenth(1), Counts::default(), &of(400), true);
        assert!(scanning.is_on());
    }

    #[test]
    fn pass_of_memory_not_scanned_ends() {
        let mut scanning = Scanning::new(COSTS);
        scanning.update(tenth(0), Counts::default(), &of(400), true);
        let pass = Counts { poisoned: 100, faults: 100, ..Counts::default() };
        let ends = (1..200).find(|&n| {
            scanning.update(tenth(n), pass, &of(400), false);
            scanning.wants_count()
        });
        assert_eq!(ends, Some(101), "ten seconds and the threshold");
    }

    #[test]
    fn grown_victims_bring_the_next_series_forward() {
        let mut scanning = Scanning::new(COSTS);
        let (since, pause) = (tenth(0), Duration::from_secs(10));
        scanning.state = State::Off { since, pause, idle: Pages(100), was_short: false };
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
    fn series_without_places_earns_its_cost_first() {
        let mut scanning = Scanning::new(COSTS);
        scanning.update(tenth(0), Counts::default(), &of(100), true);
        let pass = Counts {
            poisoned: 2000,
            faults: 2000,
            promoted: 50,
            candidates: 200,
            ..Counts::default()
        };
        scanning.update(tenth(1), pass, &of(100), false);
        // 50 victims are left, fewer than a sixteenth of the tier. A pass more would copy 50 pairs.
        scanning.update(tenth(2), pass, &of(50), true);
        let cost = 2000.0 * 5e-6 + 2.0 * 50.0 * 2.5e-6;
        assert_eq!(
            (scanning.is_on(), scanning.pause()),
            (false, Duration::from_secs_f64(cost / 0.01))
        );
    }

    #[test]
    fn pause_stays_within_its_bounds() {
        let scanning = Scanning::new(COSTS);
        assert_eq!(scanning.pause_after(0.0), MIN_PAUSE);
        assert_eq!(scanning.pause_after(-1.0), MIN_PAUSE, "it gained something");
        assert_eq!(scanning.pause_after(f64::MAX), MAX_PAUSE);
        let many = Scanning::new(SteeringCosts { cpus: 64.0, ..COSTS });
        assert_eq!(many.pause_after(6.4), Duration::from_secs(10));
    }
}
