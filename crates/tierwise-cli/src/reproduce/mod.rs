//! `tierwise reproduce`: measures published figures again. One file per paper.

mod all;
mod claims;
mod cpu;
mod emt;
mod equilibria;
mod figure;
mod measurements;
mod memstrata;
mod memstrata_lending;
mod mtat;
mod multi_clock;
mod multi_clock_stores;
mod page;
mod part;
mod runs;
mod sheet;
mod spread;

use clap::{Args, Subcommand};

use crate::failure::CommandResult;

/// Measure a paper's figures again on the recorded programs, and report where and why they differ.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  \
                  tierwise reproduce multi-clock\n  \
                  tierwise reproduce mtat --services redis\n  \
                  tierwise reproduce equilibria --json\n  \
                  tierwise reproduce all --page docs/reproduction.md")]
pub struct Reproduce {
    #[command(subcommand)]
    paper: Paper,
}

#[derive(Debug, Subcommand)]
enum Paper {
    MultiClock(multi_clock::MultiClockCommand),
    Equilibria(equilibria::EquilibriaCommand),
    Mtat(mtat::MtatCommand),
    Memstrata(memstrata::MemstrataCommand),
    Emt(emt::EmtCommand),
    All(all::AllCommand),
}

impl Reproduce {
    pub fn execute(&self) -> CommandResult {
        match &self.paper {
            Paper::MultiClock(paper) => paper.execute(),
            Paper::Equilibria(paper) => paper.execute(),
            Paper::Mtat(paper) => paper.execute(),
            Paper::Memstrata(paper) => paper.execute(),
            Paper::Emt(paper) => paper.execute(),
            Paper::All(papers) => papers.execute(),
        }
    }
}
