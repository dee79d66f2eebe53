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
//! A base page whose bit is set is found accessed, however often it was. So a check that looks at
//! one of a simulated page's base pages finds those that its window touched, and each once in a
//! sampling interval.
//!
//! The daemon reads the regions at the end of a round, and takes them in the next one
//! (`world/monitor.rs` of tierwise-linux): they are as old as a round.
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

/// What the kdamonds did, for its cost.
#[derive(Debug, Default, Clone, Copy)]
pub struct DamonWork {
    /// Checks of one base page.
    pub checks: u64,
    /// Wake-ups, one for each sampling interval and kdamond.
    pub wakes: u64,
    /// Regions of all aggregations.
    pub regions: u64,
}

/// The kdamonds, one for each workload.
#[derive(Debug)]
pub struct Damon {
    attrs: DamonAttrs,
    /// Base pages of a simulated page.
    frames: u32,
    workloads: Vec<Regions>,
    /// By workload: the time up to which accesses are counted.
    noted: Vec<u64>,
    /// By workload, if it was read in the last round, and by simulated page: checks that found it
    /// accessed, weighted by length.
    read: Vec<Option<Vec<f64>>>,
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
            noted: vec![0; workloads],
            read: vec![None; workloads],
            ticks: vec![Vec::new(); workloads],
        }
    }

    /// Forgets all accesses and regions, and starts at this time.
    pub fn restart(&mut self, now: u64) {
        self.workloads.iter_mut().for_each(|regions| regions.restart(now));
        self.noted.fill(now);
        self.read.fill(None);
    }

    /// Counts the accesses of a share of a workload's window, which ends now.
    pub fn note(&mut self, i: usize, workload: &Workload, share: f64, now: u64) {
        let is_mapped = |local| workload.page(local).map(|_| PageId(local));
        let since = now.saturating_sub(std::mem::replace(&mut self.noted[i], now));
        let samplings = since as f64 / self.attrs.sampling.as_nanos().max(1) as f64;
        let touched = workload.windows.touched();
        self.workloads[i].note(workload, is_mapped, |row, access| {
            let accesses = workload.accesses(access) * share;
            // The base pages that the window touched, once in a sampling interval at most.
            let once = |&pages: &u16| f64::from(pages) * share.max(samplings);
            touched.get(row).map_or(accesses, |pages| accesses.min(once(pages)))
        });
    }

    /// Reports what the last round read, ends the aggregation intervals that are over, and reads
    /// the last of them. Returns the work of the kdamonds.
    pub fn report(
        &mut self,
        now: u64,
        workloads: &[Workload],
        memory: &Memory,
        out: &mut Observation,
    ) -> DamonWork {
        let mut work = DamonWork::default();
        out.bits_unread = true;
        for (i, workload) in workloads.iter().enumerate() {
            if let Some(heat) = self.read[i].take() {
                self.project(i, workload, memory, &heat, out);
                out.bits_unread = false;
            }
            let intervals = self.workloads[i].intervals(now, &self.attrs);
            for left in (0..intervals.min(MAX_INTERVALS)).rev() {
                let regions = &mut self.workloads[i];
                regions.count(now, &self.attrs);
                let all = regions.all().len() as u64;
                let wakes = u64::from(self.attrs.max_accesses());
                work.checks += all * wakes;
                work.wakes += wakes;
                work.regions += all;
                regions.merge(&self.attrs);
                if left == 0 {
                    regions.start(now);
                    self.read[i] = Some(self.heat(i));
                }
                self.workloads[i].split(&self.attrs);
            }
        }
        out.samples_are_ticks = !out.bits_unread;
        out.checks = if out.bits_unread { 0 } else { self.attrs.max_accesses() };
        work
    }

    /// By simulated page of a workload: checks that found it accessed, weighted by length.
    fn heat(&self, i: usize) -> Vec<f64> {
        let mut heat = Vec::new();
        for region in self.workloads[i].all() {
            let end = region.first.0 + region.pages;
            heat.resize(end.div_ceil(self.frames) as usize, 0.0);
            for page in region.first.0 / self.frames..end.div_ceil(self.frames) {
                let start = region.first.0.max(page * self.frames);
                let part = f64::from(end.min((page + 1) * self.frames) - start);
                let checks = f64::from(region.nr_accesses) * part / f64::from(self.frames);
                heat[page as usize] += checks;
            }
        }
        heat
    }

    /// Adds the ticks of a workload's pages.
    fn project(
        &mut self,
        i: usize,
        workload: &Workload,
        memory: &Memory,
        heat: &[f64],
        out: &mut Observation,
    ) {
        let ticks = &mut self.ticks[i];
        for (local, &heat) in heat.iter().enumerate() {
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
