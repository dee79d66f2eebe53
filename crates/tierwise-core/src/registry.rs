//! The rows of the algorithms' tables, and the inputs from which a row builds a stage or a policy.
//!
//! Each algorithm imports this file. [`crate::recipe`] imports the tables, and no algorithm imports
//! it.

use std::sync::Arc;

use crate::config::{ConfigError, Section};
use crate::learn::Learning;
use crate::topology::Topology;

/// Inputs for building a stage or a policy.
#[derive(Clone, Copy)]
pub struct BuildContext<'a> {
    /// The machine.
    pub topology: &'a Topology,
    /// The seed of random numbers: the same seed gives the same plans.
    pub seed: u64,
    /// The learner, if one is available.
    pub learning: Option<&'a Arc<dyn Learning>>,
}

impl<'a> BuildContext<'a> {
    /// Creates a context without a learner.
    pub fn new(topology: &'a Topology, seed: u64) -> Self {
        Self { topology, seed, learning: None }
    }
}

/// Builds a stage or a policy from its section of a recipe.
pub type Build<T> = fn(&Section<'_>, &BuildContext<'_>) -> Result<Box<T>, ConfigError>;

/// One row of a directory's table.
#[derive(Debug)]
pub struct StageRow<T: ?Sized> {
    /// Name in recipes.
    pub name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    /// Reads the parameters. The caller refuses unknown keys.
    pub build: Build<T>,
}
