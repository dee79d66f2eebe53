//! Traces from the output of other tools.
//!
//! Each tool has a file here. It reads its input as a stream, and passes what it finds to the
//! [`WindowBuilder`] that all formats share. docs/traces.md says what each format lacks, and how an
//! access of the trace is then to be understood.

mod champsim;
mod damo;
mod failure;
mod format;
mod lackey;
mod lines;
mod oracle_general;
mod perf;
mod ramulator;
mod records;
mod unpack;
mod windows;

use std::io::BufRead;
use std::path::Path;
use std::time::Duration;

pub use failure::{ImportError, ImportProblem};
pub use format::ImportFormat;
pub use unpack::unpacked;

use crate::format::Totals;
use crate::writer::{TraceWriter, WriterOptions, beside};
use crate::{CacheModel, Header, TraceError, Window};
use windows::WindowBuilder;

/// log2 of the bytes of a page: 4096, on every machine whose traces are read here.
pub(crate) const PAGE_SHIFT: u32 = 12;

/// Instructions between two accesses of a trace of memory accesses that counts none: ten misses per
/// thousand instructions, as of the recorded graph kernels (8 to 90) more than of the key-value
/// stores (2 to 3; traces/README.md).
pub const INSTRUCTIONS_PER_ACCESS: u64 = 100;

/// Options of an import. Each format uses those that apply to it.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportOptions {
    /// The command that was traced, for the header.
    pub command: Vec<String>,
    /// Instructions of a window, of formats without times.
    pub window_instructions: u64,
    /// The last-level cache to model, of formats that have every access of the program; its lines
    /// must divide a page of 4096 bytes. `None`: every access counts as a miss.
    pub llc: Option<CacheModel>,
    /// Duration of a window, of formats with times.
    pub interval: Duration,
    /// Instructions that stand for a nanosecond of the recording, of formats with times.
    pub instructions_per_ns: f64,
    /// Instructions that stand for an access, of memory traces without instructions.
    pub instructions_per_access: u64,
    /// Limit of the bytes of the distinct pages.
    pub max_memory: u64,
    /// Options of writing the trace.
    pub writer: WriterOptions,
}

/// What an import read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Totals of the trace.
    pub totals: Totals,
    /// Records that could not become accesses, by reason; each in words, for the user.
    pub skipped: Vec<String>,
}

/// The header of a trace from this format.
fn header(format: ImportFormat, name: &Path, options: &ImportOptions) -> Header {
    let window_instructions = match format.has_times() {
        true => windows::instructions(options.interval.as_nanos() as u64, options),
        false => options.window_instructions,
    };
    Header {
        command: options.command.clone(),
        host: format!("imported from {}, {}: {}", format.tool(), name.display(), format.access()),
        page_size: 1 << PAGE_SHIFT,
        window_instructions,
        cache: match format.has_every_access() {
            true => options.llc.unwrap_or(windows::NO_CACHE),
            false => windows::NO_CACHE,
        },
    }
}

/// Reads `input` to its end and writes the trace at `out`: beside it first, then renamed.
///
/// # Errors
/// A record is not of the format, no record is an event, the input cannot be read or names more
/// memory than allowed, or the trace cannot be written.
pub fn import(
    format: ImportFormat,
    input: impl BufRead,
    name: &Path,
    out: &Path,
    options: &ImportOptions,
) -> Result<Imported, ImportError> {
    let header = header(format, name, options);
    let mut failure = None;
    let written = beside(out, options.writer.overwrite, |file| {
        let buffered = std::io::BufWriter::new(file);
        let mut writer = TraceWriter::new(out, buffered, &header, options.writer)?;
        match windows(format, input, name, options, &mut |window| writer.push(window)) {
            Ok(skipped) => writer.finish().map(|(_, totals)| Imported { totals, skipped }),
            Err(error) => {
                failure = Some(error);
                // Any error keeps the file from its name; the caller gets the real error.
                Err(TraceError::io(out, std::io::ErrorKind::InvalidData.into()))
            }
        }
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(written?),
    }
}

/// Reads `input` to its end and passes each window to `push`. Returns what was skipped, in words.
pub(crate) fn windows(
    format: ImportFormat,
    mut input: impl BufRead,
    name: &Path,
    options: &ImportOptions,
    push: &mut dyn FnMut(&Window) -> Result<(), TraceError>,
) -> Result<Vec<String>, ImportError> {
    let mut windows = WindowBuilder::new(format, options, push)?;
    let read = match format {
        ImportFormat::Lackey => lackey::read(&mut input, &mut windows),
        ImportFormat::Champsim => champsim::read(&mut input, &mut windows),
        ImportFormat::Ramulator => ramulator::read_accesses(&mut input, &mut windows),
        ImportFormat::RamulatorCpu => ramulator::read_instructions(&mut input, &mut windows),
        ImportFormat::OracleGeneral => oracle_general::read(&mut input, &mut windows),
        ImportFormat::PerfScript => perf::read(&mut input, &mut windows),
        ImportFormat::Damo => damo::read(&mut input, &mut windows),
    };
    read.map_err(|problem| problem.of(format, name))?;
    windows.finish().map_err(|problem| problem.of(format, name))
}
