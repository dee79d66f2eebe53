//! A learner that can be exchanged between runs, so that a scenario's traces are read only once.

use std::sync::{Arc, Mutex, PoisonError};

use tierwise_core::estimate::slowdown::Classifier;
use tierwise_core::learn::{Agent, Learning, Objective};
use tierwise_core::stage::Estimator;

/// The current learner.
pub(crate) struct Switch(Mutex<Arc<dyn Learning>>);

impl Switch {
    /// Starts with the learner that ships with Tierwise.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(tierwise_learn::learning()))
    }

    /// Sets the learner of the following runs.
    pub(crate) fn set(&self, learning: Arc<dyn Learning>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = learning;
    }

    fn get(&self) -> Arc<dyn Learning> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Learning for Switch {
    fn agent(&self, model: Option<&str>, seed: u64) -> Result<Box<dyn Agent>, String> {
        self.get().agent(model, seed)
    }

    fn classifier(&self, model: &str) -> Result<Box<dyn Classifier>, String> {
        self.get().classifier(model)
    }

    fn estimator(&self) -> Result<Box<dyn Estimator>, String> {
        self.get().estimator()
    }

    fn anneal(&self, objective: &dyn Objective, start: &[u64], seed: u64) -> Vec<u64> {
        self.get().anneal(objective, start, seed)
    }
}
