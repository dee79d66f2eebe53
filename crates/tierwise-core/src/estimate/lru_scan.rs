//! What the estimators over LRU lists share: the lists, the periodic scan of every tier and the
//! search for candidates for demotion.

use std::time::Duration;

use crate::config::{ConfigError, Section};
use crate::lru::{LruList, LruLists};
use crate::observe::Observation;
use crate::page::PageTable;
use crate::pfra::{Pfra, inactive_ratio};
use crate::registry::BuildContext;
use crate::stage::Scope;
use crate::topology::Topology;
use crate::units::{PageId, Pages, TenantId, TierId};

/// The longest interval that a recipe may ask for: a day, beyond which nothing adapts to anything.
const MAX_LEN: u64 = 24 * 3600 * 1000;

/// LRU lists that are scanned at an interval.
#[derive(Debug, Clone)]
pub struct LruScan {
    /// How pages climb and sink.
    pub pfra: Pfra,
    /// Pages looked at on each list in one scan.
    pub scan_pages: u64,
    /// The lists.
    pub lru: LruLists,
    /// The largest ratio of active to inactive pages, by tier.
    ratios: Vec<u64>,
}

impl LruScan {
    /// MULTI-CLOCK's scan interval, and its Nimble's (section V-C).
    pub const INTERVAL: Duration = Duration::from_secs(1);
    /// MULTI-CLOCK's number of pages in a scan, and its Nimble's (section V-C). The paper does not
    /// say of what: here, as the kernel counts (`nr_to_scan` of `shrink_list`), of each list of
    /// each `lruvec`.
    pub const SCAN_PAGES: u64 = 1024;

    /// Empty lists.
    pub fn new(pfra: Pfra, scan_pages: u64, topology: &Topology) -> Self {
        let ratio =
            |t: &crate::topology::Tier| inactive_ratio(t.capacity.in_bytes(topology.page_size));
        let ratios = topology.tiers.iter().map(ratio).collect();
        Self { pfra, scan_pages, lru: LruLists::default(), ratios }
    }

    /// Reads `scan_pages`.
    ///
    /// # Errors
    /// Not a number of pages of at least one.
    pub fn build(
        pfra: Pfra,
        section: &Section<'_>,
        ctx: &BuildContext<'_>,
    ) -> Result<Self, ConfigError> {
        let pages = section.whole_or("scan_pages", Self::SCAN_PAGES, 1..=u64::MAX)?;
        Ok(Self::new(pfra, pages, ctx.topology))
    }

    /// Reads `interval_ms`, or another interval of that kind.
    ///
    /// # Errors
    /// Not a whole number of milliseconds from one to a day.
    pub fn interval(
        section: &Section<'_>,
        key: &'static str,
        default: Duration,
    ) -> Result<Duration, ConfigError> {
        section.millis_or(key, default, 1..=MAX_LEN)
    }

    /// Births, ends and supervised accesses.
    pub fn on_observation(&mut self, obs: &Observation, pages: &mut PageTable) {
        self.lru.on_observation(obs, pages);
        for &page in &obs.supervised {
            self.pfra.mark_accessed(page, &mut self.lru, pages);
        }
    }

    /// Scans the lists of every tier, fastest first; returns how many pages of the slower tiers
    /// climbed.
    pub fn scan(&mut self, pages: &mut PageTable) -> u64 {
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

    /// The oldest pages, list by list, whether they were accessed or not.
    pub fn coldest(
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
    pub fn active(&self, tenant: TenantId) -> Pages {
        let tiers = (0..self.ratios.len()).map(|tier| TierId(tier as u8));
        let vecs = tiers.flat_map(|tier| self.lru.vecs_in(Scope { tier, tenant: Some(tenant) }));
        let lists = [LruList::Active, LruList::Promote];
        vecs.map(|vec| lists.into_iter().map(|l| self.lru.frames(vec, l)).sum::<Pages>()).sum()
    }

    /// Candidates for demotion, from the inactive tails.
    pub fn demotable(
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
