//! `tierwise trace`: inspect, cut and convert traces.

mod cut;
mod export;
mod import;
pub mod info;
mod stat;

use clap::{Args, Subcommand};

pub use import::llc;

use crate::failure::CommandResult;

/// Inspect, cut and convert traces.
///
/// A trace's size bounds the memory of any command that reads it: 128 MiB, and 64 bytes for each
/// byte that the trace may unpack to, which is 64 for each byte of the file plus 256 KiB.
/// `compare`, `simulate` and `advise` refuse a bare trace whose recorded time is more than a day.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise trace info traces/*.twt\n  \
                        tierwise trace cut traces/a.twt run.twt --phase run")]
pub struct TraceCommand {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Info(info::Info),
    Stat(stat::StatCommand),
    Cut(cut::CutCommand),
    Export(export::Export),
    Import(import::Import),
}

impl TraceCommand {
    pub fn execute(&self) -> CommandResult {
        match &self.command {
            Action::Info(command) => command.execute(),
            Action::Stat(command) => command.execute(),
            Action::Cut(command) => command.execute(),
            Action::Export(command) => command.execute(),
            Action::Import(command) => command.execute(),
        }
    }
}
