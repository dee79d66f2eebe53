//! The limits of tenants.

use serde::Serialize;
use tierwise_core::config::nearest;
use tierwise_sim::result::TenantResult;
use tierwise_sim::run::Prepared;
use tierwise_sim::scenario::WorkloadSource;

use super::point::TenantSizePoint;
use crate::failure::Failure;

/// A twentieth more time, which is within the daily variation of an operator's machine.
const DEFAULT_SLOWDOWN: f64 = 1.05;

/// `--slowdown`, as written.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitArgument {
    name: Option<String>,
    slowdown: f64,
}

impl LimitArgument {
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, number) = match text.rsplit_once('=') {
            Some((name, number)) => (Some(name.to_owned()), number),
            None => (None, text),
        };
        match number.parse::<f64>() {
            // Below 1 a program would be faster than with fast memory only.
            Ok(slowdown) if (1.0..=1000.0).contains(&slowdown) => Ok(Self { name, slowdown }),
            _ => Err("allowed: a number from 1 to 1000, or NAME=NUMBER".to_owned()),
        }
    }
}

/// The limits of a tenant.
#[derive(Debug, Clone, Serialize)]
pub struct TenantLimit {
    pub tenant: String,
    /// The allowed slowdown.
    pub slowdown: Option<f64>,
    /// The allowed 99th percentile of response times.
    pub slo_ms: Option<f64>,
}

/// Returns every tenant's limits, in the scenario's order.
pub fn resolve(
    arguments: &[LimitArgument],
    prepared: &Prepared,
) -> Result<Vec<TenantLimit>, Failure> {
    let workloads = &prepared.scenario().workloads;
    let names = || workloads.iter().map(|w| w.name.as_str());
    for name in arguments.iter().filter_map(|a| a.name.as_deref()) {
        if !names().any(|known| known == name) {
            let advice = nearest(name, names())
                .map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
            let known = names().collect::<Vec<_>>().join(", ");
            return Err(Failure::User(format!(
                "--slowdown: no tenant is called \"{name}\"{advice} (there are {known})"
            )));
        }
    }
    let written = |name: Option<&str>| {
        arguments.iter().rfind(|a| a.name.as_deref() == name).map(|a| a.slowdown)
    };
    Ok(workloads
        .iter()
        .map(|w| {
            // An SLO on a program that answers no requests could not be measured.
            let service = matches!(w.source, WorkloadSource::Service(_));
            let slo_ms = w.slo.filter(|_| service).map(|slo| slo.as_secs_f64() * 1e3);
            let default = slo_ms.is_none().then_some(DEFAULT_SLOWDOWN);
            let for_all = written(None).filter(|_| slo_ms.is_none());
            let slowdown = written(Some(&w.name)).or(for_all).or(default);
            TenantLimit { tenant: w.name.clone(), slowdown, slo_ms }
        })
        .collect())
}

/// Returns true if a tenant reached its end within its limits.
pub fn meets_limits(result: &TenantResult, limit: &TenantLimit) -> bool {
    let quick = limit.slowdown.is_none_or(|most| result.slowdown <= most);
    let prompt = match (limit.slo_ms, &result.latency) {
        (Some(slo), Some(latency)) => latency.p99_ms <= slo,
        (Some(_), None) => false,
        (None, _) => true,
    };
    result.failure.is_none() && quick && prompt
}

impl TenantLimit {
    /// Describes the limit.
    pub fn words(&self) -> String {
        let slowdown = self.slowdown.map(|most| format!("{most} x"));
        let slo = self.slo_ms.map(|slo| format!("P99 {slo} ms"));
        [slowdown, slo].into_iter().flatten().collect::<Vec<_>>().join(" and ")
    }

    /// Describes how a tenant breaks the limit.
    pub fn broken_by(&self, point: &TenantSizePoint) -> String {
        let name = &self.tenant;
        if let Some(why) = &point.failure {
            return format!("{name} fails ({why})");
        }
        match (self.slo_ms, point.p99_ms) {
            (Some(slo), Some(p99)) if p99 > slo => {
                format!("{name} has a P99 of {p99:.3} ms, above its SLO of {slo} ms")
            }
            _ => format!("{name} takes {:.3} times as long", point.slowdown),
        }
    }
}
