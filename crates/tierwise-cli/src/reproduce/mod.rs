//! `tierwise reproduce`: published figures measured again. One file a paper.

mod figure;
mod multi_clock;

use clap::{Args, Subcommand};

use crate::failure::Outcome;

/// Measure a paper's figures again on the recorded programs, and say where and why they differ.
#[derive(Debug, Args)]
#[command(
    after_help = "EXAMPLE\n  tierwise reproduce multi-clock\n  tierwise reproduce multi-clock --json"
)]
pub struct Reproduce {
    #[command(subcommand)]
    paper: Paper,
}

#[derive(Debug, Subcommand)]
enum Paper {
    MultiClock(multi_clock::MultiClock),
}

impl Reproduce {
    pub fn execute(&self) -> Outcome {
        match &self.paper {
            Paper::MultiClock(paper) => paper.execute(),
        }
    }
}
