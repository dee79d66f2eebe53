//! Bounds on the time that a window can take: everything fast, and the oracle.
//!
//! In each window the oracle keeps fast the pages whose misses gain most. It moves them at no cost
//! and shares nothing: each workload has the whole fast tier and idle latencies. Let C_k be the
//! capacity of tiers 0 to k together. Compared with all pages in the slowest tier, the time saved
//! is at most the sum over k of the gain of the best C_k base pages from tier k over tier k + 1:
//! every placement puts at most C_k base pages into tier k or a faster one. With two tiers the
//! hottest pages that fit attain the bound, up to the share of one page; with more tiers the bound
//! is never below any placement's gain.
//!
//! ```
//! use tierwise_sim::bound::{Bounds, WindowBound};
//! use tierwise_trace::{PageAccess, Window};
//!
//! let row = |page, load_misses| PageAccess {
//!     page, loads: load_misses, stores: 0, load_misses, store_misses: 0, supervised: 0, thread: 0,
//! };
//! let window = Window { accesses: vec![row(0, 10), row(1, 90)], ..Window::default() };
//! // One fast page of two; 100 ns against 300 ns; instructions cost nothing.
//! let bounds = Bounds { latencies: vec![(100.0, 100.0), (300.0, 300.0)], capacities: vec![1, 10],
//!                       instruction_ns: 0.0, overlap: 1.0 };
//! let bound: WindowBound = bounds.window(&window, |_| 1);
//! assert_eq!(bound.all_fast_ns, 10_000.0);
//! assert_eq!(bound.oracle_ns, 10.0 * 300.0 + 90.0 * 100.0);
//! assert_eq!((bound.oracle_fast_misses, bound.misses), (90.0, 100.0));
//! ```

use tierwise_trace::{PageAccess, Window};

use crate::machine::{Machine, TierModel};

/// The figures on which the bounds of a workload depend.
#[derive(Debug, Clone, PartialEq)]
pub struct Bounds {
    /// Idle load and store latency of each tier in nanoseconds, fastest first.
    pub latencies: Vec<(f64, f64)>,
    /// Capacity of each tier in base pages.
    pub capacities: Vec<u64>,
    /// CPU time of an instruction in nanoseconds.
    pub instruction_ns: f64,
    /// Misses that a thread keeps in flight.
    pub overlap: f64,
}

/// Bounds on one window, undilated, of all threads together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct WindowBound {
    /// Nanoseconds with all pages in the fastest tier, at idle latency.
    pub all_fast_ns: f64,
    /// Nanoseconds under the oracle.
    pub oracle_ns: f64,
    /// Misses that the fastest tier serves under the oracle.
    pub oracle_fast_misses: f64,
    /// All misses.
    pub misses: f64,
}

fn cost((load, store): (f64, f64), row: &PageAccess) -> f64 {
    f64::from(row.load_misses) * load + f64::from(row.store_misses) * store
}

impl Bounds {
    /// Returns the parameters for a machine and the misses that each thread keeps in flight.
    pub fn of(machine: &Machine, memory_level_parallelism: f64) -> Self {
        // Hardware places lines, and a page's hot lines may all be fast: there the bound is
        // everything fast.
        let all = machine.hardware.is_some();
        let pages = |t: &TierModel| t.capacity.in_pages(machine.page_size).0;
        Self {
            latencies: machine.tiers.iter().map(|t| (t.load_ns, t.store_ns)).collect(),
            capacities: machine
                .tiers
                .iter()
                .map(|t| if all { u64::MAX } else { pages(t) })
                .collect(),
            instruction_ns: machine.instruction_ns,
            overlap: memory_level_parallelism,
        }
    }

    /// Bounds one window. `frames` gives the base pages that a page of the trace spans.
    pub fn window(&self, window: &Window, frames: impl Fn(u32) -> u64) -> WindowBound {
        let last = self.latencies[self.latencies.len() - 1];
        let sum = |latency| window.accesses.iter().map(|row| cost(latency, row)).sum::<f64>();
        let misses = |row: &PageAccess| f64::from(row.load_misses) + f64::from(row.store_misses);
        let mut saved = 0.0;
        let mut fast_misses = 0.0;
        let mut capacity = 0;
        for (k, pair) in self.latencies.windows(2).enumerate() {
            capacity = u64::saturating_add(capacity, self.capacities[k]);
            let gain = |row: &PageAccess| (cost(pair[1], row) - cost(pair[0], row)).max(0.0);
            let taken = best(window, capacity, gain, &frames);
            saved +=
                taken.iter().map(|&(row, share)| gain(&window.accesses[row]) * share).sum::<f64>();
            if k == 0 {
                fast_misses =
                    taken.iter().map(|&(row, share)| misses(&window.accesses[row]) * share).sum();
            }
        }
        let cpu = window.instructions as f64 * self.instruction_ns;
        WindowBound {
            all_fast_ns: cpu + sum(self.latencies[0]) / self.overlap,
            oracle_ns: cpu + (sum(last) - saved) / self.overlap,
            oracle_fast_misses: if self.latencies.len() == 1 {
                window.accesses.iter().map(misses).sum()
            } else {
                fast_misses
            },
            misses: window.accesses.iter().map(misses).sum(),
        }
    }
}

/// Returns the rows with the greatest gain per base page that fit into `capacity`, with the share
/// of each that fits: all of it, except for the last.
fn best(
    window: &Window,
    capacity: u64,
    gain: impl Fn(&PageAccess) -> f64,
    frames: impl Fn(u32) -> u64,
) -> Vec<(usize, f64)> {
    let mut rows: Vec<(f64, usize, u64)> = window
        .accesses
        .iter()
        .enumerate()
        .map(|(i, row)| (gain(row), i, frames(row.page)))
        .map(|(gain, i, frames)| (gain / frames as f64, i, frames))
        .collect();
    let total: u64 = rows.iter().map(|&(_, _, frames)| frames).sum();
    if total > capacity {
        rows.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    }
    let mut left = capacity;
    let mut taken = Vec::new();
    for (_, row, frames) in rows {
        if left == 0 {
            break;
        }
        let share = (left as f64 / frames as f64).min(1.0);
        taken.push((row, share));
        left = left.saturating_sub(frames);
    }
    taken
}
