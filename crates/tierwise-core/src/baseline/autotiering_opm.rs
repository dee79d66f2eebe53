//! AutoTiering-OPM: opportunistic promotion or migration with progressive demotion (Kim, Choe and
//! Ahn, USENIX ATC 2021).
//!
//! Like CPM ([`super::autotiering_cpm`]), but a full tier makes room by demoting least accessed
//! pages (LAP). Each page has an eight-bit history with one bit per scan: the bit is one if the
//! page faulted since the previous scan. Its number of ones is the page's access level, and each
//! tier but the slowest keeps one LAP list per level (`lap_area`, `add_page_for_tracking`). A page
//! joins the lists at its first scan. A page that was just accessed joins at the recent end of its
//! level's list. Any other page joins at the old end. Victims are taken from the old end, lowest
//! level first. New pages start with a full history.
//!
//! - *On promotion*: if the target tier of a faulting page is full, the application first demotes
//!   that tier's least accessed pages, then promotes. Victims must have a lower level than the page
//!   that they make room for, its present access included: an exchange of pages of equal level
//!   would gain nothing.
//! - *In the background* (`background_demotion`): a tier below its high watermark demotes least
//!   accessed pages up to that mark, so that promotions find free pages. Pages that faulted after
//!   each of the last eight scans are spared. The authors' system has the same switch, which is off
//!   at boot.
//!
//! Victims go to the fastest of the slower tiers with free pages above the high watermark
//! (`find_best_demotion_node`). The history of slow pages is kept too, and moves with the page
//! (`copy_page_info`).
//!
//! Each scan costs a poisoned and faulting page table entry for every page of every tier, which the
//! world charges to the application. The memory cost is nine bytes per page: one of history and
//! eight of list links. With the page table's four they are 13. The scanner's bitmap takes an
//! eighth of a byte more.

use crate::baseline::numa_scan::{NumaScanner, Tiers};
use crate::config::{ConfigError, Section};
use crate::lists::{ListId, PageLists};
use crate::lru::Isolation;
use crate::migrate::{MigrationPlan, MoveOutcome};
use crate::observe::{Observation, Signals};
use crate::page::PageTable;
use crate::policy::{PlanContext, Policy};
use crate::registry::BuildContext;
use crate::select::FreePages;
use crate::topology::WatermarkLevel;
use crate::units::{PageId, Pages, TierId, Timestamp};

/// Levels 0 to 8: the number of ones in eight bits (`ACCESS_HISTORY_SIZE`).
const LEVELS: u32 = u8::BITS + 1;

/// The LAP lists and the access histories that sort pages into them.
#[derive(Debug)]
struct Lap {
    histories: Vec<u8>,
    lists: PageLists,
    slowest: TierId,
    isolated: Isolation,
}

impl Lap {
    fn history(&self, page: PageId) -> u8 {
        self.histories.get(page.index()).copied().unwrap_or(u8::MAX)
    }

    fn set_history(&mut self, page: PageId, history: u8) {
        if page.index() >= self.histories.len() {
            self.histories.resize(page.index() + 1, u8::MAX);
        }
        self.histories[page.index()] = history;
    }

    fn list(tier: TierId, level: u32) -> ListId {
        ListId(u32::from(tier.0) * LEVELS + level)
    }

    /// Takes a page off its list. `tier` is the tier of that list.
    fn untrack(&mut self, page: PageId, tier: TierId, pages: &PageTable) {
        if self.lists.contains(page) {
            let level = self.history(page).count_ones();
            self.lists.remove(Self::list(tier, level), page, pages.frames(page));
        }
    }

    /// Puts a page that is on no list on the list of its level.
    fn track(&mut self, page: PageId, tier: TierId, pages: &PageTable) {
        if tier == self.slowest {
            return;
        }
        let history = self.history(page);
        let list = Self::list(tier, history.count_ones());
        if history & 1 == 1 {
            self.lists.push_head(list, page, pages.frames(page));
        } else {
            self.lists.push_tail(list, page, pages.frames(page));
        }
    }

    /// Records the scanner's visit (`mod_page_access_lv`).
    fn scanned(&mut self, page: PageId, accessed: bool, pages: &PageTable) {
        let Some(tier) = pages.tier(page) else { return };
        self.untrack(page, tier, pages);
        self.set_history(page, self.history(page) << 1 | u8::from(accessed));
        self.track(page, tier, pages);
    }

    /// Returns the least accessed page of a tier whose level is below `below` and which no move of
    /// this plan names.
    fn victim(&mut self, tier: TierId, below: u32, pages: &mut PageTable) -> Option<PageId> {
        for list in (0..below).map(|level| Self::list(tier, level)) {
            let mut at = self.lists.tail(list);
            while let Some(page) = at {
                at = self.lists.newer(page);
                if self.isolated.take(page, pages) {
                    // The page moves to the recent end, so that the search does not find it again
                    // in this plan.
                    self.lists.rotate(list, page);
                    return Some(page);
                }
            }
        }
        None
    }

    /// Undoes the last [`Self::victim`]: no move of this plan names the page after all.
    fn put_back_last(&mut self, page: PageId, tier: TierId, pages: &mut PageTable) {
        let list = Self::list(tier, self.history(page).count_ones());
        self.lists.remove(list, page, 0);
        self.lists.push_tail(list, page, 0);
        self.isolated.put_back_last(pages);
    }
}

/// The policy.
#[derive(Debug)]
pub(super) struct AutoTieringOpm {
    scanner: NumaScanner,
    lap: Lap,
    background_demotion: bool,
    /// Demotions for one promotion, collected until they free enough memory for it.
    demotions: Vec<(PageId, TierId)>,
}

impl AutoTieringOpm {
    /// Reads the scanner's parameters and `background_demotion` (true).
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub(super) fn build(
        section: &Section<'_>,
        build: &BuildContext<'_>,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            scanner: NumaScanner::read(section, Tiers::All)?,
            lap: Lap {
                histories: Vec::new(),
                lists: PageLists::default(),
                slowest: build.topology.slowest(),
                isolated: Isolation::default(),
            },
            background_demotion: section.flag_or("background_demotion", true)?,
            demotions: Vec::new(),
        })
    }

    fn handle_fault(
        &mut self,
        page: PageId,
        ctx: &mut PlanContext<'_>,
        free: &mut FreePages,
        plan: &mut MigrationPlan,
    ) {
        let Some(from) = ctx.pages.tier(page).filter(|&t| t != TierId::FASTEST) else { return };
        if !self.lap.isolated.take(page, ctx.pages) {
            return;
        }
        let frames = Pages(ctx.pages.frames(page));
        let level = (self.lap.history(page) << 1 | 1).count_ones();
        for to in ctx.topology.ids().take_while(|&to| to < from) {
            if self.make_room(to, frames, level, ctx, free, plan) {
                plan.on_fault(page, to);
                free.record(frames, from, to);
                return;
            }
        }
    }

    /// Plans demotions of pages below a level until `tier` can take `frames` above its high
    /// watermark. Plans none if there are too few such pages.
    fn make_room(
        &mut self,
        tier: TierId,
        frames: Pages,
        level: u32,
        ctx: &mut PlanContext<'_>,
        free: &mut FreePages,
        plan: &mut MigrationPlan,
    ) -> bool {
        let mut after = *free;
        self.demotions.clear();
        while !after.fits(frames, tier, ctx.topology, WatermarkLevel::High) {
            let Some((page, to)) = self.demotion(tier, level, &mut after, ctx) else {
                for &(page, _) in self.demotions.iter().rev() {
                    self.lap.put_back_last(page, tier, ctx.pages);
                }
                return false;
            };
            self.demotions.push((page, to));
        }
        *free = after;
        self.demotions.iter().for_each(|&(page, to)| plan.on_fault(page, to));
        true
    }

    /// `kdemoted`'s work: demotes least accessed pages until the high watermark holds or no more
    /// are found.
    fn demote_in_background(
        &mut self,
        ctx: &mut PlanContext<'_>,
        free: &mut FreePages,
        plan: &mut MigrationPlan,
    ) {
        for tier in ctx.topology.ids().rev().skip(1) {
            while !free.fits(Pages(0), tier, ctx.topology, WatermarkLevel::High) {
                let Some((page, to)) = self.demotion(tier, u8::BITS, free, ctx) else { break };
                plan.background(page, to);
            }
        }
    }

    fn demotion(
        &mut self,
        tier: TierId,
        below: u32,
        free: &mut FreePages,
        ctx: &mut PlanContext<'_>,
    ) -> Option<(PageId, TierId)> {
        let page = self.lap.victim(tier, below, ctx.pages)?;
        let frames = Pages(ctx.pages.frames(page));
        let to = free.slower_that_fits(frames, tier, ctx.topology, WatermarkLevel::High);
        match to {
            Some(to) => free.record(frames, tier, to),
            None => self.lap.put_back_last(page, tier, ctx.pages),
        }
        to.map(|to| (page, to))
    }
}

impl Policy for AutoTieringOpm {
    fn signals(&self) -> Signals {
        Signals { hint_faults: true, ..Signals::default() }
    }

    fn on_observation(&mut self, _: Timestamp, obs: &Observation, pages: &mut PageTable) {
        self.lap.isolated.put_back(pages);
        self.scanner.on_observation(obs);
        for page in obs.allocated.iter().flat_map(|allocated| allocated.pages()) {
            // An allocation of a tracked page contradicts the page table, which keeps the old page.
            if pages.tier(page).is_some() && !self.lap.lists.contains(page) {
                self.lap.set_history(page, u8::MAX);
            }
        }
        for &page in &obs.freed {
            if let Some(tier) = pages.tier(page) {
                self.lap.untrack(page, tier, pages);
            }
        }
    }

    fn on_outcomes(&mut self, _: Timestamp, outcomes: &[MoveOutcome], pages: &mut PageTable) {
        self.scanner.on_outcomes(outcomes);
        for outcome in outcomes.iter().filter(|o| o.result.is_ok()) {
            if let Some(from) = outcome.from {
                self.lap.untrack(outcome.page, from, pages);
                self.lap.track(outcome.page, outcome.to, pages);
            }
        }
    }

    fn next_wake(&self) -> Option<Timestamp> {
        Some(self.scanner.due())
    }

    fn plan(&mut self, now: Timestamp, ctx: &mut PlanContext<'_>, plan: &mut MigrationPlan) {
        let mut free = FreePages::new(ctx.free);
        let lap = &mut self.lap;
        self.scanner
            .run(now, ctx, plan, |page, accessed, pages| lap.scanned(page, accessed, pages));
        let faults = self.scanner.take_faults();
        for fault in &faults {
            self.handle_fault(fault.page, ctx, &mut free, plan);
        }
        self.scanner.done_with(faults);
        if self.background_demotion {
            self.demote_in_background(ctx, &mut free, plan);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Driven, SECOND};
    use super::*;

    const OPM: &str = "algorithm = \"autotiering-opm\"\nbackground_demotion = false";
    const BACKGROUND: &str = "algorithm = \"autotiering-opm\"";

    /// After each scan the pages of `touched` fault at once.
    fn scans(driven: &mut Driven, from: u64, count: u64, touched: std::ops::Range<u32>) {
        for second in from..from + count {
            driven.plan(second * SECOND);
            touched
                .clone()
                .for_each(|page| driven.fault(page, second * SECOND, second * SECOND + 1));
        }
    }

    #[test]
    fn least_accessed_page_yields_to_more_accessed() {
        let mut driven = Driven::new(OPM);
        driven.machine.allocated(0..94, 0).allocated(100..110, 1);
        // After the first scan page 93 is not touched; the others are.
        scans(&mut driven, 1, 1, 0..93);
        driven.fault(100, SECOND, SECOND + 1);
        assert_eq!(driven.plan(2 * SECOND), [(93, 1), (100, 0)]);
    }

    #[test]
    fn equals_are_not_exchanged() {
        let mut driven = Driven::new(OPM);
        driven.machine.allocated(0..94, 0).allocated(100..110, 1);
        scans(&mut driven, 1, 10, 0..110);
        assert_eq!(driven.plan(10 * SECOND + 2), []);
    }

    #[test]
    fn idle_page_sinks_one_level_per_scan() {
        let mut lap = Lap {
            histories: Vec::new(),
            lists: PageLists::default(),
            slowest: TierId(1),
            isolated: Isolation::default(),
        };
        let mut machine = super::super::testing::PolicyFixture::two_tiers();
        machine.allocated(0..3, 0);
        for page in 0..3 {
            lap.scanned(PageId(page), true, &machine.pages);
        }
        assert_eq!(lap.victim(TierId(0), 8, &mut machine.pages), None, "all have full histories");
        lap.scanned(PageId(1), false, &machine.pages);
        lap.scanned(PageId(2), false, &machine.pages);
        lap.scanned(PageId(2), false, &machine.pages);
        assert_eq!(lap.history(PageId(2)), 0b1111_1100);
        assert_eq!(lap.victim(TierId(0), 8, &mut machine.pages), Some(PageId(2)));
        assert_eq!(lap.victim(TierId(0), 8, &mut machine.pages), Some(PageId(1)));
        assert_eq!(lap.victim(TierId(0), 8, &mut machine.pages), None, "both are named");
    }

    #[test]
    fn background_demotion_restores_the_high_watermark() {
        let mut driven = Driven::new(BACKGROUND);
        driven.machine.allocated(0..98, 0).allocated(100..110, 1);
        scans(&mut driven, 1, 1, 0..90);
        let moves = driven.plan(2 * SECOND);
        let pages: Vec<u32> = moves.iter().map(|m| m.0).collect();
        assert_eq!(pages.len(), 4, "2 were free, 6 are the high watermark");
        assert!(pages.iter().all(|page| (90..98).contains(page)), "{pages:?}");
    }

    #[test]
    fn abandoned_victims_serve_the_next_fault() {
        let mut driven = Driven::new(OPM);
        driven.machine.allocated(0..94, 0).allocated_huge(100, 4, 1).allocated(200..201, 1);
        scans(&mut driven, 1, 2, 0..90);
        // The huge page finds 4 victims of 16. The base page needs one, and gets the oldest.
        driven.fault(100, 3 * SECOND, 3 * SECOND);
        driven.fault(200, 3 * SECOND, 3 * SECOND);
        assert_eq!(driven.plan(3 * SECOND), [(93, 1), (200, 0)]);
    }

    #[test]
    fn huge_page_needs_several_victims() {
        let mut driven = Driven::new(OPM);
        driven.machine.allocated(0..94, 0).allocated_huge(100, 4, 1);
        scans(&mut driven, 1, 2, 0..90);
        driven.fault(100, 3 * SECOND, 3 * SECOND);
        let moves = driven.plan(3 * SECOND);
        assert_eq!(moves, [], "16 base pages wanted, 4 pages have a lower level");

        let mut driven = Driven::new(OPM);
        driven.machine.allocated(0..94, 0).allocated_huge(100, 4, 1);
        scans(&mut driven, 1, 2, 0..70);
        driven.fault(100, 3 * SECOND, 3 * SECOND);
        let moves = driven.plan(3 * SECOND);
        assert_eq!(moves.len(), 17);
        assert_eq!(moves[16], (100, 0));
    }
}
