//! Runs recipes on scenarios, several at once, for the papers' tables.

use std::path::Path;
use std::time::Duration;

use rayon::prelude::*;
use tierwise_core::recipe::Recipe;
use tierwise_sim::result::{RunOutput, TenantResult};
use tierwise_sim::scenario::{Scenario, WorkloadSource};

use super::measurements::{LazyScenario, Measurements};
use crate::failure::Failure;
use crate::input;

/// Reads a scenario of a directory.
pub fn scenario(directory: &Path, name: &str) -> Result<Scenario, Failure> {
    input::scenario(&directory.join(format!("{name}.toml")))
}

/// Time between two points of the timelines.
const POINT: Duration = Duration::from_secs(20);

/// Runs every recipe on every scenario; results by scenario, then by recipe.
pub fn all(
    m: &Measurements,
    scenarios: &[Scenario],
    recipes: &[Recipe],
) -> Result<Vec<Vec<RunOutput>>, Failure> {
    let one = |scenario: &Scenario| {
        let setting = LazyScenario::new(scenario.clone());
        recipes.par_iter().map(|recipe| m.run(&setting, recipe, Some(POINT))).collect()
    };
    scenarios.par_iter().map(one).collect()
}

/// Returns recipes by their names.
pub fn recipes(names: &[&str]) -> Result<Vec<Recipe>, Failure> {
    names.iter().map(|name| Recipe::named(name).map_err(Failure::from)).collect()
}

/// Multiplies the loads of a scenario's services.
pub fn with_load(scenario: &Scenario, factor: f64) -> Scenario {
    let mut scenario = scenario.clone();
    for workload in &mut scenario.workloads {
        if let WorkloadSource::Service(service) = &mut workload.source {
            service.arrivals = service.arrivals.scaled(factor);
        }
    }
    scenario
}

/// Returns a tenant's GB in the fastest tier at a point of the timeline.
pub fn fast_gb(output: &RunOutput, point: usize, tenant: usize) -> f64 {
    let usage = output.timeline.get(point).and_then(|p| p.tenants.get(tenant));
    usage.and_then(|t| t.usage_bytes.first()).map_or(0.0, |&bytes| bytes as f64 * 1e-9)
}

/// Returns the tenants that answer no requests.
pub fn best_effort(output: &RunOutput) -> impl Iterator<Item = &TenantResult> {
    output.result.tenants.iter().filter(|t| t.latency.is_none())
}
