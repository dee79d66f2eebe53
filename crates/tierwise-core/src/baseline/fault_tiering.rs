//! The common part of AutoNUMA and TPP: the scanner poisons slow pages, hint faults promote them,
//! and kswapd demotes from the old end of the inactive lists.

use super::kswapd::{Kswapd, KswapdWatermarks};
use super::numa_scan::NumaScanner;
use crate::lru::{End, LruLists};
use crate::migrate::{MigrationPlan, MoveOutcome};
use crate::observe::{HintFault, Observation, Signals};
use crate::page::PageTable;
use crate::policy::{PlanContext, Policy};
use crate::select::FreePages;
use crate::topology::{Tier, WatermarkLevel};
use crate::units::{Pages, TierId, Timestamp};

/// The steps in which the two policies differ.
pub(super) trait FaultRules: Send {
    /// Promotes the page of a hint fault if the policy's rules allow it.
    fn handle_fault(&mut self, now: Timestamp, fault: &HintFault, pass: &mut FaultPass<'_, '_>);

    /// Handles a move that succeeded.
    fn on_moved(&mut self, _outcome: &MoveOutcome, _pages: &mut PageTable) {}

    /// The levels of free pages between which kswapd works.
    fn marks(&self, tier: &Tier) -> KswapdWatermarks;
}

/// State shared by the faults of one plan.
pub(super) struct FaultPass<'a, 'b> {
    pub(super) ctx: &'a mut PlanContext<'b>,
    pub(super) lru: &'a mut LruLists,
    pub(super) free: FreePages,
    kswapd: &'a mut Kswapd,
    plan: &'a mut MigrationPlan,
}

impl FaultPass<'_, '_> {
    /// Promotes the faulting page to the fastest tier on the application's path. If that would
    /// break the tier's watermark, the page stays and kswapd wakes.
    pub(super) fn promote(&mut self, fault: &HintFault, from: TierId, level: WatermarkLevel) {
        let (page, fast) = (fault.page, TierId::FASTEST);
        let frames = Pages(self.ctx.pages.frames(page));
        if !self.free.fits(frames, fast, self.ctx.topology, level) {
            self.kswapd.wake(fast);
        } else if self.lru.isolate(page, self.ctx.pages) {
            self.plan.on_fault(page, fast);
            self.free.record(frames, from, fast);
        }
    }

    /// The slow tier of a page; `None` if the page is fast or not present.
    pub(super) fn slow_tier(&self, fault: &HintFault) -> Option<TierId> {
        self.ctx.pages.tier(fault.page).filter(|&tier| tier != TierId::FASTEST)
    }
}

/// A policy of hint faults on slow pages.
#[derive(Debug)]
pub(super) struct FaultTiering<R> {
    scanner: NumaScanner,
    lru: LruLists,
    kswapd: Kswapd,
    rules: R,
}

impl<R> FaultTiering<R> {
    pub(super) fn new(scanner: NumaScanner, rules: R) -> Self {
        Self { scanner, lru: LruLists::default(), kswapd: Kswapd::default(), rules }
    }
}

impl<R: FaultRules> Policy for FaultTiering<R> {
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
                self.rules.on_moved(outcome, pages);
            }
        }
    }

    fn next_wake(&self) -> Option<Timestamp> {
        Some(self.kswapd.next().map_or(self.scanner.due(), |at| at.min(self.scanner.due())))
    }

    fn plan(&mut self, now: Timestamp, ctx: &mut PlanContext<'_>, plan: &mut MigrationPlan) {
        self.scanner.run(now, ctx, plan, |_, _, _| ());
        let faults = self.scanner.take_faults();
        let (lru, kswapd, free) = (&mut self.lru, &mut self.kswapd, FreePages::new(ctx.free));
        let mut pass = FaultPass { ctx, lru, free, kswapd, plan };
        for fault in &faults {
            self.rules.handle_fault(now, fault, &mut pass);
        }
        self.scanner.done_with(faults);
        let FaultPass { ctx, lru, mut free, kswapd, plan } = pass;
        kswapd.run(now, ctx, lru, &mut free, |tier| self.rules.marks(tier), plan);
    }
}
