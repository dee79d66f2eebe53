//! Recordings that count samples instead of misses: those of `record-live`, and imports without a
//! cache. Alone they do not show how much a program waits for memory, so the plan says it.

use std::path::Path;

use tempfile::{Builder, TempDir};
use tierwise_sim::machine::Machine;
use tierwise_trace::reader::TraceReader;
use tierwise_trace::writer::{WriterOptions, write_trace};
use tierwise_trace::{Header, TraceError, Window, WindowSource};

use crate::failure::Failure;

/// A copy is read some hundred times and lives for minutes.
const COPY: WriterOptions = WriterOptions { level: 1, overwrite: false };

/// Returns a copy of a recording in which the program waits for memory for this share of its time
/// with everything fast; `None` if the plan names no share and the recording counts misses.
pub fn weighed(
    path: &Path,
    memory_bound: Option<f64>,
    fast_ns: f64,
) -> Result<Option<TempDir>, Failure> {
    let mut source = TraceReader::open(path)?;
    let Some(share) = memory_bound else {
        return match source.header().cache.size_bytes {
            0 => Err(counts_samples(path)),
            _ => Ok(None),
        };
    };
    let (instructions, misses) = totals(&mut source)?;
    if misses == 0.0 {
        return Err(Failure::User(format!(
            "{}: it has no access, so no share of its time can be memory_bound",
            path.display()
        )));
    }
    source.rewind()?;
    // Together they take as long as the recording's instructions.
    let waits_ns = share * instructions as f64 * Machine::DEFAULT_INSTRUCTION_NS;
    let mut copy = Weighed {
        source,
        per_instruction: 1.0 - share,
        per_miss: waits_ns / (misses * fast_ns),
        left: 0.0,
    };
    let directory = Builder::new().prefix("tierwise-plan-").tempdir()?;
    write_trace(&copied(&directory), &mut copy, COPY)?;
    Ok(Some(directory))
}

/// Returns the copy's file.
pub fn copied(directory: &TempDir) -> std::path::PathBuf {
    directory.path().join("weighed.twt")
}

fn counts_samples(path: &Path) -> Failure {
    Failure::User(format!(
        "{}: it counts samples of accesses, not misses, and does not show how much the program \
         waits for memory; write memory_bound, the share of its time, in its [[program]], or \
         --memory-bound for a trace of the command (perf stat -M tma_dram_bound measures it), or \
         record it with tierwise record",
        path.display()
    ))
}

/// Counts instructions and misses.
fn totals(source: &mut dyn WindowSource) -> Result<(u64, f64), TraceError> {
    let (mut instructions, mut misses) = (0, 0.0);
    let mut window = Window::default();
    while source.next_window(&mut window)? {
        instructions += window.instructions;
        let of = window.accesses.iter();
        misses += of.map(|a| f64::from(a.load_misses) + f64::from(a.store_misses)).sum::<f64>();
    }
    Ok((instructions, misses))
}

/// A source whose instructions and misses are multiplied.
struct Weighed<S> {
    source: S,
    per_instruction: f64,
    per_miss: f64,
    /// The part of a miss that the next access gets, so that rounding loses none.
    left: f64,
}

impl<S> Weighed<S> {
    fn misses(&mut self, count: u32) -> u32 {
        let exact = f64::from(count).mul_add(self.per_miss, self.left);
        let whole = exact.floor().clamp(0.0, f64::from(u32::MAX));
        self.left = if whole < f64::from(u32::MAX) { exact - whole } else { 0.0 };
        whole as u32
    }
}

impl<S: WindowSource> WindowSource for Weighed<S> {
    fn header(&self) -> &Header {
        self.source.header()
    }

    fn next_window(&mut self, window: &mut Window) -> Result<bool, TraceError> {
        if !self.source.next_window(window)? {
            return Ok(false);
        }
        let part = |count: u64, share: f64| (count as f64 * share).round() as u64;
        for share in &mut window.threads {
            share.instructions = part(share.instructions, self.per_instruction);
        }
        window.instructions = match window.threads.as_slice() {
            [] => part(window.instructions, self.per_instruction),
            threads => threads.iter().map(|share| share.instructions).sum(),
        };
        for access in &mut window.accesses {
            access.load_misses = self.misses(access.load_misses);
            access.store_misses = self.misses(access.store_misses);
            // What misses was executed.
            access.loads = access.loads.max(access.load_misses);
            access.stores = access.stores.max(access.store_misses);
        }
        Ok(true)
    }

    fn rewind(&mut self) -> Result<(), TraceError> {
        self.left = 0.0;
        self.source.rewind()
    }
}
