//! Error of the page-level approximation against the line model, on accesses that are known line by
//! line.
//!
//! The line model uses every access. The page model uses what a trace reports: how often each page
//! was accessed in each window. Both start with the same memory.

use super::spread::LINES;
use super::{FlatMemory, HardwareError, PageModel, Ratio, ServedBy};
use crate::hash::mix;

/// A memory's misses by both models, as shares of the accesses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Error {
    /// Accesses in the sequence.
    pub accesses: u64,
    /// Misses by the line model.
    pub lines: f64,
    /// Misses by the page model.
    pub pages: f64,
}

impl Error {
    /// Returns the page model's excess, in percentage points.
    pub fn points(&self) -> f64 {
        (self.pages - self.lines) * 100.0
    }
}

/// Runs one sequence of lines through both models of a 1:1 memory with a number of fast pages, in
/// windows of a number of accesses.
///
/// # Errors
/// The memory has no pages.
pub fn measure(
    lines: impl Iterator<Item = u64>,
    fast_pages: u32,
    window: usize,
) -> Result<Error, HardwareError> {
    let mut exact = FlatMemory::new(u64::from(fast_pages) * LINES, Ratio::ONE, 12, 3)?;
    let mut model = PageModel::flat(fast_pages, Ratio::ONE.ways());
    let mut counts = vec![0u32; model.frames() as usize];
    let (mut accesses, mut missed, mut expected) = (0u64, 0u64, 0.0);
    let mut lines = lines.peekable();
    while lines.peek().is_some() {
        for line in lines.by_ref().take(window.max(1)) {
            accesses += 1;
            missed += u64::from(exact.read(line) == ServedBy::Slow);
            counts[(line / LINES) as usize] += 1;
        }
        let touched = counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        let touched: Vec<(u32, f64)> = touched.map(|(i, &n)| (i as u32, f64::from(n))).collect();
        expected += model.window(&touched);
        counts.fill(0);
    }
    let all = accesses.max(1) as f64;
    Ok(Error { accesses, lines: missed as f64 / all, pages: expected / all })
}

/// An access pattern whose order is known line by line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineOrder {
    /// Every line alike, independent of the last.
    Uniform,
    /// A tenth of the pages gets nine tenths of the accesses.
    Skewed,
    /// Records of 16 lines (1 KiB) at random places, read from end to end: a key-value store.
    Records,
    /// Over all lines from the first to the last, repeatedly: the worst case.
    Scan,
    /// One page after the other, each eight times before the next: a program with phases.
    Bursts,
    /// The lower and the upper half alternately, each pair of lines twice, as a loop over two
    /// arrays does.
    InStep,
}

impl LineOrder {
    /// Every pattern, from the one that suits the approximation best to the one that suits it
    /// least.
    pub const ALL: [Self; 6] =
        [Self::Uniform, Self::Skewed, Self::Records, Self::Scan, Self::Bursts, Self::InStep];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Skewed => "skewed",
            Self::Records => "records",
            Self::Scan => "scan",
            Self::Bursts => "bursts",
            Self::InStep => "in step",
        }
    }

    /// The `n`-th line accessed in a memory of `lines` lines.
    pub fn line(self, n: u64, lines: u64) -> u64 {
        match self {
            Self::Uniform => mix(n) % lines,
            Self::Skewed => {
                let (place, page) = (mix(n), mix(n ^ 1 << 63));
                // A tenth of the pages, scattered: the pages whose number is a multiple of ten.
                let pages = lines / LINES;
                let page = page % pages;
                let page = if place % 10 < 9 { page / 10 * 10 } else { page };
                page * LINES + (place >> 32) % LINES
            }
            Self::Records => (mix(n / 16) % (lines / 16)) * 16 + n % 16,
            Self::Scan => n % lines,
            Self::Bursts => n / (8 * LINES) * LINES % lines + n % LINES,
            Self::InStep => (n / 4 + n % 2 * (lines / 2)) % lines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: LineOrder, window: usize) -> Error {
        let (fast, accesses) = (64, 400_000);
        let lines = u64::from(fast) * 2 * LINES;
        measure((0..accesses).map(|n| pattern.line(n, lines)), fast, window).unwrap()
    }

    #[test]
    fn independent_accesses_are_what_the_approximation_assumes() {
        for pattern in [LineOrder::Uniform, LineOrder::Skewed] {
            let error = of(pattern, 50_000);
            assert!(error.points().abs() < 0.5, "{pattern:?}: {error:?}");
        }
    }

    #[test]
    fn scan_and_lockstep_arrays_exceed_the_model() {
        // By hand: every line of a scan was displaced by its neighbour half a round ago, except the
        // 4,096 lines that are in fast memory at the start.
        let scan = of(LineOrder::Scan, 1000);
        assert_eq!(scan.lines, 395_904.0 / 400_000.0);
        assert!(scan.pages < scan.lines, "{scan:?}");
        // Two lines are accessed alternately, twice: the first access finds its line from the
        // previous round, and the other three miss.
        let in_step = of(LineOrder::InStep, 50_000);
        assert!((in_step.lines - 0.75).abs() < 1e-9 && in_step.points() < -20.0, "{in_step:?}");
    }

    #[test]
    fn long_bursts_beat_the_model() {
        // By hand: 782 pages were started, of which the first 64 are in fast memory; of each other
        // 64 accesses miss.
        let bursts = of(LineOrder::Bursts, 50_000);
        assert_eq!(bursts.lines, 718.0 * 64.0 / 400_000.0);
        assert!(bursts.points() > 20.0, "{bursts:?}");
        // With windows as long as a burst it is nearly exact.
        let short = of(LineOrder::Bursts, 512);
        assert!(short.points().abs() < 1.0, "{short:?}");
    }
}
