//! `tierwise completions`: completion scripts for shells.

use std::io::Write;

use clap::{Args, CommandFactory};

use crate::cli::Cli;
use crate::failure::Outcome;

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise completions bash > \
                        ~/.local/share/bash-completion/completions/tierwise")]
pub struct Completions {
    /// The shell.
    shell: clap_complete::Shell,
}

impl Completions {
    pub fn execute(&self) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "tierwise", &mut script);
        Ok(std::io::stdout().write_all(&script)?)
    }
}
