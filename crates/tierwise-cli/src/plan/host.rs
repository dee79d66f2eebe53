//! One run on the recommended machine, with its course, its heat map and its shares.

use std::time::Duration;

use tierwise_core::recipe::Recipe;
use tierwise_sim::machine::TierModel;
use tierwise_sim::record::{DecisionRecord, RunRecord};
use tierwise_sim::result::{RunOutput, TenantResult};
use tierwise_sim::run::{Prepared, RunOptions, run};

use super::measure::Measurer;
use crate::failure::Failure;

/// The curves would not show a finer interval.
const INTERVAL: Duration = Duration::from_secs(1);

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
    let options = RunOptions {
        seed: measurer.seed,
        timeline: Some(INTERVAL),
        heat_map: true,
        record: true,
        ..RunOptions::default()
    };
    let output = run(&prepared, recipe, &options, &mut |_| ())?;
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

/// Returns the last rule that set a tenant's share of fast memory before it ended.
fn reason(record: Option<&RunRecord>, tenant: usize) -> String {
    let ended = record.and_then(|record| record.tenants.get(tenant)?.ended_seconds);
    let runs = |d: &DecisionRecord| ended.is_none_or(|end| d.at_seconds < end);
    let of_fast = |d: &&DecisionRecord| d.tenant == tenant && d.tier == 0 && runs(d);
    let last = record.and_then(|record| record.decisions.iter().rfind(of_fast));
    last.map_or_else(
        || "no share was computed: the policy moves by hotness alone".to_owned(),
        |decision| decision.words.clone(),
    )
}
