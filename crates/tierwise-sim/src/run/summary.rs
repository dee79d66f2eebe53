//! Converts the accounts of a run into its result.

use std::collections::BTreeMap;
use std::time::Duration;

use tierwise_core::recipe::Recipe;
use tierwise_core::units::{Bytes, Pages};
use tierwise_core::world::World;

use super::{Prepared, RunOptions};
use crate::host::SimulatedHost;
use crate::result::{
    LatencyResult, PolicyResult, RunOutput, TenantPoint, TenantResult, TimelinePoint,
};
use crate::service::RunningService;
use crate::stats::{Heat, StatsPoint, WorkloadAccount, WorkloadPoint};
use crate::workload::WorkloadState;

/// Totals of one tenant's measured part.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measured {
    /// Nanoseconds that the work took; for a service, its servers' time.
    pub(super) took_ns: f64,
    /// Nanoseconds that passed.
    pub(super) wall_ns: f64,
    /// Nanoseconds for the same work with everything fast.
    pub(super) all_fast_ns: f64,
    /// Nanoseconds for the same work under the oracle.
    pub(super) oracle_ns: f64,
    /// Instructions.
    pub(super) instructions: f64,
    /// Misses served by the fastest tier.
    pub(super) fast: f64,
    /// All misses.
    pub(super) misses: f64,
}

/// Returns `a / b`; 1 if no work was done.
fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 1.0 }
}

fn share(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

impl Measured {
    fn of(account: &WorkloadAccount, service: bool, now: u64) -> Self {
        let work = &account.measured;
        let end = account.ended.unwrap_or(now);
        let wall = account.measured_from.map_or(0, |from| end.saturating_sub(from));
        Self {
            // A service is as slow as its servers; the time between requests does not count.
            took_ns: if service { account.busy_ns } else { wall as f64 },
            wall_ns: wall as f64,
            all_fast_ns: work.all_fast_ns,
            oracle_ns: work.oracle_ns,
            instructions: work.instructions,
            fast: work.misses[0],
            misses: work.misses.iter().sum(),
        }
    }

    /// Instructions per second.
    pub(super) fn throughput(&self) -> f64 {
        share(self.instructions, self.wall_ns * 1e-9)
    }

    /// The time divided by that with all memory fast.
    pub(super) fn slowdown(&self) -> f64 {
        ratio(self.took_ns, self.all_fast_ns)
    }

    /// Share of misses served fast.
    pub(super) fn fast_access_ratio(&self) -> f64 {
        share(self.fast, self.misses)
    }
}

/// Computes the policy's result from its tenants' measures. Moves and overhead are left at zero.
pub(super) fn policy_result(
    name: &str,
    measured: &[Measured],
    tenants: Vec<TenantResult>,
) -> PolicyResult {
    let geometric = |f: &dyn Fn(&Measured) -> f64| {
        let logs: f64 = measured.iter().map(|m| f(m).ln()).sum();
        (logs / measured.len().max(1) as f64).exp()
    };
    let sum = |f: &dyn Fn(&Measured) -> f64| measured.iter().map(f).sum::<f64>();
    PolicyResult {
        policy: name.to_owned(),
        throughput: sum(&Measured::throughput),
        slowdown: geometric(&Measured::slowdown),
        fast_access_ratio: share(sum(&|m| m.fast), sum(&|m| m.misses)),
        promotions: 0,
        demotions: 0,
        migrated_bytes: 0,
        overhead_seconds: 0.0,
        distance_to_oracle: geometric(&|m| ratio(m.took_ns, m.oracle_ns)) - 1.0,
        tenants,
    }
}

pub(super) fn summarise(
    prepared: &Prepared,
    recipe: &Recipe,
    host: &SimulatedHost,
    options: &RunOptions,
) -> RunOutput {
    let stats = host.stats();
    let now = host.now().0;
    let measured: Vec<Measured> = {
        let workloads = host.workloads().iter();
        let each = stats.accounts.iter().zip(workloads);
        each.map(|(a, p)| Measured::of(a, p.service().is_some(), now)).collect()
    };
    let tenants = (0..measured.len()).map(|i| tenant(prepared, host, i, &measured[i])).collect();
    let counts = |i: usize| !host.workloads()[i].leaves_memory;
    let counted: Vec<Measured> =
        (0..measured.len()).filter(|&i| counts(i)).map(|i| measured[i]).collect();
    let mut result = policy_result(recipe.name(), &counted, tenants);
    result.promotions = stats.accounts.iter().map(|a| a.promotions).sum();
    result.demotions = stats.accounts.iter().map(|a| a.demotions).sum();
    result.migrated_bytes = stats.migrated_bytes as u64;
    result.overhead_seconds = stats.overhead_seconds();
    let names: Vec<&str> = prepared.scenario().workloads.iter().map(|w| w.name.as_str()).collect();
    let page_size = prepared.machine().page_size;
    let points = stats.timeline().filter(|_| options.timeline.is_some());
    let points = points.map_or(&[][..], |t| &t.points);
    RunOutput {
        result,
        timeline: points.iter().map(|p| timeline_point(p, &names, page_size)).collect(),
        heat_map: stats.heat().filter(|_| options.heat_map).map(Heat::finish),
        record: None,
    }
}

fn tenant(
    prepared: &Prepared,
    host: &SimulatedHost,
    i: usize,
    measured: &Measured,
) -> TenantResult {
    let workload = &prepared.scenario().workloads[i];
    let account = &host.stats().accounts[i];
    let page_size = prepared.machine().page_size;
    let is_gone = account.ended.is_some() && !host.workloads()[i].leaves_memory;
    let usage = if is_gone { &account.last_usage[..] } else { host.memory().usage(i) };
    let names = prepared.machine().tiers.iter().map(|t| t.name.clone());
    let operations = account.measured.operations;
    TenantResult {
        name: workload.name.clone(),
        class: workload.class.name().to_owned(),
        throughput: measured.throughput(),
        slowdown: measured.slowdown(),
        fast_access_ratio: measured.fast_access_ratio(),
        usage_bytes: names
            .zip(usage)
            .map(|(name, pages)| (name, pages.in_bytes(page_size).0))
            .collect::<BTreeMap<_, _>>(),
        promotions: account.promotions,
        demotions: account.demotions,
        reaccessed: host.reaccessed(i),
        seconds: measured.wall_ns * 1e-9,
        overhead_seconds: account.overhead_ns * 1e-9,
        operations_per_second: (operations > 0.0)
            .then(|| share(operations, measured.wall_ns * 1e-9)),
        latency: host.workloads()[i].service().map(latency),
        failure: failure(prepared, host, i),
    }
}

fn latency(service: &RunningService) -> LatencyResult {
    let total = service.tenant.latencies().total();
    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    let overdue = service.tenant.waiting().overdue;
    LatencyResult {
        requests: total.requests,
        violations: total.violations + overdue,
        overdue,
        slo_ms: service.tenant.latencies().slo_ns() as f64 * 1e-6,
        p50_ms: ms(total.p50),
        p95_ms: ms(total.p95),
        p99_ms: ms(total.p99),
        p999_ms: ms(total.p999),
        max_ms: ms(total.max),
        seconds: service.seconds,
        violating_seconds: service.violating_seconds,
    }
}

fn failure(prepared: &Prepared, host: &SimulatedHost, i: usize) -> Option<String> {
    match host.workloads()[i].state {
        WorkloadState::OutOfMemory => {}
        WorkloadState::Waiting => {
            let after = prepared.scenario().workloads[i].after.as_deref()?;
            return Some(format!("it never started: \"{after}\" did not end before the run did"));
        }
        WorkloadState::Running | WorkloadState::Ended => return None,
    }
    let at = host.stats().accounts[i].out_of_memory? as f64 * 1e-9;
    let capacity: Bytes = prepared.machine().tiers.iter().map(|t| t.capacity).sum();
    Some(format!(
        "out of memory at {at:.1} s: all tiers together hold {capacity}, and every page was in use"
    ))
}

fn timeline_point(point: &StatsPoint, names: &[&str], page_size: Bytes) -> TimelinePoint {
    let seconds = point.span as f64 * 1e-9;
    let sum = |f: &dyn Fn(&WorkloadPoint) -> f64| point.workloads.iter().map(f).sum::<f64>();
    TimelinePoint {
        time_seconds: point.at as f64 * 1e-9,
        fast_access_ratio: share(sum(&|p| p.fast), sum(&|p| p.misses)),
        misses: sum(&|p| p.misses),
        promotions: point.workloads.iter().map(|p| p.promotions).sum(),
        demotions: point.workloads.iter().map(|p| p.demotions).sum(),
        tenants: names
            .iter()
            .zip(&point.workloads)
            .map(|(name, p)| TenantPoint {
                name: (*name).to_owned(),
                throughput: share(p.instructions, seconds),
                fast_access_ratio: share(p.fast, p.misses),
                usage_bytes: p.usage.iter().map(|u: &Pages| u.in_bytes(page_size).0).collect(),
                promotions: p.promotions,
                demotions: p.demotions,
                requests_per_second: p.p99.map(|_| share(p.operations, seconds)),
                p99_ms: p.p99.map(|p99| p99.as_secs_f64() * 1e3),
            })
            .collect(),
    }
}
