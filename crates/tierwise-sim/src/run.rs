//! Runs one recipe on one scenario.

use std::time::Duration;

use tierwise_core::recipe::Recipe;

use crate::error::SimError;
use crate::result::RunOutput;
use crate::scenario::Scenario;

/// A scenario with its traces loaded, ready to be run any number of times, also at once.
#[derive(Debug)]
pub struct Prepared {
    scenario: Scenario,
}

/// How to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunOptions {
    /// Seed of whatever is decided by chance.
    pub seed: u64,
    /// Run the checkers after every step.
    pub check: bool,
    /// Collect the course of the run at this interval.
    pub timeline: Option<Duration>,
    /// Collect the heat map.
    pub heat_map: bool,
}

impl Prepared {
    /// Opens what the scenario names.
    ///
    /// # Errors
    /// A trace that is missing or damaged, a generator's impossible parameters, a tenant larger than
    /// the machine.
    pub fn load(scenario: Scenario) -> Result<Self, SimError> {
        Ok(Self { scenario })
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }
}

/// Runs a recipe to the scenario's end. `progress` is called now and then with the share done, 0 to 1.
///
/// # Errors
/// The recipe does not fit the machine, a trace turned out damaged, or a checker found the simulator
/// itself wrong.
pub fn run(
    prepared: &Prepared,
    recipe: &Recipe,
    options: &RunOptions,
    progress: &mut dyn FnMut(f64),
) -> Result<RunOutput, SimError> {
    let _ = (prepared, recipe, options, progress);
    Err(SimError::Unfinished)
}
