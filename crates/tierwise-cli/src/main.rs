//! The `tierwise` command. `cli` lists its subcommands.

mod advise;
mod bare_trace;
mod cli;
mod compare;
mod comparison;
mod config;
mod conform;
mod daemon;
mod doctor;
#[cfg(test)]
mod documented;
mod explain;
mod failure;
mod generate;
mod input;
mod live;
mod number;
mod output;
mod plan;
mod policies;
mod profile;
mod progress;
mod prose;
mod record;
mod record_live;
mod report;
mod reproduce;
mod restore;
mod run_args;
mod run_file;
mod scenario;
mod shipped;
mod simulate;
mod sizes;
mod status;
mod sweep;
mod table;
mod top;
mod trace;
mod validate;
mod value;

use std::process::ExitCode;
use std::sync::Arc;

use signal_hook::consts::SIGXFSZ;

fn main() -> ExitCode {
    report_size_limits();
    let cli = match cli::Cli::read() {
        Ok(cli) => cli,
        Err(message) => return answer(&message),
    };
    cli.color.write_global();
    match cli.command.execute() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`) fail, as on a full disk: by default a
/// signal ends the process without a word. A program that is recorded keeps the default, which it
/// would not if the signal were ignored.
fn report_size_limits() {
    // Without a handler the default stays: the limit is kept either way.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Prints clap's message: the help, or the mistake in the command.
fn answer(message: &clap::Error) -> ExitCode {
    match message.print() {
        Err(error) if !message.use_stderr() => failure::Failure::from(error).report(),
        _ => ExitCode::from(message.exit_code() as u8),
    }
}
