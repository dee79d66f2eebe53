//! Makes the load phase of a trace coarser: `coarsen-load TRACE WINDOWS`.
//!
//! A program's start and loading can take more windows than its run phase, and a simulation needs
//! only the order in which they touch pages. Windows before the mark `run` are merged evenly into
//! about WINDOWS; those after it stay as they are. The file is replaced.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tierwise_trace::cut::Merge;
use tierwise_trace::reader::TraceReader;
use tierwise_trace::writer::{WriterOptions, write_trace};
use tierwise_trace::{Header, TraceError, Window, WindowSource};

/// zstd's highest ordinary level, because the traces are written once and downloaded often.
const LEVEL: i32 = 19;

/// The windows of a source before the mark `run`, or from it on.
struct Phase<S> {
    source: S,
    is_run: bool,
    reached_run: bool,
}

impl<S: WindowSource> WindowSource for Phase<S> {
    fn header(&self) -> &Header {
        self.source.header()
    }

    fn next_window(&mut self, window: &mut Window) -> Result<bool, TraceError> {
        while (self.is_run || !self.reached_run) && self.source.next_window(window)? {
            self.reached_run |= window.marks.iter().any(|mark| mark == "run");
            if self.is_run == self.reached_run {
                return Ok(true);
            }
        }
        window.clear();
        Ok(false)
    }

    fn rewind(&mut self) -> Result<(), TraceError> {
        self.reached_run = false;
        self.source.rewind()
    }
}

/// A coarse load phase, followed by the unchanged run phase.
struct Coarsened<L, R> {
    load: L,
    run: R,
}

impl<L: WindowSource, R: WindowSource> WindowSource for Coarsened<L, R> {
    fn header(&self) -> &Header {
        self.run.header()
    }

    fn next_window(&mut self, window: &mut Window) -> Result<bool, TraceError> {
        Ok(self.load.next_window(window)? || self.run.next_window(window)?)
    }

    fn rewind(&mut self) -> Result<(), TraceError> {
        self.load.rewind()?;
        self.run.rewind()
    }
}

fn phase(path: &Path, is_run: bool) -> Result<Phase<impl WindowSource>> {
    Ok(Phase { source: TraceReader::open(path)?, is_run, reached_run: false })
}

/// Returns the number of windows to merge, so that `windows` are left of the trace's load phase.
fn merge_factor(path: &Path, windows: u64) -> Result<u64> {
    let mut load = phase(path, false)?;
    let mut window = Window::default();
    let mut found: u64 = 0;
    while load.next_window(&mut window)? {
        found += 1;
    }
    Ok(found.div_ceil(windows.max(1)))
}

fn coarsen(path: &Path, windows: u64) -> Result<()> {
    let load = Merge::new(phase(path, false)?, merge_factor(path, windows)?);
    let mut coarsened = Coarsened { load, run: phase(path, true)? };
    write_trace(path, &mut coarsened, WriterOptions { level: LEVEL, overwrite: true })?;
    Ok(())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let usage = "usage: coarsen-load TRACE WINDOWS";
    let path = PathBuf::from(arguments.next().context(usage)?);
    let windows = arguments.next().and_then(|word| word.to_str()?.parse().ok()).context(usage)?;
    coarsen(&path, windows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierwise_trace::generate::{GeneratorSpec, build};

    /// Writes a trace of 1000 pages, 100 per window: ten load windows, then four of the run phase.
    fn write_generated(path: &Path) {
        let spec = GeneratorSpec {
            footprint_pages: 1000,
            accesses_per_window: 100,
            windows: Some(4),
            ..GeneratorSpec::default()
        };
        let mut source = build("zipf", &spec).unwrap();
        write_trace(path, source.as_mut(), WriterOptions::default()).unwrap();
    }

    fn windows(path: &Path) -> Vec<Window> {
        let mut reader = TraceReader::open(path).unwrap();
        let (mut all, mut window) = (Vec::new(), Window::default());
        while reader.next_window(&mut window).unwrap() {
            all.push(window.clone());
        }
        all
    }

    #[test]
    fn load_phase_shrinks_run_phase_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("zipf.twt");
        write_generated(&path);
        let before = windows(&path);
        assert_eq!(before.len(), 14);
        coarsen(&path, 3).unwrap();
        let after = windows(&path);
        assert_eq!(after.len(), 3 + 4);
        assert_eq!(after[3..], before[10..]);
        assert_eq!(after[0].marks, ["load"]);
        let allocated: Vec<usize> = after.iter().map(|window| window.allocations.len()).collect();
        assert_eq!(allocated, [400, 400, 200, 0, 0, 0, 0]);
    }
}
