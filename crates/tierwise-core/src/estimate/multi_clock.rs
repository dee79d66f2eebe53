//! MULTI-CLOCK (Maruf et al., HPCA 2022): an inactive, an active and a promote list for each tier
//! and kind of page, the fastest tier having no promote list (section III). A page must be accessed
//! in several intervals to climb through them (Figure 4, in [`crate::pfra`]), so that the promote
//! list holds what is accessed both recently and often.
//!
//! `kpromoted` is [`Estimator::update`] and the selector "promote-list" together: each run scans
//! the lists and promotes all that then is in the promote lists (section III-B).
//!
//! Parameters: `interval_ms` (1000) and `scan_pages` (1024 on each list), both section V-C. Two
//! extensions that section VII proposes are off unless asked for:
//! - `dirty_weight` (0): how many accesses more an interval counts for in which the page was
//!   written. It needs dirty bits.
//! - `adaptive_interval` (false), within `min_interval_ms` (100) and `max_interval_ms` (10000): see
//!   [`AdaptiveInterval`].

use std::time::Duration;

use super::adaptive_interval::AdaptiveInterval;
use super::lru_scan::LruScan;
use crate::config::{ConfigError, Section};
use crate::lru::{End, LruList, LruLists};
use crate::migrate::{FailReason, MoveOutcome};
use crate::observe::{Observation, Signals};
use crate::page::{Flag, PageTable};
use crate::pfra::Pfra;
use crate::policy::PlanContext;
use crate::registry::BuildContext;
use crate::stage::{Estimator, Scope};
use crate::units::{Hotness, PageId, Pages, TenantId, Timestamp};

/// The most accesses that being written may be worth: with three, one interval takes a page from
/// inactive to the promote list, and more could change nothing.
const MAX_DIRTY_WEIGHT: u64 = 3;

/// Three lists, scanned at an interval.
#[derive(Debug, Clone)]
pub struct MultiClock {
    lists: LruScan,
    interval: Duration,
    adaptive: Option<AdaptiveInterval>,
}

impl MultiClock {
    /// Reads its parameters.
    ///
    /// # Errors
    /// A parameter outside what is allowed.
    pub fn build(section: &Section<'_>, ctx: &BuildContext<'_>) -> Result<Self, ConfigError> {
        let dirty_weight = section.whole_or("dirty_weight", 0, 0..=MAX_DIRTY_WEIGHT)? as u32;
        let interval = LruScan::interval(section, "interval_ms", LruScan::INTERVAL)?;
        Ok(Self {
            interval,
            lists: LruScan::build(Pfra { dirty_weight, ..Pfra::MULTI_CLOCK }, section, ctx)?,
            adaptive: AdaptiveInterval::build(section, interval)?,
        })
    }

    /// The lists.
    pub fn lru(&self) -> &LruLists {
        &self.lists.lru
    }
}

impl Estimator for MultiClock {
    fn signals(&self) -> Signals {
        Signals {
            reference_bits: true,
            dirty_bits: self.lists.pfra.dirty_weight > 0,
            ..Signals::default()
        }
    }

    fn interval(&self) -> Option<Duration> {
        Some(self.interval)
    }

    fn on_observation(&mut self, _: Timestamp, obs: &Observation, pages: &mut PageTable) {
        self.lists.on_observation(obs, pages);
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.on_observation(obs, pages);
        }
    }

    fn on_outcomes(&mut self, _: Timestamp, outcomes: &[MoveOutcome], pages: &mut PageTable) {
        for outcome in outcomes {
            let promotion = outcome.from.is_some_and(|from| outcome.to < from);
            // A promoted page was accessed again and again: it is active in its new tier (13). A
            // demoted one starts again (3).
            let which = if promotion { LruList::Active } else { LruList::Inactive };
            let moved = self.lists.lru.on_outcome(outcome, which, End::Head, pages);
            if moved && promotion {
                if let Some(adaptive) = &mut self.adaptive {
                    adaptive.promoted(outcome.page);
                }
            } else if outcome.result.is_err_and(|reason| reason != FailReason::Budget)
                && outcome.from == pages.tier(outcome.page)
                && pages.flag(outcome.page, Flag::Promote)
            {
                // It could not be promoted: section III-C, (11). A move that the budget cut was not
                // tried; the next scan decides by (11) or (12).
                self.lists.lru.shift(outcome.page, LruList::Active, pages);
                pages.set_flag(outcome.page, Flag::Referenced, false);
            }
        }
    }

    fn update(&mut self, _: Timestamp, ctx: &mut PlanContext<'_>) {
        let climbed = self.lists.scan(ctx.pages);
        if let Some(adaptive) = &mut self.adaptive {
            self.interval = adaptive.next(climbed);
        }
    }

    /// The promote list, the newest first.
    fn promotable(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        let mut left = limit;
        for vec in self.lists.lru.vecs_in(scope) {
            let taken = self.lists.lru.take_newest(vec, LruList::Promote, left, pages, out);
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

    /// How many accesses the page has climbed: 0 (inactive unreferenced) to 4 (promote), and the
    /// dirty weight if it was written in the interval of the last look.
    fn hotness(&self, page: PageId, pages: &PageTable) -> Hotness {
        let climbed = match LruLists::which(page, pages) {
            LruList::Promote => 4,
            list => 2 * list as u32 + u32::from(pages.flag(page, Flag::Referenced)),
        };
        let dirty = if pages.flag(page, Flag::Dirty) { self.lists.pfra.dirty_weight } else { 0 };
        Hotness(climbed + dirty)
    }
}
