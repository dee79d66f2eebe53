//! The interface between partitioners and a learner, which is not part of the pure core: an agent
//! that acts and is rewarded, and a search that anneals. The crate `tierwise-learn` has both. The
//! creator of an engine passes them in ([`crate::engine::EngineConfig::learning`]).
//!
//! Both are seeded, and neither reads a clock: the same calls give the same answers. [`Null`]
//! learns nothing; it is the reference for measurements of others.
//!
//! ```
//! use tierwise_core::learn::{AgentState, Learning, Null};
//!
//! let mut agent = Null.agent(None, 1).unwrap();
//! assert_eq!(agent.act(AgentState::default()), 0.0);
//! ```

use crate::estimate::slowdown::Classifier;
use crate::stage::Estimator;

/// The state of a tenant, the input of its agent (MTAT, section 3.2.1). Each field is from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AgentState {
    /// Share of the tenant's memory that is fast.
    pub usage_ratio: f64,
    /// Share of its accesses that the fast tier served.
    pub access_ratio: f64,
    /// The tenant's accesses per second in the interval, divided by those under its highest load:
    /// [`crate::tenant::TenantSpec::full_load`], or the maximum so far if that is higher or there
    /// is none.
    pub load: f64,
}

/// An action and its effect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Experience {
    /// The state before.
    pub state: AgentState,
    /// The action as a share of the largest step, -1 to 1.
    pub action: f64,
    /// The reward (MTAT, equation 2).
    pub reward: f64,
    /// The state after.
    pub next: AgentState,
}

/// A learned policy for one tenant.
pub trait Agent: Send {
    /// Returns an action: the share of the largest step, from -1 (down) to 1 (up).
    fn act(&mut self, state: AgentState) -> f64;

    /// Learns from an action's effect.
    fn learn(&mut self, experience: Experience);

    /// Returns true if the SLO guard may act in its place. An agent whose maker wants to see the
    /// effect of every action refuses it.
    fn is_guarded(&self) -> bool {
        true
    }

    /// The number of experiences from which the agent has learned, those of its training included.
    fn experience(&self) -> u64;
}

/// The smallest of several performances, to be maximised over vectors of whole numbers with a fixed
/// sum (MTAT, equation 3).
pub trait Objective: Sync {
    /// Returns the performance of the element at `place` if it has `units`; always finite.
    fn performance(&self, place: usize, units: u64) -> f64;

    /// Returns the value of an allocation: its smallest performance.
    fn value(&self, allocation: &[u64]) -> f64 {
        let each =
            allocation.iter().enumerate().map(|(place, &units)| self.performance(place, units));
        each.fold(f64::INFINITY, f64::min)
    }

    /// The maximum number of units that one step moves from one place to another.
    fn step(&self) -> u64;
}

/// Makes agents and classifiers, and runs the search.
pub trait Learning: Send + Sync {
    /// Makes an agent from a trained model, or an untrained one.
    ///
    /// # Errors
    /// The model cannot be read or has another shape.
    fn agent(&self, model: Option<&str>, seed: u64) -> Result<Box<dyn Agent>, String>;

    /// Makes a classifier of slowdowns from a model that ships or from a file.
    ///
    /// # Errors
    /// The model cannot be read, is not a classifier, or was trained on other features.
    fn classifier(&self, model: &str) -> Result<Box<dyn Classifier>, String> {
        Err(format!("no learner of this program can run the model \"{model}\""))
    }

    /// Makes the estimator of recipes whose algorithm is "external".
    ///
    /// # Errors
    /// The program that runs the engine supplies none.
    fn estimator(&self) -> Result<Box<dyn Estimator>, String> {
        Err("this program supplies no estimator; the Python package does".to_owned())
    }

    /// Returns the best allocation with the same sum that simulated annealing finds from `start`.
    fn anneal(&self, objective: &dyn Objective, start: &[u64], seed: u64) -> Vec<u64>;
}

/// Learns nothing: its agents never act, and its search returns its start. With it, a recipe that
/// learns is the same recipe without learning.
#[derive(Debug, Clone, Copy, Default)]
pub struct Null;

impl Agent for Null {
    fn act(&mut self, _: AgentState) -> f64 {
        0.0
    }

    fn learn(&mut self, _: Experience) {}

    fn experience(&self) -> u64 {
        0
    }
}

impl Learning for Null {
    fn agent(&self, _: Option<&str>, _: u64) -> Result<Box<dyn Agent>, String> {
        Ok(Box::new(Self))
    }

    fn anneal(&self, _: &dyn Objective, start: &[u64], _: u64) -> Vec<u64> {
        start.to_vec()
    }
}
