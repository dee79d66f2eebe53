//! `tierwise record-live`: records running processes as a trace, with DAMON.

mod header;
mod kept;
mod live;
mod project;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, Args};
use tierwise_core::units::Bytes;
use tierwise_linux::roots::Roots;
use tierwise_linux::tenant::TenantSelector;
use tierwise_trace::writer::WriterOptions;
use tierwised::config::Config;

use crate::failure::{CommandResult, Failure};
use crate::number::counted;
use crate::value::{PIDS, time, whole};

/// Record a trace of processes that run on this host, with DAMON, for `tierwise compare`.
///
/// The processes run on undisturbed. The trace is coarser than one of `tierwise record`: DAMON
/// detects which regions are accessed, but not how often, and neither caches nor writes. An access
/// of such a trace is one check by DAMON that found a page accessed, and counts as a miss. Compare
/// policies on it by FAST HITS. Needs root and a kernel with DAMON.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("processes").required(true).args(["cgroup", "pid"]),
    after_help = "EXAMPLE\n  \
                  sudo tierwise record-live -o shop.twt --cgroup shop.slice --duration 5min\n  \
                  tierwise trace info shop.twt"
)]
pub struct RecordLive {
    /// The trace to write.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The processes of a cgroup: its path, a unit's name, or a pattern.
    #[arg(long, value_name = "CGROUP")]
    cgroup: Option<String>,
    /// Processes by their ids.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = whole(PIDS))]
    pid: Vec<i32>,
    /// Duration; Ctrl-C ends it earlier, with a whole trace.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time(DURATION))]
    duration: Duration,
    /// Time that a window covers: DAMON's aggregation interval.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time(INTERVAL))]
    interval: Duration,
    /// Interval at which DAMON checks a page of each region; a window has at most INTERVAL /
    /// SAMPLING accesses to a page.
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = time(SAMPLING))]
    sampling: Duration,
    /// Max regions per process.
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 1000,
        value_parser = whole(10..=100_000_u32)
    )]
    regions: u32,
    /// Switch the kernel's own use of DAMON (damon_stat) off meanwhile, and on again at the end.
    #[arg(long)]
    release_damon: bool,
    /// The directory of the state files, from which `tierwise restore` restores the kernel after a
    /// killed recording.
    #[arg(long, value_name = "DIR", default_value_os_t = Config::default().state)]
    state: PathBuf,
    /// Replace an existing trace.
    #[arg(long)]
    force: bool,
}

/// A second to a week: a shorter recording has no window, and a longer one hardly fits a disk.
const DURATION: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(7 * 24 * 3600);

/// A tenth of a second to a minute, so that a window holds several of DAMON's checks and a
/// recording several windows.
const INTERVAL: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60);

/// A millisecond to a second: more checks cost the recorded processes time, fewer find nothing.
const SAMPLING: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(1);

/// Returns the files in which a recording records the settings that it changed and the kdamonds
/// that it took. They are not the daemon's files: both may run at the same time.
pub fn state_files(directory: &Path) -> (PathBuf, PathBuf) {
    (directory.join("record-live.json"), directory.join("record-live-damon.json"))
}

impl RecordLive {
    pub fn execute(&self) -> CommandResult {
        if self.sampling > self.interval {
            return Err(Failure::user(
                &"--sampling is longer than --interval; allowed: at most as long",
            ));
        }
        let roots = Roots::default();
        let selector = self.selector()?;
        let options = WriterOptions { overwrite: self.force, ..WriterOptions::default() };
        let totals = live::record(self, &roots, selector, options)?;
        crate::output::print_error_line(format_args!(
            "{}: {}, {} ({})",
            self.output.display(),
            counted(totals.windows, "window"),
            counted(totals.pages, "page"),
            Bytes(totals.pages * project::PAGE_SIZE)
        ));
        Ok(())
    }

    fn selector(&self) -> Result<TenantSelector, Failure> {
        match &self.cgroup {
            Some(cgroup) => {
                format!("cgroup:{cgroup}").parse().map_err(|error| Failure::user(&error))
            }
            None => Ok(TenantSelector::Pids(self.pid.clone())),
        }
    }

    /// Returns the processes' names for the trace's header.
    fn command(&self) -> Vec<String> {
        match &self.cgroup {
            Some(cgroup) => vec!["live".into(), format!("cgroup:{cgroup}")],
            None => vec!["live".into(), TenantSelector::Pids(self.pid.clone()).to_string()],
        }
    }
}
