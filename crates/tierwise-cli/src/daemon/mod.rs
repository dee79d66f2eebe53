//! `tierwise daemon`: commands to a running `tierwised`.

mod report;
mod tenant;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use clap::{Args, Subcommand};
use tierwised::control::ControlCommand;

use crate::failure::{CommandResult, Failure};
use crate::live::Socket;
use crate::output;

/// Control the running daemon: pause, resume, reload, another policy, other tenants.
///
/// Every change holds until the daemon reads its configuration again: write lasting changes into
/// the configuration. The command prints the changes, line by line.
#[derive(Debug, Args)]
#[command(
    after_help = "EXAMPLE\n  tierwise daemon pause\n  tierwise daemon policy multi-clock\n  \
                        tierwise daemon tenant add shop --cgroup shop.slice --floor 80GB"
)]
pub struct DaemonCommand {
    #[command(subcommand)]
    command: DaemonSubcommand,
}

#[derive(Debug, Subcommand)]
enum DaemonSubcommand {
    /// Stop deciding and moving; monitoring continues.
    #[command(after_help = "EXAMPLE\n  tierwise daemon pause")]
    Pause(Plain),
    /// Continue deciding and moving.
    #[command(after_help = "EXAMPLE\n  tierwise daemon resume")]
    Resume(Plain),
    /// Read the configuration file again, and print the changes.
    #[command(after_help = "EXAMPLE\n  tierwise daemon reload")]
    Reload(Plain),
    Policy(Policy),
    Tenant(tenant::Tenant),
    Report(report::ReportCommand),
    /// Print the whole state of the daemon as JSON.
    #[command(after_help = "EXAMPLE\n  tierwise daemon snapshot | jq .counters")]
    Snapshot {
        #[command(flatten)]
        socket: Socket,
    },
}

// The arguments of all commands that print changes. No doc comment: see `live::Socket`.
#[derive(Debug, Args)]
struct Plain {
    #[command(flatten)]
    socket: Socket,
    /// Print JSON: one object with ok and the lines of the changes.
    #[arg(long)]
    json: bool,
}

/// Change the policy.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise daemon policy equilibria\n  \
                        tierwise daemon policy /etc/tierwise/own.toml")]
struct Policy {
    /// A policy's name (see `tierwise policies`), or the path of a recipe file.
    #[arg(value_name = "NAME")]
    recipe: OsString,
    #[command(flatten)]
    plain: Plain,
}

impl DaemonCommand {
    pub fn execute(&self) -> CommandResult {
        match &self.command {
            DaemonSubcommand::Pause(plain) => plain.send(&ControlCommand::Pause),
            DaemonSubcommand::Resume(plain) => plain.send(&ControlCommand::Resume),
            DaemonSubcommand::Reload(plain) => plain.send(&ControlCommand::Reload),
            DaemonSubcommand::Policy(policy) => policy.execute(),
            DaemonSubcommand::Tenant(tenant) => tenant.execute(),
            DaemonSubcommand::Report(report) => report.execute(),
            DaemonSubcommand::Snapshot { socket } => output::json(&socket.snapshot()?),
        }
    }
}

impl Plain {
    /// Sends a command and prints the changes.
    fn send(&self, command: &ControlCommand) -> CommandResult {
        let reply = self.socket.call(command)?;
        if self.json {
            return output::json(&reply);
        }
        let mut out = anstream::stdout().lock();
        if reply.changed.is_empty() {
            writeln!(out, "nothing changed")?;
        }
        for line in &reply.changed {
            writeln!(out, "{line}")?;
        }
        Ok(out.flush()?)
    }
}

impl Policy {
    fn execute(&self) -> CommandResult {
        // The daemon opens the file, from another directory.
        let recipe = match std::path::absolute(&self.recipe) {
            Ok(path) if is_file_name(&self.recipe) => path.into_os_string(),
            _ => self.recipe.clone(),
        };
        let recipe = recipe.into_string().map_err(|recipe| {
            Failure::User(format!(
                "{}: is not UTF-8, as the names in the daemon's configuration are; give the recipe \
                 another name, or link to it under one",
                recipe.display()
            ))
        })?;
        self.plain.send(&ControlCommand::Policy { recipe })
    }
}

/// Returns true for a recipe file, by the daemon's rule.
fn is_file_name(recipe: &OsStr) -> bool {
    let bytes = recipe.as_bytes();
    bytes.contains(&b'/') || bytes.ends_with(b".toml")
}
