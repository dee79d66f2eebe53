//! What partitioners need of a learner, which is not part of the pure core: an agent that acts and
//! is rewarded, and a search that anneals. The crate `tierwise-learn` has both; whoever makes an
//! engine hands them in ([`crate::engine::EngineConfig::learning`]).
//!
//! Both are seeded, and neither reads a clock: the same calls give the same answers. [`Null`] is
//! the learner that learns nothing, against which others are measured.
//!
//! ```
//! use tierwise_core::learn::{AgentState, Learning, Null};
//!
//! let mut agent = Null.agent(None, 1).unwrap();
//! assert_eq!(agent.act(AgentState::default()), 0.0);
//! ```

use crate::estimate::slowdown::Classifier;

/// What an agent sees of its tenant: MTAT's state (section 3.2.1), each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AgentState {
    /// Share of the tenant's memory that is fast.
    pub usage_ratio: f64,
    /// Share of its accesses that the fast tier served.
    pub access_ratio: f64,
    /// Its accesses in the interval, over the most seen in one.
    pub load: f64,
}

/// What came of an action.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Experience {
    /// What was seen before.
    pub state: AgentState,
    /// What was done, -1 to 1 of the largest step.
    pub action: f64,
    /// What it was worth (MTAT, equation 2).
    pub reward: f64,
    /// What was seen after.
    pub next: AgentState,
}

/// A learned policy for one tenant.
pub trait Agent: Send {
    /// What to do: -1 to 1 of the largest step, down or up.
    fn act(&mut self, state: AgentState) -> f64;

    /// Learns from what came of it.
    fn learn(&mut self, experience: Experience);

    /// How many experiences it has learned from, those of its training included.
    fn experience(&self) -> u64;
}

/// The smallest of several performances, to be maximised over vectors of whole numbers with a fixed
/// sum (MTAT, equation 3).
pub trait Objective: Sync {
    /// How well the one at a place does with so many units. Finite.
    fn performance(&self, place: usize, units: u64) -> f64;

    /// How good an allocation is.
    fn value(&self, allocation: &[u64]) -> f64 {
        let each =
            allocation.iter().enumerate().map(|(place, &units)| self.performance(place, units));
        each.fold(f64::INFINITY, f64::min)
    }

    /// How many units may be moved from one place to another in one step.
    fn step(&self) -> u64;
}

/// Makes learners.
pub trait Learning: Send + Sync {
    /// An agent that starts as a trained model, or again.
    ///
    /// # Errors
    /// The model cannot be read or has another shape; in words.
    fn agent(&self, model: Option<&str>, seed: u64) -> Result<Box<dyn Agent>, String>;

    /// A classifier of slowdowns: one that ships, or a file.
    ///
    /// # Errors
    /// It cannot be read, is no such model, or was trained on other features; in words.
    fn classifier(&self, model: &str) -> Result<Box<dyn Classifier>, String> {
        Err(format!("no learner of this program can run the model \"{model}\""))
    }

    /// The best allocation that simulated annealing finds from `start`, keeping the sum.
    fn anneal(&self, objective: &dyn Objective, start: &[u64], seed: u64) -> Vec<u64>;
}

/// Learns nothing: its agents never act, and its search stays where it starts. A recipe that learns
/// is, with it, the same recipe without learning.
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
