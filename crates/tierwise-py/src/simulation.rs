//! Runs of a scenario, from start to end.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use tierwise_core::recipe::Recipe;
use tierwise_sim::run::{Prepared, RunOptions, Watch, run};

use crate::arrays::{ArrayStage, PythonEstimator};
use crate::callable::{Callable, Thrown, leave};
use crate::error::refuse;
use crate::input::{self, ScenarioChanges};
use crate::stop;
use crate::switch::Switch;

/// Time between two checks for Ctrl-C: too short to be noticed, and long beside the microseconds
/// for which a check takes Python's lock.
const BETWEEN_SIGNALS: Duration = Duration::from_millis(50);

/// Allowed intervals of the timeline, as in the `tierwise` command: a millisecond to a day.
const TIMELINE_S: RangeInclusive<f64> = 0.001..=86_400.0;

/// A scenario with its traces loaded, to be run any number of times.
#[pyclass(module = "tierwise._tierwise")]
pub struct Simulation {
    prepared: Prepared,
    switch: Arc<Switch>,
    thrown: Thrown,
}

#[pymethods]
impl Simulation {
    #[new]
    #[pyo3(signature = (scenario, *, text=None, overrides=None, load=None))]
    #[expect(clippy::needless_pass_by_value, reason = "Python's path is converted, not borrowed")]
    fn new(
        py: Python<'_>,
        scenario: PathBuf,
        text: Option<&str>,
        overrides: Option<&str>,
        load: Option<f64>,
    ) -> PyResult<Self> {
        let changes = ScenarioChanges { overrides, load };
        let scenario = match text {
            Some(text) => input::scenario_of(&scenario, text, &changes)?,
            None => input::scenario(&scenario, &changes)?,
        };
        let switch = Arc::new(Switch::new());
        let learning = Arc::clone(&switch);
        let prepared = py.detach(|| Prepared::load(scenario)).map_err(refuse)?;
        let thrown = Thrown::default();
        let prepared = prepared.with_learning(learning).with_watch(for_signals(&thrown));
        Ok(Self { prepared, switch, thrown })
    }

    /// The result, and the timeline if an interval is given, as JSON.
    #[pyo3(signature = (
        recipe, *, text=None, seed=1, agent=None, estimator=None, timeline_s=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn run(
        &mut self,
        py: Python<'_>,
        recipe: &str,
        text: Option<&str>,
        seed: u64,
        agent: Option<Py<PyAny>>,
        estimator: Option<PythonEstimator>,
        timeline_s: Option<f64>,
    ) -> PyResult<String> {
        let recipe = match text {
            Some(text) => Recipe::parse(recipe, text).map_err(refuse)?,
            None => input::recipe(recipe)?,
        };
        let timeline =
            timeline_s.map(|s| input::seconds("timeline_s", s, TIMELINE_S)).transpose()?;
        let options = RunOptions { seed, timeline, ..RunOptions::default() };
        self.switch.set(match (agent, estimator) {
            (None, None) => tierwise_learn::learning(),
            (agent, estimator) => {
                let supplied = estimator.map(ArrayStage::of).transpose()?;
                Arc::new(Callable::new(agent, supplied, Arc::clone(&self.thrown)))
            }
        });
        let output = py.detach(|| {
            stop::unless_stopped(|| run(&self.prepared, &recipe, &options, &mut |_| ()))
        });
        let thrown = self.thrown.lock().unwrap_or_else(PoisonError::into_inner).take();
        let output = match (output, thrown) {
            (Some(output), _) => output.map_err(refuse)?,
            (None, Some(error)) => return Err(error),
            (None, None) => return Err(refuse("the run was stopped")),
        };
        let json = serde_json::json!({ "result": output.result, "timeline": output.timeline });
        Ok(json.to_string())
    }
}

/// Ends a run with the exception of a signal handler.
fn for_signals(thrown: &Thrown) -> Watch {
    let (thrown, checked) = (Arc::clone(thrown), Mutex::new(Instant::now()));
    Watch::new(move || {
        // A run is one thread, and no other thread waits for this.
        let mut checked = checked.lock().unwrap_or_else(PoisonError::into_inner);
        if checked.elapsed() < BETWEEN_SIGNALS {
            return;
        }
        let signals = Python::attach(|py| py.check_signals());
        *checked = Instant::now();
        drop(checked);
        signals.unwrap_or_else(|error| leave(&thrown, error));
    })
}
