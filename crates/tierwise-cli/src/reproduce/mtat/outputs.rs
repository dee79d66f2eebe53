//! The quantities of MTAT's figures, from the outputs of runs.

use tierwise_sim::result::{RunOutput, TenantPoint};

use super::super::claims::Here;
use super::super::runs::best_effort;

/// The policies that the paper compares in figure 9.
const COMPARED: [&str; 4] = ["tpp", "memtis", "mtat-lc-only", "mtat"];

pub(super) const NO_REQUESTS: &str = "a service answered no request";

pub(super) const NO_WORK: &str =
    "a program did not reach its measured part, or no service was measured";

/// Whether a policy has the highest, or the lowest, value of the compared ones at every load.
pub(super) fn extreme(
    all: &[Vec<RunOutput>],
    value: &dyn Fn(&RunOutput) -> f64,
    policy: &str,
    highest: bool,
) -> Here {
    let measured = |outputs: &Vec<RunOutput>| {
        COMPARED.iter().all(|name| of_policy(outputs, name).is_some_and(|o| value(o).is_finite()))
    };
    if !all.iter().all(measured) {
        return Here::NotMeasured(NO_WORK.into());
    }
    let leads = |outputs: &&Vec<RunOutput>| {
        let Some(its) = of_policy(outputs, policy).map(value) else { return false };
        let others = COMPARED.iter().filter(|&&other| other != policy);
        let mut others = others.filter_map(|other| of_policy(outputs, other)).map(value);
        others.all(|other| if highest { its >= other } else { its <= other })
    };
    let count = all.iter().filter(leads).count();
    Here::Holds(count == all.len(), format!("at {count} of {} loads", all.len()))
}

/// Per cent of a service's requests that violate its SLO; not a number if it answered none.
pub(super) fn violations(output: &RunOutput) -> f64 {
    let latency = output.result.tenants.first().and_then(|t| t.latency);
    latency.filter(|l| l.requests > 0).map_or(f64::NAN, |l| 100.0 * l.violated())
}

/// The 99th percentile of a tenant's responses over its SLO; not a number if it is no service, or
/// answered no request.
pub(super) fn over_slo(output: &RunOutput, place: usize) -> f64 {
    let latency = output.result.tenants.get(place).and_then(|tenant| tenant.latency);
    latency.map_or(f64::NAN, |latency| latency.p99_ms / latency.slo_ms)
}

/// The fast share of the service, and its P99, at the highest load under a ramp.
pub(super) fn busiest(output: &RunOutput) -> Vec<Here> {
    let service = output.timeline.iter().filter_map(|point| point.tenants.first());
    let load = |t: &&TenantPoint| t.requests_per_second.unwrap_or(0.0);
    let Some(top) = service.max_by(|a, b| load(a).total_cmp(&load(b))) else {
        return vec![Here::NotMeasured(NO_REQUESTS.into()); 2];
    };
    let all: u64 = top.usage_bytes.iter().sum();
    let fast = top.usage_bytes.first().copied().unwrap_or(0);
    let (p99, slo) = (
        top.p99_ms.unwrap_or(0.0),
        output.result.tenants.first().and_then(|t| t.latency).map_or(0.0, |l| l.slo_ms),
    );
    vec![
        Here::number(100.0 * fast as f64 / all.max(1) as f64),
        Here::Holds(p99 > slo, format!("P99 {p99:.2} ms, SLO {slo:.0} ms")),
    ]
}

/// Smallest NP (equation 3, with everything fast and no other tenant as the full performance) and
/// the sum of throughputs, over MEMTIS's.
pub(super) fn against_memtis(first: &str, outputs: &[RunOutput]) -> Vec<Vec<String>> {
    let memtis = of_policy(outputs, "memtis").unwrap_or(&outputs[0]);
    let row = |output: &RunOutput| {
        vec![
            first.to_owned(),
            output.result.policy.clone(),
            format!("{:.3}", fairness(output)),
            format!("{:.2}", fairness(output) / fairness(memtis)),
            format!("{:.3}", throughput(output) / throughput(memtis)),
        ]
    };
    outputs.iter().map(row).collect()
}

/// The smallest NP of the best-effort programs; not a number if one has no measured part, whose NP
/// would be that of no work.
pub(super) fn fairness(output: &RunOutput) -> f64 {
    if !all_worked(output) {
        return f64::NAN;
    }
    best_effort(output).map(|t| 1.0 / t.slowdown).fold(1.0, f64::min)
}

/// The sum of the best-effort programs' throughputs; not a number if one has no measured part.
pub(super) fn throughput(output: &RunOutput) -> f64 {
    if !all_worked(output) {
        return f64::NAN;
    }
    best_effort(output).map(|t| t.throughput).sum()
}

fn all_worked(output: &RunOutput) -> bool {
    best_effort(output).all(|tenant| tenant.throughput > 0.0)
}

pub(super) fn of_policy<'a>(outputs: &'a [RunOutput], policy: &str) -> Option<&'a RunOutput> {
    outputs.iter().find(|output| output.result.policy == policy)
}

/// GB that a policy's migrations copied in a second, by service.
pub(super) fn copied(ramp: &[Vec<RunOutput>], policy: &str) -> Vec<f64> {
    let of = |outputs: &Vec<RunOutput>| {
        let output = of_policy(outputs, policy)?;
        let seconds = output.timeline.last()?.time_seconds;
        Some(output.result.migrated_bytes as f64 * 1e-9 / seconds)
    };
    ramp.iter().filter_map(of).collect()
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub(super) fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use serde_json::json;

    use super::*;

    /// A run of a policy with two programs.
    fn run(policy: &str, throughput: [f64; 2]) -> RunOutput {
        let tenant = |throughput: f64| {
            json!({
                "name": "p", "class": "best-effort", "throughput": throughput, "slowdown": 1.25,
                "fast_access_ratio": 0.5, "usage_bytes": {}, "promotions": 0, "demotions": 0,
            })
        };
        let result = json!({
            "policy": policy, "throughput": 1.0, "slowdown": 1.0, "fast_access_ratio": 0.5,
            "promotions": 0, "demotions": 0, "migrated_bytes": 0, "overhead_seconds": 0.0,
            "distance_to_oracle": 0.0, "tenants": throughput.map(tenant),
        });
        let result = serde_json::from_value(result).unwrap();
        RunOutput { result, timeline: Vec::new(), heat_map: None, record: None }
    }

    #[test]
    fn figures_over_no_work_are_refused() {
        let all = |tpp| vec![COMPARED.map(|p| run(p, if p == "tpp" { tpp } else { [1.0, 2.0] }))];
        let extreme = |tpp: [f64; 2]| {
            let all: Vec<Vec<RunOutput>> = all(tpp).into_iter().map(Vec::from).collect();
            extreme(&all, &fairness, "mtat", true)
        };
        assert_eq!(extreme([1.0, 1.0]), Here::Holds(true, "at 1 of 1 loads".to_owned()));
        assert_eq!(extreme([1.0, 0.0]), Here::NotMeasured(NO_WORK.into()));
        assert_eq!(fairness(&run("tpp", [1.0, 2.0])), 0.8);
        assert!(violations(&run("tpp", [1.0, 2.0])).is_nan(), "no tenant is a service");
    }
}
