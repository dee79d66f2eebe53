//! The result of a run, in the form in which `--json` prints it. Its keys are stable.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::record::RunRecord;
use crate::stats::HeatMap;

/// Several policies on one scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The scenario's name.
    pub scenario: String,
    /// The seed of the runs.
    pub seed: u64,
    /// One result per policy, in the requested order.
    pub results: Vec<PolicyResult>,
}

/// One policy on one scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyResult {
    /// The recipe's name.
    pub policy: String,
    /// Instructions per second of all tenants together, in their measured parts.
    pub throughput: f64,
    /// Geometric mean of the tenants' slowdowns.
    pub slowdown: f64,
    /// Share of last-level misses served by the fastest tier, 0 to 1.
    pub fast_access_ratio: f64,
    /// Pages moved to a faster tier, over the whole run.
    pub promotions: u64,
    /// Pages moved to a slower tier.
    pub demotions: u64,
    /// Bytes moved either way.
    pub migrated_bytes: u64,
    /// CPU seconds of monitoring and migration, the application's own and a background
    /// core's.
    pub overhead_seconds: f64,
    /// Time divided by the oracle's time for the same work, minus one: 0 is as good as the oracle.
    pub distance_to_oracle: f64,
    /// One entry per tenant, in the scenario's order.
    pub tenants: Vec<TenantResult>,
}

/// One tenant under one policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TenantResult {
    /// The workload's name.
    pub name: String,
    /// "best-effort" or "latency-critical".
    pub class: String,
    /// Instructions per second in the measured part.
    pub throughput: f64,
    /// Time divided by the time for the same work with all memory fast and no other tenant.
    pub slowdown: f64,
    /// Share of its last-level misses served by the fastest tier.
    pub fast_access_ratio: f64,
    /// Resident bytes by tier name, when the tenant ended, or else at the end of the run. Of a
    /// tenant whose memory stays they are those at the end of the run.
    pub usage_bytes: BTreeMap<String, u64>,
    /// Its pages moved to a faster tier.
    pub promotions: u64,
    /// Its pages moved to a slower tier.
    pub demotions: u64,
    /// Of its promotions, those after which the page was accessed again before it left the faster
    /// tier; not counted for services.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reaccessed: Option<u64>,
    /// Seconds of its measured part.
    #[serde(default)]
    pub seconds: f64,
    /// CPU seconds of its own that monitoring and migration took over its whole run.
    #[serde(default)]
    pub overhead_seconds: f64,
    /// Operations per second, for workloads that count them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub operations_per_second: Option<f64>,
    /// Response times, for services that answer requests.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub latency: Option<LatencyResult>,
    /// Its failure, if it did not end well: "out of memory at 12.3 s: ...".
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<String>,
}

/// Response times of a service over its whole run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyResult {
    /// Requests answered.
    pub requests: u64,
    /// Requests that took longer than the objective, and requests that had waited for longer than
    /// it at the end.
    pub violations: u64,
    /// Requests that had waited for longer than the objective at the end and were not answered.
    pub overdue: u64,
    /// The objective for the 99th percentile, in milliseconds.
    pub slo_ms: f64,
    /// The time that half of the requests did not exceed.
    pub p50_ms: f64,
    /// The time that 95 % did not exceed.
    pub p95_ms: f64,
    /// The time that 99 % did not exceed.
    pub p99_ms: f64,
    /// The time that 99.9 % did not exceed.
    pub p999_ms: f64,
    /// The longest response time.
    pub max_ms: f64,
    /// Whole seconds of the run.
    pub seconds: u64,
    /// Number of seconds whose 99th percentile exceeded the objective.
    pub violating_seconds: u64,
}

impl LatencyResult {
    /// The share of the requests that violated the objective, 0 to 1.
    pub fn violated(&self) -> f64 {
        self.violations as f64 / (self.requests + self.overdue).max(1) as f64
    }
}

/// The state of a run at one time; rates are over the interval that ends there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimelinePoint {
    /// Virtual seconds since the start.
    pub time_seconds: f64,
    /// Share of last-level misses served by the fastest tier.
    pub fast_access_ratio: f64,
    /// Last-level misses, for sums over intervals. Not printed.
    #[serde(skip)]
    pub misses: f64,
    /// Pages promoted. A granule counts as one page.
    pub promotions: u64,
    /// Pages demoted. A granule counts as one page.
    pub demotions: u64,
    /// One entry per tenant, in the scenario's order.
    pub tenants: Vec<TenantPoint>,
}

/// A tenant at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TenantPoint {
    /// The workload's name.
    pub name: String,
    /// Instructions per second.
    pub throughput: f64,
    /// Share of its misses served by the fastest tier.
    pub fast_access_ratio: f64,
    /// Resident bytes, fastest tier first.
    pub usage_bytes: Vec<u64>,
    /// Its pages promoted. A granule counts as one page.
    #[serde(default)]
    pub promotions: u64,
    /// Its pages demoted. A granule counts as one page.
    #[serde(default)]
    pub demotions: u64,
    /// Requests answered per second, for services.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requests_per_second: Option<f64>,
    /// The 99th percentile of response times in the worst second of the interval, for services.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p99_ms: Option<f64>,
}

/// Everything that a run returns.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutput {
    /// The summary.
    pub result: PolicyResult,
    /// The timeline, if requested.
    pub timeline: Vec<TimelinePoint>,
    /// The heat map, if requested.
    pub heat_map: Option<HeatMap>,
    /// The decisions and their reasons, if requested.
    pub record: Option<RunRecord>,
}
