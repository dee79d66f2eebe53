//! A run that stops at every decision, for Gymnasium's `reset` and `step`.
//!
//! The run has a thread of its own, which never takes Python's lock. Its agent sends each decision
//! and waits for the action ([`crate::remote`], [`crate::running`]). When the environment is
//! closed, the agent finds its channel closed and leaves the run.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;
use pyo3::prelude::*;
use tierwise_core::recipe::Recipe;
use tierwise_core::tenant::Class;
use tierwise_sim::run::Prepared;
use tierwise_sim::scenario::Scenario;

use crate::callable::{PythonState, action, tuple};
use crate::error::refuse;
use crate::input::{self, ScenarioChanges};
use crate::remote::RemoteDecision;
use crate::running::Running;
use crate::switch::Switch;

/// Interval of checks for Ctrl-C while a decision is awaited.
const SIGNALS: Duration = Duration::from_millis(100);

/// A run may last this many times the episode, so that the last action of an episode has an
/// outcome, and a service without requests still ends.
const RUNS_ON: u32 = 2;

/// Allowed lengths of an episode, as in a scenario.
const DURATION_S: RangeInclusive<f64> = 0.001..=10_000_000.0;

/// A scenario under a recipe whose learner is the caller of [`Environment::step`].
#[pyclass(module = "tierwise._tierwise")]
pub struct Environment {
    prepared: Arc<Prepared>,
    switch: Arc<Switch>,
    recipe: Recipe,
    duration: Duration,
    running: Option<Running>,
}

#[pymethods]
impl Environment {
    #[new]
    #[pyo3(signature = (scenario, *, recipe="mtat", overrides=None, load=None, duration_s=None))]
    #[expect(clippy::needless_pass_by_value, reason = "Python's path is converted, not borrowed")]
    fn new(
        py: Python<'_>,
        scenario: PathBuf,
        recipe: &str,
        overrides: Option<&str>,
        load: Option<f64>,
        duration_s: Option<f64>,
    ) -> PyResult<Self> {
        let recipe = input::recipe(recipe)?;
        let mut read = input::scenario(&scenario, &ScenarioChanges { overrides, load })?;
        let wanted = duration_s.map(|s| input::seconds("duration_s", s, DURATION_S)).transpose()?;
        let duration = episode(&scenario, &read, wanted)?;
        read.duration = duration.checked_mul(RUNS_ON);
        let switch = Arc::new(Switch::new());
        let learning = Arc::clone(&switch);
        let prepared = py.detach(|| Prepared::load(read)).map_err(refuse)?;
        let prepared = Arc::new(prepared.with_learning(learning));
        Ok(Self { prepared, switch, recipe, duration, running: None })
    }

    /// The length of an episode in virtual seconds.
    #[getter]
    fn duration_s(&self) -> f64 {
        self.duration.as_secs_f64()
    }

    /// Starts a run and advances to its first decision. Returns the state.
    fn reset(&mut self, py: Python<'_>, seed: u64) -> PyResult<PythonState> {
        self.close(py);
        let (prepared, recipe) = (Arc::clone(&self.prepared), self.recipe.clone());
        self.running = Some(Running::start(prepared, &self.switch, recipe, seed));
        let first = self.next(py)?;
        let none = || {
            let (scenario, recipe) = (&self.prepared.scenario().name, self.recipe.name());
            refuse(format!(
                "scenario {scenario}, recipe {recipe}: nothing was there to decide; the recipe \
                 must learn (mtat, mtat-lc-only), and the service must have requests"
            ))
        };
        Ok(tuple(first.ok_or_else(none)?.state))
    }

    /// Acts, and runs to the next decision. Returns the state, and the reward of the action or
    /// `None` if no request reported. `None` instead of both if the run is over.
    fn step(&mut self, py: Python<'_>, act: f64) -> PyResult<Option<(PythonState, Option<f64>)>> {
        let act = action(act)?;
        let running = self.running.as_ref().filter(|running| running.is_here());
        let running =
            running.ok_or_else(|| refuse("no episode is under way; call reset() first"))?;
        // A run that has ended receives nothing; the next request for a decision shows it.
        running.actions.send(act).ok();
        let next = self.next(py)?;
        Ok(next.map(|next| (tuple(next.state), next.reward)))
    }

    /// Ends the run, if one is under way.
    fn close(&mut self, py: Python<'_>) {
        let running = self.running.take();
        py.detach(|| drop(running));
    }
}

impl Environment {
    /// The next decision, or `None` at the end of the run.
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<RemoteDecision>> {
        let Some(running) = &self.running else { return Ok(None) };
        loop {
            match py.detach(|| running.decisions.recv_timeout(SIGNALS)) {
                Ok(decision) => return Ok(Some(decision)),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(raised) = py.check_signals() {
                        self.close(py);
                        return Err(raised);
                    }
                }
            }
        }
        let Some(running) = self.running.take() else { return Ok(None) };
        py.detach(|| running.end()).map(|()| None).map_err(refuse)
    }
}

/// The length of an episode.
fn episode(file: &Path, scenario: &Scenario, wanted: Option<Duration>) -> PyResult<Duration> {
    let file = file.display();
    let critical = scenario.workloads.iter().filter(|w| w.class == Class::LatencyCritical).count();
    if critical != 1 {
        return Err(refuse(format!(
            "{file}: found {critical} latency-critical workloads; allowed: exactly one, as an \
             environment has one agent"
        )));
    }
    let missing =
        || refuse(format!("{file}: duration_s is missing; write it, or give an episode length"));
    wanted.or(scenario.duration).ok_or_else(missing)
}
