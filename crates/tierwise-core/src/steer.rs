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
//! threshold is at most half of that. While the fast tier has free memory nothing is demoted, `r`
//! and `i` are unbounded, and the threshold is the kernel's default.
//!
//! ```
//! use std::time::Duration;
//! use tierwise_core::steer::{MISSES_PER_ACCESS, pays_within};
//!
//! // A DRAM page and a CXL page: 130 ns per miss, 2.3 us per copy. A page that stays for a minute
//! // is worth promoting if it is accessed every 13 s.
//! let (saved, copy) = (Duration::from_nanos(130), Duration::from_nanos(2300));
//! let t = pays_within(Duration::from_secs(60), saved, copy);
//! assert_eq!(t.as_secs_f64().round(), (60.0 * MISSES_PER_ACCESS * 130.0 / 4600.0).round());
//! ```
//!
//! **Chunks.** The kernel promotes only into free memory, and kswapd frees as much as lies between
//! two watermarks at a time. More candidates than that at once find no room: their faults cost time
//! and change nothing until the next scan. So a chunk has [`GAPS_PER_CHUNK`] times the pages of
//! that gap.

use std::time::Duration;

use crate::topology::Watermarks;
use crate::units::{Bytes, Pages, Timestamp};

/// Last-level misses per access to a page. A page has 64 lines, of which an access touches between
/// one and all: the geometric mean.
pub const MISSES_PER_ACCESS: f64 = 8.0;

/// The kernel's default of the hot threshold (`sysctl_numa_balancing_hot_threshold`), and the
/// largest: pages that are accessed less often than once per second gain little.
pub const MAX_THRESHOLD: Duration = Duration::from_secs(1);

/// The kernel's unit.
pub const MIN_THRESHOLD: Duration = Duration::from_millis(1);

/// Watermark gaps per chunk: kswapd refills the gap while the pages of a chunk are accessed.
pub const GAPS_PER_CHUNK: u64 = 2;

/// The kernel's default chunk, 256 MiB, and the largest: a scan holds up its thread for as long.
pub const MAX_CHUNK: Bytes = Bytes(256 << 20);

/// The kernel's unit of the chunk.
pub const MIN_CHUNK: Bytes = Bytes(1 << 20);

/// The part of the demotion rate that is forgotten per second: half of it in two seconds, in which
/// several scans pass.
const FORGOTTEN: f64 = 0.3;

/// The largest change of the threshold per second: the rate of demotions that follows from it is
/// known a second later.
const MAX_CHANGE: f64 = 2.0;

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
}

/// Counts of the kernel, now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// Base pages demoted since the machine started.
    pub demoted: u64,
    /// Base pages in use in the fastest tier.
    pub fast: Pages,
    /// The least time for which the pages were idle that the kernel demotes next; `None` if it is
    /// not known.
    pub idle: Option<Duration>,
}

/// Computes the hot threshold from one reading per second.
#[derive(Debug, Clone)]
pub struct Steering {
    costs: Costs,
    threshold: Duration,
    last: Option<(Timestamp, u64)>,
    /// Demoted base pages per second.
    rate: f64,
}

impl Steering {
    /// Starts with the largest threshold.
    pub fn new(costs: Costs) -> Self {
        Self { costs, threshold: MAX_THRESHOLD, last: None, rate: 0.0 }
    }

    /// The hot threshold, in whole milliseconds.
    pub fn threshold(&self) -> Duration {
        Duration::from_millis(self.threshold.as_millis() as u64)
    }

    /// The time for which a page stays in the fastest tier at the present rate of demotions.
    pub fn residence(&self, fast: Pages) -> Duration {
        let seconds = if self.rate > 0.0 { fast.0 as f64 / self.rate } else { f64::INFINITY };
        Duration::from_secs_f64(seconds.min(86_400.0))
    }

    /// Takes a reading. Returns the threshold.
    pub fn update(&mut self, now: Timestamp, reading: &Reading) -> Duration {
        if let Some((before, demoted)) = self.last {
            let seconds = now.since(before).as_secs_f64();
            if seconds <= 0.0 {
                return self.threshold();
            }
            let rate = reading.demoted.saturating_sub(demoted) as f64 / seconds;
            self.rate += (rate - self.rate) * (1.0 - (1.0 - FORGOTTEN).powf(seconds));
            let wanted = self.wanted(reading);
            let change = MAX_CHANGE.powf(seconds.max(1.0));
            let bounds = (self.threshold.div_f64(change), self.threshold.mul_f64(change));
            self.threshold = wanted.clamp(bounds.0, bounds.1).clamp(MIN_THRESHOLD, MAX_THRESHOLD);
        }
        self.last = Some((now, reading.demoted));
        self.threshold()
    }

    fn wanted(&self, reading: &Reading) -> Duration {
        // Less than one page per second is no displacement.
        if self.rate < 1.0 {
            return MAX_THRESHOLD;
        }
        let Costs { saved, copy } = self.costs;
        let pays = pays_within(self.residence(reading.fast), saved, copy);
        reading.idle.map_or(pays, |idle| pays.min(idle / 2))
    }
}

/// The size of the chunks in which the kernel scans, for the fastest tier's watermarks: whole MiB.
///
/// ```
/// use tierwise_core::steer::chunk;
/// use tierwise_core::topology::Watermarks;
/// use tierwise_core::units::{Bytes, Pages};
///
/// let marks = |high, promo| Watermarks {
///     min: Pages(0), low: Pages(0), high: Pages(high), promo: Pages(promo),
/// };
/// // A gap of 8 MiB.
/// assert_eq!(chunk(&marks(4096, 6144), Bytes(4096)), Bytes(16 << 20));
/// assert_eq!(chunk(&marks(4096, 4096), Bytes(4096)), Bytes(1 << 20));
/// assert_eq!(chunk(&marks(0, 1 << 30), Bytes(4096)), Bytes(256 << 20));
/// ```
pub fn chunk(watermarks: &Watermarks, page_size: Bytes) -> Bytes {
    let gap = watermarks.promo.saturating_sub(watermarks.high).in_bytes(page_size);
    let bytes = gap.0.saturating_mul(GAPS_PER_CHUNK);
    Bytes((bytes >> 20 << 20).clamp(MIN_CHUNK.0, MAX_CHUNK.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs =
        Costs { saved: Duration::from_nanos(130), copy: Duration::from_nanos(2600) };

    fn second(n: u64) -> Timestamp {
        Timestamp(n * 1_000_000_000)
    }

    /// The threshold in milliseconds after `seconds` at a rate of demotions.
    fn after(seconds: u64, rate: u64, fast: u64, idle: Option<u64>) -> u64 {
        let mut steering = Steering::new(COSTS);
        for n in 0..=seconds {
            let idle = idle.map(Duration::from_millis);
            let reading = Reading { demoted: n * rate, fast: Pages(fast), idle };
            steering.update(second(n), &reading);
        }
        steering.threshold().as_millis() as u64
    }

    #[test]
    fn free_memory_keeps_the_largest_threshold() {
        assert_eq!(after(10, 0, 1000, Some(1)), 1000);
    }

    #[test]
    fn threshold_follows_residence_and_costs() {
        // A page stays for 2 s: 2 s * 8 * 130 ns / 5.2 us.
        assert_eq!(after(30, 5000, 10_000, None), 400);
        // Ten times the demotions, a tenth of the threshold.
        assert_eq!(after(30, 50_000, 10_000, None), 40);
    }

    #[test]
    fn displaced_pages_are_idle_for_longer() {
        assert_eq!(after(30, 5000, 10_000, Some(100)), 50);
        assert_eq!(after(30, 5000, 10_000, Some(0)), 1);
    }

    #[test]
    fn threshold_at_most_halves_per_second() {
        assert_eq!(after(1, 1_000_000, 10_000, None), 500);
        assert_eq!(after(3, 1_000_000, 10_000, None), 125);
    }

    #[test]
    fn counter_that_falls_is_no_demotion() {
        let mut steering = Steering::new(COSTS);
        for (n, demoted) in [(0, 900), (1, 100), (1, 800)] {
            steering.update(second(n), &Reading { demoted, fast: Pages(10), idle: None });
        }
        assert_eq!(steering.threshold(), MAX_THRESHOLD);
    }
}
