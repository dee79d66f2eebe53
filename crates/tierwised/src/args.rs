//! The command line, here so that `tierwise man` can print its page.

use std::path::PathBuf;

use clap::Parser;

/// Share this host's tiered memory among its tenants.
///
/// Monitors memory accesses, decides how much of the fast tier each tenant gets, and moves pages.
/// SIGTERM stops it; SIGHUP makes it read its configuration again. `tierwise status`, `top`,
/// `explain` and `daemon` talk to it.
#[derive(Debug, Parser)]
#[command(
    name = "tierwised",
    version,
    max_term_width = 100,
    after_help = "EXAMPLE\n  tierwised --config /etc/tierwise/tierwised.toml --dry-run\n\nExit \
                  codes: 0 stopped, 1 the system failed, 2 the command or the configuration is \
                  wrong."
)]
pub struct Args {
    /// The configuration (`tierwise config example` prints one); without one,
    /// /etc/tierwise/tierwised.toml if it is there
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Decide and report, but move nothing and change nothing in the kernel
    #[arg(long)]
    pub dry_run: bool,
    /// Directory under which the kernel's file systems are read: for tests on a tree of their own
    #[arg(long, value_name = "DIR", hide = true)]
    pub root: Option<PathBuf>,
}
