//! What a plan in the making will leave: free memory by tier, and memory held by tenant and tier.

use crate::migrate::{MigrationPlan, Move, Payer};
use crate::policy::PlanContext;
use crate::reason::Cause;
use crate::room::Room;
use crate::topology::{Topology, WatermarkLevel};
use crate::units::{PageId, Pages, TenantId, TierId};

/// Free and held memory, kept up to date while moves are planned.
#[derive(Debug, Clone)]
pub(super) struct Books {
    pub(super) room: Room,
    held: Vec<[Pages; Topology::MAX_TIERS]>,
    promoter: Payer,
}

impl Default for Books {
    fn default() -> Self {
        Self { room: Room::new(&[]), held: Vec::new(), promoter: Payer::Background }
    }
}

impl Books {
    /// Starts from what was last reported; `promoter` waits for promotions.
    pub(super) fn open(&mut self, ctx: &PlanContext<'_>, promoter: Payer) {
        self.promoter = promoter;
        self.room = Room::new(ctx.free);
        self.held.clear();
        self.held.extend(ctx.tenants.iter().map(|reading| {
            let mut held = [Pages(0); Topology::MAX_TIERS];
            held.iter_mut().zip(&reading.usage).for_each(|(mine, &reported)| *mine = reported);
            held
        }));
    }

    /// The tenants that the world reported.
    pub(super) fn tenants(&self) -> impl Iterator<Item = TenantId> + use<> {
        (0..self.held.len()).map(|i| TenantId(i as u16))
    }

    /// Base pages that a tenant will hold in a tier.
    pub(super) fn held(&self, tenant: TenantId, tier: TierId) -> Pages {
        self.held.get(tenant.index()).map_or(Pages(0), |held| held[tier.index()])
    }

    /// Base pages that a tier can still take from migrations: down to its min watermark, as
    /// [`Books::move_to`] fills it.
    pub(super) fn takes(&self, tier: TierId, topology: &Topology) -> Pages {
        self.room.free(tier).saturating_sub(topology.tier(tier).watermarks.min)
    }

    /// Counts a planned move.
    fn record(&mut self, tenant: TenantId, frames: Pages, from: TierId, to: TierId) {
        self.room.record(frames, from, to);
        if let Some(held) = self.held.get_mut(tenant.index()) {
            held[from.index()] = held[from.index()].saturating_sub(frames);
            held[to.index()] += frames;
        }
    }

    /// Adds a move if its target will have the room. A migration's allocation may go down to the min
    /// watermark, as any that does not come from reclaim itself (`__alloc_pages`, `ALLOC_WMARK_MIN`).
    pub(super) fn move_to(
        &mut self,
        page: PageId,
        to: TierId,
        cause: Cause,
        ctx: &PlanContext<'_>,
        plan: &mut MigrationPlan,
    ) -> bool {
        let frames = Pages(ctx.pages.frames(page));
        let Some(from) = ctx.pages.tier(page) else { return false };
        let fits = self.room.fits(frames, to, ctx.topology, WatermarkLevel::Min);
        if fits {
            self.record(ctx.pages.tenant(page), frames, from, to);
            let payer = match cause {
                Cause::AtCap => Payer::Application,
                Cause::Hot => self.promoter,
                _ => Payer::Background,
            };
            plan.moves.push(Move { page, to, payer, cause });
        }
        fits
    }
}
