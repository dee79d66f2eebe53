//! Response times: percentiles of an interval and of the whole measured time, and
//! violations.

use std::time::Duration;

use hdrhistogram::{CreationError, Histogram};

/// Maximum distinct response time; longer ones count as this. No client waits for an hour.
const MAX_NS: u64 = 3_600_000_000_000;

/// Three digits, a thousandth: finer than any difference between policies that matters.
const DIGITS: u8 = 3;

/// Response times of a number of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LatencySummary {
    /// Requests.
    pub requests: u64,
    /// Requests that took longer than the objective.
    pub violations: u64,
    /// The time that half of the requests did not exceed.
    pub p50: Duration,
    /// The time that 95 % did not exceed.
    pub p95: Duration,
    /// The time that 99 % did not exceed.
    pub p99: Duration,
    /// The time that 99.9 % did not exceed.
    pub p999: Duration,
    /// The longest time.
    pub max: Duration,
}

/// Response times of a set of requests, and its violations.
#[derive(Debug, Clone)]
struct Noted {
    histogram: Histogram<u64>,
    violations: u64,
}

impl Noted {
    fn summary(&self) -> LatencySummary {
        let h = &self.histogram;
        if h.is_empty() {
            return LatencySummary::default();
        }
        let at = |quantile| Duration::from_nanos(h.value_at_quantile(quantile));
        LatencySummary {
            requests: h.len(),
            violations: self.violations,
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: Duration::from_nanos(h.max()),
        }
    }

    fn clear(&mut self) {
        self.histogram.reset();
        self.violations = 0;
    }

    fn add(&mut self, other: &Self) {
        // Both have the same bounds, so no value of one is outside the other.
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok(), "histograms of different bounds");
        self.violations += other.violations;
    }
}

/// Response times of a service.
#[derive(Debug, Clone)]
pub struct Latencies {
    slo_ns: u64,
    interval: Noted,
    /// Figures of the intervals that ended in the measured time.
    ended: Noted,
}

impl Latencies {
    /// Creates an empty tally with an objective.
    ///
    /// # Errors
    /// Never: the bounds are constants that the histogram accepts.
    pub fn new(slo: Duration) -> Result<Self, CreationError> {
        let empty =
            Noted { histogram: Histogram::new_with_bounds(1, MAX_NS, DIGITS)?, violations: 0 };
        let slo_ns = u64::try_from(slo.as_nanos()).unwrap_or(u64::MAX);
        Ok(Self { slo_ns, interval: empty.clone(), ended: empty })
    }

    /// Records one request.
    pub fn note(&mut self, response_ns: u64) {
        self.interval.histogram.saturating_record(response_ns);
        self.interval.violations += u64::from(response_ns > self.slo_ns);
    }

    /// The objective in nanoseconds.
    pub fn slo_ns(&self) -> u64 {
        self.slo_ns
    }

    /// The interval so far.
    pub fn interval(&self) -> LatencySummary {
        self.interval.summary()
    }

    /// Ends the interval and starts another.
    pub fn end_interval(&mut self) -> LatencySummary {
        let summary = self.interval.summary();
        self.ended.add(&self.interval);
        self.interval.clear();
        summary
    }

    /// The summary since the measured time started.
    pub fn total(&self) -> LatencySummary {
        let mut all = self.ended.clone();
        all.add(&self.interval);
        all.summary()
    }

    /// Forgets everything so far: the measured time starts.
    pub fn start_measuring(&mut self) {
        self.interval.clear();
        self.ended.clear();
    }
}
