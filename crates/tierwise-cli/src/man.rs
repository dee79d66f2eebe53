//! `tierwise man`: manual pages.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::cli::Cli;
use crate::failure::{Failure, Outcome};

/// Write the manual pages into a folder: one a subcommand, and that of `tierwised`.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise man ~/.local/share/man/man1")]
pub struct Man {
    /// The folder; it is made if it is not there.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Man {
    pub fn execute(&self) -> Outcome {
        let refuse = |error| Failure::User(format!("{}: {error}", self.folder.display()));
        std::fs::create_dir_all(&self.folder).map_err(refuse)?;
        let daemon = tierwised::args::Args::command();
        clap_mangen::generate_to(daemon, &self.folder).map_err(refuse)?;
        clap_mangen::generate_to(Cli::command(), &self.folder).map_err(refuse)
    }
}
