//! Nimble's page selection as MULTI-CLOCK's authors implemented it to compare with (HPCA 2022,
//! sections II-D and III-A, and Figure 3): the kernel's inactive and active lists and no others.
//! The pages that were activated most recently are promoted, whether they were accessed once or
//! often since then: Nimble knows recency and not frequency. The pages that they are exchanged for
//! are the upper tier's oldest, accessed or not ([`crate::select`], "exchange").
//!
//! Parameters: `interval_ms` (1000) and `scan_pages` (1024 on each list), both section V-C.

use super::lru_scan::{ListRules, LruEstimator, LruScan};
use crate::config::{ConfigError, Section};
use crate::lru::{End, LruList};
use crate::migrate::MoveOutcome;
use crate::page::{Flag, PageTable};
use crate::pfra::Pfra;
use crate::registry::BuildContext;
use crate::units::{Hotness, PageId};

/// The kernel's two lists, scanned at an interval.
pub type Nimble = LruEstimator<TwoLists>;

/// Nimble's rules over its two lists.
#[derive(Debug, Clone)]
pub struct TwoLists;

impl Nimble {
    /// Reads its parameters.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub fn build(section: &Section<'_>, ctx: &BuildContext<'_>) -> Result<Self, ConfigError> {
        let interval = LruScan::interval(section, "interval_ms", LruScan::INTERVAL)?;
        let lists = LruScan::build(Pfra::TWO_LISTS, section, ctx)?;
        Ok(Self::new(lists, interval, TwoLists))
    }
}

impl ListRules for TwoLists {
    const PROMOTED: LruList = LruList::Active;

    /// Promoted pages join the upper tier's active list at its old end (Figure 3, arrow 11).
    /// Demoted pages join the inactive list and may be demoted further until they are accessed.
    fn on_outcome(&mut self, outcome: &MoveOutcome, lists: &mut LruScan, pages: &mut PageTable) {
        let (which, end) = match outcome.from {
            Some(from) if outcome.to < from => (LruList::Active, End::Tail),
            _ => (LruList::Inactive, End::Head),
        };
        lists.lru.on_outcome(outcome, which, end, pages);
    }

    /// Returns 0 to 3: inactive, inactive referenced, active, active referenced.
    fn hotness(&self, page: PageId, _: &LruScan, pages: &PageTable) -> Hotness {
        let active = u32::from(pages.flag(page, Flag::Active));
        Hotness(2 * active + u32::from(pages.flag(page, Flag::Referenced)))
    }
}
