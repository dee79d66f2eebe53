//! Nimble's page selection as MULTI-CLOCK's authors implemented it to compare with (HPCA 2022,
//! sections II-D and III-A, and Figure 3): the kernel's inactive and active lists and nothing else.
//! Whatever was activated most recently deserves promotion, whether it was accessed once since or
//! often: it knows recency and not frequency.
//!
//! Parameters: `interval_ms` (1000) and `scan_pages` (1024 on each list), both section V-C.

use std::time::Duration;

use super::lru_scan::LruScan;
use crate::config::{ConfigError, Section};
use crate::lru::{End, LruList, LruLists};
use crate::migrate::MoveOutcome;
use crate::observe::{Observation, Signals};
use crate::page::{Flag, PageTable};
use crate::pfra::Pfra;
use crate::policy::PlanContext;
use crate::registry::BuildContext;
use crate::stage::{Estimator, Scope};
use crate::units::{Hotness, PageId, Pages, TenantId, Timestamp};

/// The kernel's two lists, scanned at an interval.
#[derive(Debug, Clone)]
pub struct Nimble {
    lists: LruScan,
    interval: Duration,
}

impl Nimble {
    /// Reads its parameters.
    ///
    /// # Errors
    /// A parameter outside what is allowed.
    pub fn build(section: &Section<'_>, ctx: &BuildContext<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            interval: LruScan::interval(section, "interval_ms", LruScan::INTERVAL)?,
            lists: LruScan::build(Pfra::TWO_LISTS, section, ctx)?,
        })
    }

    /// The lists.
    pub fn lru(&self) -> &LruLists {
        &self.lists.lru
    }
}

impl Estimator for Nimble {
    fn signals(&self) -> Signals {
        Signals { reference_bits: true, ..Signals::default() }
    }

    fn interval(&self) -> Option<Duration> {
        Some(self.interval)
    }

    fn on_observation(&mut self, _: Timestamp, obs: &Observation, pages: &mut PageTable) {
        self.lists.on_observation(obs, pages);
    }

    fn on_outcomes(&mut self, _: Timestamp, outcomes: &[MoveOutcome], pages: &mut PageTable) {
        for outcome in outcomes {
            // Promoted pages join the upper tier's active list at its old end (Figure 3, arrow 11);
            // demoted ones are candidates to fall further until they are accessed.
            let (which, end) = match outcome.from {
                Some(from) if outcome.to < from => (LruList::Active, End::Tail),
                _ => (LruList::Inactive, End::Head),
            };
            self.lists.lru.on_outcome(outcome, which, end, pages);
        }
    }

    fn update(&mut self, _: Timestamp, ctx: &mut PlanContext<'_>) {
        self.lists.scan(ctx.pages);
    }

    /// The newest of the active list.
    fn promotable(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        let mut left = limit;
        for vec in self.lists.lru.vecs_in(scope) {
            let taken = self.lists.lru.take_newest(vec, LruList::Active, left, pages, out);
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

    /// Inactive, inactive referenced, active, active referenced.
    fn hotness(&self, page: PageId, pages: &PageTable) -> Hotness {
        let active = u32::from(pages.flag(page, Flag::Active));
        Hotness(2 * active + u32::from(pages.flag(page, Flag::Referenced)))
    }
}
