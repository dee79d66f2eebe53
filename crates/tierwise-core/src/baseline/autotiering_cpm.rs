//! AutoTiering-CPM: conservative promotion or migration (Kim, Choe and Ahn, "Exploring the Design
//! Space of Page Management for Multi-Tiered Memory Systems", USENIX ATC 2021).
//!
//! Conventional NUMA balancing gives up when the best node for a page is full. CPM takes the next
//! best node with free memory: a page that faulted goes to the fastest tier that can take it above
//! its high watermark (`migrate_balanced_pgdat`) and is faster than its own. No page is demoted, so
//! once the fast tier is full, its pages stay there, hot or cold.
//!
//! It builds on conventional NUMA balancing, whose scanner poisons the pages of all tiers
//! ([`super::numa_scan`]): faults on fast pages cost time and have no effect. NUMA balancing's
//! filter against pages shared between nodes (`should_numa_migrate_memory`) passes every page here,
//! as all CPUs are beside the fastest tier. Page exchange (CPMX) is another mode of the authors'
//! system and not part of this policy.

use crate::baseline::numa_scan::{NumaScanner, Tiers};
use crate::config::{ConfigError, Section};
use crate::lru::Isolation;
use crate::migrate::{MigrationPlan, MoveOutcome};
use crate::observe::{Observation, Signals};
use crate::page::PageTable;
use crate::policy::{PlanContext, Policy};
use crate::registry::BuildContext;
use crate::select::FreePages;
use crate::topology::WatermarkLevel;
use crate::units::{PageId, Pages, Timestamp};

/// The policy.
#[derive(Debug)]
pub(super) struct AutoTieringCpm {
    scanner: NumaScanner,
    isolated: Isolation,
}

impl AutoTieringCpm {
    /// Reads the scanner's parameters.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub(super) fn build(section: &Section<'_>, _: &BuildContext<'_>) -> Result<Self, ConfigError> {
        let scanner = NumaScanner::read(section, Tiers::All)?;
        Ok(Self { scanner, isolated: Isolation::default() })
    }

    /// `find_best_migration_node`, with the tiers in the place of nodes.
    fn handle_fault(
        &mut self,
        page: PageId,
        ctx: &mut PlanContext<'_>,
        free: &mut FreePages,
        plan: &mut MigrationPlan,
    ) {
        let Some(from) = ctx.pages.tier(page) else { return };
        let frames = Pages(ctx.pages.frames(page));
        let best = ctx
            .topology
            .ids()
            .take_while(|&to| to < from)
            .find(|&to| free.fits(frames, to, ctx.topology, WatermarkLevel::High));
        if let Some(to) = best
            && self.isolated.take(page, ctx.pages)
        {
            plan.on_fault(page, to);
            free.record(frames, from, to);
        }
    }
}

impl Policy for AutoTieringCpm {
    fn signals(&self) -> Signals {
        Signals { hint_faults: true, ..Signals::default() }
    }

    fn on_observation(&mut self, _: Timestamp, obs: &Observation, pages: &mut PageTable) {
        self.isolated.put_back(pages);
        self.scanner.on_observation(obs);
    }

    fn on_outcomes(&mut self, _: Timestamp, outcomes: &[MoveOutcome], _: &mut PageTable) {
        self.scanner.on_outcomes(outcomes);
    }

    fn next_wake(&self) -> Option<Timestamp> {
        Some(self.scanner.due())
    }

    fn plan(&mut self, now: Timestamp, ctx: &mut PlanContext<'_>, plan: &mut MigrationPlan) {
        let mut free = FreePages::new(ctx.free);
        self.scanner.run(now, ctx, plan, |_, _, _| ());
        let faults = self.scanner.take_faults();
        for fault in &faults {
            self.handle_fault(fault.page, ctx, &mut free, plan);
        }
        self.scanner.done_with(faults);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Driven, SECOND};

    const CPM: &str = "algorithm = \"autotiering-cpm\"";

    #[test]
    fn fault_promotes_while_high_watermark_holds() {
        let mut driven = Driven::new(CPM);
        driven.machine.allocated(0..92, 0).allocated(100..110, 1);
        (100..105).for_each(|page| driven.fault(page, SECOND, 9 * SECOND));
        assert_eq!(driven.plan(9 * SECOND), [(100, 0), (101, 0)], "8 free, 6 are kept");
    }

    #[test]
    fn next_best_tier_is_used_without_demotion() {
        let mut driven = Driven::three_tiers(CPM);
        driven.machine.allocated(0..99, 0).allocated(100..150, 1).allocated(200..210, 2);
        driven.fault(205, SECOND, SECOND);
        driven.fault(120, SECOND, SECOND);
        driven.fault(50, SECOND, SECOND);
        assert_eq!(driven.plan(SECOND), [(205, 1)]);
    }

    #[test]
    fn pages_of_all_tiers_are_poisoned() {
        let mut driven = Driven::new(CPM);
        driven.machine.allocated(0..3, 0).allocated(3..5, 1);
        driven.plan(SECOND);
        assert_eq!(driven.poisoned, [(0, 5)]);
    }
}
