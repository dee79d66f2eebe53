//! An agent that is a Python function: `agent(state, reward)` gives the action.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tierwise_core::learn::{Agent, AgentState, Experience, Learning, Objective};

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

/// Makes the agent. Everything else is left to the learner that ships.
pub(crate) struct Callable {
    function: Arc<Py<PyAny>>,
    thrown: Thrown,
    others: Arc<dyn Learning>,
}

impl Callable {
    /// Calls `function`, and keeps its exception in `thrown`.
    pub(crate) fn new(function: Py<PyAny>, thrown: Thrown) -> Self {
        Self { function: Arc::new(function), thrown, others: tierwise_learn::learning() }
    }
}

impl Learning for Callable {
    fn agent(&self, _: Option<&str>, _: u64) -> Result<Box<dyn Agent>, String> {
        let (function, thrown) = (Arc::clone(&self.function), Arc::clone(&self.thrown));
        Ok(Box::new(CallableAgent { function, thrown, reward: None, learned: 0 }))
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

    fn experience(&self) -> u64 {
        self.learned
    }
}

/// Ends the run with an exception.
pub(crate) fn leave(thrown: &Thrown, error: PyErr) -> ! {
    *thrown.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    stop::now()
}
