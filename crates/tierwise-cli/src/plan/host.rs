//! One run on the recommended machine, with its course, its heat map and its shares.

use std::time::Duration;

use tierwise_core::recipe::Recipe;
use tierwise_sim::machine::TierModel;
use tierwise_sim::record::{DecisionRecord, RunRecord};
use tierwise_sim::result::{RunOutput, TenantResult};
use tierwise_sim::run::{Prepared, RunOptions, run};

use super::measure::Measurer;
use crate::failure::Failure;

/// Nor would the curves of an hour show a finer interval.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

/// The shortest run that has a course at all: a trace's window takes about as long.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

/// Fewer points than this are no curve: a shorter run is observed more often.
const POINTS: usize = 40;

/// The run.
#[derive(Debug)]
pub struct HostCourse {
    pub output: RunOutput,
    /// The share of each tenant when it ended.
    pub shares: Vec<TenantShare>,
    pub fast_tier: String,
}

/// A tenant's fast memory and the rule that set its share.
#[derive(Debug, Clone)]
pub struct TenantShare {
    pub tenant: String,
    pub fast_bytes: u64,
    pub slow_bytes: u64,
    pub fast_hits: f64,
    pub reason: String,
}

/// Runs all programs once and keeps everything.
pub fn course(
    measurer: &Measurer<'_>,
    tiers: &[TierModel],
    recipe: &Recipe,
) -> Result<HostCourse, Failure> {
    let prepared = Prepared::load(measurer.scenario(tiers, &measurer.everyone(), 0))?;
    let output = observed(&prepared, recipe, measurer.seed)?;
    let fast_tier = tiers.first().map(|tier| tier.name.clone()).unwrap_or_default();
    let share = |(i, tenant): (usize, &TenantResult)| {
        let fast = tenant.usage_bytes.get(&fast_tier).copied().unwrap_or(0);
        TenantShare {
            tenant: tenant.name.clone(),
            fast_bytes: fast,
            slow_bytes: tenant.usage_bytes.values().sum::<u64>() - fast,
            fast_hits: tenant.fast_access_ratio,
            reason: reason(output.record.as_ref(), i),
        }
    };
    let shares = output.result.tenants.iter().enumerate().map(share).collect();
    Ok(HostCourse { shares, fast_tier, output })
}

/// Runs with a timeline of [`POINTS`] points or more. How long a run takes is known after it, and
/// one that must be repeated is short.
fn observed(prepared: &Prepared, recipe: &Recipe, seed: u64) -> Result<RunOutput, Failure> {
    let mut interval = LONGEST_INTERVAL;
    loop {
        let options = RunOptions {
            seed,
            timeline: Some(interval),
            heat_map: true,
            record: true,
            ..RunOptions::default()
        };
        let output = run(prepared, recipe, &options, &mut |_| ())?;
        if output.timeline.len() >= POINTS || interval <= SHORTEST_INTERVAL {
            return Ok(output);
        }
        interval /= 10;
    }
}

/// Returns the last rule that set a tenant's share of fast memory before it ended.
fn reason(record: Option<&RunRecord>, tenant: usize) -> String {
    let ended = record.and_then(|record| record.tenants.get(tenant)?.ended_seconds);
    let runs = |d: &DecisionRecord| ended.is_none_or(|end| d.at_seconds < end);
    let of_fast = |d: &&DecisionRecord| d.tenant == tenant && d.tier == 0 && runs(d);
    let last = record.and_then(|record| record.decisions.iter().rfind(of_fast));
    match last {
        Some(decision) if !is_without_limit(decision) => decision.words.clone(),
        _ => "no limit: the policy moves by hotness alone".to_owned(),
    }
}

/// What a tenant has before a rule computes its share, if its configuration has no limit.
fn is_without_limit(decision: &DecisionRecord) -> bool {
    let configured = decision.rule == "configured";
    configured && decision.floor_pages == 0 && decision.cap_pages.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_limits_alone_are_the_operators() {
        let decision = |rule: &str, floor_pages, cap_pages| DecisionRecord {
            at_seconds: 0.0,
            tenant: 0,
            tier: 0,
            floor_pages,
            cap_pages,
            promotion: 1.0,
            rule: rule.to_owned(),
            numbers: Default::default(),
            words: String::new(),
        };
        assert!(is_without_limit(&decision("configured", 0, None)));
        assert!(!is_without_limit(&decision("configured", 1, None)));
        assert!(!is_without_limit(&decision("configured", 0, Some(1))));
        assert!(!is_without_limit(&decision("hottest", 0, None)));
    }
}
