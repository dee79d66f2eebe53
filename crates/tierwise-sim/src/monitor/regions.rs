//! DAMON-like regions over the host's pages (`Documentation/mm/damon/design.rst`).
//!
//! Every sampling interval one page of each region is checked; in every aggregation interval the
//! hits are `nr_accesses`. Then neighbours whose counts differ by at most a tenth of the highest
//! count are merged, and, while there are fewer than half of the regions allowed, each region is
//! split at a place that the seed determines.
//!
//! The regions cover ranges of base pages, and none goes over the gap between two of them.
//!
//! The pages checked are known only when a window is reported, so the checks of an interval are
//! made then: a page is found accessed with the probability that one of its accesses falls into a
//! sampling interval. A simulated page can stand for several base pages, of which a check is of
//! one: the accesses are taken to be spread over all of them.

use std::ops::Range;

use tierwise_core::bits::PageBits;
use tierwise_core::observe::{DamonAttrs, Observation, Region};
use tierwise_core::units::PageId;

use crate::hash::mix;

/// Regions and the accesses since the last aggregation.
#[derive(Debug)]
pub struct Regions {
    /// In base pages.
    regions: Vec<Region>,
    /// Accesses to each simulated page in this aggregation interval.
    accesses: Vec<f32>,
    touched: PageBits,
    aggregated_at: u64,
    seed: u64,
    rounds: u64,
    /// Regions before the last split.
    last_regions: usize,
    /// Base pages of a simulated page.
    frames: u32,
}

impl Regions {
    /// Starts without regions. A simulated page has `frames` base pages.
    pub fn new(seed: u64, frames: u32) -> Self {
        Self {
            regions: Vec::new(),
            accesses: Vec::new(),
            touched: PageBits::default(),
            aggregated_at: 0,
            seed,
            rounds: 0,
            last_regions: 0,
            frames,
        }
    }

    /// Counts accesses to a page.
    pub fn note(&mut self, page: PageId, accesses: f64) {
        if page.index() >= self.accesses.len() {
            self.accesses.resize(page.index() + 1, 0.0);
        }
        self.accesses[page.index()] += accesses as f32;
        self.touched.set(page);
    }

    /// Reports the regions if an aggregation interval is over.
    pub fn aggregate(&mut self, now: u64, attrs: &DamonAttrs, observation: &mut Observation) {
        if self.intervals(now, attrs) == 0 {
            return;
        }
        let all = 0..self.base_pages();
        self.count(now, attrs, &[all]);
        self.start(now);
        observation.regions.clear();
        observation.regions.extend_from_slice(&self.regions);
        self.merge(attrs);
        self.split(attrs);
    }

    /// The aggregation intervals that are over since the last aggregation.
    pub(super) fn intervals(&self, now: u64, attrs: &DamonAttrs) -> u64 {
        let interval = (attrs.aggregation.as_nanos() as u64).max(1);
        let over = (now - self.aggregated_at) / interval;
        if self.accesses.is_empty() { 0 } else { over }
    }

    /// Makes the checks of one interval, of these ranges of base pages. Late aggregations are
    /// scaled to the interval for which nr_accesses is defined.
    pub(super) fn count(&mut self, now: u64, attrs: &DamonAttrs, ranges: &[Range<u32>]) {
        let samplings = (now - self.aggregated_at) as f64 / attrs.sampling.as_nanos() as f64;
        self.rounds += 1;
        self.cover(ranges, attrs);
        let checks = attrs.max_accesses();
        for i in 0..self.regions.len() {
            let found = (0..checks).filter(|&check| self.check(i, check, samplings)).count() as u32;
            let region = &mut self.regions[i];
            let steady = found.abs_diff(region.nr_accesses) * 10 <= checks;
            region.age = if steady { region.age + 1 } else { 0 };
            region.nr_accesses = found;
        }
    }

    /// Starts an aggregation interval.
    pub(super) fn start(&mut self, now: u64) {
        self.aggregated_at = now;
        let accesses = &mut self.accesses;
        self.touched.drain(|page| accesses[page.index()] = 0.0);
    }

    /// Forgets all accesses and regions, and starts an aggregation interval.
    pub(super) fn restart(&mut self, now: u64) {
        self.start(now);
        self.regions.clear();
        self.last_regions = 0;
    }

    /// Accesses to a page in this interval.
    #[cfg(test)]
    pub(super) fn noted(&self, page: PageId) -> f64 {
        self.accesses.get(page.index()).copied().unwrap_or(0.0).into()
    }

    /// Base pages of a page.
    pub(super) fn frames(&self) -> u32 {
        self.frames
    }

    /// The regions, in base pages.
    pub(super) fn all(&self) -> &[Region] {
        &self.regions
    }

    /// Returns true if a page of the region, chosen again for each check, was accessed in one
    /// sampling interval.
    fn check(&self, region: usize, check: u32, samplings: f64) -> bool {
        let r = self.regions[region];
        let lot = mix(self.seed ^ self.rounds << 32 ^ u64::from(check) << 20 ^ region as u64);
        let page = (r.first.index() + (lot % u64::from(r.pages)) as usize) / self.frames as usize;
        let accesses = f64::from(self.accesses.get(page).copied().unwrap_or(0.0));
        let each = accesses / f64::from(self.frames) / samplings;
        // Accesses are spread evenly: with fewer than one per interval, that share of the intervals
        // has one.
        let phase = (mix(lot) >> 11) as f64 / (1u64 << 53) as f64;
        each > phase
    }

    /// Makes the regions cover these ranges of base pages: evenly at first
    /// (`__damon_va_init_regions` in `mm/damon/vaddr.c`), then by stretching the outer ones of each
    /// (`damon_set_regions` in `mm/damon/core.c`).
    fn cover(&mut self, ranges: &[Range<u32>], attrs: &DamonAttrs) {
        let total: u32 = ranges.iter().map(|range| range.end - range.start).sum();
        let each = (total / attrs.min_regions.max(1)).max(1);
        let is_first = self.regions.is_empty();
        let before = std::mem::take(&mut self.regions);
        for range in ranges {
            let end = |r: &Region| r.first.0 + r.pages;
            let of_range = before.iter().filter(|r| r.first.0 < range.end && end(r) > range.start);
            let from = self.regions.len();
            self.regions.extend(of_range);
            if is_first {
                let pieces = ((range.end - range.start) / each).max(1);
                let starts = (0..pieces).map(|piece| range.start + piece * each);
                self.regions.extend(starts.map(|start| region(start, each, 0, 0)));
            } else if self.regions.len() == from {
                self.regions.push(region(range.start, range.end - range.start, 0, 0));
            }
            if let Some(first) = self.regions.get_mut(from) {
                first.pages = end(first) - range.start;
                first.first = PageId(range.start);
            }
            if let Some(last) = self.regions.last_mut() {
                last.pages = range.end - last.first.0;
            }
        }
    }

    /// Base pages up to the last that was ever accessed.
    pub(super) fn base_pages(&self) -> u32 {
        self.accesses.len() as u32 * self.frames
    }

    /// Merges neighbours whose counts differ by a tenth of the highest count at most, and by more
    /// if there are too many regions otherwise (`kdamond_merge_regions` in `mm/damon/core.c`).
    pub(super) fn merge(&mut self, attrs: &DamonAttrs) {
        let highest = self.regions.iter().map(|r| r.nr_accesses).max().unwrap_or(0);
        let mut threshold = highest / 10;
        let total: u32 = self.regions.iter().map(|r| r.pages).sum();
        let largest = (total / attrs.min_regions.max(1)).max(1);
        loop {
            self.merge_alike(threshold, largest);
            let fits = self.regions.len() <= attrs.max_regions as usize;
            if fits || threshold >= attrs.max_accesses() {
                break;
            }
            threshold = (2 * threshold).max(1);
        }
    }

    fn merge_alike(&mut self, threshold: u32, largest: u32) {
        self.regions.dedup_by(|next, kept| {
            let alike = next.nr_accesses.abs_diff(kept.nr_accesses) <= threshold;
            let adjacent = kept.first.0 + kept.pages == next.first.0;
            if !alike || !adjacent || kept.pages + next.pages > largest {
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

    /// Splits each region in two while there are few, and in three if the last split has not made
    /// more of them (`kdamond_split_regions` in `mm/damon/core.c`).
    pub(super) fn split(&mut self, attrs: &DamonAttrs) {
        let now = self.regions.len();
        if now as u32 > attrs.max_regions / 2 {
            return;
        }
        let thirds = self.last_regions == now && (now as u32) < attrs.max_regions / 3;
        self.last_regions = now;
        let (seed, rounds) = (self.seed, self.rounds);
        let mut parts = Vec::with_capacity(3 * now);
        for r in self.regions.drain(..) {
            let mut left = r.pages;
            // The later parts of a region come off its end first.
            let ends = parts.len();
            for part in 0..if thirds { 2u64 } else { 1 } {
                // Between a tenth and nine tenths (`damon_split_regions_of`).
                let tenths = 1 + mix(seed ^ rounds ^ part << 40 ^ u64::from(r.first.0)) % 9;
                let sub = (u64::from(left) * tenths / 10) as u32;
                if left > 2 && sub > 0 {
                    parts.push(region(r.first.0 + sub, left - sub, r.nr_accesses, r.age));
                    left = sub;
                }
            }
            parts.push(region(r.first.0, left, r.nr_accesses, r.age));
            parts[ends..].reverse();
        }
        self.regions = parts;
    }
}

fn region(first: u32, pages: u32, nr_accesses: u32, age: u32) -> Region {
    Region { first: PageId(first), pages, nr_accesses, age }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTRS: DamonAttrs = DamonAttrs {
        sampling: std::time::Duration::from_millis(10),
        aggregation: std::time::Duration::from_millis(200),
        min_regions: 1,
        max_regions: 100,
    };

    /// Regions of ten pages with these counts.
    fn regions(counts: &[u32]) -> Regions {
        let mut regions = Regions::new(7, 1);
        regions.accesses = vec![0.0; 10 * counts.len()];
        let each = (0..).zip(counts).map(|(i, &count)| region(10 * i, 10, count, 0));
        regions.regions = each.collect();
        regions
    }

    #[test]
    fn threshold_follows_the_highest_count() {
        let merged = |counts: &[u32]| {
            let mut regions = regions(counts);
            regions.merge(&ATTRS);
            regions.regions.len()
        };
        assert_eq!(merged(&[0, 1, 0, 9]), 4);
        assert_eq!(merged(&[0, 1, 0, 19]), 2);
    }

    #[test]
    fn too_many_regions_merge_at_higher_thresholds() {
        let mut regions = regions(&[0, 3, 0, 3, 0, 9]);
        regions.merge(&DamonAttrs { max_regions: 3, ..ATTRS });
        let counts: Vec<u32> = regions.regions.iter().map(|r| r.nr_accesses).collect();
        // The mean of a merge is cut off to a whole number, as the kernel's is.
        assert_eq!(counts, [0, 9], "the threshold is 4 after 0, 1 and 2");
    }

    #[test]
    fn regions_cover_ranges_and_follow_their_ends() {
        let mut regions = Regions::new(7, 1);
        let attrs = DamonAttrs { min_regions: 10, ..ATTRS };
        let places = |regions: &Regions| {
            let place = |r: &Region| r.first.0..r.first.0 + r.pages;
            regions.regions.iter().map(place).collect::<Vec<_>>()
        };
        regions.cover(&[0..180, 200..220], &attrs);
        let first: Vec<_> = places(&regions);
        assert_eq!((first.len(), &first[8], &first[9]), (10, &(160..180), &(200..220)));
        regions.merge(&ATTRS);
        assert_eq!(places(&regions), [0..180, 200..220], "none goes over the gap");
        regions.cover(&[20..190, 300..310], &attrs);
        assert_eq!(places(&regions), [20..190, 300..310]);
    }

    #[test]
    fn restart_forgets_accesses_and_regions() {
        let mut regions = regions(&[0, 9]);
        regions.touched.set(PageId(3));
        regions.accesses[3] = 1e6;
        let second = 1_000_000_000;
        regions.restart(second);
        assert_eq!(regions.intervals(second, &ATTRS), 0);
        let all = 0..regions.base_pages();
        regions.count(second + second / 5, &ATTRS, &[all]);
        assert_eq!(regions.all(), [region(0, 20, 0, 1)]);
    }

    #[test]
    fn regions_stuck_split_in_three() {
        let mut regions = regions(&[0]);
        regions.split(&ATTRS);
        assert_eq!(regions.regions.len(), 2);
        regions.merge(&ATTRS);
        regions.split(&ATTRS);
        assert_eq!(regions.regions.len(), 3);
        let mut next = 0;
        for part in &regions.regions {
            assert_eq!(part.first.0, next, "they cover the pages in order");
            next += part.pages;
        }
        assert_eq!(next, 10);
    }
}
