//! DAMON-like regions over the host's pages (`Documentation/mm/damon/design.rst`).
//!
//! Every sampling interval one page of each region is checked; in every aggregation interval the
//! hits are `nr_accesses`. Then neighbours whose counts differ by at most a tenth of the possible
//! maximum are merged, and, while there are fewer than half of the regions allowed, each region is
//! split in two at a place that the seed determines.
//!
//! The pages checked are known only when a window is reported, so the checks of an interval are
//! made then: a page is found accessed with the probability that one of its accesses falls into a
//! sampling interval.

use tierwise_core::bits::PageBits;
use tierwise_core::observe::{DamonAttrs, Observation, Region};
use tierwise_core::units::PageId;

use crate::hash::mix;
use crate::workload::Workload;

/// Regions and the accesses since the last aggregation.
#[derive(Debug)]
pub struct Regions {
    regions: Vec<Region>,
    /// Accesses to each page in this aggregation interval.
    accesses: Vec<f32>,
    touched: PageBits,
    aggregated_at: u64,
    seed: u64,
    rounds: u64,
}

impl Regions {
    /// Starts without regions.
    pub fn new(seed: u64) -> Self {
        Self {
            regions: Vec::new(),
            accesses: Vec::new(),
            touched: PageBits::default(),
            aggregated_at: 0,
            seed,
            rounds: 0,
        }
    }

    /// Counts the accesses after the share `from` of a workload's window and not after `to`.
    pub fn note(&mut self, workload: &Workload, from: f64, to: f64) {
        for access in &workload.window.accesses {
            let Some(page) = workload.page(access.page) else { continue };
            if page.index() >= self.accesses.len() {
                self.accesses.resize(page.index() + 1, 0.0);
            }
            self.accesses[page.index()] += (workload.accesses(access) * (to - from)) as f32;
            self.touched.set(page);
        }
    }

    /// Reports the regions if an aggregation interval is over.
    pub fn aggregate(&mut self, now: u64, attrs: &DamonAttrs, observation: &mut Observation) {
        let interval = attrs.aggregation.as_nanos() as u64;
        if now - self.aggregated_at < interval || self.accesses.is_empty() {
            return;
        }
        let samplings = (now - self.aggregated_at) as f64 / attrs.sampling.as_nanos() as f64;
        self.aggregated_at = now;
        self.rounds += 1;
        self.cover(attrs);
        // Late aggregations are scaled to the interval for which nr_accesses is defined.
        let checks = (interval as f64 / attrs.sampling.as_nanos() as f64) as u32;
        for i in 0..self.regions.len() {
            let found = (0..checks).filter(|&check| self.check(i, check, samplings)).count() as u32;
            let region = &mut self.regions[i];
            let steady = found.abs_diff(region.nr_accesses) * 10 <= checks;
            region.age = if steady { region.age + 1 } else { 0 };
            region.nr_accesses = found;
        }
        let accesses = &mut self.accesses;
        self.touched.drain(|page| accesses[page.index()] = 0.0);
        observation.regions.clear();
        observation.regions.extend_from_slice(&self.regions);
        self.merge(checks / 10, attrs);
        self.split(attrs);
    }

    /// Returns true if a page of the region, chosen again for each check, was accessed in one
    /// sampling interval.
    fn check(&self, region: usize, check: u32, samplings: f64) -> bool {
        let r = self.regions[region];
        let lot = mix(self.seed ^ self.rounds << 32 ^ u64::from(check) << 20 ^ region as u64);
        let page = r.first.index() + (lot % u64::from(r.pages)) as usize;
        let each = f64::from(self.accesses.get(page).copied().unwrap_or(0.0)) / samplings;
        // Accesses are spread evenly: with fewer than one per interval, that share of the intervals
        // has one.
        let phase = (mix(lot) >> 11) as f64 / (1u64 << 53) as f64;
        each > phase
    }

    /// Makes the regions cover all pages: evenly at first, then by stretching the last.
    fn cover(&mut self, attrs: &DamonAttrs) {
        let pages = self.accesses.len() as u32;
        if self.regions.is_empty() {
            let each = pages.div_ceil(attrs.min_regions.max(1)).max(1);
            self.regions = (0..pages)
                .step_by(each as usize)
                .map(|first| region(first, each.min(pages - first), 0, 0))
                .collect();
        }
        if let Some(last) = self.regions.last_mut() {
            last.pages = pages - last.first.0;
        }
    }

    fn merge(&mut self, threshold: u32, attrs: &DamonAttrs) {
        let largest = (self.accesses.len() as u32 / attrs.min_regions.max(1)).max(1);
        self.regions.dedup_by(|next, kept| {
            let alike = next.nr_accesses.abs_diff(kept.nr_accesses) <= threshold;
            if !alike || kept.pages + next.pages > largest {
                return false;
            }
            let pages = u64::from(kept.pages + next.pages);
            let weighed = |a: u32, b: u32| {
                ((u64::from(a) * u64::from(kept.pages) + u64::from(b) * u64::from(next.pages))
                    / pages) as u32
            };
            let (nr_accesses, age) =
                (weighed(kept.nr_accesses, next.nr_accesses), weighed(kept.age, next.age));
            kept.nr_accesses = nr_accesses;
            kept.age = age;
            kept.pages = pages as u32;
            true
        });
    }

    fn split(&mut self, attrs: &DamonAttrs) {
        if self.regions.len() as u32 > attrs.max_regions / 2 {
            return;
        }
        let (seed, rounds) = (self.seed, self.rounds);
        let halves = self.regions.iter().flat_map(|r| {
            // Between a tenth and nine tenths, as damon_split_regions_of().
            let tenths = 1 + mix(seed ^ rounds ^ u64::from(r.first.0)) % 9;
            let left = (u64::from(r.pages) * tenths / 10) as u32;
            let parts = [
                region(r.first.0, left, r.nr_accesses, r.age),
                region(r.first.0 + left, r.pages - left, r.nr_accesses, r.age),
            ];
            parts.into_iter().filter(|part| part.pages > 0)
        });
        self.regions = halves.collect();
    }
}

fn region(first: u32, pages: u32, nr_accesses: u32, age: u32) -> Region {
    Region { first: PageId(first), pages, nr_accesses, age }
}
