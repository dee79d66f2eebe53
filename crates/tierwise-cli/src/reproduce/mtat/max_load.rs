//! The greatest load that a policy serves within the SLO of every service.

use tierwise_core::recipe::Recipe;
use tierwise_sim::scenario::Scenario;

use super::super::measurements::{LazyScenario, Measurements};
use super::super::runs;
use crate::failure::Failure;

/// Searches the greatest load as a job of its own.
pub(super) fn search(
    m: &Measurements,
    scenario: &Scenario,
    recipe: &Recipe,
    near: &[f64],
    fine: f64,
) -> Result<f64, Failure> {
    m.job(&scenario.name, recipe.name(), |job| {
        max_load(m, scenario, recipe, near, fine, &mut |share| job.reached(share))
    })
}

/// Returns the greatest share of the ramp's load whose 99th percentile over the whole run is within
/// the SLO: the first of `near` that holds, or a lower one to within `fine`.
fn max_load(
    m: &Measurements,
    scenario: &Scenario,
    recipe: &Recipe,
    near: &[f64],
    fine: f64,
    reached: &mut dyn FnMut(f64),
) -> Result<f64, Failure> {
    for &load in near {
        if holds(m, scenario, recipe, load)? {
            return Ok(load);
        }
    }
    let (mut sustained, mut exceeded) = (0.0, near.last().copied().unwrap_or(1.1));
    let first = exceeded - sustained;
    while exceeded - sustained > fine {
        // Every policy sustains what slow memory alone does, which is more than half.
        let load =
            if sustained == 0.0 { exceeded / 1.25 } else { f64::midpoint(sustained, exceeded) };
        if holds(m, scenario, recipe, load)? {
            sustained = load
        } else {
            exceeded = load
        }
        reached(1.0 - (exceeded - sustained) / first);
    }
    Ok(sustained)
}

fn holds(
    m: &Measurements,
    scenario: &Scenario,
    recipe: &Recipe,
    load: f64,
) -> Result<bool, Failure> {
    let setting = LazyScenario::new(runs::with_load(scenario, load));
    let output = m.output(&setting, recipe, None, &mut |_| ())?;
    let mut services = output.result.tenants.iter().filter_map(|t| t.latency).peekable();
    let answered = services.peek().is_some();
    Ok(answered && services.all(|l| l.p99_ms <= l.slo_ms && l.violated() <= 0.01))
}
