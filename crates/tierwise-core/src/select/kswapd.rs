//! Demotion: kswapd, which works under memory pressure and near the tenants' caps, and the victims that
//! make way for promotions.

use super::books::Books;
use super::pressure::{Need, Pressure};
use crate::migrate::MigrationPlan;
use crate::policy::PlanContext;
use crate::reason::Cause;
use crate::stage::{Estimator, Scope, Share, Shares};
use crate::topology::{Topology, WatermarkLevel};
use crate::units::{PageId, Pages, TenantId, TierId};

/// The part of a cap at which background demotion begins below it; it goes on to twice as far. The paper
/// says "approaches" (Equilibria, section IV-D): these are the distances of a tier's low and high watermark
/// at a `watermark_scale_factor` of 80 ten-thousandths, enough for a second's allocations of a tenant that
/// fills its cap in two minutes.
const CAP_MARGIN: u64 = 128;

/// Where background demotion begins below a cap, and where it ends.
pub(crate) fn cap_marks(cap: Pages) -> (Pages, Pages) {
    let margin = Pages(cap.0.div_ceil(CAP_MARGIN));
    (cap.saturating_sub(margin), cap.saturating_sub(margin + margin))
}

/// The kernel's background reclaim, one to a tier: it wakes when free pages fall below the low watermark
/// and demotes until they reach the high one (MULTI-CLOCK, section III-C; `balance_pgdat`).
#[derive(Debug, Clone, Default)]
pub struct Kswapd {
    awake: [bool; Topology::MAX_TIERS],
    /// What each tier could still take when a page last found no room in it.
    refused: [Pages; Topology::MAX_TIERS],
    pressure: Pressure,
    found: Vec<PageId>,
}

impl Kswapd {
    /// Demotes where there is pressure, slowest tier first, so that a tier has made its room when the
    /// next faster one needs it. From the slowest tier nothing is demoted.
    pub(super) fn balance(
        &mut self,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        shares: &Shares,
        books: &mut Books,
        plan: &mut MigrationPlan,
    ) {
        for tier in ctx.topology.ids().rev() {
            let Some(lower) = ctx.topology.slower(tier) else { continue };
            self.keep_caps(tier, lower, ctx, estimator, shares, books, plan);
            let marks = ctx.topology.tier(tier).watermarks;
            let awake = &mut self.awake[tier.index()];
            *awake = books.room.free(tier) < if *awake { marks.high } else { marks.low };
            if !*awake {
                continue;
            }
            let wanted = marks.high.saturating_sub(books.room.free(tier));
            let wanted = wanted.min(self.takes(lower, books, ctx));
            if wanted == Pages(0) {
                continue;
            }
            let (found, need) = (&mut self.found, Need::Pressure);
            found.clear();
            self.pressure.find(tier, wanted, need, books, ctx, estimator, shares, found);
            for &page in &self.found {
                if !books.move_to(page, lower, Cause::Pressure, ctx, plan) {
                    self.refused[lower.index()] = books.takes(lower, ctx.topology);
                }
            }
        }
    }

    /// Demotes from tenants near their caps; one that is at it waits for that itself.
    #[expect(clippy::too_many_arguments, reason = "the stages' context, one by one")]
    fn keep_caps(
        &mut self,
        tier: TierId,
        lower: TierId,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        shares: &Shares,
        books: &mut Books,
        plan: &mut MigrationPlan,
    ) {
        for tenant in shares.tenants() {
            let cap = shares.of(tenant, tier).cap;
            let (begin, end) = cap_marks(cap);
            let held = books.held(tenant, tier);
            if cap == Share::UNCAPPED || held <= begin {
                continue;
            }
            let takes = self.takes(lower, books, ctx);
            if takes == Pages(0) {
                return;
            }
            self.found.clear();
            let scope = Scope { tier, tenant: Some(tenant) };
            estimator.demotable(scope, (held - end).min(takes), ctx.pages, &mut self.found);
            let cold: Pages = self.found.iter().map(|&p| Pages(ctx.pages.frames(p))).sum();
            // A cap holds whether or not enough is cold.
            let hot = (held - begin).min(takes).saturating_sub(cold);
            if hot > Pages(0) {
                estimator.coldest(scope, hot, ctx.pages, &mut self.found);
            }
            for &page in &self.found {
                let at_cap = books.held(tenant, tier) >= cap;
                let cause = if at_cap { Cause::AtCap } else { Cause::NearCap };
                if !books.move_to(page, lower, cause, ctx, plan) {
                    self.refused[lower.index()] = books.takes(lower, ctx.topology);
                }
            }
        }
    }

    /// Base pages that can be demoted to a tier: none until it has more room than a page last found too
    /// little. Looking for pages that have nowhere to go costs a scan of the lists and frees nothing.
    fn takes(&self, lower: TierId, books: &Books, ctx: &PlanContext<'_>) -> Pages {
        let takes = books.takes(lower, ctx.topology);
        if takes > self.refused[lower.index()] { takes } else { Pages(0) }
    }

    /// Whether the tier was under pressure when the plan began.
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
}

impl Victims {
    /// Asks for enough of `upper` that `incoming` pages (of one tenant, if shares are by tenant) would
    /// leave its low watermark free and the tenant below its cap.
    #[expect(clippy::too_many_arguments, reason = "the stages' context, one by one")]
    pub(super) fn find(
        &mut self,
        upper: TierId,
        tenant: Option<TenantId>,
        incoming: Pages,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        shares: &Shares,
        books: &Books,
    ) {
        self.shared.clear();
        self.own.clear();
        (self.shared_used, self.own_used) = (0, 0);
        let wanted = incoming + ctx.topology.tier(upper).watermarks.low;
        let wanted = wanted.saturating_sub(books.room.free(upper));
        let entitled = tenant.is_some_and(|t| books.held(t, upper) < shares.of(t, upper).floor);
        let need = if entitled { Need::Entitled } else { Need::Wish };
        let shared = &mut self.shared;
        if wanted > Pages(0) {
            self.pressure.find(upper, wanted, need, books, ctx, estimator, shares, shared);
        }
        let Some(tenant) = tenant else { return };
        let found: Pages = shared.iter().map(|&page| Pages(ctx.pages.frames(page))).sum();
        let beyond =
            (books.held(tenant, upper) + incoming).saturating_sub(most(tenant, upper, shares));
        let own = beyond.max(wanted.saturating_sub(found));
        if own > Pages(0) {
            let scope = Scope { tier: upper, tenant: Some(tenant) };
            estimator.demotable(scope, own, ctx.pages, &mut self.own);
        }
    }

    /// Demotes from `upper` to the next tier until `frames` more of the tenant's would leave its low
    /// watermark free and the tenant within its cap, or there are no more victims or no room for them.
    /// True if both will hold.
    #[expect(clippy::too_many_arguments, reason = "the stages' context, one by one")]
    pub(super) fn make_way(
        &mut self,
        upper: TierId,
        tenant: Option<TenantId>,
        frames: Pages,
        ctx: &PlanContext<'_>,
        shares: &Shares,
        books: &mut Books,
        plan: &mut MigrationPlan,
    ) -> bool {
        loop {
            let capped =
                tenant.is_some_and(|t| books.held(t, upper) + frames > most(t, upper, shares));
            if !capped && books.room.fits(frames, upper, ctx.topology, WatermarkLevel::Low) {
                return true;
            }
            let shared = self.shared.get(self.shared_used).filter(|_| !capped);
            let own = self.own.get(self.own_used);
            let Some(&victim) = shared.or(own) else { return false };
            if !books.move_to(victim, upper.slower(), Cause::MakeRoom, ctx, plan) {
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
pub(super) fn most(tenant: TenantId, tier: TierId, shares: &Shares) -> Pages {
    match shares.of(tenant, tier).cap {
        Share::UNCAPPED => Share::UNCAPPED,
        cap => cap_marks(cap).0,
    }
}
