//! `tierwise config`: the daemon's configuration file.

mod check;
mod example;
mod reference;
mod schema;

use std::io::Write;

use clap::{Args, Subcommand};
use tierwised::config;

use crate::failure::CommandResult;
use crate::output;

/// Check the daemon's configuration, or print its keys.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise config example > tierwised.toml\n  \
                        tierwise config check tierwised.toml")]
pub struct ConfigCommand {
    #[command(subcommand)]
    command: Shown,
}

#[derive(Debug, Subcommand)]
enum Shown {
    Check(check::CheckCommand),
    /// Print the JSON Schema of the file, for editors.
    #[command(after_help = "EXAMPLE\n  tierwise config schema > tierwised.schema.json")]
    Schema,
    /// Print a configuration with every key, its default and meaning.
    #[command(
        after_help = "EXAMPLE\n  tierwise config example | sudo tee /etc/tierwise/tierwised.toml"
    )]
    Example,
    /// Print every key of the file as one Markdown page.
    #[command(hide = true)]
    Reference,
}

impl ConfigCommand {
    pub fn execute(&self) -> CommandResult {
        match &self.command {
            Shown::Check(check) => check.execute(),
            Shown::Schema => output::json(&config::Config::schema()),
            Shown::Example => print(&example::example(&schema::tables())),
            Shown::Reference => print(&reference::page(&schema::tables())),
        }
    }
}

fn print(text: &str) -> CommandResult {
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}
