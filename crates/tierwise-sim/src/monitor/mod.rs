//! Access monitoring: what software samples of a workload, computed from the windows on request.
//!
//! One file per access monitoring source: [reference](mod@reference) bits, [`hint_fault`]s, the
//! hardware [`sampler`], DAMON-like [`regions`], and [`damon`], which stands for bits and samples
//! as it does live. The costs are in [`crate::costs`]; the host charges them.

mod address_space;
pub mod damon;
pub mod hint_fault;
pub mod reference;
pub mod regions;
pub mod sampler;

use tierwise_core::observe::{DamonAttrs, ObjectHotness, Observation, PageCount, Signals};
use tierwise_core::units::{PageId, TierId};
use tierwise_trace::{Allocation, PageBacking};

use crate::hash::mix;
use crate::memory::Memory;
use crate::workload::Workload;

use damon::{Damon, DamonWork};
use hint_fault::HintFaults;
use regions::Regions;
use sampler::Sampler;

/// The state of all access monitoring sources.
#[derive(Debug)]
pub struct Monitors {
    faults: Vec<HintFaults>,
    samplers: Vec<Sampler>,
    /// Kind and order of every page that a workload ever had, by its local number.
    allocated: Vec<Vec<(PageBacking, u8)>>,
    regions: Regions,
    /// If it stands for reference bits and samples.
    damon: Option<Damon>,
    /// The time up to which accesses are reported.
    now: u64,
    seed: u64,
}

impl Monitors {
    /// Makes monitors that have seen no accesses.
    pub fn new(workloads: usize, seed: u64) -> Self {
        Self {
            faults: (0..workloads).map(|_| HintFaults::default()).collect(),
            samplers: (0..workloads).map(|i| Sampler::new(mix(seed ^ i as u64))).collect(),
            allocated: vec![Vec::new(); workloads],
            regions: Regions::new(seed, 1),
            damon: None,
            now: 0,
            seed,
        }
    }

    /// Lets DAMON stand for reference bits and samples. A simulated page has `frames` base pages.
    pub fn monitor_with(&mut self, attrs: DamonAttrs, frames: u32, workloads: &[Workload]) {
        self.damon = Some(Damon::new(attrs, frames, workloads, self.seed));
    }

    /// Returns a number in 0..1 that depends only on the seed and `what`, for injected faults.
    pub fn lot(&self, what: u64) -> f64 {
        (mix(self.seed ^ mix(what)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Keeps the kind and the order of an allocated page, which may be mapped again.
    pub fn remember(&mut self, workload: usize, allocation: Allocation) {
        let allocated = &mut self.allocated[workload];
        allocated.resize(allocated.len().max(allocation.page as usize + 1), (PageBacking::Anon, 0));
        allocated[allocation.page as usize] = (allocation.kind, allocation.order);
    }

    /// Returns the page as it was allocated. Threads and addresses do not matter to a page that is
    /// mapped again.
    pub fn recall(&self, workload: usize, local: u32) -> Allocation {
        let known = self.allocated[workload].get(local as usize).copied();
        let (kind, order) = known.unwrap_or((PageBacking::Anon, 0));
        Allocation { page: local, vpn: 0, kind, order, thread: 0 }
    }

    /// Handles the start of a workload's window.
    pub fn open_window(
        &mut self,
        i: usize,
        workload: &Workload,
        memory: &Memory,
        signals: &Signals,
    ) {
        if signals.hint_faults {
            self.faults[i].open_window(workload, memory);
        }
        if signals.sample_period > 0 {
            self.samplers[i].open_window(workload);
        }
    }

    /// Poisons a page of a workload.
    pub fn poison(&mut self, i: usize, workload: &Workload, local: u32, now: u64) {
        self.faults[i].poison(workload, local, now);
    }

    /// The share of a workload's window at which its `n`th hint fault from now on occurs.
    pub fn nth_hint_fault(&mut self, i: usize, n: usize) -> Option<f64> {
        self.faults[i].nth(n)
    }

    /// Reports the hint faults of the progress since the last call.
    pub fn take_hint_faults(
        &mut self,
        i: usize,
        workload: &Workload,
        memory: &mut Memory,
        observation: &mut Observation,
        at: impl Fn(f64) -> u64,
    ) {
        self.faults[i].take(workload, memory, observation, at);
    }

    /// Sets the time up to which accesses are reported.
    pub fn set_time(&mut self, now: u64) {
        self.now = now;
    }

    /// Adds the requested signals of the accesses since the last report.
    pub fn report(
        &mut self,
        i: usize,
        workload: &mut Workload,
        memory: &Memory,
        signals: &Signals,
        stale: f64,
        observation: &mut Observation,
    ) {
        let (from, to) = (workload.reported, workload.done);
        if to <= from {
            return;
        }
        workload.reported = to;
        if let Some(damon) = &mut self.damon {
            damon.note(i, workload, to - from, self.now);
        } else if signals.reference_bits || signals.dirty_bits {
            reference::report(workload, signals, from, to, observation);
        }
        if signals.sample_period > 0 && self.damon.is_none() {
            self.samplers[i].report(workload, memory, signals.sample_period, from, to, observation);
        }
        if signals.exact_counts {
            count(workload, from, to, observation);
        }
        if signals.objects && to >= 1.0 {
            sample_objects(workload, observation);
        }
        if signals.regions.is_some() {
            for access in &workload.window.accesses {
                if let Some(page) = workload.page(access.page) {
                    self.regions.note(page, workload.accesses(access) * (to - from));
                }
            }
        }
        if stale > 0.0 {
            self.forge(stale, memory, observation);
        }
    }

    /// Reports some pages as referenced that may have been freed long ago.
    fn forge(&self, stale: f64, memory: &Memory, observation: &mut Observation) {
        for page in 0..memory.page_numbers() as u32 + 8 {
            if self.lot(u64::from(page) << 20 ^ observation.freed.len() as u64) < stale {
                observation.referenced.set(PageId(page));
            }
        }
    }

    /// Reports what DAMON found, if it stands for bits and samples and the policy reads them.
    /// Returns its work; `None` if the policy does not read them.
    pub fn report_damon(
        &mut self,
        now: u64,
        workloads: &[Workload],
        memory: &Memory,
        signals: &Signals,
        observation: &mut Observation,
    ) -> Option<DamonWork> {
        let reads = signals.reference_bits || signals.sample_period > 0;
        let damon = self.damon.as_mut().filter(|_| reads)?;
        Some(damon.report(now, workloads, memory, observation))
    }

    /// Starts DAMON now, if it stands for bits and samples.
    pub fn restart_damon(&mut self, now: u64) {
        if let Some(damon) = &mut self.damon {
            damon.restart(now);
        }
    }

    /// A workload's misses in a tier as ticks since this was last asked, if DAMON stands for
    /// samples.
    pub fn take_ticks(&mut self, i: usize, tier: TierId) -> Option<u64> {
        self.damon.as_mut().map(|damon| damon.take_ticks(i, tier))
    }

    /// Ends DAMON's aggregation intervals that are over.
    pub fn aggregate_regions(
        &mut self,
        now: u64,
        signals: &Signals,
        observation: &mut Observation,
    ) {
        if let Some(signals) = &signals.regions {
            self.regions.aggregate(now, signals, observation);
        }
    }
}

/// Reports a workload's objects at the end of its window: a sample of EMT's.
fn sample_objects(workload: &Workload, observation: &mut Observation) {
    observation.object_samples += 1;
    for heat in &workload.window.object_heat {
        if let Some(page) = workload.page(heat.page) {
            let hotness = f64::from(heat.hotness) / OBJECT_HEAT_PARTS;
            observation.object_heat.push(ObjectHotness { page, hotness });
        }
    }
}

/// A trace counts the hotness of objects in sixteenths.
const OBJECT_HEAT_PARTS: f64 = 16.0;

/// Exact counts of the accesses after `from` and not after `to`, rounded down; the rest is reported
/// with the accesses that follow, because shares of a window add up.
fn count(workload: &Workload, from: f64, to: f64, observation: &mut Observation) {
    let dilation = f64::from(workload.windows.dilation());
    for access in &workload.window.accesses {
        let Some(page) = workload.page(access.page) else { continue };
        let all = (f64::from(access.loads) + f64::from(access.stores)) * dilation;
        let missed = (f64::from(access.load_misses) + f64::from(access.store_misses)) * dilation;
        let between = |n: f64| (n * to).floor() as u64 - (n * from).floor() as u64;
        let (accesses, misses) = (between(all), between(missed));
        if accesses > 0 {
            observation.counts.push(PageCount { page, accesses, misses });
        }
    }
}
