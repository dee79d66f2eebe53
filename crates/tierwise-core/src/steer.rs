//! Steering: settings for a kernel that promotes pages by itself.
//!
//! With `kernel.numa_balancing` 2 the kernel poisons slow pages chunk by chunk, and promotes a page
//! at its hint fault if the page was accessed within the hot threshold after it was poisoned
//! (`kernel/sched/fair.c`, `task_numa_work` and `should_numa_migrate_memory`). kswapd demotes to
//! make room. This file computes the threshold and the size of the chunks, once per second.
//!
//! **Hot threshold.** A promotion displaces another page, so it costs two copies of `c` each. A
//! page that was accessed `t` after it was poisoned is accessed `1 / t` times per second. Each
//! access costs `m` misses, and a miss that the fast tier serves saves `d`. The page stays fast for
//! `r`, the time in which as many pages are demoted as the fast tier holds. The promotion pays if
//! `r * m * d / t > 2 * c`, which bounds the threshold:
//!
//! ```text
//! t < r * m * d / (2 * c)
//! ```
//!
//! The page that is displaced must not be used as much: it was idle for `i` at least, and the
//! threshold is at most half of that. While the fast tier has free memory nothing is demoted, and
//! the threshold rises to the kernel's default.
//!
//! ```
//! use std::time::Duration;
//! use tierwise_core::steer::pays_within;
//!
//! // A DRAM page and a CXL page: 130 ns per miss, 2.6 us per copy. A page that stays for a second
//! // is worth promoting if it is accessed every 50 ms.
//! let (saved, copy) = (Duration::from_nanos(130), Duration::from_nanos(2600));
//! assert_eq!(pays_within(Duration::from_secs(1), saved, copy), Duration::from_millis(50));
//! ```
//!
//! **Scan period.** A hint fault costs `f`. Faults that lead to few promotions are not worth their
//! cost: the period between two chunks grows while the faults of a second cost more than its
//! promotions and demotions, and shrinks again when they cost less.
//!
//! **Rate.** Nothing above says that a promoted page stays hot. So promotions draw on a stock that
//! grows by as many pages per second as promotions and demotions may copy in [`MAX_COPYING`] of a
//! CPU, up to as many pages as the fast tier holds: a workload that changes all of its pages finds
//! them promoted at once, and one whose pages are all alike costs little. The kernel counts
//! candidates against the rate in the order of their faults. If there are more than the rate
//! allows, the threshold falls in proportion, so that the hottest are promoted.

use std::time::Duration;

use crate::units::{Bytes, Pages, Timestamp};

/// Last-level misses per access to a page: an object that starts anywhere in a line reaches into
/// the next. Pages that are read as a whole have up to 64, and are promoted later than would pay.
pub const MISSES_PER_ACCESS: f64 = 2.0;

/// The kernel's default of the hot threshold (`sysctl_numa_balancing_hot_threshold`), and the
/// largest: pages that are accessed less often than once per second gain little.
pub const MAX_THRESHOLD: Duration = Duration::from_secs(1);

/// The kernel's unit.
pub const MIN_THRESHOLD: Duration = Duration::from_millis(1);

/// The threshold at the start: a quarter of the largest. Pages that are accessed at this rate are
/// found by the first scan, and those that are not are no candidates while nothing is known.
pub const FIRST_THRESHOLD: Duration = Duration::from_millis(250);

/// The chunk while the fast tier is first filled: the kernel's default (256 MiB). A thread reads a
/// new period when all of its memory was scanned, which takes few chunks of this size.
pub const FIRST_CHUNK: Bytes = Bytes(256 << 20);

/// The chunk afterwards. The kernel divides the period by the number of chunks in a process's
/// memory, and scans an area that a thread has not accessed in a call of its own: smaller chunks
/// pass many such areas sooner.
pub const CHUNK: Bytes = Bytes(32 << 20);

/// The kernel's shortest period for its default chunk (`MAX_SCAN_WINDOW`).
pub const MIN_PERIOD: Duration = Duration::from_millis(100);

/// The longest period, which is the kernel's default of the shortest: a workload that changes its
/// pages is found within some seconds.
pub const MAX_PERIOD: Duration = Duration::from_secs(1);

/// Hint faults per poisoned page above which a second counts as one between two scans: most of its
/// faults are of pages that were poisoned before.
const SCANNED: f64 = 2.0;

/// The factor by which the period changes per second.
const PERIOD_STEP: f64 = 1.5;

/// The largest threshold in terms of the smallest: a larger change has no effect.
const THRESHOLDS: f64 = 1000.0;

/// The longest period in terms of the shortest.
const PERIODS: f64 = 10.0;

/// The part of a CPU that copies may take in the long run.
pub const MAX_COPYING: f64 = 0.04;

/// The time in which threads scan in large chunks: several scans.
pub const FILLING: Duration = Duration::from_secs(3);

/// The part of the demotion rate that is forgotten per second: half of it in two seconds, in which
/// several scans pass.
const FORGOTTEN: f64 = 0.3;

/// The largest change of the threshold per second: the rate of demotions that follows from it is
/// known a second later.
const MAX_CHANGE: f64 = 4.0;

/// The time between two accesses within which a promotion pays, for a page that stays fast for
/// `residence`.
pub fn pays_within(residence: Duration, saved: Duration, copy: Duration) -> Duration {
    let worth = residence.as_secs_f64() * MISSES_PER_ACCESS * saved.as_secs_f64();
    let within = worth / (2.0 * copy.as_secs_f64().max(f64::MIN_POSITIVE));
    // A day is longer than any threshold, and `Duration` cannot hold everything.
    Duration::from_secs_f64(within.min(86_400.0))
}

/// The constant properties of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// Time that a last-level miss takes less in the fastest tier than in the slowest.
    pub saved: Duration,
    /// CPU time of migrating one base page.
    pub copy: Duration,
    /// CPU time of a hint fault.
    pub fault: Duration,
}

/// Counts of the kernel, now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// Base pages promoted since the machine started.
    pub promoted: u64,
    /// Base pages whose hint fault was within the hot threshold, since the machine started.
    pub candidates: u64,
    /// Base pages demoted since the machine started.
    pub demoted: u64,
    /// Hint faults since the machine started.
    pub faults: u64,
    /// Page table entries poisoned since the machine started.
    pub poisoned: u64,
    /// Base pages of the fastest tier that the kernel can demote.
    pub fast: Pages,
    /// The least time for which the pages were idle that the kernel demotes next; `None` if it is
    /// not known.
    pub idle: Option<Duration>,
}

/// What the kernel is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Course {
    /// The hot threshold, in whole milliseconds.
    pub threshold: Duration,
    /// The time between two chunks of a thread, in whole milliseconds, of a process whose memory is
    /// one chunk.
    pub period: Duration,
    /// The size of a chunk.
    pub chunk: Bytes,
    /// Base pages promoted per second at most; `None` for no limit.
    pub rate: Option<Pages>,
}

/// Computes the course from one reading per second.
#[derive(Debug, Clone)]
pub struct Steering {
    costs: Costs,
    threshold: Duration,
    period: Duration,
    started: Option<Timestamp>,
    last: Option<(Timestamp, Reading)>,
    /// Demoted base pages per second.
    rate: f64,
    /// Copies and hint faults of late.
    copies: f64,
    faults: f64,
    /// Candidates per second of late.
    candidates: f64,
    /// The stock: base pages that may be promoted at once.
    stock: f64,
}

impl Steering {
    /// Starts at the shortest period.
    pub fn new(costs: Costs) -> Self {
        Self {
            costs,
            threshold: FIRST_THRESHOLD,
            period: MIN_PERIOD,
            started: None,
            last: None,
            rate: 0.0,
            copies: 0.0,
            faults: 0.0,
            candidates: 0.0,
            stock: f64::INFINITY,
        }
    }

    /// The course by the last reading.
    pub fn course(&self) -> Course {
        let whole = |duration: Duration| Duration::from_millis(duration.as_millis() as u64);
        let filling = match (self.started, self.last) {
            (Some(started), Some((now, _))) => now.since(started) < FILLING,
            _ => true,
        };
        let rate = self.growth().map(|growth| Pages(growth.max(self.stock.min(1e15)) as u64));
        Course {
            threshold: whole(self.threshold),
            period: whole(self.period),
            chunk: if filling { FIRST_CHUNK } else { CHUNK },
            rate,
        }
    }

    /// The growth of the stock per second; `None` if copies cost nothing.
    fn growth(&self) -> Option<f64> {
        let pair = 2.0 * self.costs.copy.as_secs_f64();
        (pair > 0.0).then(|| MAX_COPYING / pair)
    }

    /// The time for which a page stays in the fastest tier at the present rate of demotions.
    pub fn residence(&self, fast: Pages) -> Duration {
        let seconds = if self.rate > 0.0 { fast.0 as f64 / self.rate } else { f64::INFINITY };
        Duration::from_secs_f64(seconds.min(86_400.0))
    }

    /// Takes a reading. Returns the course.
    pub fn update(&mut self, now: Timestamp, reading: &Reading) -> Course {
        self.started.get_or_insert(now);
        if let Some((before, last)) = self.last {
            let seconds = now.since(before).as_secs_f64();
            if seconds <= 0.0 {
                return self.course();
            }
            let more = |now: u64, before: u64| now.saturating_sub(before) as f64;
            let demoted = more(reading.demoted, last.demoted);
            let candidates = more(reading.candidates, last.candidates);
            let learned = 1.0 - (1.0 - FORGOTTEN).powf(seconds);
            self.rate += (demoted / seconds - self.rate) * learned;
            self.candidates += (candidates / seconds - self.candidates) * learned;
            self.set_threshold(seconds, reading);
            let kept = (1.0 - FORGOTTEN).powf(seconds);
            let promoted = more(reading.promoted, last.promoted);
            let grown = self.growth().unwrap_or(f64::INFINITY) * seconds;
            self.stock = (self.stock + grown - promoted).clamp(0.0, reading.fast.0 as f64);
            let copies = demoted + promoted;
            self.copies = self.copies * kept + copies;
            self.faults = self.faults * kept + more(reading.faults, last.faults);
            // Between two scans of the memory in use there are faults of cold pages, and no
            // promotions.
            let poisoned = more(reading.poisoned, last.poisoned);
            if poisoned * SCANNED >= more(reading.faults, last.faults) && poisoned > 0.0 {
                self.set_period(seconds);
            }
        }
        self.last = Some((now, *reading));
        self.course()
    }

    fn set_threshold(&mut self, seconds: f64, reading: &Reading) {
        // A daemon that was stopped for a minute must not compute a time that no number holds.
        let change = MAX_CHANGE.powf(seconds.max(1.0)).min(THRESHOLDS);
        let bounds = (self.threshold.div_f64(change), self.threshold.mul_f64(change));
        let wanted = self.wanted(reading).clamp(bounds.0, bounds.1);
        self.threshold = wanted.clamp(MIN_THRESHOLD, MAX_THRESHOLD);
    }

    fn wanted(&self, reading: &Reading) -> Duration {
        let pays = self.pays(reading);
        match self.course().rate {
            Some(rate) if self.candidates > rate.0 as f64 => {
                pays.min(self.threshold.mul_f64(rate.0 as f64 / self.candidates))
            }
            _ => pays,
        }
    }

    fn pays(&self, reading: &Reading) -> Duration {
        // Less than one page per second is no displacement.
        if self.rate < 1.0 {
            return MAX_THRESHOLD;
        }
        let Costs { saved, copy, .. } = self.costs;
        let pays = pays_within(self.residence(reading.fast), saved, copy);
        reading.idle.map_or(pays, |idle| pays.min(idle / 2))
    }

    fn set_period(&mut self, seconds: f64) {
        let Costs { copy, fault, .. } = self.costs;
        let pays = self.faults * fault.as_secs_f64() <= self.copies * copy.as_secs_f64();
        let change = PERIOD_STEP.powf(seconds).min(PERIODS);
        let period = if pays { self.period.div_f64(change) } else { self.period.mul_f64(change) };
        self.period = period.clamp(MIN_PERIOD, MAX_PERIOD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        saved: Duration::from_nanos(130),
        copy: Duration::from_nanos(2600),
        fault: Duration::from_nanos(1300),
    };

    fn second(n: u64) -> Timestamp {
        Timestamp(n * 1_000_000_000)
    }

    /// The course after `seconds` of as many demotions, promotions and faults per second.
    fn course(seconds: u64, moves: u64, faults: u64, idle: Option<u64>) -> Course {
        let mut steering = Steering::new(COSTS);
        for n in 0..=seconds {
            let reading = Reading {
                promoted: n * moves,
                demoted: n * moves,
                faults: n * faults,
                poisoned: n * faults,
                candidates: 0,
                fast: Pages(10_000),
                idle: idle.map(Duration::from_millis),
            };
            steering.update(second(n), &reading);
        }
        steering.course()
    }

    fn threshold(seconds: u64, moves: u64, idle: Option<u64>) -> u64 {
        course(seconds, moves, 0, idle).threshold.as_millis() as u64
    }

    #[test]
    fn free_memory_raises_the_threshold() {
        assert_eq!(threshold(1, 0, Some(1)), 1000);
        assert_eq!(threshold(0, 0, Some(1)), 250);
    }

    #[test]
    fn threshold_follows_residence_and_costs() {
        // A page stays for 2 s: 2 s * 2 * 130 ns / 5.2 us.
        assert_eq!(threshold(30, 5000, None), 100);
        // Ten times the demotions, a tenth of the threshold.
        assert_eq!(threshold(30, 50_000, None), 10);
    }

    #[test]
    fn displaced_pages_are_idle_for_longer() {
        assert_eq!(threshold(30, 5000, Some(100)), 50);
        assert_eq!(threshold(30, 5000, Some(0)), 1);
    }

    #[test]
    fn vain_faults_lengthen_the_period() {
        // 400 copies of 2.6 us each are worth 800 faults of 1.3 us.
        assert_eq!(course(30, 200, 800, None).period, MIN_PERIOD);
        assert_eq!(course(30, 200, 801, None).period, MAX_PERIOD);
        assert_eq!(course(2, 200, 801, None).period, Duration::from_millis(225));
    }

    #[test]
    fn period_stays_between_two_scans() {
        let mut steering = Steering::new(COSTS);
        for n in 0..9 {
            steering.update(second(n), &Reading { faults: n * 1000, ..Reading::default() });
        }
        assert_eq!(steering.course().period, MIN_PERIOD);
    }

    #[test]
    fn excess_candidates_lower_the_threshold() {
        let mut steering = Steering::new(COSTS);
        for n in 0..6 {
            let candidates = if n < 4 { 0 } else { (n - 3) * 76_920 };
            steering.update(second(n), &Reading { candidates, ..Reading::default() });
        }
        // Ten times the rate; three tenths of that are known after one second, half after two.
        let threshold = steering.course().threshold;
        assert!(threshold < MAX_THRESHOLD / 10, "{threshold:?}");
    }

    #[test]
    fn copies_draw_on_a_stock() {
        let mut steering = Steering::new(COSTS);
        let rates: Vec<u64> = [0, 0, 40_000, 140_000, 140_000]
            .into_iter()
            .enumerate()
            .map(|(n, promoted)| {
                let reading = Reading { promoted, fast: Pages(100_000), ..Reading::default() };
                steering.update(second(n as u64), &reading).rate.unwrap().0
            })
            .skip(1)
            .collect();
        // 4 % of a CPU are 7692 pairs of copies per second. A whole tier may be promoted at first.
        assert_eq!(rates, [100_000, 67_692, 7692, 7692]);
    }

    #[test]
    fn chunks_are_smaller_after_the_start() {
        let chunk = |seconds| course(seconds, 0, 0, None).chunk;
        assert_eq!([chunk(2), chunk(3)], [FIRST_CHUNK, CHUNK]);
    }

    #[test]
    fn counter_that_falls_is_no_demotion() {
        let mut steering = Steering::new(COSTS);
        for (n, demoted) in [(0, 900), (1, 100), (1, 800)] {
            steering.update(second(n), &Reading { demoted, ..Reading::default() });
        }
        assert_eq!(steering.course().threshold, MAX_THRESHOLD);
    }
}
