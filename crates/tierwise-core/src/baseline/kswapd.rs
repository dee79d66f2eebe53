//! kswapd with demotion enabled (`mm/vmscan.c`: `balance_pgdat`, `shrink_folio_list`,
//! `demote_folio_list`): when a tier runs out of free pages, the old end of its inactive lists is
//! demoted to a slower tier and not swapped out.
//!
//! It wakes when free pages fall below a tier's wake mark, or when a promotion did not fit, and
//! works until they reach the stop mark. Pages go to the next slower tier with free pages above its
//! min watermark (`alloc_demote_folio` does not reclaim for them). After a scan of a tier's lists
//! that found too little, it waits for a tenth of a second, as `balance_pgdat` waits `HZ / 10`
//! between its attempts.

use std::time::Duration;

use crate::lru::LruLists;
use crate::migrate::MigrationPlan;
use crate::pfra::{Pfra, inactive_ratio};
use crate::policy::PlanContext;
use crate::select::FreePages;
use crate::stage::Scope;
use crate::topology::{Tier, Topology, WatermarkLevel};
use crate::units::{PageId, Pages, TierId, Timestamp};

/// Time between two attempts at a tier in which there was too little to demote: `HZ / 10` in
/// `balance_pgdat`.
const RETRY: Duration = Duration::from_millis(100);

/// The levels of free pages between which kswapd works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KswapdWatermarks {
    /// Free pages below which kswapd wakes.
    pub(super) wake: Pages,
    /// Free pages at which kswapd sleeps again.
    pub(super) stop: Pages,
}

impl KswapdWatermarks {
    /// From the low watermark up to the promo watermark, the target of kswapd under memory tiering
    /// (`pgdat_balanced`), so that promotions find free pages above the high watermark.
    pub(super) fn memory_tiering(tier: &Tier) -> Self {
        Self { wake: tier.watermarks.low, stop: tier.watermarks.promo }
    }
}

/// One kswapd per tier.
#[derive(Debug, Default)]
pub(super) struct Kswapd {
    awake: [bool; Topology::MAX_TIERS],
    /// The end of kswapd's wait, by tier.
    rest_until: [Timestamp; Topology::MAX_TIERS],
    victims: Vec<PageId>,
}

impl Kswapd {
    /// Wakes kswapd for a tier into which a promotion did not fit.
    pub(super) fn wake(&mut self, tier: TierId) {
        self.awake[tier.index()] = true;
    }

    /// Returns the end of kswapd's earliest wait, if kswapd is awake for a tier.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.awake.iter().zip(self.rest_until).filter(|(awake, _)| **awake).map(|(_, at)| at).min()
    }

    /// Plans demotions for every tier in need, the slowest first, so that faster tiers find free
    /// pages.
    pub(super) fn run(
        &mut self,
        now: Timestamp,
        ctx: &mut PlanContext<'_>,
        lru: &mut LruLists,
        free: &mut FreePages,
        marks: impl Fn(&Tier) -> KswapdWatermarks,
        plan: &mut MigrationPlan,
    ) {
        for tier in ctx.topology.ids().rev() {
            if ctx.topology.slower(tier).is_none() {
                continue;
            }
            let marks = marks(ctx.topology.tier(tier));
            let awake = self.awake[tier.index()] || free.of(tier) < marks.wake;
            if awake && now >= self.rest_until[tier.index()] {
                self.shrink(tier, marks.stop, ctx, lru, free, plan);
                self.rest_until[tier.index()] = now + RETRY;
            }
            self.awake[tier.index()] = awake && free.of(tier) < marks.stop;
            if !self.awake[tier.index()] {
                self.rest_until[tier.index()] = now;
            }
        }
    }

    fn shrink(
        &mut self,
        tier: TierId,
        stop: Pages,
        ctx: &mut PlanContext<'_>,
        lru: &mut LruLists,
        free: &mut FreePages,
        plan: &mut MigrationPlan,
    ) {
        let limit = stop.saturating_sub(free.of(tier));
        let size = ctx.topology.tier(tier).capacity.in_bytes(ctx.topology.page_size);
        self.victims.clear();
        let victims = &mut self.victims;
        let ratio = inactive_ratio(size);
        Pfra::TWO_LISTS.reclaim(lru, Scope::tier(tier), limit, ratio, ctx.pages, victims);
        for &page in &self.victims {
            let frames = Pages(ctx.pages.frames(page));
            let target = free.slower_that_fits(frames, tier, ctx.topology, WatermarkLevel::Min);
            if let Some(to) = target {
                plan.background(page, to);
                free.record(frames, tier, to);
            }
        }
    }
}
