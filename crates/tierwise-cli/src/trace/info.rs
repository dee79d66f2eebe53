//! `tierwise trace info`: summarises each trace in a few lines.

use std::io::Write;
use std::path::{Path, PathBuf};

use anstyle::Style;
use clap::Args;
use serde::Serialize;
use tierwise_core::units::Bytes;
use tierwise_linux::bytes::shown;
use tierwise_trace::reader::TraceReader;
use tierwise_trace::summary::{TraceSummary, summarize};
use tierwise_trace::{Header, WindowSource};

use crate::failure::{CommandResult, Failure};
use crate::number::{counted, grouped};
use crate::output;
use crate::prose::{paragraph, printable};

/// Summarise traces: command, host, windows, pages, misses and phases.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise trace info traces/*.twt\n  \
                        tierwise trace info a.twt --json")]
pub struct Info {
    /// The traces.
    #[arg(required = true, value_name = "TRACE.twt")]
    traces: Vec<PathBuf>,
    /// Print JSON: a list with one object per trace.
    #[arg(long)]
    json: bool,
}

/// A trace in a few numbers.
#[derive(Debug, Serialize)]
pub struct Overview {
    file: String,
    file_bytes: u64,
    header: Header,
    windows: u64,
    instructions: u64,
    operations: u64,
    threads: usize,
    anon_bytes: u64,
    file_backed_bytes: u64,
    peak_resident_bytes: u64,
    loads: u64,
    stores: u64,
    misses: u64,
    misses_per_1000_instructions: f64,
    phases: Vec<Phase>,
}

#[derive(Debug, Serialize)]
struct Phase {
    name: String,
    first_window: u64,
}

impl Info {
    pub fn execute(&self) -> CommandResult {
        let overviews = self.traces.iter().map(|path| {
            let summary = read(path, 0)?;
            Overview::new(path, &summary)
        });
        let overviews = overviews.collect::<Result<Vec<_>, Failure>>()?;
        if self.json { output::json(&overviews) } else { overviews.iter().try_for_each(print) }
    }
}

/// Reads a whole trace and returns its numbers, with its `top` pages.
pub fn read(path: &Path, top: usize) -> Result<TraceSummary, Failure> {
    let mut reader = TraceReader::open(path)?;
    Ok(summarize(&mut reader as &mut dyn WindowSource, top)?)
}

impl Overview {
    pub fn new(path: &Path, summary: &TraceSummary) -> Result<Self, Failure> {
        let metadata = path.metadata();
        let size =
            metadata.map_err(|error| Failure::User(format!("{}: {error}", path.display())))?;
        let bytes = |pages: u64| pages * u64::from(summary.header.page_size);
        let misses = summary.load_misses + summary.store_misses;
        let instructions = summary.totals.instructions;
        let phase = |(first_window, name): &(u64, String)| Phase {
            name: name.clone(),
            first_window: *first_window,
        };
        Ok(Self {
            file: path.display().to_string(),
            file_bytes: size.len(),
            header: summary.header.clone(),
            windows: summary.totals.windows,
            instructions,
            operations: summary.operations,
            threads: summary.threads.len(),
            anon_bytes: bytes(summary.anon_pages),
            file_backed_bytes: bytes(summary.file_pages),
            peak_resident_bytes: bytes(summary.peak_resident_pages),
            loads: summary.loads,
            stores: summary.stores,
            misses,
            misses_per_1000_instructions: misses as f64 * 1000.0 / instructions.max(1) as f64,
            phases: summary.marks.iter().map(phase).collect(),
        })
    }
}

/// Prints an overview as aligned lines.
pub fn print(o: &Overview) -> CommandResult {
    let mut out = anstream::stdout().lock();
    let cache = &o.header.cache;
    let phases: Vec<String> =
        o.phases.iter().map(|p| format!("{} from window {}", p.name, p.first_window)).collect();
    writeln!(out, "{} ({})", printable(&o.file), Bytes(o.file_bytes))?;
    let mut line = |what: &str, value: String| {
        // The header and the marks come from the file: a terminal must not obey them.
        paragraph(
            &mut out,
            Style::new(),
            &format!("  {what:<14}"),
            &shown(value.as_bytes()).to_string(),
        )
    };
    line("command", o.header.command.join(" "))?;
    line("recorded on", o.header.host.clone())?;
    line(
        "windows",
        format!(
            "{} of {}",
            grouped(o.windows),
            counted(o.header.window_instructions, "instruction")
        ),
    )?;
    line(
        "instructions",
        format!("{} on {}", grouped(o.instructions), counted(o.threads as u64, "thread")),
    )?;
    if o.operations > 0 {
        line("operations", grouped(o.operations))?;
    }
    line(
        "memory",
        format!(
            "{} resident at most; {} anonymous and {} of files touched",
            Bytes(o.peak_resident_bytes),
            Bytes(o.anon_bytes),
            Bytes(o.file_backed_bytes)
        ),
    )?;
    line("accesses", format!("{} loads, {} stores", grouped(o.loads), grouped(o.stores)))?;
    line(
        "misses",
        format!(
            "{}, {:.2} in 1000 instructions ({} cache of {} ways)",
            grouped(o.misses),
            o.misses_per_1000_instructions,
            Bytes(cache.size_bytes),
            cache.ways
        ),
    )?;
    line("phases", if phases.is_empty() { "none".to_owned() } else { phases.join(", ") })?;
    Ok(out.flush()?)
}
