//! Steering: settings for a kernel that promotes pages by itself.
//!
//! With `kernel.numa_balancing` 2 the kernel poisons slow pages chunk by chunk, and promotes a page
//! at its hint fault if the page was accessed within the hot threshold after it was poisoned
//! (`kernel/sched/fair.c`, `task_numa_work` and `should_numa_migrate_memory`). kswapd demotes to
//! make room. This folder computes, once per second, whether the kernel scans, the threshold, and
//! the rate of promotions.
//!
//! **PromotionVictims.** A promotion displaces a page. What it gains is the difference between the two, so
//! the first question is how long the fast pages are idle. MGLRU's generations have the answer
//! ([`IdlePages`]). Where all fast pages are in use, no promotion gains, and no scan is made.
//!
//! **Hot threshold.** A page that was accessed within `t` after it was poisoned is accessed some
//! `1 / t` times per second; one that was idle for `i` at most some `1 / i` times. The threshold is
//! half of the victims' idle time, so that a promoted page is used twice as much at least.
//!
//! **Rate.** No more pages are promoted per second than there are victims. Promotions also draw on
//! a stock that grows by as many pages per second as promotions and demotions may copy in
//! [`MAX_COPYING`] of a CPU, up to as many pages as the fast tier holds: a workload that changes
//! all of its pages finds them promoted at once. The kernel counts candidates against the rate in the
//! order of their faults. If there are more than the rate allows, the threshold falls in
//! proportion, so that the hottest are promoted.
//!
//! **Scans.** A hint fault costs more than most misses that a promotion saves. So the kernel scans
//! while that pays, and otherwise as often as [`scan`] can afford.

pub mod scan;

use std::time::Duration;

use crate::units::{Bytes, Pages, Timestamp};
use scan::{Counts, Scanning};

/// The kernel's default of the hot threshold (`sysctl_numa_balancing_hot_threshold`), and the
/// largest: pages that are accessed less often than once per second gain little.
pub const MAX_THRESHOLD: Duration = Duration::from_secs(1);

/// The kernel's unit.
pub const MIN_THRESHOLD: Duration = Duration::from_millis(1);

/// The threshold while no idle time is known: a quarter of the largest.
pub const FIRST_THRESHOLD: Duration = Duration::from_millis(250);

/// The chunk. The kernel divides the period by the number of chunks in a process's memory, and
/// scans an area that a thread has not accessed in a call of its own: smaller chunks than its
/// default of 256 MiB pass many such areas sooner.
pub const CHUNK: Bytes = Bytes(32 << 20);

/// The time in which the kernel scans all of a process's memory, up to 2.5 GiB
/// (`MAX_SCAN_WINDOW`), and more per second of a larger process.
pub const PERIOD: Duration = Duration::from_secs(1);

/// The part of a CPU that copies may take in the long run.
pub const MAX_COPYING: f64 = 0.04;

/// The part of the fast tier's pages that must be idle for a promotion to find a victim: a
/// sixteenth. The few that are idle in a tier that is in use are not worth a scan.
pub const MIN_VICTIMS: f64 = 1.0 / 16.0;

/// The part of the candidates that is forgotten per second: half of them in two seconds.
const FORGOTTEN: f64 = 0.3;

/// The largest change of the threshold per second: the number of candidates that follows from it is
/// known a second later.
const MAX_CHANGE: f64 = 4.0;

/// The constant properties of a machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteeringCosts {
    /// Time that a last-level miss takes less in the fastest tier than in the slowest.
    pub saved: Duration,
    /// CPU time of migrating one base page.
    pub copy: Duration,
    /// CPU time of a hint fault, with its part of the scan.
    pub fault: Duration,
    /// CPUs of the machine.
    pub cpus: f64,
}

/// Pages of the fastest tier that nothing has accessed for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdlePages {
    /// They are idle for this long at least.
    pub idle: Duration,
    /// Base pages.
    pub pages: Pages,
}

/// Counts of the kernel, now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelReading {
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
    /// Base pages of the fastest tier that are free above the kernel's high watermark.
    pub free: Pages,
    /// All base pages of the fastest tier that the kernel can demote, by the time for which they
    /// are idle: zero for those in use.
    pub fast: Vec<IdlePages>,
}

/// What the kernel is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Course {
    /// Whether the kernel scans, and so promotes.
    pub scans: bool,
    /// The hot threshold, in whole milliseconds.
    pub threshold: Duration,
    /// Base pages promoted per second at most; `None` for no limit.
    pub rate: Option<Pages>,
}

/// The pages that promotions may displace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PromotionVictims {
    /// Base pages, with those that are free.
    pub pages: Pages,
    /// They are idle for this long at least; `None` if enough are free.
    pub idle: Option<Duration>,
}

/// The victims that a reading shows: those that are idle for longest, and at least
/// [`MIN_VICTIMS`] of the fast tier. None if fewer are idle for two [`MIN_THRESHOLD`]s.
///
/// ```
/// use std::time::Duration;
/// use tierwise_core::steer::{IdlePages, KernelReading, PromotionVictims, victims};
/// use tierwise_core::units::Pages;
///
/// let of = |ms, pages| IdlePages { idle: Duration::from_millis(ms), pages: Pages(pages) };
/// let fast = vec![of(0, 800), of(100, 150), of(3000, 50)];
/// let reading = KernelReading { fast, ..KernelReading::default() };
/// let idle = Some(Duration::from_millis(100));
/// assert_eq!(victims(&reading), PromotionVictims { pages: Pages(200), idle });
/// ```
pub fn victims(reading: &KernelReading) -> PromotionVictims {
    let mut classes = reading.fast.clone();
    classes.sort_by(|a, b| b.idle.cmp(&a.idle));
    let enough = (total(reading) as f64 * MIN_VICTIMS).max(1.0);
    let mut pages = reading.free.0;
    if pages as f64 >= enough {
        return PromotionVictims { pages: Pages(pages), idle: None };
    }
    for IdlePages { idle, pages: more } in classes {
        if idle < 2 * MIN_THRESHOLD {
            break;
        }
        pages = pages.saturating_add(more.0);
        if pages as f64 >= enough {
            return PromotionVictims { pages: Pages(pages), idle: Some(idle) };
        }
    }
    PromotionVictims::default()
}

/// All pages of the fast tier that the kernel can demote.
fn total(reading: &KernelReading) -> u64 {
    reading.fast.iter().fold(0, |sum, class| class.pages.0.saturating_add(sum))
}

/// Computes the course from one reading per second.
#[derive(Debug, Clone)]
pub struct Steering {
    costs: SteeringCosts,
    threshold: Duration,
    victims: PromotionVictims,
    scanning: Scanning,
    last: Option<(Timestamp, KernelReading)>,
    /// Candidates per second of late.
    candidates: f64,
    /// The stock: base pages that may be promoted at once.
    stock: f64,
}

impl Steering {
    /// Starts without a scan: nothing is known of the fast pages yet.
    pub fn new(costs: SteeringCosts) -> Self {
        Self {
            costs,
            threshold: FIRST_THRESHOLD,
            victims: PromotionVictims::default(),
            scanning: Scanning::new(costs),
            last: None,
            candidates: 0.0,
            stock: f64::INFINITY,
        }
    }

    /// The course by the last reading.
    pub fn course(&self) -> Course {
        let threshold = Duration::from_millis(self.threshold.as_millis() as u64);
        Course { scans: self.scanning.is_on(), threshold, rate: self.rate() }
    }

    fn rate(&self) -> Option<Pages> {
        let growth = self.growth()?;
        let affordable = growth.max(self.stock.min(1e15));
        Some(Pages(affordable as u64).min(self.victims.pages))
    }

    /// The growth of the stock per second; `None` if copies cost nothing.
    fn growth(&self) -> Option<f64> {
        let pair = 2.0 * self.costs.copy.as_secs_f64();
        (pair > 0.0).then(|| MAX_COPYING / pair)
    }

    /// Takes a reading. Returns the course.
    pub fn update(&mut self, now: Timestamp, reading: &KernelReading) -> Course {
        self.victims = victims(reading);
        if let Some((before, last)) = &self.last {
            let seconds = now.since(*before).as_secs_f64();
            if seconds <= 0.0 {
                return self.course();
            }
            let more = |now: u64, before: u64| now.saturating_sub(before) as f64;
            let candidates = more(reading.candidates, last.candidates) / seconds;
            let promoted = more(reading.promoted, last.promoted);
            self.candidates +=
                (candidates - self.candidates) * (1.0 - (1.0 - FORGOTTEN).powf(seconds));
            let grown = self.growth().unwrap_or(f64::INFINITY) * seconds;
            self.stock = (self.stock + grown - promoted).clamp(0.0, total(reading) as f64);
            self.set_threshold(seconds);
        } else {
            self.threshold = self.idle_bound();
        }
        let counts = Counts::of(reading);
        self.scanning.update(now, counts, &self.victims, self.threshold, Pages(total(reading)));
        self.last = Some((now, reading.clone()));
        self.course()
    }

    fn set_threshold(&mut self, seconds: f64) {
        // After ten seconds any threshold is within reach.
        let change = MAX_CHANGE.powf(seconds.clamp(1.0, 10.0));
        let bounds = (self.threshold.div_f64(change), self.threshold.mul_f64(change));
        let bound = self.idle_bound();
        let wanted = match self.rate() {
            Some(rate) if self.candidates > rate.0 as f64 => {
                self.threshold.mul_f64(rate.0 as f64 / self.candidates)
            }
            _ => bound,
        };
        let changed = wanted.clamp(bounds.0, bounds.1).min(bound);
        self.threshold = changed.clamp(MIN_THRESHOLD, MAX_THRESHOLD);
    }

    /// The largest threshold that the victims allow.
    fn idle_bound(&self) -> Duration {
        match self.victims {
            PromotionVictims { pages: Pages(0), .. } => FIRST_THRESHOLD,
            PromotionVictims { idle: None, .. } => MAX_THRESHOLD,
            PromotionVictims { idle: Some(idle), .. } => {
                (idle / 2).clamp(MIN_THRESHOLD, MAX_THRESHOLD)
            }
        }
    }
}

#[cfg(test)]
mod tests;
