//! What a plan in the making will leave: free memory by tier, and memory held by tenant and tier.

use crate::policy::PlanContext;
use crate::room::Room;
use crate::topology::Topology;
use crate::units::{Pages, TenantId, TierId};

/// Free and held memory, kept up to date while moves are planned.
#[derive(Debug, Clone)]
pub(super) struct Books {
    pub(super) room: Room,
    held: Vec<[Pages; Topology::MAX_TIERS]>,
}

impl Default for Books {
    fn default() -> Self {
        Self { room: Room::new(&[]), held: Vec::new() }
    }
}

impl Books {
    /// Starts from what was last reported.
    pub(super) fn open(&mut self, ctx: &PlanContext<'_>) {
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

    /// Counts a planned move.
    pub(super) fn record(&mut self, tenant: TenantId, frames: Pages, from: TierId, to: TierId) {
        self.room.record(frames, from, to);
        if let Some(held) = self.held.get_mut(tenant.index()) {
            held[from.index()] = held[from.index()].saturating_sub(frames);
            held[to.index()] += frames;
        }
    }
}
