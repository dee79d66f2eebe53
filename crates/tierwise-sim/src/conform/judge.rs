//! Runs a setting and checks whether the floors were held.

use serde::{Deserialize, Serialize};
use tierwise_core::recipe::Recipe;
use tierwise_core::tenant::Limit;
use tierwise_core::units::TierId;

use super::setting::scenario;
use super::{Adversary, AloneThroughput, CHECK_INTERVAL, GRACE};
use crate::error::SimError;
use crate::result::{RunOutput, TimelinePoint};
use crate::run::{Prepared, RunOptions, run};
use crate::scenario::WorkloadSpec;

/// The result of one victim. Its JSON keys are stable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The adversary's name.
    pub adversary: String,
    /// The victim's name.
    pub victim: String,
    /// Its floor in fast memory.
    pub floor_bytes: u64,
    /// True if, after the grace, the victim never had less in fast memory than its floor, or than
    /// its resident set if that is less.
    pub held: bool,
    /// The longest uninterrupted time below the floor, in seconds.
    pub longest_breach_seconds: f64,
    /// The sum of all times below the floor, in seconds.
    pub breached_seconds: f64,
    /// The maximum of lacking bytes at one time.
    pub deepest_breach_bytes: u64,
    /// Time for the same work, divided by the time alone on the same machine under the same recipe.
    pub slowdown: f64,
    /// Its failure, if it did not end well.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<String>,
}

/// Runs a recipe against an adversary and returns one verdict per victim. `alone` has the victims'
/// throughput without adversaries.
///
/// # Errors
/// The recipe cannot run on the suite's machine.
pub fn conform(
    recipe: &Recipe,
    adversary: &Adversary,
    alone: &AloneThroughput,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<Vec<Verdict>, SimError> {
    let setting = (adversary.setting)();
    let all = setting.victims.iter().chain(&setting.adversaries).cloned().collect();
    let together = outcome(all, recipe, seed, progress)?;
    let verdict = |(i, victim): (usize, &WorkloadSpec)| {
        let mut verdict = judge(&together.timeline, i, victim);
        let shared = &together.result.tenants[i];
        verdict.adversary = adversary.name.to_owned();
        verdict.slowdown = alone.throughput(victim) / shared.throughput;
        verdict.failure = shared.failure.clone();
        verdict.held &= verdict.failure.is_none();
        verdict
    };
    Ok(setting.victims.iter().enumerate().map(verdict).collect())
}

pub(super) fn outcome(
    workloads: Vec<WorkloadSpec>,
    recipe: &Recipe,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<RunOutput, SimError> {
    let prepared = Prepared::load(scenario("conform", workloads))?;
    let options = RunOptions { seed, timeline: Some(CHECK_INTERVAL), ..RunOptions::default() };
    run(&prepared, recipe, &options, progress)
}

/// Checks every point of a run from the end of the grace on. A shortfall lasts from the point
/// where it was first observed to the next point where it is not.
fn judge(timeline: &[TimelinePoint], tenant: usize, victim: &WorkloadSpec) -> Verdict {
    let floor = match victim.floors.get(TierId::FASTEST.index()) {
        Some(Some(Limit::Bytes(bytes))) => bytes.0,
        _ => 0,
    };
    let from = (victim.start + GRACE).as_secs_f64();
    let (mut since, mut longest, mut all, mut deepest): (Option<f64>, f64, f64, u64) =
        (None, 0.0, 0.0, 0);
    let mut end = 0.0;
    for point in timeline.iter().filter(|p| p.time_seconds >= from) {
        end = point.time_seconds;
        let usage = &point.tenants[tenant].usage_bytes;
        let needed = floor.min(usage.iter().sum());
        let missing_pages = needed.saturating_sub(usage.first().copied().unwrap_or(0));
        deepest = deepest.max(missing_pages);
        if missing_pages > 0 {
            since.get_or_insert(end);
        } else if let Some(since) = since.take() {
            longest = longest.max(end - since);
            all += end - since;
        }
    }
    if let Some(since) = since {
        // A shortfall in the last point alone lasted one interval.
        let lasted = (end - since).max(CHECK_INTERVAL.as_secs_f64());
        longest = longest.max(lasted);
        all += lasted;
    }
    Verdict {
        adversary: String::new(),
        victim: victim.name.clone(),
        floor_bytes: floor,
        held: deepest == 0,
        longest_breach_seconds: longest,
        breached_seconds: all,
        deepest_breach_bytes: deepest,
        slowdown: 1.0,
        failure: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::setting::victim;
    use super::*;
    use crate::result::TenantPoint;

    const MIB: u64 = 1 << 20;

    /// The keeper (floor 12 MiB) with so much in fast and in slow memory at each second from the
    /// eleventh on.
    fn points(usage: &[[u64; 2]]) -> Vec<TimelinePoint> {
        let point = |(i, usage): (usize, &[u64; 2])| TimelinePoint {
            misses: 0.0,
            time_seconds: 11.0 + i as f64,
            fast_access_ratio: 0.0,
            promotions: 0,
            demotions: 0,
            tenants: vec![TenantPoint {
                name: "keeper".to_owned(),
                throughput: 1.0,
                fast_access_ratio: 0.0,
                usage_bytes: usage.iter().map(|mib| mib * MIB).collect(),
                promotions: 0,
                demotions: 0,
                requests_per_second: None,
                p99_ms: None,
            }],
        };
        usage.iter().enumerate().map(point).collect()
    }

    #[test]
    fn breach_lasts_until_floor_returns() {
        let verdict =
            judge(&points(&[[12, 4], [11, 5], [9, 7], [12, 4], [11, 5], [13, 3]]), 0, &victim());
        assert!(!verdict.held);
        assert_eq!(verdict.floor_bytes, 12 * MIB);
        assert_eq!(verdict.deepest_breach_bytes, 3 * MIB);
        assert_eq!((verdict.longest_breach_seconds, verdict.breached_seconds), (2.0, 3.0));
    }

    #[test]
    fn small_resident_set_needs_only_itself() {
        assert!(judge(&points(&[[3, 0], [12, 1], [12, 4]]), 0, &victim()).held);
        assert!(!judge(&points(&[[3, 1]]), 0, &victim()).held);
    }

    #[test]
    fn grace_period_is_not_counted() {
        let mut early = points(&[[0, 16], [12, 4]]);
        early[0].time_seconds = 9.9;
        assert!(judge(&early, 0, &victim()).held);
    }
}
