//! LRU lists that are scanned at an interval, and the estimators that follow from them.
//!
//! [`LruScan`] has the lists, the periodic scan of every tier and the search for candidates for
//! demotion. [`LruEstimator`] makes an estimator of it: `Nimble` and `MultiClock` differ only in
//! the `ListRules`.

use std::time::Duration;

use crate::config::{ConfigError, Section};
use crate::lru::{LruList, LruLists};
use crate::migrate::MoveOutcome;
use crate::observe::{Observation, Signals};
use crate::page::PageTable;
use crate::pfra::{Pfra, inactive_ratio};
use crate::policy::PlanContext;
use crate::registry::BuildContext;
use crate::stage::{Estimator, Scope};
use crate::topology::Topology;
use crate::units::{Hotness, PageId, Pages, TenantId, TierId, Timestamp};

/// The maximum interval in a recipe, in milliseconds: a day. With a longer one no policy adapts to
/// its workload.
const MAX_INTERVAL_MS: u64 = 24 * 3600 * 1000;

/// The steps in which estimators over scanned LRU lists differ.
pub(super) trait ListRules: Send {
    /// The list whose newest pages are promotion candidates.
    const PROMOTED: LruList;

    /// The access signals beside reference bits, which every scan of a list requires.
    fn signals(&self, _lists: &LruScan) -> Signals {
        Signals::default()
    }

    /// Handles an observation that the lists have handled.
    fn on_observation(&mut self, _obs: &Observation, _pages: &PageTable) {}

    /// Puts a page that moved onto a list of its new tier.
    fn on_outcome(&mut self, outcome: &MoveOutcome, lists: &mut LruScan, pages: &mut PageTable);

    /// Returns the interval until the next scan, after one in which `climbed` pages of slower tiers
    /// climbed.
    fn next_interval(&mut self, current: Duration, _climbed: u64) -> Duration {
        current
    }

    /// Returns what [`Estimator::hotness`] returns.
    fn hotness(&self, page: PageId, lists: &LruScan, pages: &PageTable) -> Hotness;
}

/// An estimator over scanned LRU lists.
#[derive(Debug, Clone)]
pub struct LruEstimator<R> {
    lists: LruScan,
    interval: Duration,
    rules: R,
}

impl<R> LruEstimator<R> {
    pub(super) fn new(lists: LruScan, interval: Duration, rules: R) -> Self {
        Self { lists, interval, rules }
    }

    /// The lists.
    pub fn lru(&self) -> &LruLists {
        &self.lists.lru
    }
}

impl<R: ListRules> Estimator for LruEstimator<R> {
    fn signals(&self) -> Signals {
        Signals { reference_bits: true, ..self.rules.signals(&self.lists) }
    }

    fn interval(&self) -> Option<Duration> {
        Some(self.interval)
    }

    fn on_observation(&mut self, _: Timestamp, obs: &Observation, pages: &mut PageTable) {
        self.lists.on_observation(obs, pages);
        self.rules.on_observation(obs, pages);
    }

    fn on_outcomes(&mut self, _: Timestamp, outcomes: &[MoveOutcome], pages: &mut PageTable) {
        for outcome in outcomes {
            self.rules.on_outcome(outcome, &mut self.lists, pages);
        }
    }

    fn update(&mut self, _: Timestamp, ctx: &mut PlanContext<'_>) {
        let climbed = self.lists.scan(ctx.pages);
        self.interval = self.rules.next_interval(self.interval, climbed);
    }

    fn promotable(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        let mut left = limit;
        for vec in self.lists.lru.vecs_in(scope) {
            let taken = self.lists.lru.take_newest(vec, R::PROMOTED, left, pages, out);
            left = left.saturating_sub(taken);
        }
    }

    fn demotable(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        self.lists.demotable(scope, limit, pages, out);
    }

    fn coldest(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        self.lists.coldest(scope, limit, pages, out);
    }

    fn active(&self, tenant: TenantId) -> Pages {
        self.lists.active(tenant)
    }

    fn hotness(&self, page: PageId, pages: &PageTable) -> Hotness {
        self.rules.hotness(page, &self.lists, pages)
    }
}

/// LRU lists that are scanned at an interval.
#[derive(Debug, Clone)]
pub(super) struct LruScan {
    /// The rules by which pages climb and sink.
    pub(super) pfra: Pfra,
    /// Pages scanned on each list per scan.
    scan_pages: u64,
    pub(super) lru: LruLists,
    /// The largest ratio of active to inactive pages, by tier.
    ratios: Vec<u64>,
}

impl LruScan {
    /// The scan interval of MULTI-CLOCK and of Nimble in its paper (section V-C).
    pub(super) const INTERVAL: Duration = Duration::from_secs(1);
    /// The number of pages in a scan of MULTI-CLOCK and of Nimble in its paper (section V-C). The
    /// paper does not name the unit. Here it counts per list of each `lruvec`, as the kernel does
    /// (`nr_to_scan` of `shrink_list`).
    pub(super) const SCAN_PAGES: u64 = 1024;

    pub(super) fn new(pfra: Pfra, scan_pages: u64, topology: &Topology) -> Self {
        let ratio =
            |t: &crate::topology::Tier| inactive_ratio(t.capacity.in_bytes(topology.page_size));
        let ratios = topology.tiers.iter().map(ratio).collect();
        Self { pfra, scan_pages, lru: LruLists::default(), ratios }
    }

    /// Reads `scan_pages`.
    ///
    /// # Errors
    /// `scan_pages` is less than one.
    pub(super) fn build(
        pfra: Pfra,
        section: &Section<'_>,
        ctx: &BuildContext<'_>,
    ) -> Result<Self, ConfigError> {
        let pages = section.whole_or("scan_pages", Self::SCAN_PAGES, 1..=u64::MAX)?;
        Ok(Self::new(pfra, pages, ctx.topology))
    }

    /// Reads an interval in milliseconds, or returns the default.
    ///
    /// # Errors
    /// The value is not a whole number of milliseconds from one to a day.
    pub(super) fn interval(
        section: &Section<'_>,
        key: &'static str,
        default: Duration,
    ) -> Result<Duration, ConfigError> {
        section.millis_or(key, default, 1..=MAX_INTERVAL_MS)
    }

    /// Handles allocations, freed pages and supervised accesses.
    pub(super) fn on_observation(&mut self, obs: &Observation, pages: &mut PageTable) {
        self.lru.on_observation(obs, pages);
        for &page in &obs.supervised {
            self.pfra.mark_accessed(page, &mut self.lru, pages);
        }
    }

    /// Scans the lists of every tier, fastest first. Returns the number of pages of slower tiers
    /// that climbed.
    fn scan(&mut self, pages: &mut PageTable) -> u64 {
        let mut climbed = 0;
        for (tier, &ratio) in self.ratios.iter().enumerate() {
            let tier = TierId(tier as u8);
            for vec in self.lru.vecs(tier) {
                let count = self.pfra.scan(&mut self.lru, vec, self.scan_pages, ratio, pages);
                climbed += if tier == TierId::FASTEST { 0 } else { count };
            }
        }
        climbed
    }

    /// Adds the oldest pages, list by list, accessed or not.
    pub(super) fn coldest(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        let mut left = limit;
        for list in LruList::ALL {
            for vec in self.lru.vecs_in(scope) {
                left = left.saturating_sub(self.lru.take_oldest(vec, list, left, pages, out));
            }
        }
    }

    /// Base pages of a tenant above the inactive lists, in all tiers.
    pub(super) fn active(&self, tenant: TenantId) -> Pages {
        let tiers = (0..self.ratios.len()).map(|tier| TierId(tier as u8));
        let vecs = tiers.flat_map(|tier| self.lru.vecs_in(Scope { tier, tenant: Some(tenant) }));
        let lists = [LruList::Active, LruList::Promote];
        vecs.map(|vec| lists.into_iter().map(|l| self.lru.frames(vec, l)).sum::<Pages>()).sum()
    }

    /// Adds candidates for demotion, from the inactive tails.
    pub(super) fn demotable(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        let ratio = self.ratios.get(scope.tier.index()).copied().unwrap_or(1);
        self.pfra.reclaim(&mut self.lru, scope, limit, ratio, pages, out);
    }
}
