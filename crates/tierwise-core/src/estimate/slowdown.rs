//! The slowdown of a tenant by slow memory, from the CPU's counters alone (Memstrata, section 4.2).
//!
//! The CPU cannot count, by tenant, the misses that slow memory served, but it can measure the
//! latency of a tenant's loads. With a fast memory of latency `h` and a slow one of latency `m`, a
//! share `x` of misses gives a mean latency of `h + x * (m - h)`. This line is fitted once and then
//! inverted:
//!
//! ```text
//! miss ratio     = (L3 miss latency - intercept) / slope, held between 0 and 1
//! estimated MPKI = 1000 * miss ratio * memory requests / instructions
//! ```
//!
//! Both, with the other [`FEATURES`], are smoothed (EWMA, constant 0.2) and passed to a
//! [`Classifier`]. It classifies the tenant as an *outlier* if it is slowed down by more than a
//! threshold. The crate `tierwise-learn` has a random forest for that trait. [`RatioOnly`] is the
//! fallback if there is no forest, or none for this machine's counters, and for a tenant unlike all
//! those from which the forest learned ([`Classifier::strange`]).
//!
//! A core that keeps several misses in flight waits for each of them a part of its latency only.
//! The paper's five inputs do not show that: a program that follows pointers and one that scans
//! have the same latency and the same MPKI, and the first is slowed down several times as much. The
//! core counts its misses in flight, so they are an input here, and so is the *exposed* MPKI, which
//! is divided by them.
//!
//! ```
//! use tierwise_core::estimate::slowdown::{LatencyFit, RatioOnly, Slowdown};
//! use tierwise_core::observe::CpuCounters;
//!
//! let fit = LatencyFit { intercept: 73.0, slope: 202.0 };
//! let mut slowdown = Slowdown::new(Box::new(RatioOnly::new(fit)), 0.2);
//! let read = CpuCounters {
//!     l3_miss_ns: 174.0, // 73 + 0.5 * 202
//!     memory_requests: 20_000.0,
//!     misses_in_flight: 2.0,
//!     instructions: 1e6,
//!     ..CpuCounters::default()
//! };
//! let estimate = slowdown.update(0, &read, 1000).unwrap();
//! assert_eq!((estimate.miss_ratio, estimate.mpki, estimate.exposed_mpki), (0.5, 10.0, 5.0));
//! assert!(estimate.is_outlier);
//! assert_eq!(estimate.misses_per_page, 10.0); // 10,000 misses, 1,000 managed pages
//! ```

use crate::observe::CpuCounters;

/// The line from miss ratio to L3 miss latency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyFit {
    /// Nanoseconds per load if fast memory serves all.
    pub intercept: f64,
    /// Nanoseconds that each load takes longer if slow memory serves all.
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

/// The number of a classifier's inputs.
const INPUTS: usize = 8;

/// The input of a classifier, in the order of [`FEATURES`].
pub type Features = [f32; INPUTS];

/// The names of the [`Features`] in a model's file: the paper's five, which are the estimated MPKI,
/// the L3, L2 and data-TLB miss latencies in nanoseconds and the L2 MPKI; then memory requests per
/// thousand instructions, misses in flight, and the estimated MPKI divided by them.
pub const FEATURES: [&str; INPUTS] = [
    "mpki",
    "l3_miss_ns",
    "l2_miss_ns",
    "dtlb_miss_ns",
    "l2_mpki",
    "memory_mpki",
    "misses_in_flight",
    "exposed_mpki",
];

/// The places of the latencies in [`FEATURES`].
const LATENCIES: std::ops::Range<usize> = 1..4;

/// The place of the exposed MPKI in [`FEATURES`].
const EXPOSED: usize = 7;

/// Detects tenants that are slowed down by more than a threshold.
pub trait Classifier: Send + Sync {
    /// The name in reports.
    fn name(&self) -> &'static str;

    /// The line with which it was trained.
    fn fit(&self) -> LatencyFit;

    /// Returns true if a tenant with these features is an outlier.
    fn is_outlier(&self, features: &Features) -> bool;

    /// Returns the first feature, as its place in [`FEATURES`], that lies outside of what the
    /// classifier has learned from; its answer would be a guess.
    fn strange(&self, _: &Features) -> Option<usize> {
        None
    }
}

/// The fallback: a tenant is an outlier if slow memory serves more than [`RatioOnly::MPKI`] of its
/// misses per thousand instructions and per miss in flight. It does not know what else the tenant
/// does meanwhile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatioOnly {
    fit: LatencyFit,
}

impl RatioOnly {
    /// Exposed MPKI above which a tenant is an outlier. A thousand instructions take some 435 ns
    /// at 2.3 GHz, and about as much again in memory. 5 % of the sum are 45 ns, a quarter of the
    /// latency of one slow access.
    pub const MPKI: f32 = 0.25;

    /// Makes the classifier with the line of the two memories' latencies.
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
        features[EXPOSED] > Self::MPKI
    }
}

/// The estimate of one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SlowdownEstimate {
    /// Share of the tenant's memory requests that slow memory served.
    pub miss_ratio: f64,
    /// Requests that slow memory served per thousand instructions.
    pub mpki: f64,
    /// The same, divided by the misses in flight.
    pub exposed_mpki: f64,
    /// Requests that slow memory served in one interval, per page of its memory in the managed
    /// tier: the average miss count of listing 1.
    pub misses_per_page: f64,
    /// True if the tenant is slowed down by more than the threshold.
    pub is_outlier: bool,
    /// The feature that the classifier does not know, for which [`RatioOnly`] judged instead.
    pub strange: Option<&'static str>,
}

/// Smoothed metrics of one tenant.
#[derive(Debug, Clone, Copy, Default)]
struct Metrics {
    features: [f64; INPUTS],
    miss_ratio: f64,
    misses: f64,
}

/// The estimator: every tenant's metrics, smoothed.
pub struct Slowdown {
    classifier: Box<dyn Classifier>,
    ewma: f64,
    /// By tenant; `None` before its first reading.
    tenants: Vec<Option<Metrics>>,
}

impl Slowdown {
    /// Makes an estimator with a classifier and the weight of the newest reading (0.2 in the paper,
    /// section 6.3).
    pub fn new(classifier: Box<dyn Classifier>, ewma: f64) -> Self {
        Self { classifier, ewma, tenants: Vec::new() }
    }

    /// The classifier.
    pub fn classifier(&self) -> &dyn Classifier {
        self.classifier.as_ref()
    }

    /// Handles a tenant's counters of an interval in which it had `managed_pages` in the managed
    /// tier. Returns `None` while no load of it has missed the L3 cache.
    pub fn update(
        &mut self,
        tenant: usize,
        read: &CpuCounters,
        managed_pages: u64,
    ) -> Option<SlowdownEstimate> {
        if self.tenants.len() <= tenant {
            self.tenants.resize(tenant + 1, None);
        }
        if read.instructions > 0.0 && read.l3_miss_ns.is_finite() {
            let new = self.metrics(read);
            let old = self.tenants[tenant];
            // Without a load that missed, as while a tenant only writes its new memory, there is
            // no latency to learn from. As a first reading it would hold the means down for
            // minutes.
            if read.l3_miss_ns > 0.0 {
                self.tenants[tenant] = Some(old.unwrap_or(new).towards(&new, self.ewma));
            } else if let Some(old) = old {
                self.tenants[tenant] = Some(old.towards(&new.with_latencies(&old), self.ewma));
            }
        }
        self.tenants[tenant].map(|metrics| self.judge(&metrics, managed_pages))
    }

    /// Forgets a tenant that has ended.
    pub fn forget(&mut self, tenant: usize) {
        if let Some(metrics) = self.tenants.get_mut(tenant) {
            *metrics = None;
        }
    }

    fn metrics(&self, read: &CpuCounters) -> Metrics {
        let thousands = read.instructions / 1000.0;
        let miss_ratio = self.classifier.fit().miss_ratio(read.l3_miss_ns);
        let misses = miss_ratio * read.memory_requests;
        // A core that does not count them may have one; so it may be classified as an outlier
        // wrongly, but not as none.
        let in_flight = read.misses_in_flight.max(1.0);
        let features = [
            misses / thousands,
            read.l3_miss_ns,
            read.l2_miss_ns,
            read.dtlb_miss_ns,
            read.l2_misses / thousands,
            read.memory_requests / thousands,
            in_flight,
            misses / thousands / in_flight,
        ];
        Metrics { features, miss_ratio, misses }
    }

    fn judge(&self, metrics: &Metrics, managed_pages: u64) -> SlowdownEstimate {
        let features = metrics.features.map(|f| f as f32);
        let strange = self.classifier.strange(&features);
        let is_outlier = match strange {
            Some(_) => RatioOnly::new(self.classifier.fit()).is_outlier(&features),
            None => self.classifier.is_outlier(&features),
        };
        SlowdownEstimate {
            miss_ratio: metrics.miss_ratio,
            mpki: metrics.features[0],
            exposed_mpki: metrics.features[EXPOSED],
            misses_per_page: metrics.misses / managed_pages.max(1) as f64,
            is_outlier,
            strange: strange.map(|place| FEATURES[place]),
        }
    }
}

impl Metrics {
    /// The metrics with the latencies of others.
    fn with_latencies(mut self, others: &Self) -> Self {
        self.features[LATENCIES].copy_from_slice(&others.features[LATENCIES]);
        self
    }

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

    fn read(l3_miss_ns: f64, memory_requests: f64) -> CpuCounters {
        CpuCounters { l3_miss_ns, memory_requests, instructions: 1e6, ..CpuCounters::default() }
    }

    #[test]
    fn metrics_smooth_with_a_fifth() {
        let mut slowdown = Slowdown::new(Box::new(RatioOnly::new(FIT)), 0.2);
        let first = slowdown.update(3, &read(100.0, 1000.0), 10).unwrap();
        assert_eq!((first.mpki, first.is_outlier), (0.0, false));
        // Smoothed, a ratio of one half in one interval is a tenth, and 500 misses are 100.
        let second = slowdown.update(3, &read(200.0, 1000.0), 10).unwrap();
        assert!((second.miss_ratio - 0.1).abs() < 1e-12);
        assert!((second.misses_per_page - 10.0).abs() < 1e-12);
        slowdown.forget(3);
        assert_eq!(slowdown.update(3, &read(200.0, 1000.0), 10).unwrap().miss_ratio, 0.5);
    }

    /// A tenant writes its new memory first, and no load misses.
    #[test]
    fn readings_without_latency_teach_none() {
        let mut slowdown = Slowdown::new(Box::new(RatioOnly::new(FIT)), 0.2);
        assert_eq!(slowdown.update(0, &read(0.0, 1000.0), 10), None);
        let first = slowdown.update(0, &read(200.0, 1000.0), 10).unwrap();
        assert_eq!((first.miss_ratio, first.is_outlier), (0.5, true));
        // Later it has its mean latency, and fewer misses.
        let later = slowdown.update(0, &read(0.0, 0.0), 10).unwrap();
        assert!((later.mpki - 0.4).abs() < 1e-12, "{later:?}");
        let latency = slowdown.tenants[0].unwrap().features[1];
        assert!((latency - 200.0).abs() < 1e-12);
    }

    #[test]
    fn idle_tenant_is_not_judged() {
        let mut slowdown = Slowdown::new(Box::new(RatioOnly::new(FIT)), 0.2);
        assert_eq!(slowdown.update(0, &CpuCounters::default(), 10), None);
        let broken = CpuCounters { l3_miss_ns: f64::NAN, ..read(0.0, 1.0) };
        assert_eq!(slowdown.update(0, &broken, 10), None);
        // An idle tenant keeps its last estimate.
        let known = slowdown.update(0, &read(300.0, 1000.0), 10).unwrap();
        assert_eq!(slowdown.update(0, &CpuCounters::default(), 10), Some(known));
    }

    /// Knows up to ten L2 misses per thousand instructions, and finds no outlier.
    struct Narrow;

    impl Classifier for Narrow {
        fn name(&self) -> &'static str {
            "narrow"
        }

        fn fit(&self) -> LatencyFit {
            FIT
        }

        fn is_outlier(&self, _: &Features) -> bool {
            false
        }

        fn strange(&self, features: &Features) -> Option<usize> {
            (features[4] > 10.0).then_some(4)
        }
    }

    #[test]
    fn ratio_judges_what_classifier_misses() {
        let mut slowdown = Slowdown::new(Box::new(Narrow), 0.2);
        let known = slowdown.update(0, &read(200.0, 1000.0), 10).unwrap();
        assert_eq!((known.is_outlier, known.strange), (false, None));
        let far = CpuCounters { l2_misses: 20_000.0, ..read(200.0, 1000.0) };
        let strange = slowdown.update(1, &far, 10).unwrap();
        assert_eq!((strange.is_outlier, strange.strange), (true, Some("l2_mpki")));
    }

    #[test]
    fn misses_in_flight_hide_each_other() {
        let mut slowdown = Slowdown::new(Box::new(RatioOnly::new(FIT)), 0.2);
        let of = |misses_in_flight| CpuCounters { misses_in_flight, ..read(200.0, 1000.0) };
        // Half of a miss per thousand instructions, alone and four at a time.
        let alone = slowdown.update(0, &of(1.0), 10).unwrap();
        let hidden = slowdown.update(1, &of(4.0), 10).unwrap();
        assert_eq!((alone.mpki, alone.exposed_mpki, alone.is_outlier), (0.5, 0.5, true));
        assert_eq!((hidden.mpki, hidden.exposed_mpki, hidden.is_outlier), (0.5, 0.125, false));
    }

    #[test]
    fn latencies_clamp_to_the_lines_ends() {
        assert_eq!([0.0, 100.0, 250.0, 900.0].map(|ns| FIT.miss_ratio(ns)), [0.0, 0.0, 0.75, 1.0]);
        assert_eq!(LatencyFit { slope: 0.0, ..FIT }.miss_ratio(500.0), 0.0);
    }
}
