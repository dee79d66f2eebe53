//! Runs of a scenario, from start to end.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use tierwise_sim::run::{Prepared, RunOptions, run};

use crate::callable::{Callable, Thrown, leave};
use crate::error::refuse;
use crate::input::{self, ScenarioChanges};
use crate::stop;
use crate::switch::Switch;

/// Rounds of the engine between two checks for Ctrl-C: a round takes microseconds to milliseconds,
/// and acquiring Python's lock takes about as long as the shortest round. A recipe that is never
/// woken has one round only, and cannot be interrupted.
const ROUNDS_BETWEEN_SIGNALS: u32 = 64;

/// A scenario with its traces loaded, to be run any number of times.
#[pyclass(module = "tierwise._tierwise")]
pub struct Simulation {
    prepared: Prepared,
    switch: Arc<Switch>,
}

#[pymethods]
impl Simulation {
    #[new]
    #[pyo3(signature = (scenario, *, overrides=None, load=None))]
    #[expect(clippy::needless_pass_by_value, reason = "Python's path is converted, not borrowed")]
    fn new(
        py: Python<'_>,
        scenario: PathBuf,
        overrides: Option<&str>,
        load: Option<f64>,
    ) -> PyResult<Self> {
        let scenario = input::scenario(&scenario, &ScenarioChanges { overrides, load })?;
        let switch = Arc::new(Switch::new());
        let learning = Arc::clone(&switch);
        let prepared = py.detach(|| Prepared::load(scenario)).map_err(refuse)?;
        Ok(Self { prepared: prepared.with_learning(learning), switch })
    }

    /// The result, and the timeline if an interval is given, as JSON.
    #[pyo3(signature = (recipe, *, seed=1, agent=None, timeline_s=None))]
    fn run(
        &mut self,
        py: Python<'_>,
        recipe: &str,
        seed: u64,
        agent: Option<Py<PyAny>>,
        timeline_s: Option<f64>,
    ) -> PyResult<String> {
        let recipe = input::recipe(recipe)?;
        let timeline = timeline_s.map(Duration::try_from_secs_f64).transpose().map_err(refuse)?;
        let options = RunOptions { seed, timeline, ..RunOptions::default() };
        let thrown = Thrown::default();
        self.switch.set(match agent {
            Some(function) => Arc::new(Callable::new(function, Arc::clone(&thrown))),
            None => tierwise_learn::learning(),
        });
        let mut progress = listen(&thrown);
        let output = py.detach(|| {
            stop::unless_stopped(|| run(&self.prepared, &recipe, &options, &mut progress))
        });
        let thrown = thrown.lock().unwrap_or_else(PoisonError::into_inner).take();
        let output = match (output, thrown) {
            (Some(output), _) => output.map_err(refuse)?,
            (None, Some(error)) => return Err(error),
            (None, None) => return Err(refuse("the run was stopped")),
        };
        let json = serde_json::json!({ "result": output.result, "timeline": output.timeline });
        Ok(json.to_string())
    }
}

/// Ends the run with the exception of a signal handler.
fn listen(thrown: &Thrown) -> impl FnMut(f64) {
    let mut rounds = 0_u32;
    move |_| {
        rounds = rounds.wrapping_add(1);
        if rounds.is_multiple_of(ROUNDS_BETWEEN_SIGNALS) {
            let checked = Python::attach(|py| py.check_signals());
            checked.unwrap_or_else(|error| leave(thrown, error));
        }
    }
}
