//! The `tierwise` command. One file a subcommand; `cli` lists them.

mod advise;
mod bare_trace;
mod cli;
mod compare;
mod completions;
mod config;
mod conform;
mod daemon;
mod doctor;
#[cfg(test)]
mod documented;
mod explain;
mod failure;
mod input;
mod live;
mod man;
mod output;
mod policies;
mod profile;
mod progress;
mod record;
mod record_live;
mod reference;
mod report;
mod reproduce;
mod restore;
mod run_file;
mod scenario;
mod simulate;
mod status;
mod top;
mod trace;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    cli.color.write_global();
    match cli.command.execute() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
