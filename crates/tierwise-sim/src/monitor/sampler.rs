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
    /// For each of equal parts of the stream, a power of two of them, the row of its first miss.
    /// The first bits of a position are its part's number.
    parts: Vec<u32>,
    /// Position of the next sample, as a fraction of 2^64 of the stream.
    position: u64,
    /// Samples due, below one.
    remainder: f64,
}

impl Sampler {
    /// Creates a sampler; the seed chooses the position of its first sample.
    pub fn new(seed: u64) -> Self {
        Self { sums: Vec::new(), parts: Vec::new(), position: seed, remainder: 0.0 }
    }

    /// Sums up the misses of a new window.
    pub fn open_window(&mut self, workload: &Workload) {
        self.sums.clear();
        let mut sum = 0;
        self.sums.extend(workload.window.accesses.iter().map(|a| {
            sum += u64::from(a.load_misses) + u64::from(a.store_misses);
            sum
        }));
        self.divide(sum);
    }

    /// Finds the first row of each part of a stream of `all` misses: about one part for each row,
    /// so that few rows lie between a part's first and any other of its rows.
    fn divide(&mut self, all: u64) {
        self.parts.clear();
        let bits = self.sums.len().next_power_of_two().trailing_zeros();
        let mut row = 0;
        for part in 0..1_u128 << bits {
            let miss = ((part * u128::from(all)) >> bits) as u64;
            while self.sums.get(row).is_some_and(|&sum| sum <= miss) {
                row += 1;
            }
            self.parts.push(row as u32);
        }
    }

    /// The number of a miss of a stream of `all`, at a fraction of 2^64 of it, and its row.
    fn find(&self, position: u64, all: u64) -> (u64, usize) {
        let miss = ((u128::from(position) * u128::from(all)) >> 64) as u64;
        let part = ((u128::from(position) * self.parts.len() as u128) >> 64) as usize;
        let mut row = self.parts[part] as usize;
        while self.sums[row] <= miss {
            row += 1;
        }
        (miss, row)
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
            let (miss, row) = self.find(self.position, all);
            let access = &workload.window.accesses[row];
            let Some(page) = workload.page(access.page) else { continue };
            let Some(tier) = memory.frame(page).tier() else { continue };
            // The row's last misses are its stores.
            let write = self.sums[row] - miss <= u64::from(access.store_misses);
            observation.samples.push(Sample { page, tier, write });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_miss_is_found_in_its_row(
            misses in prop::collection::vec(prop_oneof![0..4_u64, 0..1_u64 << 40], 1..50),
            positions in prop::collection::vec(any::<u64>(), 20),
        ) {
            let mut sum = 0;
            let sums: Vec<u64> = misses.iter().map(|more| { sum += more; sum }).collect();
            prop_assume!(sum > 0);
            let mut sampler = Sampler { sums, ..Sampler::new(1) };
            sampler.divide(sum);
            for position in positions.into_iter().chain([0, u64::MAX]) {
                let (miss, row) = sampler.find(position, sum);
                prop_assert!(miss < sum);
                prop_assert_eq!(row, sampler.sums.partition_point(|&sum| sum <= miss));
            }
        }
    }
}
