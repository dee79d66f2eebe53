//! Line accesses per second of the line models on one core, and the error of the page-level
//! approximation. `line_rate` prints one JSON object per line.

use std::path::Path;
use std::time::Instant;

use tierwise_sim::hardware::error::{Error, LineOrder, measure};
use tierwise_sim::hardware::{FlatMemory, Ratio, ServedBy, TwoLevelMemory, spread};
use tierwise_trace::reader::TraceReader;
use tierwise_trace::{Window, WindowSource};

/// Accesses of each measurement: some seconds at the measured rate.
const ACCESSES: u64 = 100_000_000;

/// Fast memory of 128 MiB, so that the tags, not their cache, are measured.
const FAST_PAGES: u32 = 32_768;

/// A memory of 16 MiB for the errors: the patterns repeat over it many times.
const SMALL_PAGES: u32 = 4096;

/// Accesses of a window, as in a recording: some milliseconds of a memory-bound program.
const WINDOW: usize = 200_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lines = u64::from(FAST_PAGES) * spread::LINES;
    let mut flat = FlatMemory::new(lines, Ratio::ONE, 12, 3)?;
    rate("flat", lines, |line| flat.read(line));
    let mut cache = TwoLevelMemory::new(lines, 2 * lines, 6, 2)?;
    rate("2lm", lines, |line| cache.read(line));
    for pattern in LineOrder::ALL {
        let lines = u64::from(SMALL_PAGES) * 2 * spread::LINES;
        let sequence = (0..ACCESSES / 5).map(|n| pattern.line(n, lines));
        print_error(pattern.name(), measure(sequence, SMALL_PAGES, WINDOW)?);
    }
    for trace in std::env::args().skip(1) {
        print_error(&trace, recorded(trace.as_ref())?);
    }
    Ok(())
}

fn rate(name: &str, lines: u64, mut read: impl FnMut(u64) -> ServedBy) {
    // A multiplicative sequence: as scattered as hashing, at no cost.
    let step = 0x9e37_79b9_7f4a_7c15u64;
    let started = Instant::now();
    let missed = (0..ACCESSES)
        .filter(|&n| {
            let line = (u128::from(n.wrapping_mul(step)) * u128::from(2 * lines)) >> 64;
            read(line as u64) == ServedBy::Slow
        })
        .count();
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{{\"model\":\"{name}\",\"accesses\":{ACCESSES},\"seconds\":{seconds:.3},\
         \"accesses_per_second\":{:.0},\"miss_ratio\":{:.4}}}",
        ACCESSES as f64 / seconds,
        missed as f64 / ACCESSES as f64
    );
}

/// A trace's misses by the rule of [`spread`], its pages scattered over frames by a hash.
fn recorded(trace: &Path) -> Result<Error, Box<dyn std::error::Error>> {
    let mut source = TraceReader::open(trace)?;
    let (mut window, mut lines, mut pages) = (Window::default(), Vec::new(), 0);
    let mut number = 0;
    while source.next_window(&mut window)? {
        pages = window.allocations.iter().map(|b| b.page + 1).fold(pages, u32::max);
        spread::lines(&window, number, &mut lines);
        number += 1;
    }
    let fast = pages.div_ceil(2).max(1);
    let frames = frames(fast * 2);
    let line = |a: &spread::LineAccess| {
        u64::from(frames[(a.line / spread::LINES) as usize]) * spread::LINES
            + a.line % spread::LINES
    };
    let each = (lines.len() as u64 / number.max(1)).max(1) as usize;
    Ok(measure(lines.iter().map(line), fast, each)?)
}

/// Returns the numbers below `count` in the order of a hash.
fn frames(count: u32) -> Vec<u32> {
    let mut frames: Vec<u32> = (0..count).collect();
    frames.sort_by_key(|&frame| {
        u64::from(frame).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    });
    frames
}

fn print_error(name: &str, error: Error) {
    println!(
        "{{\"accesses_of\":\"{name}\",\"accesses\":{},\"line_model\":{:.4},\
         \"page_model\":{:.4},\"points\":{:.2}}}",
        error.accesses,
        error.lines,
        error.pages,
        error.points()
    );
}
