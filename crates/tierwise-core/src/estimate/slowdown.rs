//! How badly a tenant suffers from slow memory, where only the CPU's counters can say
//! (Memstrata, section 4.2).
//!
//! Which of a tenant's misses slow memory served cannot be counted by tenant, but how long its
//! loads took can: with a fast memory that answers in `h` and a slow one that takes `m`, a share
//! `x` of misses gives loads of `h + x * (m - h)`, a line, which is fitted once and read backwards:
//!
//! ```text
//! miss ratio     = (L3 miss latency - intercept) / slope, held between 0 and 1
//! estimated MPKI = 1000 * miss ratio * memory requests / instructions
//! ```
//!
//! Both, with the latencies and the L2 cache's misses, are smoothed (EWMA, constant 0.2) and handed
//! to a [`Classifier`], which says whether the tenant is an *outlier*: slowed down by more than a
//! threshold. A random forest stands behind that trait in the crate `tierwise-learn`; [`RatioOnly`]
//! is the fallback where there is none, or none that knows this machine's counters.
//!
//! ```
//! use tierwise_core::estimate::slowdown::{LatencyFit, RatioOnly, Slowdown};
//! use tierwise_core::observe::Counters;
//!
//! let fit = LatencyFit { intercept: 73.0, slope: 202.0 };
//! let mut slowdown = Slowdown::new(Box::new(RatioOnly::new(fit)), 0.2);
//! let read = Counters {
//!     l3_miss_ns: 174.0, // 73 + 0.5 * 202
//!     memory_requests: 20_000.0,
//!     instructions: 1e6,
//!     ..Counters::default()
//! };
//! let seen = slowdown.update(0, &read, 1000).unwrap();
//! assert_eq!((seen.miss_ratio, seen.mpki), (0.5, 10.0));
//! assert!(seen.is_outlier);
//! assert_eq!(seen.misses_per_page, 10.0); // 10,000 misses, 1,000 managed pages
//! ```

use crate::observe::Counters;

/// The line from miss ratio to L3 miss latency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyFit {
    /// Nanoseconds of a load when fast memory serves all.
    pub intercept: f64,
    /// Nanoseconds more when slow memory serves all.
    pub slope: f64,
}

impl LatencyFit {
    /// The share of the memory requests that slow memory served, 0 to 1.
    pub fn miss_ratio(&self, l3_miss_ns: f64) -> f64 {
        if self.slope > 0.0 {
            ((l3_miss_ns - self.intercept) / self.slope).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }
}

/// What a classifier sees of a tenant: estimated MPKI, L3, L2 and data-TLB miss latency in
/// nanoseconds, L2 MPKI.
pub type Features = [f32; 5];

/// The names of the [`Features`], as a model's file has them.
pub const FEATURES: [&str; 5] = ["mpki", "l3_miss_ns", "l2_miss_ns", "dtlb_miss_ns", "l2_mpki"];

/// Says who is slowed down by more than a threshold.
pub trait Classifier: Send + Sync {
    /// What the estimator is called in reports.
    fn name(&self) -> &'static str;

    /// The line with which it was trained.
    fn fit(&self) -> LatencyFit;

    /// Whether a tenant with these features is an outlier.
    fn is_outlier(&self, features: &Features) -> bool;
}

/// The fallback: an outlier is who misses in fast memory with more than a share of its requests and
/// often enough for it to be felt. It knows nothing of how much latency a program hides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatioOnly {
    fit: LatencyFit,
}

impl RatioOnly {
    /// Estimated MPKI from which on a tenant is an outlier. A thousand instructions take some 435
    /// ns at 2.3 GHz and as much again in memory, of which 5 % are 45 ns: a quarter of one slow
    /// access.
    pub const MPKI: f32 = 0.25;

    /// With a line that is known otherwise: the two memories' latencies.
    pub const fn new(fit: LatencyFit) -> Self {
        Self { fit }
    }
}

impl Classifier for RatioOnly {
    fn name(&self) -> &'static str {
        "ratio-only"
    }

    fn fit(&self) -> LatencyFit {
        self.fit
    }

    fn is_outlier(&self, features: &Features) -> bool {
        features[0] > Self::MPKI
    }
}

/// What is estimated of one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SlowdownEstimate {
    /// Share of its memory requests that slow memory served.
    pub miss_ratio: f64,
    /// Those in a thousand instructions.
    pub mpki: f64,
    /// Those of one interval to each page that it has in the managed tier: the average miss count
    /// of listing 1.
    pub misses_per_page: f64,
    /// Whether it is slowed down by more than the threshold.
    pub is_outlier: bool,
}

/// Smoothed metrics of one tenant.
#[derive(Debug, Clone, Copy, Default)]
struct Metrics {
    features: [f64; 5],
    miss_ratio: f64,
    misses: f64,
}

/// The estimator: every tenant's metrics, smoothed.
pub struct Slowdown {
    classifier: Box<dyn Classifier>,
    ewma: f64,
    /// By tenant; `None` until it was read once.
    tenants: Vec<Option<Metrics>>,
}

impl Slowdown {
    /// With a classifier, and the weight of the newest reading (0.2 in the paper, section 6.3).
    pub fn new(classifier: Box<dyn Classifier>, ewma: f64) -> Self {
        Self { classifier, ewma, tenants: Vec::new() }
    }

    /// Who classifies.
    pub fn classifier(&self) -> &dyn Classifier {
        self.classifier.as_ref()
    }

    /// Takes in what was counted of a tenant in an interval, while it had so many pages in the
    /// managed tier. `None` if it did nothing yet that could be judged.
    pub fn update(
        &mut self,
        tenant: usize,
        read: &Counters,
        managed_pages: u64,
    ) -> Option<SlowdownEstimate> {
        if self.tenants.len() <= tenant {
            self.tenants.resize(tenant + 1, None);
        }
        if read.instructions > 0.0 && read.l3_miss_ns.is_finite() {
            let new = self.metrics(read);
            let old = self.tenants[tenant].unwrap_or(new);
            self.tenants[tenant] = Some(old.towards(&new, self.ewma));
        }
        self.tenants[tenant].map(|metrics| self.judge(&metrics, managed_pages))
    }

    /// Forgets a tenant that has ended.
    pub fn forget(&mut self, tenant: usize) {
        if let Some(metrics) = self.tenants.get_mut(tenant) {
            *metrics = None;
        }
    }

    fn metrics(&self, read: &Counters) -> Metrics {
        let thousands = read.instructions / 1000.0;
        let miss_ratio = self.classifier.fit().miss_ratio(read.l3_miss_ns);
        let misses = miss_ratio * read.memory_requests;
        let features = [
            misses / thousands,
            read.l3_miss_ns,
            read.l2_miss_ns,
            read.dtlb_miss_ns,
            read.l2_misses / thousands,
        ];
        Metrics { features, miss_ratio, misses }
    }

    fn judge(&self, metrics: &Metrics, managed_pages: u64) -> SlowdownEstimate {
        SlowdownEstimate {
            miss_ratio: metrics.miss_ratio,
            mpki: metrics.features[0],
            misses_per_page: metrics.misses / managed_pages.max(1) as f64,
            is_outlier: self.classifier.is_outlier(&metrics.features.map(|f| f as f32)),
        }
    }
}

impl Metrics {
    fn towards(&self, new: &Self, weight: f64) -> Self {
        let step = |old: f64, new: f64| old + weight * (new - old);
        let mut features = self.features;
        features.iter_mut().zip(&new.features).for_each(|(old, &new)| *old = step(*old, new));
        Self {
            features,
            miss_ratio: step(self.miss_ratio, new.miss_ratio),
            misses: step(self.misses, new.misses),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIT: LatencyFit = LatencyFit { intercept: 100.0, slope: 200.0 };

    fn read(l3_miss_ns: f64, memory_requests: f64) -> Counters {
        Counters { l3_miss_ns, memory_requests, instructions: 1e6, ..Counters::default() }
    }

    #[test]
    fn metrics_smooth_with_a_fifth() {
        let mut slowdown = Slowdown::new(Box::new(RatioOnly::new(FIT)), 0.2);
        let first = slowdown.update(3, &read(100.0, 1000.0), 10).unwrap();
        assert_eq!((first.mpki, first.is_outlier), (0.0, false));
        // A ratio of one half for one interval is a tenth; 500 misses are 100.
        let second = slowdown.update(3, &read(200.0, 1000.0), 10).unwrap();
        assert!((second.miss_ratio - 0.1).abs() < 1e-12);
        assert!((second.misses_per_page - 10.0).abs() < 1e-12);
        slowdown.forget(3);
        assert_eq!(slowdown.update(3, &read(200.0, 1000.0), 10).unwrap().miss_ratio, 0.5);
    }

    #[test]
    fn idle_tenant_is_not_judged() {
        let mut slowdown = Slowdown::new(Box::new(RatioOnly::new(FIT)), 0.2);
        assert_eq!(slowdown.update(0, &Counters::default(), 10), None);
        let broken = Counters { l3_miss_ns: f64::NAN, ..read(0.0, 1.0) };
        assert_eq!(slowdown.update(0, &broken, 10), None);
        // What was known of it holds while it idles.
        let known = slowdown.update(0, &read(300.0, 1000.0), 10).unwrap();
        assert_eq!(slowdown.update(0, &Counters::default(), 10), Some(known));
    }

    #[test]
    fn latencies_clamp_to_the_lines_ends() {
        assert_eq!([0.0, 100.0, 250.0, 900.0].map(|ns| FIT.miss_ratio(ns)), [0.0, 0.0, 0.75, 1.0]);
        assert_eq!(LatencyFit { slope: 0.0, ..FIT }.miss_ratio(500.0), 0.0);
    }
}
