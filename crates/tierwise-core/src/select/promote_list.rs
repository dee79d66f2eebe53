//! MULTI-CLOCK's migrations (HPCA 2022, sections III-B and III-C): everything that deserves promotion
//! is promoted in the run that found it, however much it is; an upper tier that is short of memory
//! demotes at once to take it in; and kswapd demotes from a tier under pressure, from below its low
//! watermark up to its high one.
//!
//! Each tier's kswapd also promotes: under pressure the promote list is looked at first (section III-C),
//! so a tier's promotions come with every scan and whenever the tier itself is short.
//!
//! A promotion for which no room can be made, down to the min watermark, is left out of the plan: its
//! page stays on the promote list, and the next scan sends it back to the active list unless it was
//! accessed again (Figure 4, 11 and 12).
//!
//! No parameters.

use super::kswapd::{Kswapd, Victims, move_to};
use crate::migrate::MigrationPlan;
use crate::policy::PlanContext;
use crate::room::Room;
use crate::stage::{Estimator, Scope, Selector, Shares};
use crate::units::{PageId, Pages, TierId};

/// Promotes all that is promotable.
#[derive(Debug, Clone, Default)]
pub struct PromoteList {
    kswapd: Kswapd,
    victims: Victims,
    found: Vec<PageId>,
}

impl PromoteList {
    fn promote(
        &mut self,
        lower: TierId,
        upper: TierId,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        room: &mut Room,
        plan: &mut MigrationPlan,
    ) {
        self.found.clear();
        estimator.promotable(Scope::tier(lower), Pages(u64::MAX), ctx.pages, &mut self.found);
        let incoming = self.found.iter().map(|&page| Pages(ctx.pages.frames(page))).sum();
        if incoming == Pages(0) {
            return;
        }
        self.victims.find(upper, incoming, ctx, estimator, room);
        for &page in &self.found {
            let frames = Pages(ctx.pages.frames(page));
            self.victims.make_way(upper, frames, ctx, room, plan);
            move_to(page, upper, ctx, room, plan);
        }
    }
}

impl Selector for PromoteList {
    fn select(
        &mut self,
        looked: bool,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        _: &Shares,
        plan: &mut MigrationPlan,
    ) {
        let mut room = Room::new(ctx.free);
        self.kswapd.balance(ctx, estimator, &mut room, plan);
        for lower in ctx.topology.ids() {
            if let Some(upper) = lower.faster()
                && (looked || self.kswapd.is_awake(lower))
            {
                self.promote(lower, upper, ctx, estimator, &mut room, plan);
            }
        }
    }
}
