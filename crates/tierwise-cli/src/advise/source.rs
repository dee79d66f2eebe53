//! What runs: a scenario, or traces on a machine whose sizes the search sets.

use std::path::PathBuf;

use tierwise_sim::scenario::Scenario;

use crate::bare_trace::TraceMachine;
use crate::failure::Failure;
use crate::input;

/// The scenario that the arguments name.
pub fn scenario(sources: &[PathBuf]) -> Result<Scenario, Failure> {
    input::scenario_or_traces(sources, &TraceMachine::default())
}
