//! Runs every policy on every scenario, several at once. The results do not depend on their number.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rayon::ThreadPool;
use rayon::prelude::*;
use tierwise_core::recipe::Recipe;
use tierwise_sim::result::RunOutput;
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
    let rows: Vec<Row<'_>> =
        scenarios.iter().map(|(path, scenario)| Row::new(path, scenario, recipes.len())).collect();
    let finished = Mutex::new(InOrder::new(scenarios.len(), take));
    // A bridge hands out the runs in their order, so that all threads work on the first scenario
    // first, and its results come soonest.
    let jobs = (0..scenarios.len()).flat_map(|row| (0..recipes.len()).map(move |run| (row, run)));
    pool.install(|| {
        jobs.par_bridge().try_for_each(|(row, i)| {
            let Some(outputs) = rows[row].run(i, &recipes[i], options, &progress)? else {
                return Ok(());
            };
            let compared = rows[row].compared(outputs, recipes, options);
            let mut finished = lock(&finished);
            progress.pause(|| finished.enter(row, compared))
        })
    })?;
    let finished = finished.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(finished.results.into_iter().flatten().collect())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One scenario and its runs so far.
struct Row<'a> {
    path: &'a Path,
    scenario: &'a Scenario,
    /// Loaded by the first run and freed by the last: recordings are large.
    prepared: Mutex<Option<Arc<Prepared>>>,
    outputs: Mutex<Vec<Option<RunOutput>>>,
}

impl<'a> Row<'a> {
    fn new(path: &'a Path, scenario: &'a Scenario, runs: usize) -> Self {
        let outputs = Mutex::new((0..runs).map(|_| None).collect());
        Self { path, scenario, prepared: Mutex::new(None), outputs }
    }

    /// Runs one recipe. Returns the outputs of all if it was the last.
    fn run(
        &self,
        i: usize,
        recipe: &Recipe,
        options: &RunOptions,
        progress: &RunProgress,
    ) -> Result<Option<Vec<RunOutput>>, Failure> {
        let of = |failure: Failure| failure.of(&self.path.to_string_lossy());
        let prepared = self.prepared().map_err(of)?;
        let mut job = progress.job(&self.scenario.name, recipe.name());
        let output = run(&prepared, recipe, options, &mut |share| job.reached(share))
            .map_err(|error| of(error.into()))?;
        job.done();
        let mut outputs = lock(&self.outputs);
        outputs[i] = Some(output);
        if outputs.iter().any(Option::is_none) {
            return Ok(None);
        }
        *lock(&self.prepared) = None;
        Ok(Some(outputs.drain(..).flatten().collect()))
    }

    fn prepared(&self) -> Result<Arc<Prepared>, Failure> {
        let mut prepared = lock(&self.prepared);
        if let Some(prepared) = &*prepared {
            return Ok(Arc::clone(prepared));
        }
        let loaded = Arc::new(Prepared::load(self.scenario.clone())?);
        Ok(Arc::clone(prepared.insert(loaded)))
    }

    fn compared(
        &self,
        outputs: Vec<RunOutput>,
        recipes: &[Recipe],
        options: &RunOptions,
    ) -> Compared {
        Compared {
            scenario: self.scenario.clone(),
            seed: options.seed,
            outputs,
            bounds: recipes.iter().map(Recipe::bound).collect(),
        }
    }
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
