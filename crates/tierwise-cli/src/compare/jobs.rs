//! Runs every policy on every scenario, several at once. The results do not depend on their number.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rayon::ThreadPool;
use rayon::prelude::*;
use tierwise_core::recipe::Recipe;
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::Scenario;

use crate::comparison::Compared;
use crate::failure::{CommandResult, Failure};
use crate::progress::RunProgress;

/// Returns results in the order of the scenarios, and within one in the order of the recipes.
/// `take` gets each scenario's results as soon as they and all before them are there.
pub fn run_all(
    scenarios: &[(&Path, Scenario)],
    recipes: &[Recipe],
    options: &RunOptions,
    pool: &ThreadPool,
    take: impl FnMut(&Compared) -> CommandResult + Send,
) -> Result<Vec<Compared>, Failure> {
    let progress = RunProgress::new(scenarios.len() * recipes.len());
    let finished = Mutex::new(InOrder::new(scenarios.len(), take));
    // A bridge hands out the scenarios in their order, so that the first results come first.
    let jobs = scenarios.iter().enumerate();
    pool.install(|| {
        jobs.par_bridge().try_for_each(|(i, (path, scenario))| {
            let compared = run_scenario(scenario, recipes, options, &progress)
                .map_err(|failure| failure.of(&path.to_string_lossy()))?;
            let mut finished = finished.lock().unwrap_or_else(PoisonError::into_inner);
            progress.pause(|| finished.enter(i, compared))
        })
    })?;
    let finished = finished.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(finished.results.into_iter().flatten().collect())
}

/// Results that come in any order and are taken in theirs.
struct InOrder<T, F> {
    results: Vec<Option<T>>,
    /// The results that `take` got.
    taken: usize,
    take: F,
}

impl<T, F: FnMut(&T) -> CommandResult> InOrder<T, F> {
    fn new(results: usize, take: F) -> Self {
        Self { results: (0..results).map(|_| None).collect(), taken: 0, take }
    }

    /// Enters the result with this number, and takes all that follow each other.
    fn enter(&mut self, number: usize, result: T) -> CommandResult {
        self.results[number] = Some(result);
        while let Some(Some(next)) = self.results.get(self.taken) {
            self.taken += 1;
            (self.take)(next)?;
        }
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_taken_in_their_order() {
        let mut taken = Vec::new();
        let mut in_order = InOrder::new(4, |&result: &char| {
            taken.push(result);
            Ok(())
        });
        for (number, result) in [(2, 'c'), (0, 'a'), (1, 'b'), (3, 'd')] {
            in_order.enter(number, result).unwrap();
        }
        assert_eq!(taken, ['a', 'b', 'c', 'd']);
    }

    #[test]
    fn results_are_taken_at_once() {
        let mut taken = 0;
        let mut in_order = InOrder::new(2, |_: &()| {
            taken += 1;
            Ok(())
        });
        in_order.enter(0, ()).unwrap();
        drop(in_order);
        assert_eq!(taken, 1, "the second is not there yet");
    }
}
