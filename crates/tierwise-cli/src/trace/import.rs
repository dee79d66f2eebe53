//! `tierwise trace import`: makes a trace from another tool's recording.

use std::io::{BufRead, Read, stdin};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use tierwise_core::units::Bytes;
use tierwise_sim::machine::Machine;
use tierwise_trace::CacheModel;
use tierwise_trace::cache::{self, parse_geometry};
use tierwise_trace::import::{
    INSTRUCTIONS_PER_ACCESS, ImportError, ImportFormat, ImportOptions, import, unpacked,
};
use tierwise_trace::pipe;
use tierwise_trace::record::DEFAULT_WINDOW_INSTRUCTIONS;
use tierwise_trace::writer::WriterOptions;

use crate::failure::{CommandResult, Failure};
use crate::input::cannot_read;
use crate::number::counted;
use crate::value::{WINDOW, time, whole};

/// Make a trace from another tool's recording.
///
/// It reads the output of Valgrind's lackey, perf script, damo and DAMON's tracepoint, and the
/// traces of libCacheSim, ChampSim and Ramulator; docs/traces.md says how each is recorded, what it
/// lacks, and what an access of its trace means. A file whose name ends in gz, xz or zst is
/// unpacked.
#[derive(Debug, Args)]
#[command(
    after_help = "EXAMPLE\n  valgrind --tool=lackey --trace-mem=yes --log-file=ls.txt ls\n  \
                        tierwise trace import ls.txt ls.twt\n  \
                        tierwise trace import mcf.champsimtrace.xz mcf.twt"
)]
pub struct Import {
    /// The recording; "-" reads stdin.
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// The trace to write.
    #[arg(value_name = "TO.twt")]
    to: PathBuf,
    /// The format [default: by the name and the first lines].
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The traced command, for the trace's header.
    #[arg(long, value_name = "TEXT", default_value = "unknown")]
    command: String,
    /// Instructions of a window, of a recording without times.
    #[arg(long, value_name = "NUMBER", default_value_t = DEFAULT_WINDOW_INSTRUCTIONS,
          value_parser = whole(WINDOW))]
    window: u64,
    /// The last-level cache to model, of a recording of every access: size and ways; or none.
    #[arg(long, value_name = "SIZE/WAYS", default_value = "32MiB/16", value_parser = llc_or_none)]
    llc: Llc,
    /// Time that a window covers, of a recording with times.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time(INTERVAL))]
    interval: Duration,
    /// Instructions that stand for an access, of a memory trace of Ramulator.
    #[arg(long, value_name = "NUMBER", default_value_t = INSTRUCTIONS_PER_ACCESS,
          value_parser = whole(1..=1_000_000_u64))]
    instructions_per_access: u64,
    /// Limit of the recorded pages; the import takes up to 130 bytes for each.
    #[arg(long, value_name = "SIZE", default_value = "16GiB", value_parser = memory)]
    max_memory: Bytes,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
}

/// A millisecond to an hour: recordings of storage take days, of memory seconds.
const INTERVAL: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(3600);

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// `valgrind --tool=lackey --trace-mem=yes`.
    Lackey,
    /// `perf script -F pid,tid,time,period,event,addr,data_src`, after `perf mem record`.
    PerfScript,
    /// `damo record`, or DAMON's tracepoint as text.
    Damo,
    /// libCacheSim's oracleGeneral.
    OracleGeneral,
    /// ChampSim's instructions.
    Champsim,
    /// Ramulator's memory traces.
    Ramulator,
    /// Ramulator's CPU traces.
    RamulatorCpu,
}

impl From<Format> for ImportFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Lackey => Self::Lackey,
            Format::PerfScript => Self::PerfScript,
            Format::Damo => Self::Damo,
            Format::OracleGeneral => Self::OracleGeneral,
            Format::Champsim => Self::Champsim,
            Format::Ramulator => Self::Ramulator,
            Format::RamulatorCpu => Self::RamulatorCpu,
        }
    }
}

/// A cache such as 32MiB/16.
pub fn llc(text: &str) -> Result<CacheModel, cache::GeometryError> {
    parse_geometry(text)
}

/// A cache, or none; clap would take an `Option` for an argument that may be absent.
#[derive(Debug, Clone, Copy)]
struct Llc(Option<CacheModel>);

fn llc_or_none(text: &str) -> Result<Llc, cache::GeometryError> {
    match text {
        "none" => Ok(Llc(None)),
        text => llc(text).map(Some).map(Llc),
    }
}

fn memory(text: &str) -> Result<Bytes, String> {
    let bytes = Bytes::parse(text).ok().filter(|bytes| (1 << 20..=1 << 43).contains(&bytes.0));
    bytes.ok_or_else(|| "allowed: a size from 1MiB to 8TiB, for instance 64GiB".to_owned())
}

impl Import {
    pub fn execute(&self) -> CommandResult {
        let bar = ProgressBar::no_length();
        let mut input = self.open(&bar)?;
        let first = input.fill_buf().map_err(|error| cannot_read(&self.from, &error))?;
        let detected = || ImportFormat::detect(&self.from, first);
        let format = self.format.map_or_else(detected, ImportFormat::from);
        let imported =
            import(format, input, &self.from, &self.to, &self.options()).map_err(|error| {
                match error {
                    ImportError::Trace(error) => error.into(),
                    error => Failure::user(&error),
                }
            })?;
        bar.finish_and_clear();
        let totals = imported.totals;
        crate::output::print_error_line(format_args!(
            "{}: {}, {}, {}",
            self.to.display(),
            counted(totals.windows, "window"),
            counted(totals.instructions, "instruction"),
            counted(totals.pages, "page")
        ));
        if !imported.skipped.is_empty() {
            let skipped = imported.skipped.join(", ");
            crate::output::print_error_line(format_args!("skipped: {skipped}"));
        }
        let note = format.access();
        crate::output::print_error_line(format_args!("note: from {}: {note}", format.tool()));
        Ok(())
    }

    /// Opens the input, whose bytes move the bar.
    fn open(&self, bar: &ProgressBar) -> Result<Box<dyn BufRead>, Failure> {
        let refuse = |error| cannot_read(&self.from, &error);
        let packed: Box<dyn Read> = if self.from.as_os_str() == "-" {
            Box::new(stdin())
        } else {
            let file = pipe::open(&self.from).map_err(refuse)?;
            let length = file.metadata().map_or(0, |metadata| metadata.len());
            if length > 0 {
                bar.set_length(length);
            }
            Box::new(file)
        };
        let name: &Path = &self.from;
        unpacked(bar.wrap_read(packed), name).map_err(refuse)
    }

    fn options(&self) -> ImportOptions {
        ImportOptions {
            command: self.command.split_whitespace().map(str::to_owned).collect(),
            window_instructions: self.window,
            llc: self.llc.0,
            interval: self.interval,
            instructions_per_ns: 1.0 / Machine::DEFAULT_INSTRUCTION_NS,
            instructions_per_access: self.instructions_per_access,
            max_memory: self.max_memory.0,
            writer: WriterOptions { overwrite: self.force, ..WriterOptions::default() },
        }
    }
}
