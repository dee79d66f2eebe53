//! The command line, here so that `tierwise man` can print its page.

use std::path::PathBuf;

use clap::Parser;

/// Share this host's tiered memory among its tenants.
///
/// Looks which pages are hot, decides who gets how much of the fast tier, and moves pages. Stop it
/// with SIGTERM, make it read its configuration again with SIGHUP; `tierwise status`, `top`,
/// `explain` and `daemon` speak to it.
#[derive(Debug, Parser)]
#[command(
    name = "tierwised",
    version,
    max_term_width = 100,
    after_help = "EXAMPLE\n  \
                  tierwised --config /etc/tierwise/tierwised.toml --dry-run\n\n\
                  Exit codes: 0 stopped, 1 the system failed, 2 the command or the configuration \
                  is wrong."
)]
pub struct Args {
    /// The configuration (`tierwise config example` prints one); without one,
    /// /etc/tierwise/tierwised.toml if it is there
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Decide and report, but move nothing and change nothing in the kernel
    #[arg(long)]
    pub dry_run: bool,
    /// Look for the kernel's file systems under this folder: for tests on a tree of their own
    #[arg(long, value_name = "DIR", hide = true)]
    pub root: Option<PathBuf>,
}
