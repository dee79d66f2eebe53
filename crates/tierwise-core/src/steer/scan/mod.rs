//! The times at which the kernel scans.
//!
//! A scan poisons slow pages, and each of them that is accessed later costs a hint fault. A *pass*
//! is one scan of the tenants' slow memory; passes that follow each other are a *series*. A pass
//! ends when all pages were scanned, or still wait since an earlier scan, and had the threshold's
//! time to be accessed. It ends early as
//! soon as no place is left, because a further promotion would displace a page in use or exceed the
//! rate, and as soon as there are [`MAX_CANDIDATES`] candidates per place, because the threshold
//! then distinguishes too little. Without slow pages, or with places for less than [`EVIDENCE`] of
//! the fast tier, there is no pass.
//!
//! The next count of the idle pages shows the gain of a pass. A promoted page takes the place of an
//! idle one, or a free one. If it is used, one page of the tenants' more is in use. If the promoted
//! pages were accessed by chance, they are idle themselves, and as many are in use as before. Only
//! the tenants' pages count for this: kswapd demotes page cache of others that was read just now,
//! while idle pages of others stay. The number varies by itself. So the effect is computed over as
//! many passes as have promoted [`EVIDENCE`] of the fast tier, and is 1 before the first such
//! number. By each pass, the next one is judged:
//!
//! ```text
//! effect = (in use now - in use before these passes) / promoted by them    (between 0 and 1)
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
//! pass follows, and where chance is possible until all slow memory was scanned: the hot pages may
//! be in the rest of it. Before it, as many idle pages are demoted as candidates found no free page
//! in the last pass. Otherwise the next series starts when the loss is [`MAX_SCANNING`] of the time
//! since the last: the loss is what the pass took less what its pages save. If many more fast pages
//! are idle than before, the workload has changed, and the next series starts when it is five times
//! that part, unless the promoted pages were soon idle (`pause`): a workload that changes faster is
//! not worth following. If a quarter of the tier becomes idle within a pass, and most of that was
//! in use before the series, the next series follows at once.
//!
//! A pause may begin with free pages: kswapd demotes more than was asked for, and while the
//! kernel's tiering is on it restores a higher watermark than promotions need. Once in each pause a
//! scan fills them, with a rate that leaves no candidate without a page, so that kswapd is not
//! woken.
//!
//! A series has gained if promoted pages of [`EVIDENCE`] of the fast tier were in use. The workload
//! has changed before it, so it may change again: the next counts of the idle pages may take
//! [`MAX_SCANNING`] of the time, too, and three quarters of it after each series that gains nothing
//! and each count that could have started one and does not, down to [`MAX_COUNTING`].

mod judgement;
mod pause;

use std::time::Duration;

use super::chance::{FaultWaits, HotShare};
use super::{KernelReading, MANY, SteeringCosts};
use crate::units::{Pages, Timestamp};
pub(super) use judgement::fill_pays;
pub use judgement::{HORIZON, Judgement, MISSES_PER_ACCESS};
use pause::Pause;
pub use pause::{MAX_PAUSE, MAX_SCANNING};

/// The part of the machine's CPU time that counts of the idle pages may take where no scan gains:
/// they walk the tenants' page tables.
pub const MAX_COUNTING: f64 = 0.003;

/// The factor by which counts become rarer as long as nothing changes. stairs moves its hot part
/// every ten seconds, and is counted four times within them; with a half it was noticed up to five
/// seconds late.
const LESS: f64 = 0.75;

/// The part of the fast tier by which the idle pages vary by themselves: a sixteenth. As much must
/// have been promoted for an effect to show, and they must have grown by as much for a workload to
/// count as changed. Chosen, not measured.
pub const EVIDENCE: f64 = 1.0 / 16.0;

/// The part of the tenants' slow memory at which a pass is complete: the kernel passes over memory
/// that no process maps or no running thread uses.
const COMPLETE: f64 = 0.8;

/// The candidates per place at which a pass ends. The kernel promotes candidates in the order of
/// their faults, whichever are hotter; with twice as many candidates as victims a shorter threshold
/// finds the hotter half, and the rest of the pass would only cost faults. Chosen, not measured.
pub(super) const MAX_CANDIDATES: u64 = 2;

/// The least slow memory for which the kernel scans, the unit of its rate: looking for a few hot
/// pages costs more than they do.
pub(super) const MIN_SLOW: Pages = super::room::RATE_UNIT;

/// The longest pass: memory of processes that do not run is not scanned.
const MAX_PASS: Duration = Duration::from_secs(10);

/// The time without another poisoned page from which on pages that wait since earlier scans count
/// as scanned, too: three of the kernel's shortest periods. Pages of processes that have ended wait
/// for ever.
const STILL: Duration = Duration::from_millis(300);

/// The longest scan that fills free pages: nothing is counted meanwhile, so a change of the
/// workload is not noticed. Two of the kernel's longest periods at first, a second each.
const MAX_FILL: Duration = Duration::from_secs(2);

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
    /// The tenants' fast base pages in use at that time.
    in_use: Pages,
    /// Base pages promoted since then.
    promoted: u64,
    /// The part of the promoted pages that are in use, 0 to 1.
    effect: f64,
    /// Base pages that the series has promoted and that were in use.
    used: f64,
    /// CPU time in seconds of its passes.
    spent: f64,
    /// Pages that its passes poisoned.
    poisoned: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// A pass that began with these counts.
    On {
        since: Timestamp,
        counts: Counts,
        series: Series,
        /// Pages that it has poisoned, and when their number was last seen to grow.
        grown: (u64, Timestamp),
        /// All was scanned then.
        scanned: Option<Timestamp>,
        /// There were no places left then.
        full: Option<Timestamp>,
    },
    /// A pass that began with the counts `first` has ended, and is judged when the idle pages are
    /// counted.
    Judge { first: Counts, pass: Counts, took: Duration, series: Series },
    /// A pause.
    Off(Pause),
    /// A scan within a pause, that fills so many free pages.
    Fill { since: Timestamp, counts: Counts, places: Pages, pause: Pause },
}

impl State {
    /// A pass that starts.
    fn started(since: Timestamp, counts: Counts, series: Series) -> Self {
        Self::On { since, counts, series, grown: (0, since), scanned: None, full: None }
    }
}

/// The conditions of a pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conditions {
    /// The free ones of the pages that promotions may displace.
    pub free: Pages,
    /// All base pages of the fastest tier that are idle or free.
    pub idle: Pages,
    /// Base pages of the tenants in the fastest tier that are in use.
    pub in_use: Pages,
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
    /// Free base pages to fill in a pause: promotions can take them all, and a scan pays.
    pub spare: Pages,
}

impl Conditions {
    /// True if so many poisoned pages are a scan of the tenants' slow memory.
    fn is_scan(&self, poisoned: u64) -> bool {
        poisoned as f64 >= self.slow.0 as f64 * COMPLETE
    }

    /// True if there are enough pages to promote, and enough places for them.
    fn has_work(&self) -> bool {
        let enough = (self.fast.0 as f64 * EVIDENCE).max(1.0);
        self.places.0 as f64 >= enough && self.slow >= MIN_SLOW
    }
}

/// The result of [`Scanning::update`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The first of a series of passes starts.
    Started,
    /// A pass has ended after the time `took` with so many candidates of so many pages, which it
    /// poisoned or which waited for the faults of an earlier one.
    Ended { took: Duration, candidates: u64, scanned: u64 },
    /// The series or the pause continues, or the series ends.
    None,
}

/// Decides when the kernel scans.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scanning {
    costs: SteeringCosts,
    state: State,
    /// The last series has gained.
    has_gained: bool,
    /// The part of the machine's CPU time that counts of the idle pages may take.
    counting: f64,
    waiting: FaultWaits,
    judgement: Option<Judgement>,
}

impl Scanning {
    pub(super) fn new(costs: SteeringCosts) -> Self {
        let (state, waiting) = (State::Off(Pause::NONE), FaultWaits::default());
        Self { costs, state, has_gained: false, counting: MAX_COUNTING, waiting, judgement: None }
    }

    pub(super) fn set_costs(&mut self, costs: SteeringCosts) {
        self.costs = costs;
    }

    pub(super) fn is_on(&self) -> bool {
        self.since().is_some()
    }

    /// When the present scan started.
    pub(super) fn since(&self) -> Option<Timestamp> {
        match self.state {
            State::On { since, .. } | State::Fill { since, .. } => Some(since),
            State::Judge { .. } | State::Off(_) => None,
        }
    }

    /// The free base pages that the present scan fills, if it is one within a pause.
    pub(super) fn fills(&self) -> Option<Pages> {
        match self.state {
            State::Fill { places, .. } => Some(places),
            State::On { .. } | State::Judge { .. } | State::Off(_) => None,
        }
    }

    /// True if there is no series.
    pub(super) fn is_paused(&self) -> bool {
        matches!(self.state, State::Off(_) | State::Fill { .. })
    }

    /// The whole length of the present pause; zero if there is none.
    pub(super) fn pause(&self) -> Duration {
        match self.state {
            State::On { .. } | State::Judge { .. } => Duration::ZERO,
            State::Off(pause) | State::Fill { pause, .. } => pause.length,
        }
    }

    /// The time after which the idle pages should be counted, if the last count found a change
    /// too early for the next series.
    pub(super) fn recount(&self, now: Timestamp) -> Option<Duration> {
        match self.state {
            State::On { .. } | State::Judge { .. } | State::Fill { .. } => None,
            State::Off(pause) => pause.recount(now),
        }
    }

    /// Returns true if victims could start a series now, or after a change of the workload.
    pub(super) fn may_start(&self, now: Timestamp) -> bool {
        match self.state {
            State::On { .. } | State::Judge { .. } | State::Fill { .. } => false,
            State::Off(pause) => pause.may_end(now),
        }
    }

    /// Returns true if a pass waits for the idle pages to be counted.
    pub(super) fn wants_count(&self) -> bool {
        matches!(self.state, State::Judge { .. })
    }

    pub(super) fn judgement(&self) -> Option<Judgement> {
        self.judgement
    }

    /// True if the last series has gained.
    pub(super) fn has_gained(&self) -> bool {
        self.has_gained
    }

    /// The part of the machine's CPU time that counts of the idle pages may take.
    pub(super) fn counting(&self) -> f64 {
        self.counting
    }

    /// True if chance explains all candidates of the present series' last pass. The next one fills
    /// free pages.
    pub(super) fn is_by_chance(&self) -> bool {
        let is_judged = matches!(self.state, State::On { series, .. } if series.spent > 0.0);
        is_judged && self.judgement.is_some_and(|judgement| judgement.hot <= 0.0)
    }

    /// The counts since the present scan started; zero without one.
    pub(super) fn present(&self, now: &Counts) -> Counts {
        match &self.state {
            State::On { counts, .. } | State::Fill { counts, .. } => now.since(counts),
            State::Judge { .. } | State::Off(_) => Counts::default(),
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
            State::On { .. } | State::Off(_) | State::Fill { .. } => Pages(0),
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
                if of.has_work() && series.has_missed_a_change(of) {
                    let series = Series::new(of);
                    self.state = State::started(now, counts, series);
                    return Step::Started;
                }
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
                let judgement = Judgement::new(&self.costs, &pass, found, series.effect, of);
                self.judgement = Some(judgement);
                series.spent += judgement.spent;
                let pays = judgement.gain >= judgement.cost;
                let cpus = self.costs.cpus;
                self.has_gained = series.used >= of.fast.0 as f64 * EVIDENCE;
                if self.has_gained {
                    self.counting = MAX_SCANNING;
                }
                series.poisoned = series.poisoned.saturating_add(pass.poisoned);
                let is_longer = of.is_longer && found.hot > 0.0;
                // Hot pages may be in the part of the memory that is not scanned yet.
                let is_part = of.doubts_heat && !of.is_scan(series.poisoned);
                let goes_on = is_longer || is_part && pass.poisoned > 0;
                self.state = if of.has_work() && (pays || goes_on) {
                    State::started(now, counts, series)
                } else {
                    if !self.has_gained {
                        self.count_less();
                    }
                    State::Off(Pause {
                        since: now,
                        counted: now,
                        idle: before,
                        used: series.used,
                        length: pause::length(judgement.spent - judgement.earned, cpus),
                        unearned: pause::length(series.spent, cpus),
                        ..Pause::NONE
                    })
                };
            }
            State::Off(mut pause) if is_fresh => {
                if pause.ends(now, of) {
                    let series = Series::new(of);
                    self.state = State::started(now, counts, series);
                    return Step::Started;
                }
                if pause.may_end(now) {
                    self.count_less();
                }
                // Before the first series nothing is known of the slow pages.
                let is_first = pause.length.is_zero();
                let fills = of.spare > Pages(0) && !is_first && !pause.has_filled;
                pause.has_filled |= fills;
                self.state = if fills {
                    State::Fill { since: now, counts, places: of.spare, pause }
                } else {
                    State::Off(pause)
                };
            }
            State::Fill { since, counts: first, places, pause } => {
                let found = counts.since(&first);
                let is_scanned = of.is_scan(found.poisoned);
                if found.candidates >= places.0 || is_scanned || now.since(since) >= MAX_FILL {
                    self.state = State::Off(pause);
                }
            }
            State::Judge { .. } | State::Off(_) => {}
        }
        Step::None
    }

    /// Lowers the part of the CPU time for counts, because one has found nothing to gain.
    fn count_less(&mut self) {
        self.counting = (self.counting * LESS).max(MAX_COUNTING);
    }

    fn follow_pass(&mut self, now: Timestamp, counts: Counts, of: &Conditions) -> Step {
        let State::On { since, counts: first, series, grown, scanned, full } = &mut self.state
        else {
            return Step::None;
        };
        let pass = counts.since(first);
        if pass.poisoned > grown.0 {
            *grown = (pass.poisoned, now);
        }
        // The kernel passes over pages that wait for the faults of an earlier scan.
        let waited = pass.poisoned.saturating_add(first.waiting());
        let is_still = pass.poisoned > 0 && now.since(grown.1) >= STILL;
        let is_complete = of.is_scan(pass.poisoned) || is_still && of.is_scan(waited);
        if scanned.is_none() && (is_complete || now.since(*since) >= MAX_PASS) {
            *scanned = Some(now);
        }
        let places = of.places.0;
        let has_places =
            pass.promoted < places && pass.candidates < places.saturating_mul(MAX_CANDIDATES);
        if !has_places && full.is_none() {
            *full = Some(now);
        }
        // The pages that were poisoned last have the threshold's time to be accessed. While the
        // kernel does not scan it counts no candidates, so chance could not be told.
        let waits = |at: &Timestamp| now.since(*at) < of.threshold;
        let ends_full = full.is_some_and(|at| !of.doubts_heat || !waits(&at));
        if !ends_full && scanned.as_ref().is_none_or(waits) {
            return Step::None;
        }
        let (first, series, took) = (*first, *series, now.since(*since));
        self.state = State::Judge { first, pass, took, series };
        // Processes that have ended left pages that seem to wait.
        let of_tenants = of.slow.0.saturating_add(pass.promoted);
        let scanned = pass.poisoned.max(waited.min(of_tenants));
        Step::Ended { took, candidates: pass.candidates, scanned }
    }
}

impl Series {
    fn new(of: &Conditions) -> Self {
        let &Conditions { idle, in_use, .. } = of;
        Self { idle, in_use, promoted: 0, effect: 1.0, used: 0.0, spent: 0.0, poisoned: 0 }
    }

    /// True if so many more pages are idle that the workload has changed within the last pass, and
    /// most of them were in use before the series. The pass then says nothing of the next one.
    fn has_missed_a_change(&self, of: &Conditions) -> bool {
        let grown = of.idle.0.saturating_sub(self.idle.0) as f64;
        grown >= of.fast.0 as f64 * MANY && grown >= self.used * pause::OLDER
    }

    /// Adds a pass that has ended.
    fn add(&mut self, pass: &Counts, of: &Conditions) {
        self.promoted = self.promoted.saturating_add(pass.promoted);
        if self.promoted as f64 >= of.fast.0 as f64 * EVIDENCE {
            let more = of.in_use.saturating_sub(self.in_use).0 as f64;
            let effect = (more / self.promoted.max(1) as f64).min(1.0);
            let used = self.used + effect * self.promoted as f64;
            let &Conditions { idle, in_use, .. } = of;
            *self = Self { idle, in_use, promoted: 0, effect, used, ..*self };
        }
    }
}

#[cfg(test)]
mod tests;
