//! Learners that decide how much fast memory a tenant gets.
//!
//! The core decides and does not learn: a [`Learning`] supplies its agents and searches. This crate
//! implements one, after MTAT (Kim et al., Middleware 2025): [`sac`] is the reinforcement learner
//! of its partition policy maker, [`SacAgent`] one tenant's agent over it, and [`anneal`] its
//! search for a fair division.
//!
//! ```
//! use tierwise_core::engine::{Engine, EngineConfig};
//! use tierwise_core::recipe::Recipe;
//!
//! let mut config = EngineConfig::new(Recipe::named("mtat").unwrap());
//! config.learning = Some(tierwise_learn::learning());
//! ```

#![warn(unreachable_pub)]

use std::sync::Arc;

use tierwise_core::estimate::slowdown::Classifier;
use tierwise_core::learn::{Agent, Learning, Objective};

#[cfg(feature = "learner")]
mod agent;
mod annealing;
pub mod forest;
mod model_file;
#[cfg(feature = "learner")]
pub mod sac;

#[cfg(feature = "learner")]
pub use agent::SacAgent;
pub use annealing::anneal;

use forest::Forest;

/// The trained model that ships (models/README.md): its name in recipes, and its file, which
/// `Sac::save` wrote.
#[cfg(feature = "learner")]
const SHIPPED: (&str, &[u8]) = ("mtat-actor", include_bytes!("../models/mtat-actor.safetensors"));

/// The refusal of a program that has no agents.
#[cfg(not(feature = "learner"))]
const WITHOUT_LEARNER: &str = "this program was built without the learner that tenants with an SLO \
                               need; build it with: make install, or \
                               cargo build --release -p tierwise-cli";

/// The slowdown classifier that ships (models/README.md): its name in recipes, and its file.
const SLOWDOWN: (&str, &[u8]) =
    ("memstrata-slowdown-5", include_bytes!("../models/memstrata/slowdown-5.onnx"));

/// The manifest of the slowdown classifier that ships, as JSON: its data, its bounds, and how often
/// it is right (models/memstrata/README.md).
pub const SLOWDOWN_MANIFEST: &str = include_str!("../models/memstrata/slowdown-5.json");

/// MTAT's learners with their defaults.
#[derive(Debug, Clone, Copy)]
struct Learners {
    /// Whether an agent would act.
    #[cfg(not(feature = "learner"))]
    agents: bool,
}

impl Learning for Learners {
    #[cfg(not(feature = "learner"))]
    fn agent(&self, _: Option<&str>, _: u64) -> Result<Box<dyn Agent>, String> {
        if self.agents {
            return Err(WITHOUT_LEARNER.to_owned());
        }
        Ok(Box::new(tierwise_core::learn::Null))
    }

    #[cfg(feature = "learner")]
    fn agent(&self, model: Option<&str>, seed: u64) -> Result<Box<dyn Agent>, String> {
        let config = sac::SacConfig::default();
        let agent = match model {
            None => SacAgent::new(&config, seed),
            Some(name) if name == SHIPPED.0 => SacAgent::of(name, SHIPPED.1, &config, seed),
            Some(path) => SacAgent::trained(path, &config, seed),
        };
        Ok(Box::new(agent.map_err(|error| error.to_string())?))
    }

    fn classifier(&self, model: &str) -> Result<Box<dyn Classifier>, String> {
        if model == SLOWDOWN.0 {
            return Ok(Box::new(
                Forest::parse(model, SLOWDOWN.1).map_err(|error| error.to_string())?,
            ));
        }
        let bytes = model_file::read(model.as_ref()).map_err(|error| {
            format!("{model}: {error}; allowed: \"{}\", or the path of an ONNX file", SLOWDOWN.0)
        })?;
        Ok(Box::new(Forest::parse(model, &bytes).map_err(|error| error.to_string())?))
    }

    fn anneal(&self, objective: &dyn Objective, start: &[u64], seed: u64) -> Vec<u64> {
        anneal(objective, start, seed)
    }
}

/// The learners for recipes that learn: agents by Soft Actor-Critic, and divisions by simulated
/// annealing. A model is "mtat-actor", which ships, or the path of a file that `Sac::save` wrote.
///
/// Without the feature `learner` there are no agents, and the refusal names the build that has
/// them.
pub fn learning() -> Arc<dyn Learning> {
    Arc::new(Learners {
        #[cfg(not(feature = "learner"))]
        agents: true,
    })
}

/// Like [`learning`], for tenants none of which has an SLO: no agent will act. So the same recipes
/// run without the feature `learner` too.
pub fn learning_without_slo() -> Arc<dyn Learning> {
    Arc::new(Learners {
        #[cfg(not(feature = "learner"))]
        agents: false,
    })
}

#[cfg(all(test, feature = "learner"))]
mod tests {
    use tierwise_core::learn::AgentState;

    use super::*;

    #[test]
    fn shipped_model_acts_without_experience() {
        let mut agent = learning().agent(Some(SHIPPED.0), 1).unwrap();
        assert_eq!(agent.experience(), u64::MAX);
        let state = AgentState { usage_ratio: 0.9, access_ratio: 1.0, load: 0.2 };
        assert!(agent.act(state) < 0.0, "at a fifth of its load a service needs less than it has");
    }
}
