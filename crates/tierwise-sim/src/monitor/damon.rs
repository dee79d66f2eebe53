//! Accesses as the live daemon knows them: by DAMON's checks on the addresses of each workload,
//! instead of exact reference bits and samples.
//!
//! A region is some pages wide, one of which is checked per sampling interval. The heat of a page
//! is the mean of its regions' counts, weighted by length, and a page gets as many samples as
//! checks, at least one if any check found it accessed (`world/projector.rs` of tierwise-linux).
//! Such a sample is a tick: it says that the page was used within a sampling interval, and not how
//! often. The workloads' misses by tier are those ticks too, and the instructions are unknown, as
//! they are to the daemon.
//!
//! Regions have the order that DAMON has them in when its tracepoint reports them: after the merge,
//! before the split (`kdamond_fn` in `mm/damon/core.c`). Addresses are the order of allocation.

use tierwise_core::observe::{DamonAttrs, Observation, Sample};
use tierwise_core::units::{PageId, TierId};

use super::regions::Regions;
use crate::hash::mix;
use crate::memory::Memory;
use crate::workload::Workload;

/// Maximum number of aggregation intervals that are computed at once. The regions have adapted to
/// accesses that do not change long before: each interval doubles their number, to a thousand.
const MAX_INTERVALS: u64 = 16;

/// The kdamonds, one for each workload.
#[derive(Debug)]
pub struct Damon {
    attrs: DamonAttrs,
    /// Base pages of a simulated page.
    frames: u32,
    workloads: Vec<Regions>,
    /// By simulated page of a workload: checks that found it accessed, weighted by length.
    heat: Vec<f64>,
    /// By workload and tier: ticks since the last reading.
    ticks: Vec<Vec<u64>>,
}

impl Damon {
    /// Starts without regions. A simulated page has `frames` base pages.
    pub fn new(attrs: DamonAttrs, workloads: usize, frames: u32, seed: u64) -> Self {
        let regions = |i: usize| Regions::new(mix(seed ^ i as u64), frames);
        Self {
            attrs,
            frames,
            workloads: (0..workloads).map(regions).collect(),
            heat: Vec::new(),
            ticks: vec![Vec::new(); workloads],
        }
    }

    /// Counts the accesses after the share `from` of a workload's window and not after `to`.
    pub fn note(&mut self, i: usize, workload: &Workload, from: f64, to: f64) {
        let is_mapped = |local| workload.page(local).map(|_| PageId(local));
        self.workloads[i].note(workload, from, to, is_mapped);
    }

    /// Ends the aggregation intervals that are over and reports the last of them. Returns the
    /// number of checks made; nothing if no interval is over.
    pub fn report(
        &mut self,
        now: u64,
        workloads: &[Workload],
        memory: &Memory,
        out: &mut Observation,
    ) -> Option<u64> {
        let mut made = None;
        for (i, workload) in workloads.iter().enumerate() {
            let intervals = self.workloads[i].intervals(now, &self.attrs);
            for left in (0..intervals.min(MAX_INTERVALS)).rev() {
                let regions = &mut self.workloads[i];
                regions.count(now, &self.attrs);
                let checks = regions.all().len() as u64 * u64::from(self.attrs.max_accesses());
                *made.get_or_insert(0) += checks;
                regions.merge(&self.attrs);
                if left == 0 {
                    regions.start(now);
                    self.project(i, workload, memory, out);
                }
                self.workloads[i].split(&self.attrs);
            }
        }
        out.samples_are_ticks = made.is_some();
        out.checks = if made.is_some() { self.attrs.max_accesses() } else { 0 };
        made
    }

    /// Adds the ticks of a workload's pages.
    fn project(&mut self, i: usize, workload: &Workload, memory: &Memory, out: &mut Observation) {
        self.heat.clear();
        for region in self.workloads[i].all() {
            let end = region.first.0 + region.pages;
            self.heat.resize(end.div_ceil(self.frames) as usize, 0.0);
            for page in region.first.0 / self.frames..end.div_ceil(self.frames) {
                let start = region.first.0.max(page * self.frames);
                let part = f64::from(end.min((page + 1) * self.frames) - start);
                let checks = f64::from(region.nr_accesses) * part / f64::from(self.frames);
                self.heat[page as usize] += checks;
            }
        }
        let ticks = &mut self.ticks[i];
        for (local, &heat) in self.heat.iter().enumerate() {
            let Some(page) = workload.page(local as u32).filter(|_| heat > 0.0) else { continue };
            let Some(tier) = memory.frame(page).tier() else { continue };
            out.referenced.set(page);
            let samples = heat.round().max(1.0) as u64;
            let sample = Sample { page, tier, write: false };
            out.samples.extend(std::iter::repeat_n(sample, samples as usize));
            ticks.resize(ticks.len().max(tier.index() + 1), 0);
            ticks[tier.index()] += samples;
        }
    }

    /// Takes a workload's ticks in a tier since this was last asked.
    pub fn take_ticks(&mut self, i: usize, tier: TierId) -> u64 {
        self.ticks[i].get_mut(tier.index()).map_or(0, std::mem::take)
    }
}
