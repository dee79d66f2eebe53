//! Attribution of accesses to blocks: reference bits and samples by page.
//!
//! DAMON counts in how many of an aggregation interval's checks a page of a region had been
//! accessed. The hotness of a block is the mean of its regions' counts, weighted by length, and a
//! block gets as many samples as checks. A page that was reported as referenced counts as accessed
//! in ten checks, so that a block whose pages were all referenced is as hot as one that ten checks
//! found accessed.
//!
//! Hint faults say more of a slow block than DAMON does, which checks one page of a region
//! (`fault_evidence.rs`). Where there are some, DAMON's regions count for fast blocks only.
//!
//! Such a sample is not a last-level cache miss but a short time in which memory was used. Only the
//! order between pages has a meaning.

use std::time::Duration;

use tierwise_core::observe::{Observation, Sample, TenantReading};
use tierwise_core::units::{PageId, TenantId, TierId};

use super::blocks::Blocks;
use super::fault_evidence::FaultEvidence;
use super::last_readings::LastReadings;
use crate::monitor::{AccessReport, ProcessRange};

/// Checks that a referenced page counts for, if its source does not count checks.
const CHECKS: f64 = 10.0;

/// Maximum number of samples per observation: what the engine's estimators handle in about ten
/// milliseconds. With more accesses, all blocks' samples are scaled down by the same factor.
const MAX_SAMPLES: f64 = 200_000.0;

/// Attributes accesses to pages. Buffers are kept.
#[derive(Debug, Default)]
pub struct AccessProjector {
    /// Time of the monotonic clock at the observations' time 0.
    start: Duration,
    evidence: FaultEvidence,
    /// By page: checks that found it accessed, weighted by length.
    hotness: Vec<f64>,
    touched: Vec<PageId>,
    readings: LastReadings,
    /// Pages of processes that wait for their turn, with their checks.
    waiting: Vec<(PageId, f64)>,
    /// By tenant: samples in the fastest tier, and in all tiers, of the last report.
    served: Vec<(u64, u64)>,
}

impl AccessProjector {
    /// A projector for observations whose time 0 is this time of the monotonic clock.
    pub fn new(start: Duration) -> Self {
        Self { start, ..Self::default() }
    }

    /// Adds a report's accesses to the observation and to the tenants' misses by tier.
    pub fn project(
        &mut self,
        report: &AccessReport,
        blocks: &Blocks,
        tenants: &mut [TenantReading],
        out: &mut Observation,
    ) {
        self.evidence.add(report, blocks, self.start, out);
        self.add_faults(report, blocks);
        for region in &report.regions {
            let (start, end) = (region.region.start, region.region.end);
            let checks = f64::from(region.region.nr_accesses);
            let range = ProcessRange { process: region.process, start, end };
            self.add_range(blocks, range, checks, true);
        }
        report.referenced.iter().for_each(|&range| self.add_range(blocks, range, CHECKS, false));
        // A write is an access. Sources that report writes report nothing else.
        report.written.iter().for_each(|&range| self.add_range(blocks, range, CHECKS, false));
        for sample in &report.samples {
            if let Some(page) = blocks.page_at(sample.process, sample.address) {
                self.add(page, 1.0);
            }
        }
        let waiting = &mut self.waiting;
        self.readings.follow(report, blocks, &self.hotness, |page, checks| {
            waiting.push((page, checks));
        });
        while let Some((page, checks)) = self.waiting.pop() {
            self.add(page, checks);
        }
        // Only samples from the CPU are single loads and stores.
        out.samples_are_ticks = report.samples.is_empty();
        out.checks = report.max_accesses;
        self.hand_over(blocks, tenants, out);
        for range in &report.written {
            for &(_, page) in blocks.within(range.process, range.start, range.end) {
                out.written.set(page);
            }
        }
    }

    /// Adds the heat of slow blocks by their hint faults, whenever DAMON reports on their process:
    /// both then count for the same time.
    fn add_faults(&mut self, report: &AccessReport, blocks: &Blocks) {
        if report.check == Duration::ZERO {
            return;
        }
        for &process in &report.sampled {
            for &(_, page) in blocks.within(process, 0, u64::MAX) {
                let Some(block) = blocks.get(page) else { continue };
                if block.tier == TierId::FASTEST {
                    self.evidence.forget(page);
                } else if let Some(heat) = self.evidence.heat(page, block) {
                    let checks = (heat.checks * f64::from(report.max_accesses)).round();
                    if checks > 0.0 {
                        self.add(page, checks);
                    }
                }
            }
        }
    }

    /// Adds a range that was found accessed in `checks` checks. With `guessed`, blocks of which
    /// hint faults are known are left out.
    fn add_range(&mut self, blocks: &Blocks, range: ProcessRange, checks: f64, guessed: bool) {
        if checks <= 0.0 {
            return;
        }
        let size = blocks.size();
        for &(number, page) in blocks.within(range.process, range.start, range.end) {
            let known = |block| self.evidence.heat(page, block).is_some();
            if guessed && blocks.get(page).is_some_and(known) {
                continue;
            }
            let start = range.start.max(number * size);
            let end = range.end.min((number + 1) * size);
            self.add(page, checks * (end - start) as f64 / size as f64);
        }
    }

    fn add(&mut self, page: PageId, checks: f64) {
        if self.hotness.len() <= page.index() {
            self.hotness.resize(page.index() + 1, 0.0);
        }
        if self.hotness[page.index()] == 0.0 {
            self.touched.push(page);
        }
        self.hotness[page.index()] += checks;
    }

    fn hand_over(&mut self, blocks: &Blocks, tenants: &mut [TenantReading], out: &mut Observation) {
        let all: f64 = self.touched.iter().map(|page| self.hotness[page.index()]).sum();
        let scale = (MAX_SAMPLES / all.max(1.0)).min(1.0);
        if !self.touched.is_empty() {
            self.served.clear();
        }
        self.served.resize(tenants.len().max(self.served.len()), (0, 0));
        for page in self.touched.drain(..) {
            let checks = std::mem::take(&mut self.hotness[page.index()]);
            let Some(block) = blocks.get(page) else { continue };
            if self.evidence.heat(page, block).is_none_or(|heat| heat.referenced) {
                out.referenced.set(page);
            }
            // Every accessed page gets at least one sample: rounding down would make many pages of
            // low hotness cold.
            let samples = (checks * scale).round().max(1.0) as u64;
            let sample = Sample { page, tier: block.tier, write: false };
            out.samples.extend(std::iter::repeat_n(sample, samples as usize));
            let tenant = block.tenant.index();
            if let Some(reading) = tenants.get_mut(tenant) {
                let tier = block.tier.index();
                if reading.misses.len() <= tier {
                    reading.misses.resize(tier + 1, 0);
                }
                reading.misses[tier] += samples;
                let served = &mut self.served[tenant];
                served.0 += if block.tier == TierId::FASTEST { samples } else { 0 };
                served.1 += samples;
            }
        }
    }

    /// Part of a tenant's accesses in the last report that lay in the fastest tier, 0 to 1. `None`
    /// if no access was found.
    pub fn fast_access_ratio(&self, tenant: TenantId) -> Option<f64> {
        let &(fast, all) = self.served.get(tenant.index())?;
        (all > 0).then(|| fast as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damon::HostRegion;
    use crate::monitor::ProcessRegion;
    use crate::process::Process;
    use crate::process::resident::PAGE_SIZE;
    use crate::world::blocks::FoundBlock;

    const PROCESS: Process = Process { pid: 7, start_time: 1 };
    const SIZE: u64 = 1 << 21;

    fn blocks() -> Blocks {
        let mut blocks = Blocks::new(SIZE);
        let found = [0, 1, 2].map(|n| FoundBlock {
            number: n,
            tier: Some(TierId(u8::from(n == 2))),
            resident: (SIZE / PAGE_SIZE) as u32,
        });
        blocks.update(
            PROCESS,
            TenantId(0),
            &found,
            &mut Vec::new(),
            &mut Vec::new(),
            &mut Vec::new(),
        );
        blocks
    }

    fn region(start: u64, end: u64, nr_accesses: u32) -> ProcessRegion {
        let region = HostRegion { start, end, nr_accesses, age: 0 };
        ProcessRegion { process: PROCESS, region }
    }

    #[test]
    fn block_heat_combines_its_regions() {
        let (blocks, mut projector) = (blocks(), AccessProjector::default());
        let mut tenants = vec![TenantReading::default()];
        let mut out = Observation::default();
        // Block 0: half of it at 20 and half at 4 checks; block 1 is not accessed; block 2 at 8.
        let report = AccessReport {
            regions: vec![
                region(0, SIZE / 2, 20),
                region(SIZE / 2, SIZE, 4),
                region(SIZE, 2 * SIZE, 0),
                region(2 * SIZE, 4 * SIZE, 8),
            ],
            ..AccessReport::default()
        };
        projector.project(&report, &blocks, &mut tenants, &mut out);
        let count = |page| out.samples.iter().filter(|s| s.page == PageId(page)).count();
        assert_eq!((count(0), count(1), count(2)), (12, 0, 8));
        assert_eq!(tenants[0].misses, [12, 8]);
        assert_eq!(projector.fast_access_ratio(TenantId(0)), Some(0.6));
        let mut referenced = Vec::new();
        out.referenced.for_each(|page| referenced.push(page.0));
        assert_eq!(referenced, [0, 2]);
    }

    #[test]
    fn last_reading_counts_until_next_turn() {
        let (mut blocks, mut projector) = (blocks(), AccessProjector::default());
        let other = Process { pid: 8, start_time: 1 };
        let found = FoundBlock { number: 9, tier: Some(TierId(0)), resident: 512 };
        let (mut a, mut b, mut c) = (Vec::new(), Vec::new(), Vec::new());
        blocks.update(other, TenantId(1), &[found], &mut a, &mut b, &mut c);
        let mut turn = |sampled, regions, takes_turns, blocks: &Blocks| {
            let mut out = Observation::default();
            let report = AccessReport { sampled, regions, takes_turns, ..AccessReport::default() };
            projector.project(&report, blocks, &mut [], &mut out);
            let mut counts = [0; 4];
            out.samples.iter().for_each(|sample| counts[sample.page.index()] += 1);
            counts
        };
        let first = turn(vec![PROCESS], vec![region(0, SIZE, 12)], true, &blocks);
        assert_eq!(first, [12, 0, 0, 0]);
        let of_other = |checks| {
            let region = region(9 * SIZE, 10 * SIZE, checks);
            vec![ProcessRegion { process: other, ..region }]
        };
        assert_eq!(turn(vec![other], of_other(5), true, &blocks), [12, 0, 0, 5]);
        assert_eq!(turn(vec![], vec![], true, &blocks), [0; 4], "nothing new was read");
        let again = turn(vec![PROCESS], vec![region(SIZE, 2 * SIZE, 3)], true, &blocks);
        assert_eq!(again, [0, 3, 0, 5]);
        blocks.leave(PROCESS, &mut Vec::new());
        assert_eq!(turn(vec![other], of_other(2), true, &blocks), [0, 0, 0, 2]);
        assert_eq!(turn(vec![], vec![], false, &blocks), [0; 4], "no process waits for a turn");
    }

    #[test]
    fn what_was_written_was_accessed() {
        let (blocks, mut projector) = (blocks(), AccessProjector::default());
        let mut out = Observation::default();
        let written = vec![ProcessRange { process: PROCESS, start: SIZE, end: 2 * SIZE }];
        projector.project(
            &AccessReport { written, ..AccessReport::default() },
            &blocks,
            &mut [],
            &mut out,
        );
        let mut pages = (Vec::new(), Vec::new());
        out.referenced.for_each(|page| pages.0.push(page.0));
        out.written.for_each(|page| pages.1.push(page.0));
        assert_eq!(pages, (vec![1], vec![1]));
        assert_eq!(out.samples.len(), CHECKS as usize);
    }

    #[test]
    fn small_amounts_count_large_ones_scale() {
        let (blocks, mut projector) = (blocks(), AccessProjector::default());
        let mut out = Observation::default();
        let report = AccessReport { regions: vec![region(0, 4096, 1)], ..AccessReport::default() };
        projector.project(&report, &blocks, &mut [], &mut out);
        assert_eq!(out.samples.len(), 1);
        out.clear();
        let report = AccessReport {
            regions: vec![region(0, 2 * SIZE, 1_000_000)],
            ..AccessReport::default()
        };
        projector.project(&report, &blocks, &mut [], &mut out);
        assert_eq!(out.samples.len(), MAX_SAMPLES as usize);
    }
}
