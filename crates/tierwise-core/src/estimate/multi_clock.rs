//! MULTI-CLOCK (Maruf et al., HPCA 2022): an inactive, an active and a promote list for each tier
//! and kind of page; the fastest tier has no promote list (section III). A page must be accessed in
//! several intervals to climb through them (Figure 4, in [`crate::pfra`]), so the promote list
//! holds the pages that are accessed both recently and often.
//!
//! `kpromoted` is [`Estimator::update`](crate::stage::Estimator::update) and the selector
//! "promote-list" together: each run scans the lists and promotes all pages that are then on the
//! promote lists (section III-B).
//!
//! Parameters: `interval_ms` (1000) and `scan_pages` (1024 on each list), both section V-C. Two
//! extensions that section VII proposes are off by default:
//! - `dirty_weight` (0): the number of accesses that a write in the interval adds. It requires
//!   dirty bits.
//! - `adaptive_interval` (false), within `min_interval_ms` (100) and `max_interval_ms` (10000): see
//!   [`AdaptiveInterval`].

use std::time::Duration;

use super::adaptive_interval::AdaptiveInterval;
use super::lru_scan::{ListRules, LruEstimator, LruScan};
use crate::config::{ConfigError, Section};
use crate::lru::{End, LruList, LruLists};
use crate::migrate::{FailReason, MoveOutcome};
use crate::observe::{Observation, Signals};
use crate::page::{Flag, PageTable};
use crate::pfra::Pfra;
use crate::registry::BuildContext;
use crate::units::{Hotness, PageId};

/// The maximum of `dirty_weight`: with three, one interval takes a page from the inactive to the
/// promote list, and a larger weight has no further effect.
const MAX_DIRTY_WEIGHT: u64 = 3;

/// Three lists, scanned at an interval.
pub type MultiClock = LruEstimator<ThreeLists>;

/// MULTI-CLOCK's rules over its three lists, with its optional adaptive interval.
#[derive(Debug, Clone)]
pub struct ThreeLists {
    adaptive: Option<AdaptiveInterval>,
}

impl MultiClock {
    /// Reads its parameters.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub fn build(section: &Section<'_>, ctx: &BuildContext<'_>) -> Result<Self, ConfigError> {
        let dirty_weight = section.whole_or("dirty_weight", 0, 0..=MAX_DIRTY_WEIGHT)? as u32;
        let interval = LruScan::interval(section, "interval_ms", LruScan::INTERVAL)?;
        let lists = LruScan::build(Pfra { dirty_weight, ..Pfra::MULTI_CLOCK }, section, ctx)?;
        let adaptive = AdaptiveInterval::build(section, interval)?;
        Ok(Self::new(lists, interval, ThreeLists { adaptive }))
    }
}

impl ListRules for ThreeLists {
    const PROMOTED: LruList = LruList::Promote;

    fn signals(&self, lists: &LruScan) -> Signals {
        Signals { dirty_bits: lists.pfra.dirty_weight > 0, ..Signals::default() }
    }

    fn on_observation(&mut self, obs: &Observation, pages: &PageTable) {
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.on_observation(obs, pages);
        }
    }

    fn on_outcome(&mut self, outcome: &MoveOutcome, lists: &mut LruScan, pages: &mut PageTable) {
        let promotion = outcome.from.is_some_and(|from| outcome.to < from);
        // A promoted page was accessed repeatedly: it is active in its new tier (13). A demoted
        // page starts again (3).
        let which = if promotion { LruList::Active } else { LruList::Inactive };
        let moved = lists.lru.on_outcome(outcome, which, End::Head, pages);
        if moved && promotion {
            if let Some(adaptive) = &mut self.adaptive {
                adaptive.promoted(outcome.page);
            }
        } else if outcome.result.is_err_and(|reason| reason != FailReason::Budget)
            && outcome.from == pages.tier(outcome.page)
            && pages.flag(outcome.page, Flag::Promote)
        {
            // The page could not be promoted: section III-C, (11). A move that the budget cut was
            // not tried; the next scan decides by (11) or (12).
            lists.lru.shift(outcome.page, LruList::Active, pages);
            pages.set_flag(outcome.page, Flag::Referenced, false);
        }
    }

    fn next_interval(&mut self, current: Duration, climbed: u64) -> Duration {
        self.adaptive.as_mut().map_or(current, |adaptive| adaptive.next(climbed))
    }

    /// Returns the accesses by which the page has climbed, 0 (inactive and unreferenced) to 4
    /// (promote). Adds the dirty weight if the page was written in the last scan's interval.
    fn hotness(&self, page: PageId, lists: &LruScan, pages: &PageTable) -> Hotness {
        let climbed = match LruLists::which(page, pages) {
            LruList::Promote => 4,
            list => 2 * list as u32 + u32::from(pages.flag(page, Flag::Referenced)),
        };
        let dirty = if pages.flag(page, Flag::Dirty) { lists.pfra.dirty_weight } else { 0 };
        Hotness(climbed + dirty)
    }
}
