//! The arguments that commands which run policies share.

use std::path::PathBuf;

use clap::Args;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::failure::Failure;
use crate::value::whole;

/// Seed, output and threads of a command that runs policies. A command replaces the help texts of
/// `json` and `html` where its output differs.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Random seed.
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = whole(0..=u64::MAX))]
    pub seed: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write a page with a plot, as one HTML file that needs nothing else.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub jobs: Jobs,
}

/// Seed and output of a command that reproduces a paper.
#[derive(Debug, Args)]
pub struct PaperArgs {
    /// Random seed.
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = whole(0..=u64::MAX))]
    pub seed: u64,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// The number of threads.
#[derive(Debug, Args)]
pub struct Jobs {
    /// Parallel runs [default: one per CPU].
    // A run is a thread: no machine has more CPUs than the limit, and each takes memory of its own.
    #[arg(long, value_name = "NUMBER", value_parser = whole(1..=1024_usize))]
    jobs: Option<usize>,
}

impl Jobs {
    /// Starts the threads.
    pub fn pool(&self) -> Result<ThreadPool, Failure> {
        ThreadPoolBuilder::new()
            // rayon starts one thread per CPU for zero.
            .num_threads(self.jobs.unwrap_or(0))
            .build()
            .map_err(|error| Failure::Internal(format!("threads cannot be started: {error}")))
    }
}
