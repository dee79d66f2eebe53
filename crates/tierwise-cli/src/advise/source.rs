//! The sources of a run: a scenario, or traces on a machine whose sizes the search sets.

use std::path::PathBuf;

use clap::Args;
use tierwise_sim::scenario::Scenario;

use crate::bare_trace::{self, TraceMachine};
use crate::failure::{CommandResult, Failure};
use crate::input;

/// The machine of a bare trace. The search varies its fast memory.
#[derive(Debug, Args)]
#[command(next_help_heading = "Machine of a bare trace")]
pub struct SearchedMachine {
    /// Preset: dram-cxl, dram-remote, dram-cxl-252, dram-slow-140 or dram-optane [default:
    /// dram-cxl].
    #[arg(long, value_name = "PRESET", value_parser = bare_trace::preset)]
    machine: Option<String>,
    // `compare` and `simulate` take these arguments, so a user may try them here: the refusal gives
    // the reason.
    #[arg(long, hide = true)]
    fast_share: Option<String>,
    #[arg(long, hide = true)]
    fast: Option<String>,
}

impl SearchedMachine {
    fn refuse_sizes(&self) -> CommandResult {
        let sized = [("--fast-share", &self.fast_share), ("--fast", &self.fast)];
        match sized.into_iter().find(|(_, value)| value.is_some()) {
            None => Ok(()),
            Some((flag, _)) => Err(Failure::User(format!(
                "{flag}: `tierwise advise` searches for the size of the fast memory; remove \
                 {flag}, or see what one size gives with `tierwise compare`"
            ))),
        }
    }
}

/// Returns the scenario that the arguments name.
pub fn scenario(sources: &[PathBuf], machine: &SearchedMachine) -> Result<Scenario, Failure> {
    machine.refuse_sizes()?;
    input::scenario_or_traces(sources, &TraceMachine::preset(machine.machine.clone()))
}
