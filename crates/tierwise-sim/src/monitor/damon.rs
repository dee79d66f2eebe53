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
//! A base page whose bit is set is found accessed, however often it was. So a check looks at one of
//! the recorded pages that a simulated page stands for ([`crate::places`]), and finds it once in a
//! sampling interval: a touch counts for the part of an interval that has passed since the one
//! before.
//!
//! The daemon reads the regions at the end of a round, and takes them in the next one
//! (`world/monitor.rs` of tierwise-linux): they are as old as a round.
//!
//! Regions have the order that DAMON has them in when its tracepoint reports them: after the merge,
//! before the split (`kdamond_fn` in `mm/damon/core.c`). They cover the address space of a recorded
//! program (`address_space.rs`), or its pages where its addresses are not known.

use std::ops::Range;

use tierwise_core::observe::{DamonAttrs, Observation, Sample};
use tierwise_core::units::{PageId, TierId};

use super::address_space::AddressSpace;
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

/// The kdamond of one workload.
#[derive(Debug)]
struct Kdamond {
    /// Of places, or of offsets in the address space.
    regions: Regions,
    /// Places of a simulated page: the pieces of it that have accesses of their own.
    places: u32,
    /// The address space, if each base page's address is known.
    space: Option<AddressSpace>,
    /// By place: the time of its last touch.
    touched: Vec<f64>,
    /// The time up to which accesses are counted.
    noted: u64,
    /// If it was read in the last round, by simulated page: checks that found it accessed, weighted
    /// by length.
    read: Option<Vec<f64>>,
    /// By tier: ticks since the last reading.
    ticks: Vec<u64>,
}

/// The kdamonds, one for each workload.
#[derive(Debug)]
pub struct Damon {
    attrs: DamonAttrs,
    /// Base pages of a simulated page.
    frames: u32,
    kdamonds: Vec<Kdamond>,
}

impl Kdamond {
    /// Starts without regions. A simulated page has `frames` base pages.
    fn new(frames: u32, workload: &Workload, seed: u64) -> Self {
        let known = workload.windows.all_places();
        let recorded = known.map_or(1, |places| places.of_unit);
        // A power of two, as the number of base pages is, so that each place has as many.
        let places = 1 << recorded.clamp(1, frames).ilog2();
        let exact = known.filter(|known| known.of_unit == frames && !known.vpns.is_empty());
        Self {
            regions: Regions::new(seed, frames / places),
            places,
            space: exact.map(|known| AddressSpace::new(&known.vpns, seed)),
            touched: Vec::new(),
            noted: 0,
            read: None,
            ticks: Vec::new(),
        }
    }

    /// Counts the accesses of a share of a workload's window, which ends now.
    fn note(&mut self, workload: &Workload, share: f64, now: u64, attrs: &DamonAttrs) {
        let sampling = attrs.sampling.as_nanos().max(1) as f64;
        let since = now.saturating_sub(std::mem::replace(&mut self.noted, now)) as f64 / sampling;
        let recorded = workload.windows.all_places().map_or(1, |places| places.of_unit);
        for (row, access) in workload.window.accesses.iter().enumerate() {
            if workload.page(access.page).is_none() {
                continue;
            }
            let known = workload.windows.places().map_or(&[][..], |places| places.row(row));
            let accesses = workload.accesses(access) * share;
            let first = access.page * self.places;
            if known.is_empty() {
                for place in first..first + self.places {
                    let each = accesses / f64::from(self.places);
                    self.touch(place, each, now as f64 / sampling, since);
                }
            }
            for &place in known {
                let place = u64::from(place) * u64::from(self.places) / u64::from(recorded);
                let place = first + place as u32;
                let each = accesses / known.len() as f64;
                self.touch(place, each, now as f64 / sampling, since);
            }
        }
    }

    /// Counts accesses to a place, as checks find them: each of its base pages once in a sampling
    /// interval. `now` is in sampling intervals, and so is the time `since` the last count.
    fn touch(&mut self, place: u32, accesses: f64, now: f64, since: f64) {
        let index = place as usize;
        if index >= self.touched.len() {
            self.touched.resize(index + 1, f64::NEG_INFINITY);
        }
        let base_pages = f64::from(self.regions.frames());
        let intervals = (now - self.touched[index]).min(since.max(1.0));
        // Fewer accesses than base pages leave the others as they were.
        let part = (accesses / base_pages).min(1.0);
        self.touched[index] = match self.touched[index].is_finite() {
            true => self.touched[index] + (now - self.touched[index]) * part,
            false => now,
        };
        let offset = match &self.space {
            Some(space) => space.offset(place),
            None => Some(place),
        };
        if let Some(offset) = offset {
            self.regions.note(PageId(offset), accesses.min(base_pages * intervals));
        }
    }

    /// The ranges of base pages that the regions cover.
    fn ranges(&self, workload: &Workload) -> Vec<Range<u32>> {
        match &self.space {
            Some(space) => space.ranges(|place| workload.page(place / self.places).is_some()),
            None => std::iter::once(0..self.regions.base_pages()).collect(),
        }
    }

    /// By simulated page, of `frames` base pages: checks that found it accessed, weighted by
    /// length.
    fn heat(&self, frames: u32) -> Vec<f64> {
        let mut heat = Vec::new();
        let mut add = |first: u32, end: u32, nr_accesses: u32| {
            heat.resize(heat.len().max(end.div_ceil(frames) as usize), 0.0);
            for page in first / frames..end.div_ceil(frames) {
                let part = f64::from(end.min((page + 1) * frames) - first.max(page * frames));
                heat[page as usize] += f64::from(nr_accesses) * part / f64::from(frames);
            }
        };
        let all = self.regions.all();
        let Some(space) = &self.space else {
            all.iter().for_each(|r| add(r.first.0, r.first.0 + r.pages, r.nr_accesses));
            return heat;
        };
        let mut regions = all.iter().peekable();
        for (place, offset) in space.all() {
            while regions.next_if(|r| r.first.0 + r.pages <= offset).is_some() {}
            if let Some(region) = regions.peek().filter(|r| r.first.0 <= offset) {
                add(place, place + 1, region.nr_accesses);
            }
        }
        heat
    }
}

impl Damon {
    /// Starts without regions. A simulated page has `frames` base pages.
    pub fn new(attrs: DamonAttrs, frames: u32, workloads: &[Workload], seed: u64) -> Self {
        let kdamond = |(i, workload)| Kdamond::new(frames, workload, mix(seed ^ i as u64));
        let kdamonds = workloads.iter().enumerate().map(kdamond).collect();
        Self { attrs, frames, kdamonds }
    }

    /// Forgets all accesses and regions, and starts at this time.
    pub fn restart(&mut self, now: u64) {
        for kdamond in &mut self.kdamonds {
            kdamond.regions.restart(now);
            kdamond.touched.clear();
            kdamond.noted = now;
            kdamond.read = None;
        }
    }

    /// Counts the accesses of a share of a workload's window, which ends now.
    pub fn note(&mut self, i: usize, workload: &Workload, share: f64, now: u64) {
        self.kdamonds[i].note(workload, share, now, &self.attrs);
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
            if let Some(heat) = self.kdamonds[i].read.take() {
                self.project(i, workload, memory, &heat, out);
                out.bits_unread = false;
            }
            let intervals = self.kdamonds[i].regions.intervals(now, &self.attrs);
            for left in (0..intervals.min(MAX_INTERVALS)).rev() {
                let ranges = self.kdamonds[i].ranges(workload);
                let regions = &mut self.kdamonds[i].regions;
                regions.count(now, &self.attrs, &ranges);
                let all = regions.all().len() as u64;
                let wakes = u64::from(self.attrs.max_accesses());
                work.checks += all * wakes;
                work.wakes += wakes;
                work.regions += all;
                regions.merge(&self.attrs);
                if left == 0 {
                    regions.start(now);
                    self.kdamonds[i].read = Some(self.kdamonds[i].heat(self.frames));
                }
                self.kdamonds[i].regions.split(&self.attrs);
            }
        }
        out.samples_are_ticks = !out.bits_unread;
        out.checks = if out.bits_unread { 0 } else { self.attrs.max_accesses() };
        work
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
        let ticks = &mut self.kdamonds[i].ticks;
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
        self.kdamonds[i].ticks.get_mut(tier.index()).map_or(0, std::mem::take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touch_counts_once_in_a_sampling_interval() {
        let mut kdamond = Kdamond {
            regions: Regions::new(7, 1),
            places: 64,
            space: None,
            touched: Vec::new(),
            noted: 0,
            read: None,
            ticks: Vec::new(),
        };
        // Windows of a tenth of a sampling interval, for twenty of these. The first place has an
        // access in each window, the second in every twentieth.
        for window in 1..=200 {
            let now = f64::from(window) / 10.0;
            kdamond.touch(0, 1.0, now, 0.1);
            if window % 20 == 0 {
                kdamond.touch(1, 1.0, now, 0.1);
            }
        }
        assert!((kdamond.regions.noted(PageId(0)) - 20.9).abs() < 0.01, "the first touch is whole");
        assert!((kdamond.regions.noted(PageId(1)) - 10.0).abs() < 0.01);
        // A window of five intervals has five of its many accesses.
        kdamond.touch(2, 100.0, 25.0, 5.0);
        assert!((kdamond.regions.noted(PageId(2)) - 5.0).abs() < 0.01);
    }
}
