//! Demotion: kswapd, which works under memory pressure and near the tenants' caps, and the victims
//! of promotions.

use super::pass::Pass;
use super::regulated::{DemotionReason, RegulatedDemotion};
use crate::migrate::Cause;
use crate::share::{Share, cap_marks};
use crate::stage::Scope;
use crate::topology::{Topology, WatermarkLevel};
use crate::units::{PageId, Pages, TenantId, TierId};

/// The kernel's background reclaim, one per tier: it wakes when free pages fall below the low
/// watermark and demotes until they reach the high one (MULTI-CLOCK, section III-C;
/// `balance_pgdat`).
#[derive(Debug, Clone, Default)]
pub(super) struct RegulatedKswapd {
    awake: [bool; Topology::MAX_TIERS],
    /// Base pages that each tier could still take when a page last did not fit into it.
    refused: [Pages; Topology::MAX_TIERS],
    pressure: RegulatedDemotion,
    found: Vec<PageId>,
}

impl RegulatedKswapd {
    /// Demotes from tiers under pressure, slowest first, so that a tier has free pages when the
    /// next faster one needs them. No page is demoted from the slowest tier.
    pub(super) fn balance(&mut self, pass: &mut Pass<'_, '_>) {
        for tier in pass.ctx.topology.ids().rev() {
            let Some(lower) = pass.ctx.topology.slower(tier) else { continue };
            self.keep_caps(tier, lower, pass);
            let marks = pass.ctx.topology.tier(tier).watermarks;
            let free = pass.projection.free.of(tier);
            let awake = &mut self.awake[tier.index()];
            *awake = free < if *awake { marks.high } else { marks.low };
            if !*awake {
                continue;
            }
            let wanted = marks.high.saturating_sub(free).min(self.takes(lower, pass));
            self.found.clear();
            if wanted > Pages(0) {
                self.pressure.find(tier, wanted, DemotionReason::Pressure, pass, &mut self.found);
            }
            for i in 0..self.found.len() {
                self.demote(self.found[i], lower, Cause::Pressure, pass);
            }
        }
    }

    /// Demotes from tenants near their caps. The faulting thread of a tenant at its cap waits for
    /// that demotion.
    fn keep_caps(&mut self, tier: TierId, lower: TierId, pass: &mut Pass<'_, '_>) {
        for tenant in pass.shares.tenants() {
            let cap = pass.shares.of(tenant, tier).cap;
            let (start, end) = cap_marks(cap);
            let held = pass.projection.held(tenant, tier);
            if cap == Share::UNCAPPED || held <= start {
                continue;
            }
            let takes = self.takes(lower, pass);
            if takes == Pages(0) {
                return;
            }
            self.found.clear();
            let scope = Scope { tier, tenant: Some(tenant) };
            let limit = (held - end).min(takes);
            pass.estimator.demotable(scope, limit, pass.ctx.pages, &mut self.found);
            // A cap holds even if too few pages are cold.
            let hot = (held - start).min(takes).saturating_sub(pass.frames(&self.found));
            if hot > Pages(0) {
                pass.estimator.coldest(scope, hot, pass.ctx.pages, &mut self.found);
            }
            for i in 0..self.found.len() {
                let at_cap = pass.projection.held(tenant, tier) >= cap;
                let cause = if at_cap { Cause::AtCap } else { Cause::NearCap };
                self.demote(self.found[i], lower, cause, pass);
            }
        }
    }

    fn demote(&mut self, page: PageId, lower: TierId, cause: Cause, pass: &mut Pass<'_, '_>) {
        if !pass.move_to(page, lower, cause) {
            self.refused[lower.index()] = pass.takes(lower);
        }
    }

    /// Base pages that can be demoted to a tier: none until it has more free pages than when a page
    /// last did not fit. A search for pages without a target costs a scan of the lists and frees no
    /// memory.
    fn takes(&self, lower: TierId, pass: &Pass<'_, '_>) -> Pages {
        let takes = pass.takes(lower);
        if takes > self.refused[lower.index()] { takes } else { Pages(0) }
    }

    /// Returns true if the tier was under pressure when the plan started.
    pub(super) fn is_awake(&self, tier: TierId) -> bool {
        self.awake[tier.index()]
    }
}

/// Victims for promotions in the upper tier, found once and used one by one.
#[derive(Debug, Clone, Default)]
pub(super) struct Victims {
    pressure: RegulatedDemotion,
    /// Pages of tenants above their floors.
    shared: Vec<PageId>,
    shared_used: usize,
    /// The promoting tenant's own pages, used when it may hold no more.
    own: Vec<PageId>,
    own_used: usize,
    /// The maximum of base pages that the promoting tenant may hold.
    limit: Pages,
}

impl Victims {
    /// Finds enough victims in `upper` for `incoming` base pages, of one tenant if a partitioner
    /// sets shares. After the exchange the tier keeps its low watermark free, and the tenant stays
    /// below its cap.
    pub(super) fn find(
        &mut self,
        upper: TierId,
        tenant: Option<TenantId>,
        incoming: Pages,
        pass: &mut Pass<'_, '_>,
    ) {
        self.shared.clear();
        self.own.clear();
        (self.shared_used, self.own_used) = (0, 0);
        let wanted = incoming + pass.ctx.topology.tier(upper).watermarks.low;
        let wanted = wanted.saturating_sub(pass.projection.free.of(upper));
        let held = |t: TenantId| pass.projection.held(t, upper);
        let entitled = tenant.is_some_and(|t| held(t) < pass.shares.of(t, upper).floor);
        let need = if entitled { DemotionReason::Entitled } else { DemotionReason::Wish };
        self.limit = tenant.map_or(Share::UNCAPPED, |t| limit(t, upper, pass));
        let beyond = tenant.map_or(Pages(0), |t| (held(t) + incoming).saturating_sub(self.limit));
        if wanted > Pages(0) {
            self.pressure.find(upper, wanted, need, pass, &mut self.shared);
        }
        let own = beyond.max(wanted.saturating_sub(pass.frames(&self.shared)));
        if tenant.is_some() && own > Pages(0) {
            let scope = Scope { tier: upper, tenant };
            pass.estimator.demotable(scope, own, pass.ctx.pages, &mut self.own);
        }
    }

    /// Adds the oldest pages of `upper`, accessed or not, for as many of the `incoming` base pages
    /// as [`Victims::find`] found no victims for. If a partitioner sets shares they are the
    /// tenant's own.
    pub(super) fn find_oldest(
        &mut self,
        upper: TierId,
        tenant: Option<TenantId>,
        incoming: Pages,
        pass: &mut Pass<'_, '_>,
    ) {
        let wanted = incoming + pass.ctx.topology.tier(upper).watermarks.low;
        let found =
            pass.projection.free.of(upper) + pass.frames(&self.shared) + pass.frames(&self.own);
        let missing = wanted.saturating_sub(found);
        if missing > Pages(0) {
            let found = if tenant.is_some() { &mut self.own } else { &mut self.shared };
            pass.estimator.coldest(Scope { tier: upper, tenant }, missing, pass.ctx.pages, found);
        }
    }

    /// Demotes victims from `upper` to the next tier until `frames` more base pages of the tenant
    /// leave the low watermark free and the tenant within its cap. Stops if there are no more
    /// victims, or no free pages for them. Returns true if both conditions hold after the
    /// promotion.
    pub(super) fn make_room(
        &mut self,
        upper: TierId,
        tenant: Option<TenantId>,
        frames: Pages,
        pass: &mut Pass<'_, '_>,
    ) -> bool {
        loop {
            let beyond = |t| pass.projection.held(t, upper) + frames > self.limit;
            let capped = tenant.is_some_and(beyond);
            let (topology, level) = (pass.ctx.topology, WatermarkLevel::Low);
            if !capped && pass.projection.free.fits(frames, upper, topology, level) {
                return true;
            }
            let shared = self.shared.get(self.shared_used).filter(|_| !capped);
            let own = self.own.get(self.own_used);
            let Some(&victim) = shared.or(own) else { return false };
            if !pass.move_to(victim, upper.slower(), Cause::MakeRoom) {
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

/// The maximum of memory that a tenant may hold after promotions: at most the mark where demotion
/// near the cap starts.
fn limit(tenant: TenantId, tier: TierId, pass: &Pass<'_, '_>) -> Pages {
    let near_cap = match pass.shares.of(tenant, tier).cap {
        Share::UNCAPPED => Share::UNCAPPED,
        cap => cap_marks(cap).0,
    };
    pass.limit(tenant, tier, pass.ctx.topology.tier(tier).watermarks.low).min(near_cap)
}
