//! The command line: one row per subcommand.

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::failure::CommandResult;
use crate::{
    advise, compare, config, conform, daemon, doctor, explain, generate, plan, policies, profile,
    record, record_live, reproduce, restore, scenario, simulate, status, sweep, top, trace,
    validate,
};

/// Which memory tiering policy serves your programs best? Tierwise records real programs, replays
/// them on simulated machines with fast and slow memory, and compares the policies that move pages
/// between the two.
#[derive(Debug, Parser)]
#[command(
    name = "tierwise",
    version,
    max_term_width = 100,
    after_help = "EXAMPLE\n  \
                  tierwise compare scenarios/zipf.toml\n\n\
                  Exit codes: 0 done, 1 Tierwise or the system failed, 2 the command or a file it \
                  names is wrong.\n\
                  `tierwise record` has two more: see its --help."
)]
pub struct Cli {
    #[command(flatten)]
    pub color: colorchoice_clap::Color,
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Reads the command line. A negative number is the value of the option before it, so that the
    /// refusal names that option.
    pub fn read() -> Result<Self, clap::Error> {
        let matches = with_negative_numbers(Self::command()).try_get_matches()?;
        Self::from_arg_matches(&matches)
    }
}

fn with_negative_numbers(command: clap::Command) -> clap::Command {
    command.allow_negative_numbers(true).mut_subcommands(with_negative_numbers)
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Compare(compare::Compare),
    Simulate(simulate::Simulate),
    Sweep(sweep::Sweep),
    #[command(hide = true)]
    SweepWorker(sweep::SweepWorker),
    Advise(advise::Advise),
    Plan(plan::Plan),
    Explain(explain::Explain),
    Conform(conform::Conform),
    Policies(policies::Policies),
    Profile(profile::ProfileCommand),
    Reproduce(reproduce::Reproduce),
    Validate(validate::Validate),
    Scenario(scenario::ScenarioCommand),
    Record(record::RecordCommand),
    RecordLive(record_live::RecordLive),
    Trace(trace::TraceCommand),
    Doctor(doctor::Doctor),
    Status(status::StatusCommand),
    Top(top::Top),
    Daemon(daemon::DaemonCommand),
    Config(config::ConfigCommand),
    Restore(restore::Restore),
    Completions(generate::Completions),
    Man(generate::Man),
    #[command(hide = true)]
    Reference(generate::Reference),
}

impl Command {
    pub fn execute(&self) -> CommandResult {
        match self {
            Self::Compare(command) => command.execute(),
            Self::Simulate(command) => command.execute(),
            Self::Sweep(command) => command.execute(),
            Self::SweepWorker(command) => command.execute(),
            Self::Advise(command) => command.execute(),
            Self::Plan(command) => command.execute(),
            Self::Conform(command) => command.execute(),
            Self::Explain(command) => command.execute(),
            Self::Policies(command) => command.execute(),
            Self::Profile(command) => command.execute(),
            Self::Reproduce(command) => command.execute(),
            Self::Validate(command) => command.execute(),
            Self::Scenario(command) => command.execute(),
            Self::Record(command) => command.execute(),
            Self::RecordLive(command) => command.execute(),
            Self::Trace(command) => command.execute(),
            Self::Doctor(command) => command.execute(),
            Self::Status(command) => command.execute(),
            Self::Top(command) => command.execute(),
            Self::Daemon(command) => command.execute(),
            Self::Config(command) => command.execute(),
            Self::Restore(command) => command.execute(),
            Self::Completions(command) => command.execute(),
            Self::Man(command) => command.execute(),
            Self::Reference(command) => command.execute(),
        }
    }
}
