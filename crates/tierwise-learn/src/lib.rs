//! Learners that decide how much fast memory a tenant gets.
//!
//! The core decides and does not learn: it asks a [`Learning`] for agents and for searches. This crate is one,
//! after MTAT (Kim et al., Middleware 2025): [`sac`] is the reinforcement learner of its partition policy
//! maker, [`SacAgent`] one tenant's agent over it, and [`anneal`] its search for a fair division.
//!
//! ```
//! use tierwise_core::engine::{Engine, EngineConfig};
//! use tierwise_core::recipe::Recipe;
//!
//! let mut config = EngineConfig::new(Recipe::named("mtat").unwrap());
//! config.learning = Some(tierwise_learn::learning());
//! ```

use std::sync::Arc;

use tierwise_core::learn::{Agent, Learning, Objective};

mod agent;
mod annealing;
pub mod sac;

pub use agent::SacAgent;
pub use annealing::anneal;

use sac::SacConfig;

/// MTAT's learners with their defaults.
#[derive(Debug, Clone, Copy, Default)]
struct Learners;

impl Learning for Learners {
    fn agent(&self, model: Option<&str>, seed: u64) -> Result<Box<dyn Agent>, String> {
        let config = SacConfig::default();
        let agent = match model {
            None => SacAgent::new(&config, seed),
            Some(path) => SacAgent::trained(path, &config, seed),
        };
        Ok(Box::new(agent.map_err(|error| error.to_string())?))
    }

    fn anneal(&self, objective: &dyn Objective, start: &[u64], seed: u64) -> Vec<u64> {
        anneal(objective, start, seed)
    }
}

/// Who learns for recipes that do: agents by Soft Actor-Critic, a model being the path of a file that
/// [`sac::Sac::save`] wrote, and divisions by simulated annealing.
pub fn learning() -> Arc<dyn Learning> {
    Arc::new(Learners)
}
