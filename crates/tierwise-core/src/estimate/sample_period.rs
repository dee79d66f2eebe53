//! The sample period of the hardware, within the sampler's CPU quota.
//!
//! MEMTIS (Lee et al., SOSP 2023, section 4) starts with one sample in 200 last-level load misses.
//! It holds the CPU time of its sampling thread below 3 % by a period between 200 and 20 000. The
//! artifact checks every 15 s and keeps the period within half a percent of the quota
//! (`mm/htmm_sampler.c`, `ksampled_soft_cpu_quota`). Its second event, one retired store in 100
//! 000, has no counterpart here: a world samples misses, and marks stores among them.

use std::time::Duration;

use crate::config::{ConfigError, Section};
use crate::units::Timestamp;

/// Steps from the minimum to the maximum period: the artifact's table has 30 periods.
const STEPS: u32 = 29;

/// Hysteresis around the quota, as a share of a CPU: the artifact's half per cent.
const SLACK: f64 = 0.005;

/// The sample period and its control.
#[derive(Debug, Clone)]
pub struct SamplePeriod {
    min: f64,
    max: f64,
    quota: f64,
    cost: Duration,
    check: Duration,
    step: u32,
    samples: u64,
    checked: Timestamp,
}

impl SamplePeriod {
    /// Reads `sample_period` (200), `sample_period_max` (20000), `sampler_cpu_percent` (3, zero for
    /// a fixed period), `sample_cost_ns` (1000) and `sampler_check_ms` (15000).
    ///
    /// The cost of one sample is the walk from an address to a page and the update of its counter:
    /// about ten dependent cache misses, hence a microsecond. A kernel measures its thread; this
    /// engine reads no clock, so the cost is a parameter.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub fn read(section: &Section<'_>) -> Result<Self, ConfigError> {
        let min = section.whole_or("sample_period", 200, 1..=u64::from(u32::MAX))?;
        let max =
            section.whole_or("sample_period_max", 20_000.max(min), 1..=u64::from(u32::MAX))?;
        if max < min {
            return Err(section.error(
                "sample_period_max",
                format!("found {max}; allowed: at least sample_period, {min}"),
            ));
        }
        let quota = section.number_or("sampler_cpu_percent", 3.0, 0.0..=100.0)? / 100.0;
        let cost = section.whole_or("sample_cost_ns", 1000, 1..=1_000_000)?;
        let check = Duration::from_secs(15);
        Ok(Self {
            min: min as f64,
            max: max as f64,
            quota,
            cost: Duration::from_nanos(cost),
            check: section.millis_or("sampler_check_ms", check, 1..=3_600_000)?,
            step: 0,
            samples: 0,
            checked: Timestamp::ZERO,
        })
    }

    /// Returns the present period, in misses per sample.
    pub fn now(&self) -> u32 {
        let ratio = f64::from(self.step) / f64::from(STEPS);
        (self.min * (self.max / self.min).powf(ratio)).round() as u32
    }

    /// The longest period.
    pub fn longest(&self) -> u32 {
        self.max.round() as u32
    }

    /// Counts samples that the sampler handled.
    pub fn count(&mut self, samples: usize) {
        self.samples += samples as u64;
    }

    /// Adjusts the period once per check interval: longer above the quota, shorter below.
    pub fn adjust(&mut self, now: Timestamp) {
        let elapsed = now.since(self.checked);
        if self.quota == 0.0 || elapsed < self.check {
            return;
        }
        let busy = self.cost.as_secs_f64() * self.samples as f64 / elapsed.as_secs_f64();
        if busy > self.quota + SLACK {
            self.step = (self.step + 1).min(STEPS);
        } else if busy < self.quota - SLACK {
            self.step = self.step.saturating_sub(1);
        }
        self.samples = 0;
        self.checked = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(s: u64) -> Timestamp {
        Timestamp(s * 1_000_000_000)
    }

    #[test]
    fn sample_period_follows_quota_within_bounds() {
        let mut period = SamplePeriod::read(&Section::empty()).unwrap();
        assert_eq!(period.now(), 200);

        // 60 000 samples of 1 us per second are 6 % of a CPU: twice the quota.
        let mut time = 0;
        for _ in 0..40 {
            time += 15;
            period.count(15 * 60_000);
            period.adjust(seconds(time));
        }
        assert_eq!(period.now(), 20_000);

        // Within half a percent of the quota the period stays; below it the period shrinks.
        time += 15;
        period.count(15 * 30_000);
        period.adjust(seconds(time));
        assert_eq!(period.now(), 20_000);
        time += 15;
        period.adjust(seconds(time));
        assert!(period.now() < 20_000);
    }

    #[test]
    fn between_two_checks_the_period_stays() {
        let mut period = SamplePeriod::read(&Section::empty()).unwrap();
        period.count(1_000_000_000);
        period.adjust(seconds(14));
        assert_eq!(period.now(), 200);
    }
}
