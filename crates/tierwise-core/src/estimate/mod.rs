//! Estimators: the hotness of pages. One file per algorithm, one row in [`TABLE`].

mod adaptive_interval;
mod bursts;
mod clock;
mod external;
mod hint_fault;
mod histogram;
mod lru_scan;
mod multi_clock;
mod nimble;
mod none;
mod outlook;
mod page_bins;
mod region_counts;
mod sample_period;
pub mod slowdown;
mod tenant_histogram;

pub use adaptive_interval::AdaptiveInterval;
pub use clock::Clock;
pub use hint_fault::HintFaultEstimator;
pub use histogram::Histogram;
pub use multi_clock::MultiClock;
pub use nimble::Nimble;
pub use none::NoEstimator;
pub use region_counts::RegionCounts;
pub use sample_period::SamplePeriod;
pub use tenant_histogram::TenantHistogram;

use crate::registry::StageRow;
use crate::stage::Estimator;

/// Every estimator by its name in recipes.
pub const TABLE: &[StageRow<dyn Estimator>] = &[
    StageRow {
        name: "clock",
        summary: "one reference bit per page and a clock hand",
        build: |section, ctx| Ok(Box::new(Clock::build(section, ctx)?)),
    },
    StageRow {
        name: "external",
        summary: "the estimator of the program that runs the engine, such as one in Python",
        build: external::build,
    },
    StageRow {
        name: "hint-fault",
        summary: "hint faults at each tenant's own rate; the kernel's inactive and active lists",
        build: |section, ctx| Ok(Box::new(HintFaultEstimator::build(section, ctx)?)),
    },
    StageRow {
        name: "histogram",
        summary: "hardware samples; an exponential histogram with cooling and a warm bin",
        build: |section, ctx| Ok(Box::new(Histogram::build(section, ctx)?)),
    },
    StageRow {
        name: "multi-clock",
        summary: "reference bits; inactive, active and promote lists",
        build: |section, ctx| Ok(Box::new(MultiClock::build(section, ctx)?)),
    },
    StageRow {
        name: "nimble",
        summary: "reference bits; the kernel's inactive and active lists",
        build: |section, ctx| Ok(Box::new(Nimble::build(section, ctx)?)),
    },
    StageRow {
        name: "none",
        summary: "no page is monitored and none is hotter than another",
        build: |_, _| Ok(Box::new(NoEstimator)),
    },
    StageRow {
        name: "region-counts",
        summary: "DAMON's counts of the last interval, unchanged",
        build: |section, _| Ok(Box::new(RegionCounts::build(section)?)),
    },
    StageRow {
        name: "tenant-histogram",
        summary: "hardware samples; each tenant's exponential histograms, one page list per bin",
        build: |section, _| Ok(Box::new(TenantHistogram::build(section)?)),
    },
];
