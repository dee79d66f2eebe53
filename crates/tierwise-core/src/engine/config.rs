//! The configuration of an engine, and the reasons to refuse one.

use std::sync::Arc;

use crate::config::ConfigError;
use crate::learn::Learning;
use crate::migrate::Budget;
use crate::recipe::Recipe;
use crate::tenant::{TenantError, TenantSpec};

/// The recipe, the limits and the tenants of an engine.
#[derive(Clone)]
pub struct EngineConfig {
    /// The policy and its parameters.
    pub recipe: Recipe,
    /// The limit on migrations.
    pub budget: Budget,
    /// The tenant specs, by [`crate::units::TenantId`]. May be shorter than the number of tenants:
    /// missing entries use the defaults.
    pub tenants: Vec<TenantSpec>,
    /// The learner, for recipes that need one.
    pub learning: Option<Arc<dyn Learning>>,
}

impl EngineConfig {
    /// Makes a configuration of a recipe with an unlimited budget and without tenant specs.
    pub fn new(recipe: Recipe) -> Self {
        Self { recipe, budget: Budget::default(), tenants: Vec::new(), learning: None }
    }
}

/// The reason why an engine cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The recipe's parameters do not fit.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The tenant configuration does not fit the machine.
    #[error(transparent)]
    Tenants(#[from] TenantError),
    /// The world cannot report a signal that the policy requires.
    #[error(
        "the policy \"{recipe}\" needs {missing}, which this machine cannot report; \
         \"{instead}\" would run here"
    )]
    Unobservable {
        /// The recipe.
        recipe: String,
        /// The missing signal.
        missing: &'static str,
        /// The nearest recipe in the table whose signals this world can report.
        instead: String,
    },
}
