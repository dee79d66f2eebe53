//! CLOCK with a second chance (Corbató, 1968, "A paging experiment with the Multics system"), the
//! basis of the kernel's reclaim and of MULTI-CLOCK (MULTI-CLOCK, section II-D): one reference bit
//! per page and a hand that moves in a circle.
//!
//! The hand passes the entries of the page table in their order, all tiers in one sweep. So memory
//! is read in sequence, and there are no lists. The pages that its last sweep found accessed are
//! the most recently used; the others have no order. Victims come from a second hand per tier,
//! which skips accessed pages once and clears their mark.
//!
//! Parameters: `interval_ms` (1000), and `scan_pages` (1024 for each tier of the machine, the
//! number that MULTI-CLOCK's section V-C gives each list of the policies that it compares).

use std::ops::Range;
use std::time::Duration;

use super::lru_scan::LruScan;
use crate::config::{ConfigError, Section};
use crate::lru::Isolation;
use crate::migrate::MoveOutcome;
use crate::observe::{Observation, Signals};
use crate::page::{Flag, PageTable};
use crate::policy::PlanContext;
use crate::registry::BuildContext;
use crate::stage::{Estimator, Scope};
use crate::topology::Topology;
use crate::units::{Hotness, PageId, Pages, Timestamp};

/// CLOCK: a hand over all pages, and one per tier for victims.
#[derive(Debug, Clone)]
pub struct Clock {
    interval: Duration,
    /// Entries that a sweep passes.
    sweep: u64,
    /// The next entry.
    hand: usize,
    /// Entries that the last sweep passed; they end before the hand.
    swept: usize,
    victim_hands: [usize; Topology::MAX_TIERS],
    /// Entries that each victim hand has passed since the last observation.
    passed: [usize; Topology::MAX_TIERS],
    isolated: Isolation,
}

impl Clock {
    /// Reads its parameters.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub fn build(section: &Section<'_>, ctx: &BuildContext<'_>) -> Result<Self, ConfigError> {
        let pages = section.whole_or("scan_pages", LruScan::SCAN_PAGES, 1..=u64::MAX)?;
        Ok(Self {
            interval: LruScan::interval(section, "interval_ms", LruScan::INTERVAL)?,
            sweep: pages.saturating_mul(ctx.topology.tiers.len() as u64),
            hand: 0,
            swept: 0,
            victim_hands: [0; Topology::MAX_TIERS],
            passed: [0; Topology::MAX_TIERS],
            isolated: Isolation::default(),
        })
    }

    /// Returns the last sweep's entries, the latest first: those before the hand, then those before
    /// the table's end.
    fn swept(&self, len: usize) -> [Range<usize>; 2] {
        let before = self.hand.min(self.swept);
        [self.hand - before..self.hand, len - (self.swept - before)..len]
    }
}

fn is_in(scope: Scope, page: PageId, pages: &PageTable) -> bool {
    pages.tier(page) == Some(scope.tier)
        && scope.tenant.is_none_or(|tenant| pages.tenant(page) == tenant)
}

impl Estimator for Clock {
    fn signals(&self) -> Signals {
        Signals { reference_bits: true, ..Signals::default() }
    }

    fn interval(&self) -> Option<Duration> {
        Some(self.interval)
    }

    fn on_observation(&mut self, _: Timestamp, obs: &Observation, pages: &mut PageTable) {
        self.isolated.put_back(pages);
        self.passed.fill(0);
        // There is no list to record a supervised access, so it counts as one more reference.
        obs.supervised.iter().for_each(|&page| pages.mark_referenced(page));
    }

    /// Does nothing: a move changes only a page's tier, which is in the page table.
    fn on_outcomes(&mut self, _: Timestamp, _: &[MoveOutcome], _: &mut PageTable) {}

    fn update(&mut self, _: Timestamp, ctx: &mut PlanContext<'_>) {
        let len = ctx.pages.len();
        self.swept = usize::try_from(self.sweep).unwrap_or(usize::MAX).min(len);
        let end = self.hand + self.swept;
        ctx.pages.sweep(self.hand..end.min(len));
        self.hand = end;
        if end >= len {
            self.hand = end - len;
            ctx.pages.sweep(0..self.hand);
        }
    }

    /// Adds the pages that the last sweep found accessed, the latest first.
    fn promotable(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        let mut taken = Pages(0);
        for entry in self.swept(pages.len()).into_iter().flat_map(Iterator::rev) {
            let page = PageId(entry as u32);
            if taken >= limit {
                return;
            }
            if pages.flag(page, Flag::Referenced)
                && is_in(scope, page, pages)
                && self.isolated.take(page, pages)
            {
                taken += Pages(pages.frames(page));
                out.push(page);
            }
        }
    }

    /// Second chance: accessed pages lose their mark and are skipped, the others are added to
    /// `out`. Between two observations the hand goes round once: a second round would find no
    /// accessed page.
    fn demotable(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        let tier = scope.tier.index();
        let mut taken = Pages(0);
        while taken < limit && self.passed[tier] < pages.len() {
            self.passed[tier] += 1;
            let hand = self.victim_hands[tier];
            self.victim_hands[tier] = if hand + 1 < pages.len() { hand + 1 } else { 0 };
            let page = PageId(hand as u32);
            if !is_in(scope, page, pages) || pages.flag(page, Flag::Isolated) {
                continue;
            }
            if pages.take_referenced(page) || pages.flag(page, Flag::Referenced) {
                pages.set_flag(page, Flag::Referenced, false);
            } else if self.isolated.take(page, pages) {
                taken += Pages(pages.frames(page));
                out.push(page);
            }
        }
    }

    /// Returns one if the hand found the page accessed when it last passed the page, else zero.
    fn hotness(&self, page: PageId, pages: &PageTable) -> Hotness {
        Hotness(u32::from(pages.flag(page, Flag::Referenced)))
    }
}
