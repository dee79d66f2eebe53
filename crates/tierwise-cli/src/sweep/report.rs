//! The tables that a sweep writes, and its last words.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tierwise_sweep::{SweepStore, Unit};

use super::is_parquet;
use crate::failure::{CommandResult, Failure};
use crate::number::counted;
use crate::output::NewFile;

/// Refuses to start if this program cannot write its tables.
pub fn can_write() -> CommandResult {
    #[cfg(not(feature = "parquet"))]
    return Err(Failure::without_parquet());
    #[cfg(feature = "parquet")]
    Ok(())
}

/// Where results go.
#[derive(Debug)]
pub struct Outputs {
    /// The directory of the logs.
    pub kept: PathBuf,
    /// The table of units.
    pub units: PathBuf,
    /// The table of tenants.
    pub tenants: PathBuf,
}

impl Outputs {
    /// The places for what `--out` names.
    pub fn of(out: &Path, plan: &str) -> Result<Self, Failure> {
        if is_parquet(out) {
            let mut kept = out.as_os_str().to_owned();
            kept.push(".kept");
            let tenants = out.with_extension("tenants.parquet");
            // A wrong path is refused before the work starts.
            drop(NewFile::create(out)?);
            return Ok(Self { kept: kept.into(), units: out.to_owned(), tenants });
        }
        if out.exists() && !out.is_dir() {
            return Err(Failure::User(format!(
                "{}: is no directory; name a directory, or a file that ends in .parquet",
                out.display()
            )));
        }
        let file = |suffix| out.join(format!("{plan}{suffix}"));
        let (units, tenants) = (file(".parquet"), file(".tenants.parquet"));
        Ok(Self { kept: out.join("kept"), units, tenants })
    }

    /// Writes both tables. Returns the rows of the first.
    #[cfg(feature = "parquet")]
    pub fn write(&self, units: &[Unit], store: &SweepStore) -> Result<usize, Failure> {
        let mut file = NewFile::create(&self.units)?;
        let rows = tierwise_sweep::rows::units(units, store, &mut file)?;
        file.finish()?;
        let mut file = NewFile::create(&self.tenants)?;
        tierwise_sweep::rows::tenants(units, store, &mut file)?;
        file.finish()?;
        Ok(rows)
    }
}

/// [`can_write`] has refused before.
#[cfg(not(feature = "parquet"))]
impl Outputs {
    pub fn write(&self, _: &[Unit], _: &SweepStore) -> Result<usize, Failure> {
        Err(Failure::without_parquet())
    }
}

/// A sweep that ended.
pub struct Ran<'a> {
    /// The units that were to be run.
    pub units: &'a [&'a Unit],
    /// The units that were kept before.
    pub kept: usize,
    /// Worker processes.
    pub jobs: usize,
    /// Real time.
    pub took: Duration,
}

impl Ran<'_> {
    /// Prints what was done, and where it is.
    pub fn print(
        &self,
        store: &SweepStore,
        outputs: &Outputs,
        rows: usize,
        stopped: bool,
    ) -> CommandResult {
        let records = || self.units.iter().filter_map(|unit| store.get(&unit.key));
        let done = records().count();
        let failed: Vec<&str> = records().filter_map(|r| r.outcome.reason()).collect();
        let mut out = anstream::stdout().lock();
        let (units, took) = (counted(done as u64, "unit"), self.took.as_secs_f64());
        write!(out, "{units} in {took:.1} s on {}", counted(self.jobs as u64, "worker"))?;
        // The workers' time is theirs from their start to their end.
        let simulated: f64 = records().map(|r| r.seconds).sum();
        if done > 0 && took > 0.0 {
            let share = 100.0 * simulated / (took * self.jobs as f64);
            write!(out, ", {share:.1} % of it simulation")?;
        }
        writeln!(out, "; {} kept from before", self.kept)?;
        if let Some(first) = failed.first() {
            let how_many = counted(failed.len() as u64, "unit");
            writeln!(out, "{how_many} failed, the first because: {first}")?;
        }
        if stopped {
            let left = self.units.len() - done;
            let left = counted(left as u64, "unit");
            writeln!(out, "stopped with {left} to go; the same command goes on from here")?;
        }
        let rows = counted(rows as u64, "row");
        writeln!(
            out,
            "{rows} in {}, tenants in {}",
            outputs.units.display(),
            outputs.tenants.display()
        )?;
        Ok(out.flush()?)
    }
}

/// Prints what a sweep would run.
pub fn dry_run(units: usize, kept: usize) -> CommandResult {
    let mut out = anstream::stdout().lock();
    let left = units - kept;
    writeln!(out, "{}: {kept} kept, {left} to run", counted(units as u64, "unit"))?;
    Ok(out.flush()?)
}
