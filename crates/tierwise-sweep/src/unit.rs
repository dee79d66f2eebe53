//! One run of a sweep: its key, and how it is run.

use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tierwise_core::recipe::Recipe;
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::Scenario;
use toml::Table;

use crate::digest::{self, FileDigests};
use crate::record::{UnitOutcome, UnitRecord};
use crate::setting::Parameters;

/// A scenario or a recipe as text, with its parameters in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceText {
    /// The name for messages: the file, or the policy that ships.
    pub file: String,
    /// The directory at which a scenario's paths start, absolute.
    #[serde(default)]
    pub base: PathBuf,
    /// TOML.
    pub text: String,
}

/// One run. It is complete: another process, or another machine that has the traces at the same
/// paths, can run it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// The key; see [`UnitRunner::key`].
    pub key: String,
    /// The scenario's name.
    pub scenario_name: String,
    /// The recipe's name.
    pub recipe_name: String,
    /// The random seed.
    pub seed: u64,
    /// The parameters, which are in the texts already.
    pub parameters: Parameters,
    /// The scenario.
    pub scenario: SourceText,
    /// The recipe.
    pub recipe: SourceText,
}

impl Unit {
    /// The unit in a line of words.
    pub fn words(&self) -> String {
        let mut words = format!("{}, {}, seed {}", self.scenario_name, self.recipe_name, self.seed);
        for (path, value) in &self.parameters {
            words.push_str(&format!(", {path} = {value}"));
        }
        words
    }
}

/// Scenarios that are kept loaded. Plans list units scenario by scenario; the second is for
/// threads that are still busy with the one before.
const KEPT: usize = 2;

/// Runs units, and keeps the last scenarios loaded. Threads may share it.
#[derive(Debug, Default)]
pub struct UnitRunner {
    kept: Mutex<Vec<(String, Arc<Prepared>)>>,
    files: Mutex<FileDigests>,
}

impl UnitRunner {
    /// Computes a unit's key: a hash of the engine (version, target, sources), the resolved
    /// scenario with the content of its traces, the recipe with its parameters, and the seed.
    ///
    /// # Errors
    /// The scenario or the recipe is wrong.
    pub fn key(&self, unit: &Unit) -> Result<String, String> {
        Ok(self.resolve(unit)?.key)
    }

    /// Runs a unit. A refusal is an outcome.
    pub fn run(&self, unit: &Unit) -> UnitRecord {
        // A panic is a bug of the engine; the sweep goes on without the unit.
        let ran = panic::catch_unwind(AssertUnwindSafe(|| self.try_run(unit)));
        let why = "the simulator panicked; please report this unit";
        let (seconds, outcome) = match ran {
            Ok(Ok((seconds, result))) => (seconds, result),
            Ok(Err(why)) => (0.0, UnitOutcome::Failed(why)),
            Err(_) => (0.0, UnitOutcome::Failed(why.to_owned())),
        };
        UnitRecord { key: unit.key.clone(), seconds, outcome }
    }

    fn try_run(&self, unit: &Unit) -> Result<(f64, UnitOutcome), String> {
        let Resolved { scenario, digest, recipe, key } = self.resolve(unit)?;
        if key != unit.key {
            // Kept under the old key, the result would be another unit's. It is tried again.
            let why = "its traces or the engine differ from those of the plan: they changed, or \
                       this worker has others";
            return Ok((0.0, UnitOutcome::Died(why.to_owned())));
        }
        let prepared = self.prepared(scenario, digest)?;
        let options = RunOptions { seed: unit.seed, ..RunOptions::default() };
        let start = Instant::now();
        let output = run(&prepared, &recipe, &options, &mut |_| ());
        let output = output.map_err(|error| error.to_string())?;
        Ok((start.elapsed().as_secs_f64(), UnitOutcome::Done(Box::new(output.result))))
    }

    fn resolve(&self, unit: &Unit) -> Result<Resolved, String> {
        let (of, text) = (&unit.scenario, &unit.scenario.text);
        let scenario = Scenario::parse(&of.file, text, &of.base).map_err(|e| e.to_string())?;
        let recipe =
            Recipe::parse(&unit.recipe.file, &unit.recipe.text).map_err(|e| e.to_string())?;
        let table: Table = unit.recipe.text.parse().map_err(|e| format!("{e}"))?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = digest::of_scenario(&scenario, &mut files);
        let of_recipe = digest::of_recipe(&table, &mut files);
        let key = digest::of_unit(&digest, &of_recipe, unit.seed);
        Ok(Resolved { scenario, digest, recipe, key })
    }

    fn prepared(&self, scenario: Scenario, digest: String) -> Result<Arc<Prepared>, String> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = kept.iter().find(|(of, _)| *of == digest) {
            return Ok(Arc::clone(found));
        }
        // The memory of the oldest is free before the next is read.
        if kept.len() == KEPT {
            kept.remove(0);
        }
        let prepared = Prepared::load(scenario).map_err(|error| error.to_string())?;
        let prepared = Arc::new(prepared);
        kept.push((digest, Arc::clone(&prepared)));
        Ok(prepared)
    }
}

/// A unit's texts as the engine reads them.
struct Resolved {
    scenario: Scenario,
    digest: String,
    recipe: Recipe,
    key: String,
}

/// The directory of a file, absolute.
pub(crate) fn base_of(path: &Path) -> PathBuf {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned())
}
