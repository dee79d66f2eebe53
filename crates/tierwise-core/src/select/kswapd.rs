//! Demotion: kswapd, which works under memory pressure and near the tenants' caps, and the victims
//! that make way for promotions.

use super::pressure::{Need, Pressure};
use super::turn::Turn;
use crate::migrate::Cause;
use crate::share::{Share, cap_marks};
use crate::stage::Scope;
use crate::topology::{Topology, WatermarkLevel};
use crate::units::{PageId, Pages, TenantId, TierId};

/// The kernel's background reclaim, one to a tier: it wakes when free pages fall below the low
/// watermark and demotes until they reach the high one (MULTI-CLOCK, section III-C;
/// `balance_pgdat`).
#[derive(Debug, Clone, Default)]
pub struct Kswapd {
    awake: [bool; Topology::MAX_TIERS],
    /// What each tier could still take when a page last found no room in it.
    refused: [Pages; Topology::MAX_TIERS],
    pressure: Pressure,
    found: Vec<PageId>,
}

impl Kswapd {
    /// Demotes where there is pressure, slowest tier first, so that a tier has made its room when
    /// the next faster one needs it. From the slowest tier nothing is demoted.
    pub(super) fn balance(&mut self, turn: &mut Turn<'_, '_>) {
        for tier in turn.ctx.topology.ids().rev() {
            let Some(lower) = turn.ctx.topology.slower(tier) else { continue };
            self.keep_caps(tier, lower, turn);
            let marks = turn.ctx.topology.tier(tier).watermarks;
            let free = turn.books.room.free(tier);
            let awake = &mut self.awake[tier.index()];
            *awake = free < if *awake { marks.high } else { marks.low };
            if !*awake {
                continue;
            }
            let wanted = marks.high.saturating_sub(free).min(self.takes(lower, turn));
            self.found.clear();
            if wanted > Pages(0) {
                self.pressure.find(tier, wanted, Need::Pressure, turn, &mut self.found);
            }
            for i in 0..self.found.len() {
                self.demote(self.found[i], lower, Cause::Pressure, turn);
            }
        }
    }

    /// Demotes from tenants near their caps; one that is at it waits for that itself.
    fn keep_caps(&mut self, tier: TierId, lower: TierId, turn: &mut Turn<'_, '_>) {
        for tenant in turn.shares.tenants() {
            let cap = turn.shares.of(tenant, tier).cap;
            let (start, end) = cap_marks(cap);
            let held = turn.books.held(tenant, tier);
            if cap == Share::UNCAPPED || held <= start {
                continue;
            }
            let takes = self.takes(lower, turn);
            if takes == Pages(0) {
                return;
            }
            self.found.clear();
            let scope = Scope { tier, tenant: Some(tenant) };
            let limit = (held - end).min(takes);
            turn.estimator.demotable(scope, limit, turn.ctx.pages, &mut self.found);
            // A cap holds whether or not enough is cold.
            let hot = (held - start).min(takes).saturating_sub(turn.frames(&self.found));
            if hot > Pages(0) {
                turn.estimator.coldest(scope, hot, turn.ctx.pages, &mut self.found);
            }
            for i in 0..self.found.len() {
                let at_cap = turn.books.held(tenant, tier) >= cap;
                let cause = if at_cap { Cause::AtCap } else { Cause::NearCap };
                self.demote(self.found[i], lower, cause, turn);
            }
        }
    }

    fn demote(&mut self, page: PageId, lower: TierId, cause: Cause, turn: &mut Turn<'_, '_>) {
        if !turn.move_to(page, lower, cause) {
            self.refused[lower.index()] = turn.takes(lower);
        }
    }

    /// Base pages that can be demoted to a tier: none until it has more room than a page last found
    /// too little. Looking for pages that have nowhere to go costs a scan of the lists and frees
    /// nothing.
    fn takes(&self, lower: TierId, turn: &Turn<'_, '_>) -> Pages {
        let takes = turn.takes(lower);
        if takes > self.refused[lower.index()] { takes } else { Pages(0) }
    }

    /// Whether the tier was under pressure when the plan started.
    pub(super) fn is_awake(&self, tier: TierId) -> bool {
        self.awake[tier.index()]
    }
}

/// Pages of the upper tier that can make way for promotions: asked for once, used up one by one.
#[derive(Debug, Clone, Default)]
pub struct Victims {
    pressure: Pressure,
    /// Whoever's pages exceed the floors.
    shared: Vec<PageId>,
    shared_used: usize,
    /// The promoting tenant's own, for when it may hold no more.
    own: Vec<PageId>,
    own_used: usize,
    /// The most that the promoting tenant may come to hold.
    limit: Pages,
}

impl Victims {
    /// Asks for enough of `upper` that `incoming` pages (of one tenant, if shares are by tenant)
    /// would leave its low watermark free and the tenant below its cap.
    pub(super) fn find(
        &mut self,
        upper: TierId,
        tenant: Option<TenantId>,
        incoming: Pages,
        turn: &mut Turn<'_, '_>,
    ) {
        self.shared.clear();
        self.own.clear();
        (self.shared_used, self.own_used) = (0, 0);
        let wanted = incoming + turn.ctx.topology.tier(upper).watermarks.low;
        let wanted = wanted.saturating_sub(turn.books.room.free(upper));
        let held = |t: TenantId| turn.books.held(t, upper);
        let entitled = tenant.is_some_and(|t| held(t) < turn.shares.of(t, upper).floor);
        let need = if entitled { Need::Entitled } else { Need::Wish };
        self.limit = tenant.map_or(Share::UNCAPPED, |t| limit(t, upper, turn));
        let beyond = tenant.map_or(Pages(0), |t| (held(t) + incoming).saturating_sub(self.limit));
        if wanted > Pages(0) {
            self.pressure.find(upper, wanted, need, turn, &mut self.shared);
        }
        let own = beyond.max(wanted.saturating_sub(turn.frames(&self.shared)));
        if tenant.is_some() && own > Pages(0) {
            let scope = Scope { tier: upper, tenant };
            turn.estimator.demotable(scope, own, turn.ctx.pages, &mut self.own);
        }
    }

    /// Demotes from `upper` to the next tier until `frames` more of the tenant's would leave its
    /// low watermark free and the tenant within its cap, or there are no more victims or no room
    /// for them. True if both will hold.
    pub(super) fn make_way(
        &mut self,
        upper: TierId,
        tenant: Option<TenantId>,
        frames: Pages,
        turn: &mut Turn<'_, '_>,
    ) -> bool {
        loop {
            let beyond = |t| turn.books.held(t, upper) + frames > self.limit;
            let capped = tenant.is_some_and(beyond);
            let fits = turn.books.room.fits(frames, upper, turn.ctx.topology, WatermarkLevel::Low);
            if !capped && fits {
                return true;
            }
            let shared = self.shared.get(self.shared_used).filter(|_| !capped);
            let own = self.own.get(self.own_used);
            let Some(&victim) = shared.or(own) else { return false };
            if !turn.move_to(victim, upper.slower(), Cause::MakeRoom) {
                return false;
            }
            if shared.is_some() {
                self.shared_used += 1;
            } else {
                self.own_used += 1;
            }
        }
    }
}

/// The most that promotion may bring a tenant to: where demotion near the cap ends.
fn limit(tenant: TenantId, tier: TierId, turn: &Turn<'_, '_>) -> Pages {
    let near_cap = match turn.shares.of(tenant, tier).cap {
        Share::UNCAPPED => Share::UNCAPPED,
        cap => cap_marks(cap).0,
    };
    turn.limit(tenant, tier, turn.ctx.topology.tier(tier).watermarks.low).min(near_cap)
}
