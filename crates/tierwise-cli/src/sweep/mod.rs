//! `tierwise sweep`: many simulations on local worker processes, each computed once.

mod pool;
mod process;
mod report;
mod worker;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;
use signal_hook::consts::SIGINT;
use signal_hook::low_level::emulate_default_handler;
use tierwise_sweep::{StoreError, SweepPlan, SweepStore, Unit};

use crate::failure::{CommandResult, Failure};
use crate::value::whole;
use pool::Stopped;
use report::Outputs;

pub use worker::SweepWorker;

/// Run every unit of a plan on local worker processes and write a table of the results.
///
/// A unit is a scenario, a recipe, parameters and a seed. Results are kept by a hash of all content
/// on which they depend: a sweep that was stopped goes on where it stopped, and no unit is computed
/// twice, also not by another plan with the same directory.
///
/// The plan is a TOML file (docs/sweeps.md). A worker that dies loses the unit that it ran, which
/// is tried once more.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  \
                        tierwise sweep sweeps/intervals.toml --jobs 2 --out results\n  \
                        tierwise sweep sweeps/intervals.toml --out intervals.parquet")]
pub struct Sweep {
    /// The plan.
    plan: PathBuf,
    /// Worker processes [default: one per CPU].
    // A worker is a process with traces in memory: no machine has more CPUs than the limit.
    #[arg(long, value_name = "NUMBER", value_parser = whole(1..=1024_usize))]
    jobs: Option<usize>,
    /// Directory for the results, or a file that ends in .parquet; its results are then kept in the
    /// directory FILE.kept beside it.
    #[arg(long, value_name = "DIRECTORY|FILE")]
    out: PathBuf,
    /// Count the units and those that are kept already, and run none.
    #[arg(long)]
    dry_run: bool,
}

impl Sweep {
    pub fn execute(&self) -> CommandResult {
        report::can_write()?;
        let plan = SweepPlan::read(&self.plan)?;
        let outputs = Outputs::of(&self.out, &plan.name)?;
        let wanted: HashSet<&str> = plan.units.iter().map(|unit| unit.key.as_str()).collect();
        let mut store =
            SweepStore::open(&outputs.kept, &wanted).map_err(|error| of_store(&error))?;
        let missing = missing(&plan.units, &store);
        let kept = wanted.len() - missing.len();
        if self.dry_run {
            return report::dry_run(wanted.len(), kept);
        }
        let stop = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGINT, Arc::clone(&stop))
            .map_err(|error| Failure::Internal(format!("Ctrl-C cannot be handled: {error}")))?;
        let jobs = self.jobs().min(missing.len());
        let start = Instant::now();
        let ran = pool::run(&missing, jobs, &stop, &mut store);
        store.sync().map_err(|error| of_store(&error))?;
        let stopped = match ran {
            Ok(()) => false,
            Err(Stopped::Asked) => true,
            Err(Stopped::Failed(failure)) => return Err(failure),
        };
        let rows = outputs.write(&plan.units, &store)?;
        let ran = report::Ran { units: &missing, kept, jobs, took: start.elapsed() };
        ran.print(&store, &outputs, rows, stopped)?;
        if stopped && stop.load(Ordering::Relaxed) {
            // The shell sees a command that Ctrl-C ended.
            let _ = emulate_default_handler(SIGINT);
        }
        Ok(())
    }

    fn jobs(&self) -> usize {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or(cpus)
    }
}

/// The units whose results the store lacks, each key once.
fn missing<'a>(units: &'a [Unit], store: &SweepStore) -> Vec<&'a Unit> {
    let mut seen = HashSet::new();
    let lacking = units.iter().filter(|unit| !store.has(&unit.key));
    lacking.filter(|unit| seen.insert(unit.key.as_str())).collect()
}

/// A directory that cannot be made is the user's mistake; a full disk is not.
pub fn of_store(error: &StoreError) -> Failure {
    match error.is_full_disk() {
        true => Failure::Internal(error.to_string()),
        false => Failure::user(error),
    }
}

/// Returns true if the path names a Parquet file.
fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix == "parquet")
}
