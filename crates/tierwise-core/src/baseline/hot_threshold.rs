//! Hot page selection of NUMA-balancing memory tiering (`kernel/sched/fair.c`, since 6.1): the
//! shorter the time from a page's poisoning to its touch, the hotter the page.
//!
//! A page is a promotion candidate if the time from its poisoning to its hint fault is within the
//! threshold. Candidates beyond the rate limit of the current second are dropped
//! (`numa_promotion_rate_limit`). Once per adjustment period the threshold changes so that
//! candidates come at about the rate limit (`numa_promotion_adjust_threshold`). Let `T` be the
//! configured threshold. The threshold sinks by `2 T / 16` after more than 110 % of the limit and
//! rises by `2 T / 16` after fewer than 90 %. It stays between `2 T / 16` and `2 T`.

use std::time::Duration;

use crate::config::{ConfigError, Section};
use crate::topology::Tier;
use crate::units::{Bytes, Pages, Timestamp};

/// `NUMA_MIGRATION_ADJUST_STEPS`.
const ADJUST_STEPS: u32 = 16;

/// Returns true if a tier has so much free memory that any access promotes a page:
/// `pgdat_free_space_enough`, with the kernel's 1 GiB as a parameter.
pub(crate) fn is_free_space_enough(
    free: Pages,
    fast: &Tier,
    free_enough: Bytes,
    page_size: Bytes,
) -> bool {
    let share = Pages(fast.capacity.0 / 16);
    free > fast.watermarks.promo + free_enough.in_pages(page_size).max(share)
}

/// The threshold, and the candidates that it admitted.
#[derive(Debug, Clone)]
pub(crate) struct HotThreshold {
    configured: Duration,
    /// `None`: the configured one.
    adjusted: Option<Duration>,
    limit: Pages,
    period: Duration,
    candidates: Pages,
    /// Start of the adjustment period, and the candidates until then.
    adjust_start: (Timestamp, Pages),
    /// Start of the rate limit's second, and the candidates until then.
    second_start: (Timestamp, Pages),
}

impl HotThreshold {
    /// Reads `hot_threshold_ms` (1000), `promote_rate_limit_mbps` (65536, in MiB per second) and
    /// `adjust_period_ms` (60000, the kernel's `scan_period_max_ms`).
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub(crate) fn read(section: &Section<'_>, page_size: Bytes) -> Result<Self, ConfigError> {
        let period = section.millis_or("adjust_period_ms", Duration::from_secs(60), 1..=600_000)?;
        Self::of_kernel(section, page_size, period)
    }

    /// Reads `hot_threshold_ms` (1000) and `promote_rate_limit_mbps` (65536, in MiB per second).
    /// The kernel adjusts the threshold once in its `scan_period_max_ms`, `period`.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub(super) fn of_kernel(
        section: &Section<'_>,
        page_size: Bytes,
        period: Duration,
    ) -> Result<Self, ConfigError> {
        let configured =
            section.millis_or("hot_threshold_ms", Duration::from_secs(1), 1..=600_000)?;
        let limit = section.whole_or("promote_rate_limit_mbps", 65_536, 1..=1 << 20)?;
        Ok(Self {
            configured,
            adjusted: None,
            limit: Bytes(limit << 20).in_pages(page_size),
            period,
            candidates: Pages(0),
            adjust_start: (Timestamp::ZERO, Pages(0)),
            second_start: (Timestamp::ZERO, Pages(0)),
        })
    }

    /// Starts the adjustment period and the rate limit's second, as switching memory tiering on
    /// does (`reset_memory_tiering`).
    pub(super) fn start(&mut self, now: Timestamp) {
        self.adjusted = None;
        self.adjust_start = (now, self.candidates);
    }

    /// The present threshold.
    pub(super) fn now(&self) -> Duration {
        self.adjusted.unwrap_or(self.configured)
    }

    /// Resets the threshold: there is free memory for every page, so the workload has changed.
    pub(crate) fn reset(&mut self) {
        self.adjusted = None;
    }

    /// Returns true if the threshold and the rate limit admit a page of `frames` base pages that
    /// faulted `latency` after it was poisoned.
    pub(crate) fn admits(&mut self, now: Timestamp, latency: Duration, frames: Pages) -> bool {
        self.adjust(now);
        latency < self.now() && !self.is_over_limit(now, frames)
    }

    fn adjust(&mut self, now: Timestamp) {
        let (started, before) = self.adjust_start;
        if now.since(started) <= self.period {
            return;
        }
        let expected = u128::from(self.limit.0) * self.period.as_nanos() / 1_000_000_000;
        let found = u128::from((self.candidates - before).0);
        let step = self.configured * 2 / ADJUST_STEPS;
        if found > expected * 11 / 10 {
            self.adjusted = Some(self.now().saturating_sub(step).max(step));
        } else if found < expected * 9 / 10 {
            self.adjusted = Some((self.now() + step).min(self.configured * 2));
        }
        self.adjust_start = (now, self.candidates);
    }

    fn is_over_limit(&mut self, now: Timestamp, frames: Pages) -> bool {
        self.candidates += frames;
        if now.since(self.second_start.0) > Duration::from_secs(1) {
            self.second_start = (now, self.candidates);
        }
        self.candidates - self.second_start.1 >= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::SECOND;
    use super::*;

    fn threshold(text: &str) -> HotThreshold {
        let document = crate::config::Document::parse("t.toml", text).unwrap();
        HotThreshold::read(&document.root(), Bytes(4096)).unwrap()
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn page_is_hot_within_the_threshold() {
        let mut hot = threshold("");
        assert!(hot.admits(Timestamp(SECOND), 999 * MS, Pages(1)));
        assert!(!hot.admits(Timestamp(SECOND), 1000 * MS, Pages(1)));
    }

    #[test]
    fn threshold_follows_the_number_of_candidates() {
        // 1 MiB/s is 256 pages per second: 15 360 in a period.
        let mut hot = threshold("promote_rate_limit_mbps = 1");
        assert!(!hot.admits(Timestamp(61 * SECOND), 1000 * MS, Pages(1)) || hot.now() > 1000 * MS);
        assert_eq!(hot.now(), 1125 * MS);
        for period in 2..20 {
            hot.admits(Timestamp(61 * period * SECOND), 5000 * MS, Pages(1));
        }
        assert_eq!(hot.now(), 2000 * MS, "no higher than twice the configured threshold");

        for period in 20..50 {
            hot.admits(Timestamp((61 * period - 1) * SECOND), MS, Pages(20_000));
            hot.admits(Timestamp(61 * period * SECOND), 5000 * MS, Pages(1));
        }
        assert_eq!(hot.now(), 125 * MS, "no lower than one step");

        hot.reset();
        assert_eq!(hot.now(), 1000 * MS);
    }

    #[test]
    fn right_number_of_candidates_keeps_the_threshold() {
        let mut hot = threshold("promote_rate_limit_mbps = 1");
        hot.admits(Timestamp(SECOND), MS, Pages(15_360));
        hot.admits(Timestamp(61 * SECOND), 5000 * MS, Pages(1));
        assert_eq!(hot.now(), 1000 * MS);
    }

    #[test]
    fn excess_candidates_wait_for_the_next_second() {
        let mut hot = threshold("promote_rate_limit_mbps = 1");
        let admitted = |hot: &mut HotThreshold, at: u64| {
            (0..300).filter(|_| hot.admits(Timestamp(at), MS, Pages(1))).count()
        };
        // The candidate that opens a second is not counted in it.
        assert_eq!(admitted(&mut hot, 2 * SECOND), 256);
        assert_eq!(admitted(&mut hot, 2 * SECOND + SECOND / 2), 0);
        assert_eq!(admitted(&mut hot, 4 * SECOND), 256);
    }
}
