//! One call of a selector, and the memory that is free and used after the plan so far.
//!
//! A policy that plans several moves at once must count the pages that its earlier moves take and
//! free: [`FreePages`] counts them per tier, `Projection` also per tenant.

use crate::migrate::{Cause, ChargeTo, MigrationPlan, Move};
use crate::policy::PlanContext;
use crate::share::Shares;
use crate::stage::Estimator;
use crate::topology::{Topology, WatermarkLevel};
use crate::units::{Hotness, PageId, Pages, TenantId, TierId};

/// State shared by the steps of one call of a selector.
pub(super) struct Pass<'a, 'b> {
    pub(super) ctx: &'a mut PlanContext<'b>,
    pub(super) estimator: &'a mut dyn Estimator,
    pub(super) shares: &'a Shares,
    pub(super) plan: &'a mut MigrationPlan,
    pub(super) projection: Projection,
}

impl<'a, 'b> Pass<'a, 'b> {
    /// Starts with the last report. `projection` is that of an earlier pass, so that its memory is
    /// used again.
    pub(super) fn start(
        mut projection: Projection,
        ctx: &'a mut PlanContext<'b>,
        estimator: &'a mut dyn Estimator,
        shares: &'a Shares,
        plan: &'a mut MigrationPlan,
    ) -> Self {
        projection.reset(ctx);
        Self { ctx, estimator, shares, plan, projection }
    }

    pub(super) fn hotness(&self, page: PageId) -> Hotness {
        self.estimator.hotness(page, self.ctx.pages)
    }

    /// Returns true if a tenant's accesses were monitored, so that its coldest pages are known.
    pub(super) fn is_known(&self, tenant: TenantId) -> bool {
        self.ctx.tenants.get(tenant.index()).is_none_or(|reading| !reading.unmonitored)
    }

    /// The sum of the pages' base pages.
    pub(super) fn frames(&self, pages: &[PageId]) -> Pages {
        pages.iter().map(|&page| Pages(self.ctx.pages.frames(page))).sum()
    }

    /// Adds a move if its target has enough free pages. A migration's allocation may go down to the
    /// min watermark, like any allocation outside reclaim (`__alloc_pages`, `ALLOC_WMARK_MIN`).
    pub(super) fn move_to(&mut self, page: PageId, to: TierId, cause: Cause) -> bool {
        let frames = self.frames(&[page]);
        let Some(from) = self.ctx.pages.tier(page) else { return false };
        let fits = self.projection.free.fits(frames, to, self.ctx.topology, WatermarkLevel::Min);
        if fits {
            self.projection.record(self.ctx.pages.tenant(page), frames, from, to);
            let charge_to = match cause {
                Cause::AtCap => ChargeTo::FaultingThread,
                Cause::Hot => self.estimator.charge_to(),
                _ => ChargeTo::Background,
            };
            self.plan.moves.push(Move { page, to, charge_to, cause });
        }
        fits
    }

    /// Demotes a page to the nearest slower tier with enough free pages.
    pub(super) fn demote(&mut self, page: PageId, from: TierId, cause: Cause) -> bool {
        let (frames, level) = (self.frames(&[page]), WatermarkLevel::Min);
        let to = self.projection.free.slower_that_fits(frames, from, self.ctx.topology, level);
        to.is_some_and(|to| self.move_to(page, to, cause))
    }

    /// The maximum of memory that a tenant may hold after promotions. Without a partition this is
    /// its cap. With a partition it is the entitlement, plus the free memory beyond `keep` pages
    /// that no other tenant lacks.
    pub(super) fn limit(&self, tenant: TenantId, tier: TierId, keep: Pages) -> Pages {
        let share = self.shares.of(tenant, tier);
        if !share.partitioned {
            return share.cap;
        }
        let shortfall = |other: TenantId| {
            let below = self.ctx.topology.ids().filter(|&below| below > tier);
            let slower: Pages = below.map(|below| self.projection.held(other, below)).sum();
            let floor = self.shares.of(other, tier).floor;
            floor.saturating_sub(self.projection.held(other, tier)).min(slower)
        };
        let others = self.projection.tenants().filter(|&other| other != tenant);
        let missing_pages: Pages = others.map(shortfall).sum();
        let spare =
            self.projection.free.of(tier).saturating_sub(keep).saturating_sub(missing_pages);
        (self.projection.held(tenant, tier) + spare).max(share.floor).min(share.cap)
    }

    /// Base pages that a tier can still take from migrations: down to its min watermark.
    pub(super) fn takes(&self, tier: TierId) -> Pages {
        self.projection.free.of(tier).saturating_sub(self.ctx.topology.tier(tier).watermarks.min)
    }
}

/// Free memory per tier, and held memory per tenant and tier, after the plan so far.
#[derive(Debug, Clone)]
pub(super) struct Projection {
    pub(super) free: FreePages,
    held: Vec<[Pages; Topology::MAX_TIERS]>,
}

impl Default for Projection {
    fn default() -> Self {
        Self { free: FreePages::new(&[]), held: Vec::new() }
    }
}

impl Projection {
    /// Starts again from the last report.
    fn reset(&mut self, ctx: &PlanContext<'_>) {
        self.free = FreePages::new(ctx.free);
        self.held.clear();
        self.held.extend(ctx.tenants.iter().map(|reading| {
            let mut held = [Pages(0); Topology::MAX_TIERS];
            held.iter_mut().zip(&reading.usage).for_each(|(mine, &reported)| *mine = reported);
            held
        }));
    }

    /// The tenants of the last report.
    pub(super) fn tenants(&self) -> impl Iterator<Item = TenantId> + use<> {
        (0..self.held.len()).map(|i| TenantId(i as u16))
    }

    /// Base pages that a tenant holds in a tier after the plan so far.
    pub(super) fn held(&self, tenant: TenantId, tier: TierId) -> Pages {
        self.held.get(tenant.index()).map_or(Pages(0), |held| held[tier.index()])
    }

    fn record(&mut self, tenant: TenantId, frames: Pages, from: TierId, to: TierId) {
        self.free.record(frames, from, to);
        if let Some(held) = self.held.get_mut(tenant.index()) {
            held[from.index()] = held[from.index()].saturating_sub(frames);
            held[to.index()] += frames;
        }
    }
}

/// Free base pages of each tier after the plan so far.
///
/// ```
/// use std::time::Duration;
/// use tierwise_core::select::FreePages;
/// use tierwise_core::topology::{Tier, Topology, WatermarkLevel, Watermarks};
/// use tierwise_core::units::*;
///
/// let watermarks = Watermarks { min: Pages(2), low: Pages(4), high: Pages(6), promo: Pages(8) };
/// let tier = |name: &str| Tier {
///     name: name.into(),
///     capacity: Pages(100),
///     watermarks,
///     load_latency: Duration::from_nanos(100),
///     store_latency: Duration::from_nanos(100),
///     bandwidth: Bandwidth(30_000_000_000),
/// };
/// let topology = Topology { page_size: Bytes(4096), tiers: vec![tier("DRAM"), tier("CXL")] };
///
/// let mut free = FreePages::new(&[Pages(6), Pages(50)]);
/// assert!(!free.fits(Pages(1), TierId(0), &topology, WatermarkLevel::High));
/// free.record(Pages(1), TierId(0), TierId(1)); // a demotion frees a page
/// assert!(free.fits(Pages(1), TierId(0), &topology, WatermarkLevel::High));
/// assert_eq!(free.of(TierId(1)), Pages(49));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct FreePages([Pages; Topology::MAX_TIERS]);

impl FreePages {
    /// Starts from the last report, fastest tier first. Tiers that it does not contain are full.
    pub fn new(reported: &[Pages]) -> Self {
        let mut free = [Pages(0); Topology::MAX_TIERS];
        free.iter_mut().zip(reported).for_each(|(mine, &reported)| *mine = reported);
        Self(free)
    }

    /// Free base pages of a tier.
    pub fn of(&self, tier: TierId) -> Pages {
        self.0[tier.index()]
    }

    /// Returns true if a tier can take `frames` base pages and keep its watermark.
    pub fn fits(
        &self,
        frames: Pages,
        tier: TierId,
        topology: &Topology,
        level: WatermarkLevel,
    ) -> bool {
        self.of(tier) >= frames + topology.tier(tier).watermarks.at(level)
    }

    /// The fastest tier slower than `from` that can take `frames` base pages and keep its
    /// watermark.
    pub fn slower_that_fits(
        &self,
        frames: Pages,
        from: TierId,
        topology: &Topology,
        level: WatermarkLevel,
    ) -> Option<TierId> {
        topology.ids().find(|&to| to > from && self.fits(frames, to, topology, level))
    }

    /// Counts a planned move.
    pub fn record(&mut self, frames: Pages, from: TierId, to: TierId) {
        self.0[to.index()] = self.of(to).saturating_sub(frames);
        self.0[from.index()] += frames;
    }
}
