//! `tierwise doctor`: reports what this kernel, this CPU and this configuration support. It writes
//! nothing.

mod check;
mod configuration;
mod label;
mod memory;
mod monitoring;
mod moving;
mod print;
mod system;
mod tenants;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tierwise_linux::roots::Roots;

use check::{HostCheck, Stops};

use crate::failure::{CommandResult, Failure};
use crate::output;
use crate::value::time;

/// Check what this kernel, this CPU and the configuration support, and how to get the rest.
///
/// The command changes nothing. Exit code 0 if tierwised could manage this machine's memory, 1 if
/// it could only observe, or not even that. Run it as root: the kernel hides much from other users.
#[derive(Debug, Args)]
#[command(
    after_help = "EXAMPLE\n  sudo tierwise doctor\n  sudo tierwise doctor --config new.toml --json"
)]
pub struct Doctor {
    /// The configuration; without one, /etc/tierwise/tierwised.toml if it exists, else the
    /// defaults.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON: one object with can and the list of checks.
    #[arg(long)]
    json: bool,
    /// Write the label tierwise.io/tiers of this node of Kubernetes into FILE instead, for
    /// node-feature-discovery; `-` prints it. The exit code is then 0 whatever this machine can do.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    nfd: Option<PathBuf>,
    /// Check again at this interval, and go on until SIGTERM.
    #[arg(long, value_name = "TIME", requires = "nfd", value_parser = time(label::EVERY))]
    every: Option<Duration>,
    /// Find the kernel's file systems under this directory: for tests on a tree of their own.
    #[arg(long, value_name = "DIR", hide = true)]
    root: Option<PathBuf>,
}

/// The place to check.
pub struct Ground {
    roots: Roots,
    /// True for this machine: for a tree of files, system calls would report another machine.
    live: bool,
}

/// All results in the form of `--json`. Keys stay.
#[derive(Debug, Serialize)]
pub struct DoctorReport {
    /// The abilities of tierwised here.
    pub can: Can,
    pub checks: Vec<HostCheck>,
}

/// The abilities of tierwised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Can {
    /// Monitor, decide and move.
    Manage,
    /// Monitor.
    Observe,
    /// Nothing.
    Nothing,
}

impl Doctor {
    pub fn execute(&self) -> CommandResult {
        if let Some(file) = &self.nfd {
            return label::write(|| self.examine(), file, self.every);
        }
        let report = self.examine();
        if self.json {
            output::json(&report)?;
        } else {
            print::print(&mut anstream::stdout().lock(), &report, output::width())?;
        }
        match report.can {
            Can::Manage => Ok(()),
            can => Err(Failure::Internal(print::verdict(can, &report.checks))),
        }
    }

    fn examine(&self) -> DoctorReport {
        let ground = Ground {
            roots: self.root.clone().map_or_else(Roots::default, Roots::under),
            live: self.root.is_none(),
        };
        let (mut checks, config) = configuration::read(self.config.as_deref());
        let config = config.unwrap_or_default();
        checks.extend(system::checks(&ground));
        let (more, host) = memory::checks(&ground, &config);
        checks.extend(more);
        checks.extend(monitoring::checks(&ground, &config));
        checks.extend(tenants::checks(&ground, &config));
        checks.extend(moving::checks(&ground, &config));
        checks.extend(configuration::fits(&config, host.as_ref()));
        checks.push(configuration::daemon(&config));
        let worst = checks.iter().map(|check| check.stops).max();
        let can = match worst.unwrap_or(Stops::Nothing) {
            Stops::Nothing => Can::Manage,
            Stops::Managing => Can::Observe,
            Stops::Everything => Can::Nothing,
        };
        DoctorReport { can, checks }
    }
}
