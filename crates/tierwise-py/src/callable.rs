//! What Python supplies to an engine: an agent that is a function, `agent(state, reward)` gives the
//! action, and an estimator that is one ([`crate::arrays`]).

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tierwise_core::estimate::slowdown::Classifier;
use tierwise_core::learn::{Agent, AgentState, Experience, Learning, Objective};
use tierwise_core::stage::Estimator;

use crate::arrays::ArrayStage;
use crate::stop;

/// A state in Python's form: usage ratio, access ratio, load.
pub(crate) type PythonState = (f64, f64, f64);

/// Converts a state to a tuple.
pub(crate) fn tuple(state: AgentState) -> PythonState {
    (state.usage_ratio, state.access_ratio, state.load)
}

/// Clamps an action to the allowed range (MTAT, algorithm 1, line 5).
///
/// # Errors
/// The action is not a finite number.
pub(crate) fn action(action: f64) -> PyResult<f64> {
    if action.is_finite() {
        return Ok(action.clamp(-1.0, 1.0));
    }
    let words = format!("an action was {action}; allowed: a number from -1 to 1, down or up");
    Err(PyValueError::new_err(words))
}

/// A function's exception, kept until the run that it ended returns.
pub(crate) type Thrown = Arc<Mutex<Option<PyErr>>>;

/// Makes the agent and the estimator. Everything else is left to the learner that ships.
pub(crate) struct Callable {
    agent: Option<Arc<Py<PyAny>>>,
    estimator: Option<ArrayStage>,
    thrown: Thrown,
    others: Arc<dyn Learning>,
}

impl Callable {
    /// Calls the functions that are given, and keeps their exception in `thrown`.
    pub(crate) fn new(
        agent: Option<Py<PyAny>>,
        estimator: Option<ArrayStage>,
        thrown: Thrown,
    ) -> Self {
        let others = tierwise_learn::learning();
        Self { agent: agent.map(Arc::new), estimator, thrown, others }
    }
}

impl Learning for Callable {
    fn agent(&self, model: Option<&str>, seed: u64) -> Result<Box<dyn Agent>, String> {
        let Some(function) = &self.agent else { return self.others.agent(model, seed) };
        let (function, thrown) = (Arc::clone(function), Arc::clone(&self.thrown));
        Ok(Box::new(CallableAgent { function, thrown, reward: None, learned: 0 }))
    }

    fn classifier(&self, model: &str) -> Result<Box<dyn Classifier>, String> {
        self.others.classifier(model)
    }

    fn estimator(&self) -> Result<Box<dyn Estimator>, String> {
        match &self.estimator {
            Some(stage) => Ok(Box::new(stage.start(Arc::clone(&self.thrown)))),
            None => self.others.estimator(),
        }
    }

    fn anneal(&self, objective: &dyn Objective, start: &[u64], seed: u64) -> Vec<u64> {
        self.others.anneal(objective, start, seed)
    }
}

struct CallableAgent {
    function: Arc<Py<PyAny>>,
    thrown: Thrown,
    reward: Option<f64>,
    learned: u64,
}

impl Agent for CallableAgent {
    fn act(&mut self, state: AgentState) -> f64 {
        let reward = self.reward.take();
        let answer = Python::attach(|py| {
            let answer = self.function.call1(py, (tuple(state), reward))?;
            action(answer.extract(py)?)
        });
        answer.unwrap_or_else(|error| leave(&self.thrown, error))
    }

    fn learn(&mut self, experience: Experience) {
        self.learned += 1;
        self.reward = Some(experience.reward);
    }

    /// The caller judges its own actions.
    fn is_guarded(&self) -> bool {
        false
    }

    fn experience(&self) -> u64 {
        self.learned
    }
}

/// Ends the run with an exception.
pub(crate) fn leave(thrown: &Thrown, error: PyErr) -> ! {
    *thrown.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    stop::now()
}
