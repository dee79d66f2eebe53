//! What the papers' figures are made of: runs and other results, each computed once.
//!
//! A result is kept by the digest of all content on which it depends, as a sweep keeps its units:
//! in memory, and in a directory if there is one. So figures that share runs compute them once, and
//! a command that was stopped goes on where it was.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tierwise_core::recipe::Recipe;
use tierwise_sim::result::{PolicyResult, RunOutput, TimelinePoint};
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::{Scenario, TierSize};
use tierwise_sweep::{SweepStore, UnitKeys, UnitOutcome, UnitRecord};

use crate::failure::Failure;
use crate::progress::{Job, RunProgress};
use crate::sweep::of_store;

/// A scenario whose traces are read when it first runs, and never if all of its results are kept.
pub struct LazyScenario {
    scenario: Scenario,
    /// The setting that has the same workloads on a machine of other sizes.
    like: Option<Arc<LazyScenario>>,
    loaded: Mutex<Option<Arc<Prepared>>>,
}

impl LazyScenario {
    /// A scenario.
    pub fn new(scenario: Scenario) -> Self {
        Self { scenario, like: None, loaded: Mutex::default() }
    }

    /// The same workloads on a machine whose tiers have other sizes.
    pub fn resized(self: &Arc<Self>, sizes: Vec<TierSize>) -> Self {
        let scenario = Scenario { sizes, ..self.scenario.clone() };
        Self { like: Some(Arc::clone(self)), ..Self::new(scenario) }
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The scenario with its traces.
    pub fn prepared(&self) -> Result<Arc<Prepared>, Failure> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = &*loaded {
            return Ok(Arc::clone(prepared));
        }
        let prepared = Arc::new(match &self.like {
            Some(like) => like.prepared()?.resized(self.scenario.sizes.clone())?,
            None => Prepared::load(self.scenario.clone())?,
        });
        *loaded = Some(Arc::clone(&prepared));
        Ok(prepared)
    }
}

/// A run as it is kept.
#[derive(Serialize, Deserialize)]
struct KeptRun {
    result: PolicyResult,
    timeline: Vec<TimelinePoint>,
}

/// Results so far: of this command, or of all commands with the same directory.
enum Results {
    InMemory(HashMap<String, Value>),
    InDirectory(Box<SweepStore<Value>>),
}

/// Computes results, and keeps them.
pub struct Measurements {
    /// The seed of all runs.
    pub seed: u64,
    keys: UnitKeys,
    results: Mutex<Results>,
    progress: RunProgress,
    computed: AtomicUsize,
    found: AtomicUsize,
    jobs: AtomicUsize,
}

impl Measurements {
    /// Starts with nothing, for a number of jobs.
    pub fn new(seed: u64, jobs: usize) -> Self {
        Self::with(seed, jobs, Results::InMemory(HashMap::new()))
    }

    /// Starts with the results of a directory, and adds to them.
    pub fn kept_in(directory: &Path, seed: u64, jobs: usize) -> Result<Self, Failure> {
        let store = SweepStore::open_all(directory).map_err(|error| of_store(&error))?;
        Ok(Self::with(seed, jobs, Results::InDirectory(Box::new(store))))
    }

    fn with(seed: u64, jobs: usize, results: Results) -> Self {
        Self {
            seed,
            keys: UnitKeys::default(),
            results: Mutex::new(results),
            progress: RunProgress::new(jobs),
            computed: AtomicUsize::new(0),
            found: AtomicUsize::new(0),
            jobs: AtomicUsize::new(0),
        }
    }

    /// Results that were computed, and results that were there.
    pub fn counts(&self) -> (usize, usize) {
        (self.computed.load(Ordering::Relaxed), self.found.load(Ordering::Relaxed))
    }

    /// Jobs that ended.
    #[cfg(test)]
    pub fn jobs(&self) -> usize {
        self.jobs.load(Ordering::Relaxed)
    }

    /// The keys of contents.
    pub fn keys(&self) -> &UnitKeys {
        &self.keys
    }

    /// Hides the bar while `print` prints.
    pub fn pause<T>(&self, print: impl FnOnce() -> T) -> T {
        self.progress.pause(print)
    }

    /// Runs `work` as one of the jobs that the bar counts; `work` reports its progress, 0 to 1.
    pub fn job<T>(
        &self,
        scenario: &str,
        policy: &str,
        work: impl FnOnce(&mut Job<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut job = self.progress.job(scenario, policy);
        let result = work(&mut job)?;
        job.done();
        self.jobs.fetch_add(1, Ordering::Relaxed);
        Ok(result)
    }

    /// Runs a recipe as a job, with a point of the timeline for each interval.
    pub fn run(
        &self,
        setting: &LazyScenario,
        recipe: &Recipe,
        timeline: Option<Duration>,
    ) -> Result<RunOutput, Failure> {
        self.job(&setting.scenario.name, recipe.name(), |job| {
            self.output(setting, recipe, timeline, &mut |share| job.reached(share))
        })
    }

    /// Runs a recipe as a part of a job.
    pub fn output(
        &self,
        setting: &LazyScenario,
        recipe: &Recipe,
        timeline: Option<Duration>,
        reached: &mut dyn FnMut(f64),
    ) -> Result<RunOutput, Failure> {
        let inputs = [
            self.keys.scenario(&setting.scenario),
            self.keys.recipe(recipe),
            self.seed.to_string(),
            format!("{timeline:?}"),
        ];
        let inputs = inputs.each_ref().map(String::as_str);
        let mut kept: KeptRun = self.once("run", &inputs, || {
            let options = RunOptions { seed: self.seed, timeline, ..RunOptions::default() };
            let output = run(&*setting.prepared()?, recipe, &options, reached)?;
            Ok(KeptRun { result: output.result, timeline: output.timeline })
        })?;
        // The name is for people, and no part of the key: one content may have two.
        recipe.name().clone_into(&mut kept.result.policy);
        let KeptRun { result, timeline } = kept;
        Ok(RunOutput { result, timeline, heat_map: None, record: None })
    }

    /// Returns a result of this kind and these inputs: the one that is kept, or a new one.
    pub fn once<T: Serialize + DeserializeOwned>(
        &self,
        kind: &str,
        inputs: &[&str],
        compute: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let key = self.keys.key(kind, inputs);
        if let Some(found) = self.find(&key)
            && let Ok(result) = serde_json::from_value(found)
        {
            self.found.fetch_add(1, Ordering::Relaxed);
            return Ok(result);
        }
        let start = Instant::now();
        let value = serde_json::to_value(compute()?)?;
        self.computed.fetch_add(1, Ordering::Relaxed);
        // The result goes the same way as one that is read later, so both are the same.
        let result = serde_json::from_value(value.clone())?;
        self.keep(key, value, start.elapsed())?;
        Ok(result)
    }

    fn find(&self, key: &str) -> Option<Value> {
        match &*self.results.lock().unwrap_or_else(PoisonError::into_inner) {
            Results::InMemory(results) => results.get(key).cloned(),
            Results::InDirectory(store) => store.get(key)?.outcome.result().cloned(),
        }
    }

    fn keep(&self, key: String, value: Value, took: Duration) -> Result<(), Failure> {
        match &mut *self.results.lock().unwrap_or_else(PoisonError::into_inner) {
            Results::InMemory(results) => {
                results.insert(key, value);
                Ok(())
            }
            Results::InDirectory(store) => {
                let outcome = UnitOutcome::Done(Box::new(value));
                let record = UnitRecord { key, seconds: took.as_secs_f64(), outcome };
                store.append(record).map_err(|error| of_store(&error))
            }
        }
    }

    /// Waits until the disk has everything.
    pub fn sync(&self) -> Result<(), Failure> {
        match &mut *self.results.lock().unwrap_or_else(PoisonError::into_inner) {
            Results::InMemory(_) => Ok(()),
            Results::InDirectory(store) => store.sync().map_err(|error| of_store(&error)),
        }
    }
}
