//! A hardware sampler (PEBS on Intel, IBS on AMD): one in N accesses that miss the last-level
//! cache.
//!
//! The misses of a window form one stream in which all pages are interleaved. Sample j is at the
//! share `frac(offset + j * 0.618...)` of it: the golden-ratio sequence. It covers the stream
//! evenly for any number of samples, so that a page's expected number of samples is its misses
//! divided by N. It depends only on the seed.

use tierwise_core::observe::{Observation, Sample};

use crate::memory::Memory;
use crate::workload::Workload;

/// The golden ratio's fractional part, as a fraction of 2^64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// One workload's sampler.
#[derive(Debug)]
pub struct Sampler {
    /// Misses of the rows up to and including each.
    sums: Vec<u64>,
    /// Position of the next sample, as a fraction of 2^64 of the stream.
    position: u64,
    /// Samples due, below one.
    remainder: f64,
}

impl Sampler {
    /// Creates a sampler; the seed chooses the position of its first sample.
    pub fn new(seed: u64) -> Self {
        Self { sums: Vec::new(), position: seed, remainder: 0.0 }
    }

    /// Sums up the misses of a new window.
    pub fn open_window(&mut self, workload: &Workload) {
        self.sums.clear();
        let mut sum = 0;
        self.sums.extend(workload.window.accesses.iter().map(|a| {
            sum += u64::from(a.load_misses) + u64::from(a.store_misses);
            sum
        }));
    }

    /// Samples the misses after the share `from` of the window and not after `to`.
    pub fn report(
        &mut self,
        workload: &Workload,
        memory: &Memory,
        period: u32,
        from: f64,
        to: f64,
        observation: &mut Observation,
    ) {
        if self.sums.len() != workload.window.accesses.len() {
            // The policy started to sample in the middle of a window.
            self.open_window(workload);
        }
        let Some(&all) = self.sums.last().filter(|&&all| all > 0) else { return };
        let misses = all as f64 * f64::from(workload.windows.dilation()) * (to - from);
        self.remainder += misses / f64::from(period);
        while self.remainder >= 1.0 {
            self.remainder -= 1.0;
            self.position = self.position.wrapping_add(STEP);
            let miss = ((u128::from(self.position) * u128::from(all)) >> 64) as u64;
            let row = self.sums.partition_point(|&sum| sum <= miss);
            let access = &workload.window.accesses[row];
            let Some(page) = workload.page(access.page) else { continue };
            let Some(tier) = memory.frame(page).tier() else { continue };
            // The row's last misses are its stores.
            let write = self.sums[row] - miss <= u64::from(access.store_misses);
            observation.samples.push(Sample { page, tier, write });
        }
    }
}
