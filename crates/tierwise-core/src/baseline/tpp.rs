//! TPP: transparent page placement for CXL-enabled tiered memory (Maruf et al., ASPLOS 2023).
//!
//! - Demotion takes the place of swapping: pages at the old end of the fast tier's inactive lists
//!   are migrated in the background (section 5.1; [`super::kswapd`]).
//! - Allocation and reclaim have separate watermarks (section 5.2). Demotion starts when the fast
//!   tier has less free than the demotion watermark, `demote_scale_factor` (2 %) of its capacity
//!   and never less than the high watermark, and continues up to it. Allocation continues below it,
//!   down to the low watermark, so there is headroom for bursts of new pages and for promotions.
//! - Only slow pages are sampled for hint faults (section 5.3; [`super::numa_scan`]).
//! - A page that faults is promoted if it is on an active list. If it is on an inactive one it is
//!   marked accessed and activated, and promoted if it faults again while it is active (section
//!   5.3). A page just demoted is inactive, so two faults promote it again.
//! - Promotion ignores the allocation watermark (section 5.3): it may use the fast tier's free
//!   pages down to the min watermark.
//! - A demoted page carries [`Flag::Demoted`] until it is promoted (`PG_demoted`, section 5.5).
//!   [`crate::metrics::Metrics::promote_demoted`] counts the promotion candidates that carry it. If
//!   many do, pages go back and forth.
//!
//! Page-type-aware allocation (section 5.4: page caches start in the slow tier) is an option of TPP
//! that is left out: a [`crate::migrate::Placement`] does not distinguish kinds of pages.
//!
//! On more than two tiers the target is the fastest, the CPUs' own tier, as it is the CPU's own
//! node for TPP. Demotion goes one tier down if that tier has free memory.

use crate::baseline::kswapd::{Kswapd, Marks};
use crate::baseline::numa_scan::{NumaScanner, Tiers};
use crate::config::{ConfigError, Section};
use crate::lru::{End, LruList, LruLists};
use crate::migrate::{MigrationPlan, MoveOutcome};
use crate::observe::{Observation, Signals};
use crate::page::{Flag, PageTable};
use crate::policy::{PlanContext, Policy};
use crate::registry::BuildContext;
use crate::select::FreePages;
use crate::topology::{Tier, WatermarkLevel};
use crate::units::{PageId, Pages, TierId, Timestamp};

/// The policy.
#[derive(Debug)]
pub(crate) struct Tpp {
    scanner: NumaScanner,
    /// `vm.demote_scale_factor`, in ten-thousandths of a tier.
    demote_scale_factor: u64,
    lru: LruLists,
    kswapd: Kswapd,
}

impl Tpp {
    /// Reads the scanner's parameters and `demote_scale_factor` (200 ten-thousandths).
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub(crate) fn build(section: &Section<'_>, _: &BuildContext<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            scanner: NumaScanner::read(section, Tiers::Slow)?,
            demote_scale_factor: section.whole_or("demote_scale_factor", 200, 0..=5000)?,
            lru: LruLists::default(),
            kswapd: Kswapd::default(),
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
        if LruLists::which(page, ctx.pages) == LruList::Inactive {
            self.lru.shift(page, LruList::Active, ctx.pages);
            return;
        }
        let frames = Pages(ctx.pages.frames(page));
        if !free.fits(frames, TierId::FASTEST, ctx.topology, WatermarkLevel::Min) {
            self.kswapd.wake(TierId::FASTEST);
        } else if self.lru.isolate(page, ctx.pages) {
            plan.on_fault(page, TierId::FASTEST);
            free.record(frames, from, TierId::FASTEST);
        }
    }
}

/// Section 5.2's demotion watermark, at which demotion both starts and ends.
fn demotion_marks(tier: &Tier, scale_factor: u64) -> Marks {
    let mark = Pages(tier.capacity.0 * scale_factor / 10_000).max(tier.watermarks.high);
    Marks { wake: mark, stop: mark }
}

impl Policy for Tpp {
    fn signals(&self) -> Signals {
        Signals { reference_bits: true, hint_faults: true, ..Signals::default() }
    }

    fn on_observation(&mut self, _: Timestamp, obs: &Observation, pages: &mut PageTable) {
        self.lru.on_observation(obs, pages);
        self.scanner.on_observation(obs);
    }

    fn on_outcomes(&mut self, _: Timestamp, outcomes: &[MoveOutcome], pages: &mut PageTable) {
        self.scanner.on_outcomes(outcomes);
        for outcome in outcomes {
            let which = LruLists::which(outcome.page, pages);
            if self.lru.on_outcome(outcome, which, End::Head, pages) {
                let demoted = outcome.from.is_some_and(|from| from < outcome.to);
                pages.set_flag(outcome.page, Flag::Demoted, demoted);
            }
        }
    }

    fn next_wake(&self) -> Option<Timestamp> {
        Some(self.kswapd.next().map_or(self.scanner.due(), |at| at.min(self.scanner.due())))
    }

    fn plan(&mut self, now: Timestamp, ctx: &mut PlanContext<'_>, plan: &mut MigrationPlan) {
        let mut free = FreePages::new(ctx.free);
        self.scanner.run(now, ctx, plan, |_, _, _| ());
        let faults = self.scanner.take_faults();
        for fault in &faults {
            self.handle_fault(fault.page, ctx, &mut free, plan);
        }
        self.scanner.done_with(faults);
        let factor = self.demote_scale_factor;
        let marks = |tier: &Tier| demotion_marks(tier, factor);
        self.kswapd.run(now, ctx, &mut self.lru, &mut free, marks, plan);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Driven, SECOND};
    use super::*;

    const TPP: &str = "algorithm = \"tpp\"";

    #[test]
    fn first_fault_activates_and_second_promotes() {
        let mut driven = Driven::new(TPP);
        driven.machine.allocated(0..10, 1);
        driven.fault(3, SECOND, SECOND);
        assert_eq!(driven.plan(SECOND), []);
        driven.fault(3, 2 * SECOND, 2 * SECOND);
        driven.fault(4, 2 * SECOND, 2 * SECOND);
        assert_eq!(driven.plan(2 * SECOND), [(3, 0)]);
    }

    #[test]
    fn demotion_starts_before_allocation_runs_short() {
        let mut driven = Driven::new("algorithm = \"tpp\"\ndemote_scale_factor = 1000");
        // 8 of 100 are free: above low (4) and high (6), below a tenth.
        driven.machine.allocated(0..92, 0);
        assert_eq!(driven.plan(SECOND / 2), [(0, 1), (1, 1)]);
        assert_eq!(driven.plan(SECOND / 2 + 1), [], "10 are free");
    }

    #[test]
    fn demotion_watermark_is_two_percent_or_high() {
        let driven = Driven::new(TPP);
        let mut tier = driven.machine.topology.tiers[0].clone();
        assert_eq!(demotion_marks(&tier, 200), Marks { wake: Pages(6), stop: Pages(6) });
        tier.capacity = Pages(100_000);
        assert_eq!(demotion_marks(&tier, 200), Marks { wake: Pages(2000), stop: Pages(2000) });
    }

    #[test]
    fn promotion_may_reach_the_min_watermark() {
        let mut driven = Driven::new(TPP);
        driven.machine.allocated(0..97, 0).allocated(100..110, 1);
        (0..97).for_each(|page| driven.reference(page));
        for second in 1..=2 {
            driven.fault(100, second * SECOND, second * SECOND);
            driven.fault(101, second * SECOND, second * SECOND);
        }
        let moves = driven.plan(2 * SECOND);
        assert_eq!(moves[0], (100, 0), "3 were free, 2 must stay");
        assert!(!moves.contains(&(101, 0)));
    }

    #[test]
    fn returning_demoted_page_is_counted() {
        let mut driven = Driven::new("algorithm = \"tpp\"\ndemote_scale_factor = 1000");
        driven.machine.allocated(0..92, 0);
        assert_eq!(driven.plan(SECOND / 2)[0], (0, 1));
        assert!(driven.machine.pages.flag(PageId(0), Flag::Demoted));
        driven.fault(0, SECOND, SECOND);
        driven.plan(SECOND);
        driven.fault(0, 2 * SECOND, 2 * SECOND);
        assert!(driven.plan(2 * SECOND).contains(&(0, 0)));
        assert!(!driven.machine.pages.flag(PageId(0), Flag::Demoted));
    }
}
