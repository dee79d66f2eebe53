//! The results of several policies on one scenario, their ranking and its summary in words.

use tierwise_core::recipe::Bound;
use tierwise_core::units::Bytes;
use tierwise_sim::result::{Comparison, PolicyResult, RunOutput};
use tierwise_sim::scenario::Scenario;

use crate::number::counted;

/// The results of one scenario under each policy.
#[derive(Debug)]
pub struct Compared {
    pub scenario: Scenario,
    pub seed: u64,
    /// One output per policy.
    pub outputs: Vec<RunOutput>,
    /// The bound that each policy is, by index; `None` for a real policy.
    pub bounds: Vec<Option<Bound>>,
}

impl Compared {
    /// The results in the form of `--json`.
    pub fn comparison(&self) -> Comparison {
        Comparison {
            scenario: self.scenario.name.clone(),
            seed: self.seed,
            results: self.outputs.iter().map(|output| output.result.clone()).collect(),
        }
    }
}

/// Returns the tenants that failed, each with its reason.
pub fn failures(result: &PolicyResult) -> impl Iterator<Item = (&str, &str)> {
    result.tenants.iter().filter_map(|t| Some((t.name.as_str(), t.failure.as_deref()?)))
}

/// Returns true if a tenant did not reach its end.
pub fn is_failed(result: &PolicyResult) -> bool {
    failures(result).next().is_some()
}

/// Returns the index of the policy with the smallest slowdown; bounds and policies under which a
/// workload failed do not count. Of equals the first.
pub fn best(compared: &Compared) -> Option<usize> {
    ranked(compared).first().copied()
}

fn ranked(compared: &Compared) -> Vec<usize> {
    let result = |i: usize| &compared.outputs[i].result;
    let mut ranked: Vec<usize> = (0..compared.outputs.len())
        .filter(|&i| compared.bounds[i].is_none() && !is_failed(result(i)))
        .collect();
    ranked.sort_by(|&a, &b| result(a).slowdown.total_cmp(&result(b).slowdown));
    ranked
}

/// Returns one to three sentences on the best policy, from the figures of the table.
pub fn summary(compared: &Compared) -> Vec<String> {
    let ranked = ranked(compared);
    let result = |i: usize| &compared.outputs[i].result;
    let Some(&winner) = ranked.first() else {
        return vec!["No compared policy counts as best.".to_owned()];
    };
    let (winner, next) = (result(winner), ranked.get(1).map(|&i| result(i)));
    let mut first = format!(
        "{} served best: its programs took {} as long as on a machine with fast memory only",
        winner.policy,
        times(winner.slowdown)
    );
    if let Some(next) = next {
        first += &format!(" (next: {} with {})", next.policy, times(next.slowdown));
    }
    let mut lines = vec![first + ".", reason(winner)];
    lines.extend(rival(compared, &ranked).map(|other| against(winner, result(other))));
    lines
}

fn times(slowdown: f64) -> String {
    format!("{slowdown:.3} times")
}

fn reason(winner: &PolicyResult) -> String {
    let hits = winner.fast_access_ratio * 100.0;
    if winner.migrated_bytes == 0 {
        return format!("It moved nothing and served {hits:.1} % of the misses from fast memory.");
    }
    format!(
        "It served {hits:.1} % of the misses from fast memory, for which it moved {} at {:.2} s of \
         CPU time.",
        Bytes(winner.migrated_bytes),
        winner.overhead_seconds
    )
}

/// Returns the policy that the winner is compared with: first touch, or else the last in rank.
fn rival(compared: &Compared, ranked: &[usize]) -> Option<usize> {
    let (winner, others) = ranked.split_first()?;
    let name = |i: usize| compared.outputs[i].result.policy.as_str();
    if name(*winner) == "static" {
        return others.last().copied();
    }
    others.iter().copied().find(|&i| name(i) == "static").or(others.last().copied())
}

fn against(winner: &PolicyResult, other: &PolicyResult) -> String {
    let faster = (other.slowdown / winner.slowdown - 1.0) * 100.0;
    format!(
        "{} served {:.1} % from fast memory with {:.2} s of overhead, and its programs took \
         {faster:.1} % longer.",
        other.policy,
        other.fast_access_ratio * 100.0,
        other.overhead_seconds
    )
}

/// Geometric mean of a policy's slowdowns over the scenarios; `None` if it failed in one.
pub fn mean_slowdown(compared: &[Compared], policy: usize) -> Option<f64> {
    let results = || compared.iter().map(|one| &one.outputs[policy].result);
    if results().any(is_failed) {
        return None;
    }
    Some((results().map(|r| r.slowdown.ln()).sum::<f64>() / compared.len() as f64).exp())
}

/// Returns a sentence on the policy that served best over all scenarios.
pub fn ranking(compared: &[Compared]) -> Vec<String> {
    let Some(first) = compared.first() else { return Vec::new() };
    let mut means: Vec<(f64, usize)> = (0..first.outputs.len())
        .filter(|&i| first.bounds[i].is_none())
        .filter_map(|i| Some((mean_slowdown(compared, i)?, i)))
        .collect();
    means.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wins = |policy| compared.iter().filter(|one| best(one) == Some(policy)).count();
    let mut lines = Vec::new();
    if let [(mean, policy), rest @ ..] = means.as_slice() {
        let mut line = format!(
            "Over {} {} served best: slowdown {mean:.3} x in the geometric mean, first \
             in {}",
            counted(compared.len() as u64, "scenario"),
            first.outputs[*policy].result.policy,
            wins(*policy),
        );
        if let Some((mean, policy)) = rest.first() {
            let name = &first.outputs[*policy].result.policy;
            line += &format!("; next {name} with {mean:.3} x, first in {}", wins(*policy));
        }
        lines.push(line + ".");
    }
    lines
}
