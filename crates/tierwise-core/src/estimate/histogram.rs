//! MEMTIS's page access histogram (Lee et al., SOSP 2023, section 4): sampled accesses counted page
//! by page, pages binned by the logarithm of their count, and thresholds that follow from the
//! histogram and the size of the fast tier. Details that the paper does not give are the artifact's
//! (`mm/htmm_core.c`).
//!
//! - *Count.* A sample adds `512 / frames` to its page's count, so that a count is in proportion to
//!   the samples per base page, whatever the page's size. A page with count `c` is in bin
//!   `floor(log2(c + 1))`, at most 15; each bin holds the base pages of its pages. A new page
//!   starts with a count of `2^(T_hot + 1)`, so that it is not demoted before it could be sampled.
//!   It enters the histogram with its first sample or the next cooling.
//! - *Adapt.* Every `adaptation_period` samples (100 000): let `B` be the lowest bin such that the
//!   pages in it and above fit into the fast tier without its 3 % of headroom. `T_hot` rises to `B`
//!   at once, and sinks by one at the first adaptation after a cooling if `B` is lower. It is never
//!   below `threshold_min` (1). If the pages in `B` and above fill less than three quarters of that
//!   memory, pages one bin below are *warm*: `T_warm = T_hot - 1`, else `T_warm = T_hot`.
//! - *Cool.* Every `cooling_period` samples (2 000 000) all counts are halved, so that all pages
//!   sink by a bin.
//! - *Classify.* Pages from `T_hot` up are hot and belong in the fast tier. Pages from `T_warm` up
//!   may stay in it. Pages below are cold and may be demoted. If hot pages wait in slower tiers and
//!   the cold ones do not make enough room, warm pages count as cold until the next adaptation.
//!
//! ```
//! use tierwise_core::estimate::Histogram;
//! assert_eq!([0, 1, 2, 3, 7, 512, 1 << 20].map(Histogram::bin), [0, 1, 1, 2, 3, 9, 15]);
//! ```
//!
//! Differences: the artifact cools each page at its next sample and refills an emptied histogram
//! page by page; here a cooling is one pass over all counts, after which the histogram is exact.
//! One histogram serves the machine; MEMTIS has one per memcg. Page-cache pages are counted like
//! other pages.
//!
//! Omissions: splitting huge pages whose accesses are skewed, and coalescing base pages (section
//! 4). A page of this engine is the unit of placement and its size is fixed by the world; no move
//! splits one. The extra cooling when a memcg grows by a lot is left out too.
//!
//! A page costs [`Histogram::BYTES_PER_PAGE`] bytes beside the page table's four.

use std::time::Duration;

use super::page_bins::{BINS, Binned, PageBins};
use super::sample_period::SamplePeriod;
use crate::config::{ConfigError, Section};
use crate::lru::Isolation;
use crate::migrate::MoveOutcome;
use crate::observe::{Observation, Signals};
use crate::page::PageTable;
use crate::policy::PlanContext;
use crate::registry::BuildContext;
use crate::stage::{Estimator, Scope};
use crate::topology::Topology;
use crate::units::{Hotness, PageId, Pages, TierId, Timestamp};

/// Base pages of the huge page to which weights are relative (`HPAGE_PMD_NR`).
const HUGE: u32 = 512;

/// Part of the fast tier that hot pages leave free (`get_memcg_promotion_watermark`).
const HEADROOM: f64 = 0.03;

/// Part of the fast tier's capacity below which hot pages leave room for warm pages (the artifact's
/// `max_nr_pages * 75 / 100`).
const WARM_BELOW: f64 = 0.75;

/// MEMTIS's estimator. Hotness is a page's weighted count of samples since the last coolings.
#[derive(Debug, Clone)]
pub struct Histogram {
    bins: PageBins,
    /// Base pages of the fast tier.
    fast: Pages,
    /// Base pages of the fast tier without unmanaged memory and the headroom.
    capacity: u64,
    hot: usize,
    warm: usize,
    hot_min: usize,
    samples: u64,
    adaptation_period: u64,
    cooling_period: u64,
    cooled: bool,
    interval: Duration,
    period: SamplePeriod,
    isolated: Isolation,
}

impl Histogram {
    /// Bytes of metadata per page, beside the page table's.
    pub const BYTES_PER_PAGE: usize = PageBins::BYTES_PER_PAGE;

    /// Reads `interval_ms` (500, the time between two updates), `adaptation_period` (100000
    /// samples), `cooling_period` (2000000 samples), `threshold_min` (1, a bin) and the sampler's
    /// parameters.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub fn build(section: &Section<'_>, build: &BuildContext<'_>) -> Result<Self, ConfigError> {
        let fast = build.topology.tier(TierId::FASTEST).capacity;
        let hot_min = section.whole_or("threshold_min", 1, 1..=BINS as u64 - 1)? as usize;
        Ok(Self {
            bins: PageBins::default(),
            fast,
            capacity: less_headroom(fast),
            hot: hot_min,
            warm: hot_min,
            hot_min,
            samples: 0,
            adaptation_period: section.whole_or("adaptation_period", 100_000, 1..=u64::MAX)?,
            cooling_period: section.whole_or("cooling_period", 2_000_000, 1..=u64::MAX)?,
            cooled: false,
            interval: section.millis_or("interval_ms", Duration::from_millis(500), 1..=60_000)?,
            period: SamplePeriod::read(section)?,
            isolated: Isolation::default(),
        })
    }

    /// Returns the bin of a count: `floor(log2(count + 1))`, at most 15.
    pub fn bin(count: u32) -> usize {
        PageBins::bin(count)
    }

    /// `T_hot` and `T_warm`, as bins.
    pub fn thresholds(&self) -> (usize, usize) {
        (self.hot, self.warm)
    }

    fn sampled(&mut self, page: PageId, pages: &PageTable) {
        // A sample of a freed page is not counted at all (`update_pginfo`).
        let Some(tier) = pages.tier(page) else { return };
        self.bins.add(page, (HUGE >> pages.order(page)).max(1), tier, pages);
        self.samples += 1;
        if self.samples.is_multiple_of(self.cooling_period) {
            self.bins.halve(pages);
            self.cooled = true;
        } else if self.samples.is_multiple_of(self.adaptation_period) {
            self.adapt();
        }
    }

    fn adapt(&mut self) {
        let mut fits = BINS;
        let mut hot_frames = 0;
        while fits > 0 && hot_frames + self.bins.in_bin(fits - 1) <= self.capacity {
            fits -= 1;
            hot_frames += self.bins.in_bin(fits);
        }
        let lowest = fits.clamp(self.hot_min, BINS - 1);
        if !std::mem::take(&mut self.cooled) {
            self.hot = self.hot.max(lowest);
        } else if lowest < self.hot {
            self.hot -= 1;
        }
        let room_for_warm = (hot_frames as f64) < self.capacity as f64 * WARM_BELOW;
        self.warm = if room_for_warm { self.hot - 1 } else { self.hot };
    }

    /// Subtracts unmanaged memory from the capacity. The headroom is a part of the whole tier: it
    /// stays free even if little memory remains.
    fn update_capacity(&mut self, obs: &Observation) {
        if let Some(reading) = obs.tiers.get(TierId::FASTEST.index()) {
            self.capacity = less_headroom(self.fast).saturating_sub(reading.unmanaged.0);
        }
    }

    fn hot_in(&self, tier: TierId) -> u64 {
        self.bins.of_tier(tier)[self.hot..].iter().sum()
    }
}

fn less_headroom(pages: Pages) -> u64 {
    (pages.0 as f64 * (1.0 - HEADROOM)) as u64
}

impl Estimator for Histogram {
    fn signals(&self) -> Signals {
        Signals { sample_period: self.period.now(), ..Signals::default() }
    }

    fn interval(&self) -> Option<Duration> {
        Some(self.interval)
    }

    fn on_observation(&mut self, _: Timestamp, obs: &Observation, pages: &mut PageTable) {
        self.isolated.put_back(pages);
        for page in obs.allocated.iter().flat_map(|allocated| allocated.pages()) {
            if pages.tier(page).is_some() {
                self.bins.start(page, 2 << self.hot);
            }
        }
        self.update_capacity(obs);
        self.period.count(obs.samples.len());
        obs.samples.iter().for_each(|sample| self.sampled(sample.page, pages));
        for &page in &obs.freed {
            if let Some(tier) = pages.tier(page) {
                self.bins.end(page, tier, pages);
            }
        }
    }

    fn on_outcomes(&mut self, _: Timestamp, outcomes: &[MoveOutcome], pages: &mut PageTable) {
        outcomes.iter().for_each(|outcome| self.bins.on_outcome(outcome, pages));
    }

    fn update(&mut self, now: Timestamp, _: &mut PlanContext<'_>) {
        self.period.adjust(now);
    }

    fn promotable(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        if scope.tier != TierId::FASTEST && self.hot_in(scope.tier) > 0 {
            let hot = self.hot;
            let rank =
                |page: Binned| (page.counted && page.bin >= hot).then_some(BINS - 1 - page.bin);
            self.bins.collect(scope, limit, rank, &mut self.isolated, pages, out);
        }
    }

    fn demotable(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        let warm = self.warm;
        let rank = |page: Binned| (page.bin < warm).then_some(page.bin);
        let found = self.bins.collect(scope, limit, rank, &mut self.isolated, pages, out);
        let slower = (scope.tier.index() + 1..Topology::MAX_TIERS).map(|tier| TierId(tier as u8));
        let waiting = slower.map(|tier| self.hot_in(tier)).sum();
        if found.0 < limit.0.min(waiting) {
            self.warm = self.hot;
        }
    }

    fn coldest(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        self.bins.collect(scope, limit, |page| Some(page.bin), &mut self.isolated, pages, out);
    }

    fn hotness(&self, page: PageId, _: &PageTable) -> Hotness {
        Hotness(self.bins.count(page))
    }
}

#[cfg(test)]
impl Histogram {
    /// Cools until every page is in the lowest bin.
    pub(crate) fn cool_down(&mut self, pages: &PageTable) {
        (0..u32::BITS).for_each(|_| self.bins.halve(pages));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::testing::PolicyFixture;
    use crate::config::Document;
    use crate::observe::{Sample, TierReading};

    /// A fast tier of 100 pages, of which the headroom leaves 97. The histogram adapts every 10
    /// samples and cools every 1000.
    struct Sampled {
        machine: PolicyFixture,
        histogram: Histogram,
    }

    impl Sampled {
        fn new() -> Self {
            let machine = PolicyFixture::new(2);
            let document =
                Document::parse("t.toml", "adaptation_period = 10\ncooling_period = 1000").unwrap();
            let build = BuildContext::new(&machine.topology, 0);
            let histogram = Histogram::build(&document.root(), &build).unwrap();
            Self { machine, histogram }
        }

        /// Samples each page `times` times.
        fn sample(&mut self, pages: std::ops::Range<u32>, times: usize) {
            for page in pages {
                let sample = Sample { page: PageId(page), tier: TierId(0), write: false };
                self.machine.obs.samples.extend(std::iter::repeat_n(sample, times));
            }
            let (obs, pages) = (&self.machine.obs, &mut self.machine.pages);
            self.histogram.on_observation(Timestamp(0), obs, pages);
            self.machine.obs.clear();
        }

        fn count(&self, page: u32) -> u32 {
            self.histogram.bins.count(PageId(page))
        }

        fn named(&mut self, demotable: bool, tier: u8, limit: u64) -> Vec<u32> {
            let (mut out, pages) = (Vec::new(), &mut self.machine.pages);
            let scope = Scope::tier(TierId(tier));
            if demotable {
                self.histogram.demotable(scope, Pages(limit), pages, &mut out);
            } else {
                self.histogram.promotable(scope, Pages(limit), pages, &mut out);
            }
            self.histogram.isolated.put_back(&mut self.machine.pages);
            out.iter().map(|page| page.0).collect()
        }
    }

    /// Computed by hand. New pages count 2^(1 + 1) = 4. 60 pages with 1 sample count 516, bin 9; 40
    /// with 3 count 1540, bin 10; 20 with 7 count 3588, bin 11. From the top, 20 and 40 fit into
    /// 97; with the 60 of bin 9 they would be 120. So the hot pages are those of bin 10 and above,
    /// and as 60 is less than three quarters of 97, bin 9 is warm.
    #[test]
    fn thresholds_match_the_worked_example() {
        let mut sampled = Sampled::new();
        sampled.machine.allocated(0..100, 0).allocated(100..200, 1);
        sampled.sample(0..60, 1);
        sampled.sample(60..100, 3);
        sampled.sample(100..120, 7);
        let bins = |tier: u8| *sampled.histogram.bins.of_tier(TierId(tier));
        assert_eq!((bins(0)[9], bins(0)[10], bins(1)[11]), (60, 40, 20));
        assert_eq!(sampled.histogram.samples, 320);
        assert_eq!(sampled.histogram.thresholds(), (10, 9));
    }

    #[test]
    fn hottest_promote_first_and_coldest_demote_first() {
        let mut sampled = Sampled::new();
        sampled.machine.allocated(0..70, 0).allocated(100..200, 1);
        sampled.sample(0..60, 1);
        sampled.sample(100..120, 3);
        sampled.sample(120..140, 7);
        sampled.sample(140..190, 1);
        assert_eq!(sampled.histogram.thresholds(), (10, 9));
        assert_eq!(sampled.named(false, 1, 21), (120..140).chain(100..101).collect::<Vec<_>>());
        assert_eq!(sampled.named(false, 1, 1000).len(), 40);
        assert_eq!(sampled.named(true, 0, 5), [60, 61, 62, 63, 64], "the ten that no sample named");
        // Forty hot pages wait below and only ten are cold: warm pages will have to go.
        assert_eq!(sampled.named(true, 0, 40).len(), 10);
        assert_eq!(sampled.histogram.thresholds(), (10, 10));
        assert_eq!(sampled.named(true, 0, 40).len(), 40);
    }

    #[test]
    fn cooling_halves_counts_and_shifts_bins() {
        let mut sampled = Sampled::new();
        sampled.machine.allocated(0..4, 0).allocated(4..8, 1);
        sampled.sample(0..2, 400);
        let before = sampled.histogram.bins.count(PageId(0));
        assert_eq!(sampled.histogram.thresholds().0, 1, "everything fits");
        sampled.sample(4..5, 200);
        assert_eq!(sampled.count(0), before / 2);
        assert_eq!(sampled.count(7), 2, "cooled without a sample: it is in the histogram now");
        assert_eq!(sampled.histogram.bins.of_tier(TierId(1)).iter().sum::<u64>(), 4);
        assert_eq!(sampled.histogram.bins.of_tier(TierId(0))[15], 2);
    }

    #[test]
    fn hot_threshold_rises_at_once_sinks_slowly() {
        let mut sampled = Sampled::new();
        sampled.machine.allocated(0..100, 0).allocated(100..200, 1);
        sampled.sample(0..99, 10);
        assert_eq!(sampled.histogram.thresholds().0, 13, "99 pages with 5124 do not fit");
        // Half of them are freed; the others fit, but the threshold waits for a cooling.
        sampled.machine.obs.freed.extend((50..99).map(PageId));
        sampled.sample(100..101, 10);
        assert_eq!(sampled.histogram.thresholds().0, 13);
        sampled.sample(100..101, 10);
        assert_eq!(sampled.histogram.thresholds().0, 12);
        sampled.sample(100..101, 500);
        assert_eq!(sampled.histogram.thresholds().0, 12);
    }

    /// 60 of 100 pages are unmanaged and 3 are kept free: 37 fit, and 38 do not.
    #[test]
    fn unmanaged_memory_excludes_the_tiers_headroom() {
        for (pages, hot) in [(37, 1), (38, 13)] {
            let mut sampled = Sampled::new();
            let unmanaged = TierReading { unmanaged: Pages(60), ..TierReading::default() };
            sampled.machine.obs.tiers = vec![unmanaged];
            sampled.machine.allocated(0..pages, 0);
            sampled.sample(0..pages, 10);
            assert_eq!(sampled.histogram.thresholds().0, hot, "{pages} pages");
        }
    }

    #[test]
    fn huge_page_weighs_one_base_page() {
        let mut sampled = Sampled::new();
        sampled.machine.allocated(0..1, 0).allocated_huge(1, 4, 1);
        sampled.sample(0..2, 1);
        assert_eq!([sampled.count(0), sampled.count(1)], [4 + 512, 4 + 32]);
        assert_eq!(sampled.histogram.bins.of_tier(TierId(1))[5], 16);
    }

    #[test]
    fn moves_and_frees_keep_histogram_exact() {
        let mut sampled = Sampled::new();
        sampled.machine.allocated(0..4, 1);
        sampled.sample(0..3, 1);
        let moved =
            MoveOutcome { page: PageId(0), from: Some(TierId(1)), to: TierId(0), result: Ok(()) };
        sampled.machine.pages.set_tier(PageId(0), TierId(0));
        sampled.histogram.on_outcomes(Timestamp(0), &[moved], &mut sampled.machine.pages);
        sampled.machine.obs.freed.extend([PageId(1), PageId(1), PageId(77)]);
        sampled.sample(0..0, 0);
        assert_eq!(
            (
                sampled.histogram.bins.of_tier(TierId(0))[9],
                sampled.histogram.bins.of_tier(TierId(1))[9]
            ),
            (1, 1)
        );
    }
}
