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
//! - A demoted page has [`Flag::Demoted`] until it is promoted (`PG_demoted`, section 5.5).
//!   [`crate::metrics::Metrics::promote_demoted`] counts the promotion candidates that have it. If
//!   there are many, pages thrash.
//!
//! Page-type-aware allocation (section 5.4: page caches start in the slow tier) is an option of TPP
//! that is left out: a [`crate::migrate::Placement`] does not distinguish kinds of pages.
//!
//! On more than two tiers the target is the fastest tier, which is the CPUs' own. For TPP it is the
//! CPU's own node. Demotion goes one tier down if that tier has free memory.

use super::fault_tiering::{FaultPass, FaultRules, FaultTiering};
use super::kswapd::KswapdWatermarks;
use super::numa_scan::{NumaScanner, Tiers};
use crate::config::{ConfigError, Section};
use crate::lru::{LruList, LruLists};
use crate::migrate::MoveOutcome;
use crate::observe::HintFault;
use crate::page::{Flag, PageTable};
use crate::registry::BuildContext;
use crate::topology::{Tier, WatermarkLevel};
use crate::units::{Pages, Timestamp};

/// The policy.
pub(super) type Tpp = FaultTiering<ActiveFaults>;

/// TPP's rules.
#[derive(Debug)]
pub(super) struct ActiveFaults {
    /// `vm.demote_scale_factor`, in ten-thousandths of a tier.
    demote_scale_factor: u64,
}

impl Tpp {
    /// Reads the scanner's parameters and `demote_scale_factor` (200 ten-thousandths).
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub(super) fn build(section: &Section<'_>, _: &BuildContext<'_>) -> Result<Self, ConfigError> {
        let scanner = NumaScanner::read(section, Tiers::Slow)?;
        let demote_scale_factor = section.whole_or("demote_scale_factor", 200, 0..=5000)?;
        Ok(Self::new(scanner, ActiveFaults { demote_scale_factor }))
    }
}

/// Section 5.2's demotion watermark, at which demotion both starts and ends.
fn demotion_marks(tier: &Tier, scale_factor: u64) -> KswapdWatermarks {
    let mark = Pages(tier.capacity.0 * scale_factor / 10_000).max(tier.watermarks.high);
    KswapdWatermarks { wake: mark, stop: mark }
}

impl FaultRules for ActiveFaults {
    fn handle_fault(&mut self, _: Timestamp, fault: &HintFault, pass: &mut FaultPass<'_, '_>) {
        let Some(from) = pass.slow_tier(fault) else { return };
        if LruLists::which(fault.page, pass.ctx.pages) == LruList::Inactive {
            pass.lru.shift(fault.page, LruList::Active, pass.ctx.pages);
        } else {
            pass.promote(fault, from, WatermarkLevel::Min);
        }
    }

    fn on_moved(&mut self, outcome: &MoveOutcome, pages: &mut PageTable) {
        let demoted = outcome.from.is_some_and(|from| from < outcome.to);
        pages.set_flag(outcome.page, Flag::Demoted, demoted);
    }

    fn marks(&self, tier: &Tier) -> KswapdWatermarks {
        demotion_marks(tier, self.demote_scale_factor)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Driven, SECOND};
    use super::*;
    use crate::units::PageId;

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
        assert_eq!(demotion_marks(&tier, 200), KswapdWatermarks { wake: Pages(6), stop: Pages(6) });
        tier.capacity = Pages(100_000);
        assert_eq!(
            demotion_marks(&tier, 200),
            KswapdWatermarks { wake: Pages(2000), stop: Pages(2000) }
        );
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
