//! `tierwise simulate`: prints the course of one policy's run.

use std::io::{self, BufWriter, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tierwise_core::recipe::{Bound, Recipe};
use tierwise_sim::record::{MOVES_IN_ALL, MOVES_OF_A_PAGE, RunRecord};
use tierwise_sim::result::{PolicyResult, RunOutput, TimelinePoint};
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::Scenario;

use crate::bare_trace::TraceMachine;
use crate::failure::{CommandResult, Failure};
use crate::input;
use crate::number::counted;
use crate::output::NewFile;
use crate::progress::RunProgress;
use crate::run_file;
use crate::value::{time, whole};

/// Run one policy on a scenario and print its course, one point per interval of virtual time.
///
/// A point has the share of misses served by the fastest tier, the pages promoted and demoted since
/// the previous point, and for each tenant its throughput in instructions per second, its share and
/// its resident bytes by tier, fastest first.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  \
                  tierwise simulate scenarios/zipf.toml --policy tpp | head -1\n  \
                  tierwise simulate scenarios/zipf.toml --policy tpp --interval 250ms -o \
                  tpp.parquet --format parquet\n  \
                  tierwise simulate scenarios/zipf.toml --policy tpp --record-run run.json.zst > \
                  /dev/null")]
pub struct Simulate {
    /// The scenario; or a recorded trace, alone on a machine.
    #[arg(value_name = "SCENARIO|TRACE")]
    scenario: PathBuf,
    #[command(flatten)]
    machine: TraceMachine,
    /// The policy (see `tierwise policies`).
    #[arg(long, value_name = "NAME", required_unless_present = "recipe")]
    policy: Option<String>,
    /// A policy of your own, from a recipe file.
    #[arg(long, value_name = "FILE", conflicts_with = "policy")]
    recipe: Option<PathBuf>,
    /// Random seed.
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = whole(0..=u64::MAX))]
    seed: u64,
    /// Virtual time between two points, such as 1s or 250ms.
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = time(INTERVAL))]
    interval: Duration,
    /// The form of the points.
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    format: Format,
    /// Output file; stdout by default.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Record the decisions and moves, and their reasons, for `tierwise explain`: JSON, compressed
    /// if the name ends in .zst.
    #[arg(long, value_name = "FILE")]
    record_run: Option<PathBuf>,
    /// Check the simulator's own rules after every step; several times slower.
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One JSON object per line.
    Jsonl,
    /// Apache Parquet, one row per point and tenant; needs a file to write to.
    Parquet,
}

/// A millisecond to a day: the simulator's steps are no shorter, and one point is no course.
const INTERVAL: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(24 * 3600);

impl Simulate {
    pub fn execute(&self) -> CommandResult {
        let scenario = input::scenario_or_trace(&self.scenario, &self.machine)?;
        let recipe = match (&self.recipe, &self.policy) {
            (Some(path), _) => input::recipe(path, &scenario)?,
            (None, name) => input::policy(name.as_deref().unwrap_or_default())?,
        };
        if self.record_run.is_some() && recipe.bound() == Some(Bound::Oracle) {
            return Err(Failure::user(
                &"the oracle is computed, not run: it decides and moves nothing that \
                                       could be recorded; choose another policy",
            ));
        }
        let sink = self.sink()?;
        let run_file = self.record_run.as_deref().map(NewFile::create).transpose()?;
        let output = self
            .simulate(scenario, &recipe)
            .map_err(|failure| failure.of(&self.scenario.to_string_lossy()))?;
        if let (Some(record), Some(path), Some(file)) = (&output.record, &self.record_run, run_file)
        {
            run_file::write(record, path, file)?;
            print_left_out(record);
        }
        sink.write(&output.timeline)?;
        conclude(&output.result);
        Ok(())
    }

    fn sink(&self) -> Result<Sink, Failure> {
        match (self.format, self.output.as_deref()) {
            (Format::Jsonl, None) => Ok(Sink::Stdout),
            (Format::Jsonl, Some(path)) => Ok(Sink::JsonLines(NewFile::create(path)?)),
            #[cfg(feature = "parquet")]
            (Format::Parquet, Some(path)) => Ok(Sink::Parquet(NewFile::create(path)?)),
            #[cfg(not(feature = "parquet"))]
            (Format::Parquet, Some(_)) => Err(Failure::without_parquet()),
            (Format::Parquet, None) => {
                Err(Failure::user(&"--format parquet needs a file: add -o FILE.parquet"))
            }
        }
    }

    fn simulate(&self, scenario: Scenario, recipe: &Recipe) -> Result<RunOutput, Failure> {
        let progress = RunProgress::new(1);
        let mut job = progress.job(&scenario.name, recipe.name());
        let prepared = Prepared::load(scenario)?;
        let options = RunOptions {
            seed: self.seed,
            check: self.check,
            timeline: Some(self.interval),
            record: self.record_run.is_some(),
            ..RunOptions::default()
        };
        Ok(run(&prepared, recipe, &options, &mut |share| job.reached(share))?)
    }
}

/// Destination of the points.
enum Sink {
    Stdout,
    JsonLines(NewFile),
    #[cfg(feature = "parquet")]
    Parquet(NewFile),
}

impl Sink {
    fn write(self, timeline: &[TimelinePoint]) -> CommandResult {
        match self {
            Self::Stdout => json_lines(timeline, &mut io::stdout().lock()),
            Self::JsonLines(mut file) => {
                json_lines(timeline, &mut file)?;
                file.finish()
            }
            #[cfg(feature = "parquet")]
            Self::Parquet(mut file) => {
                parquet(timeline, &mut file)?;
                file.finish()
            }
        }
    }
}

fn json_lines(timeline: &[TimelinePoint], out: &mut dyn Write) -> CommandResult {
    let mut out = BufWriter::new(out);
    for point in timeline {
        serde_json::to_writer(&mut out, point)?;
        writeln!(out)?;
    }
    Ok(out.flush()?)
}

#[cfg(feature = "parquet")]
fn parquet(timeline: &[TimelinePoint], file: &mut NewFile) -> CommandResult {
    use tierwise_trace::export::parquet::{Cell, ColumnKind, ParquetTable};

    let tenants = || timeline.iter().flat_map(|point| &point.tenants);
    let tiers = tenants().map(|tenant| tenant.usage_bytes.len()).max().unwrap_or(0);
    let usage: Vec<String> = (0..tiers).map(|tier| format!("usage_bytes_tier{tier}")).collect();
    let mut columns = vec![
        ("time_seconds", ColumnKind::Real),
        ("fast_access_ratio", ColumnKind::Real),
        ("promotions", ColumnKind::Whole),
        ("demotions", ColumnKind::Whole),
        ("tenant", ColumnKind::Text),
        ("tenant_throughput", ColumnKind::Real),
        ("tenant_fast_access_ratio", ColumnKind::Real),
    ];
    columns.extend(usage.iter().map(|name| (name.as_str(), ColumnKind::Whole)));
    let mut table = ParquetTable::new(file, &columns)?;
    for point in timeline {
        for tenant in &point.tenants {
            let mut row = vec![
                Cell::Real(point.time_seconds),
                Cell::Real(point.fast_access_ratio),
                Cell::Whole(point.promotions),
                Cell::Whole(point.demotions),
                Cell::Text(&tenant.name),
                Cell::Real(tenant.throughput),
                Cell::Real(tenant.fast_access_ratio),
            ];
            let bytes = |tier| tenant.usage_bytes.get(tier).copied().unwrap_or(0);
            row.extend((0..tiers).map(|tier| Cell::Whole(bytes(tier))));
            table.row(&row)?;
        }
    }
    Ok(table.finish()?)
}

/// Reports the events for which the record had no space.
fn print_left_out(record: &RunRecord) {
    if record.moves_left_out > 0 {
        crate::output::print_error_line(format_args!(
            "only counted in the record: {}; it keeps the first {MOVES_OF_A_PAGE} of a page and \
             {MOVES_IN_ALL} in all",
            counted(record.moves_left_out, "move")
        ));
    }
}

/// Prints the end of the run as a line on stderr: stdout belongs to the points.
fn conclude(result: &PolicyResult) {
    crate::output::print_error_line(format_args!(
        "{}: slowdown {:.3} x, {:.1} % of misses served fast, {} promoted, {} demoted",
        result.policy,
        result.slowdown,
        result.fast_access_ratio * 100.0,
        counted(result.promotions, "page"),
        crate::number::grouped(result.demotions)
    ));
    for tenant in &result.tenants {
        if let Some(why) = &tenant.failure {
            crate::output::print_error_line(format_args!("{}: {why}", tenant.name));
        }
    }
}
