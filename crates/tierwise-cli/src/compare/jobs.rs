//! Runs every policy on every scenario, several at once. The results do not depend on their number.

use std::path::Path;

use rayon::ThreadPool;
use rayon::prelude::*;
use tierwise_core::recipe::Recipe;
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::Scenario;

use crate::comparison::Compared;
use crate::failure::Failure;
use crate::progress::RunProgress;

/// Returns results in the order of the scenarios, and within one in the order of the recipes.
pub fn run_all(
    scenarios: &[(&Path, Scenario)],
    recipes: &[Recipe],
    options: &RunOptions,
    pool: &ThreadPool,
) -> Result<Vec<Compared>, Failure> {
    let progress = RunProgress::new(scenarios.len() * recipes.len());
    pool.install(|| {
        scenarios
            .par_iter()
            .map(|(path, scenario)| {
                run_scenario(scenario, recipes, options, &progress)
                    .map_err(|failure| failure.of(&path.to_string_lossy()))
            })
            .collect()
    })
}

fn run_scenario(
    scenario: &Scenario,
    recipes: &[Recipe],
    options: &RunOptions,
    progress: &RunProgress,
) -> Result<Compared, Failure> {
    let prepared = Prepared::load(scenario.clone())?;
    let one = |recipe: &Recipe| {
        let mut job = progress.job(&scenario.name, recipe.name());
        let output = run(&prepared, recipe, options, &mut |share| job.reached(share))?;
        job.done();
        Ok(output)
    };
    let outputs = recipes.par_iter().map(one).collect::<Result<Vec<_>, Failure>>()?;
    Ok(Compared {
        scenario: scenario.clone(),
        seed: options.seed,
        outputs,
        bounds: recipes.iter().map(Recipe::bound).collect(),
    })
}
