//! Demotion: kswapd, which works under memory pressure, and the victims that make way for promotions.

use crate::migrate::MigrationPlan;
use crate::policy::PlanContext;
use crate::room::Room;
use crate::stage::{Estimator, Scope};
use crate::topology::{Topology, WatermarkLevel};
use crate::units::{PageId, Pages, TierId};

/// Adds a move if its target will have the room. A migration's allocation may go down to the min
/// watermark, as any that does not come from reclaim itself (`__alloc_pages`, `ALLOC_WMARK_MIN`).
pub(super) fn move_to(
    page: PageId,
    to: TierId,
    ctx: &PlanContext<'_>,
    room: &mut Room,
    plan: &mut MigrationPlan,
) -> bool {
    let frames = Pages(ctx.pages.frames(page));
    let Some(from) = ctx.pages.tier(page) else { return false };
    let fits = room.fits(frames, to, ctx.topology, WatermarkLevel::Min);
    if fits {
        room.record(frames, from, to);
        plan.background(page, to);
    }
    fits
}

/// The kernel's background reclaim, one to a tier: it wakes when free pages fall below the low watermark
/// and demotes until they reach the high one (MULTI-CLOCK, section III-C; `balance_pgdat`).
#[derive(Debug, Clone, Default)]
pub struct Kswapd {
    awake: [bool; Topology::MAX_TIERS],
    found: Vec<PageId>,
}

impl Kswapd {
    /// Demotes where there is pressure, slowest tier first, so that a tier has made its room when the
    /// next faster one needs it. From the slowest tier nothing is demoted.
    pub fn balance(
        &mut self,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        room: &mut Room,
        plan: &mut MigrationPlan,
    ) {
        for tier in ctx.topology.ids().rev() {
            let marks = ctx.topology.tier(tier).watermarks;
            let awake = &mut self.awake[tier.index()];
            *awake = room.free(tier) < if *awake { marks.high } else { marks.low };
            let Some(lower) = ctx.topology.slower(tier).filter(|_| *awake) else { continue };
            let wanted = marks.high.saturating_sub(room.free(tier));
            self.found.clear();
            estimator.demotable(Scope::tier(tier), wanted, ctx.pages, &mut self.found);
            for &page in &self.found {
                move_to(page, lower, ctx, room, plan);
            }
        }
    }

    /// Whether the tier was under pressure when the plan began.
    pub fn is_awake(&self, tier: TierId) -> bool {
        self.awake[tier.index()]
    }
}

/// Pages of the upper tier that can make way for promotions: asked for once, used up one by one.
#[derive(Debug, Clone, Default)]
pub struct Victims {
    found: Vec<PageId>,
    used: usize,
}

impl Victims {
    /// Asks for enough of `upper` that `incoming` pages would leave its low watermark free.
    pub fn find(
        &mut self,
        upper: TierId,
        incoming: Pages,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        room: &Room,
    ) {
        self.found.clear();
        self.used = 0;
        let wanted = incoming + ctx.topology.tier(upper).watermarks.low;
        let wanted = wanted.saturating_sub(room.free(upper));
        if wanted > Pages(0) {
            estimator.demotable(Scope::tier(upper), wanted, ctx.pages, &mut self.found);
        }
    }

    /// Demotes from `upper` to the next tier until `frames` more would leave its low watermark free, or
    /// there are no more victims or no room for them. True if the watermark will be left free.
    pub fn make_way(
        &mut self,
        upper: TierId,
        frames: Pages,
        ctx: &PlanContext<'_>,
        room: &mut Room,
        plan: &mut MigrationPlan,
    ) -> bool {
        while !room.fits(frames, upper, ctx.topology, WatermarkLevel::Low) {
            let Some(&victim) = self.found.get(self.used) else { return false };
            if !move_to(victim, upper.slower(), ctx, room, plan) {
                return false;
            }
            self.used += 1;
        }
        true
    }
}
