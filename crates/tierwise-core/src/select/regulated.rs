//! Equilibria's regulation: the pages that tenants give when a tier runs short, and the rate at
//! which they promote.
//!
//! *Demotion* (section IV-D). Each tenant above its floor gives pages in proportion to the memory
//! that it holds above it (equation 1). A tenant below its floor gives none while others exceed
//! theirs. If no tenant exceeds its floor and the tier still runs short, the floors do not fit.
//! Then all tenants give in proportion to the memory that they hold, as the kernel breaks
//! `memory.low` when nothing else is left to reclaim.
//!
//! A tenant whose accesses were not monitored yet gives only what another is entitled to: all of
//! its pages would seem cold. Meanwhile the kernel reclaims page cache, or new memory goes to the
//! next tier.
//!
//! *Promotion* (section IV-E). Each tenant promotes at the rate that its share allows. A low rate
//! slows its promotions down and never stops them.
//!
//! ```
//! use tierwise_core::select::demotion_scan;
//! use tierwise_core::units::Pages;
//!
//! // 120 GB held of which 80 are protected: a third of each of its lists is considered.
//! assert_eq!(demotion_scan(Pages(60), Pages(120), Pages(80)), Pages(20));
//! assert_eq!(demotion_scan(Pages(90), Pages(90), Pages(80)), Pages(10));
//! assert_eq!(demotion_scan(Pages(70), Pages(70), Pages(80)), Pages(0)); // exempt
//! ```

use super::pass::Pass;
use crate::policy::PlanContext;
use crate::stage::Scope;
use crate::tenant::Class;
use crate::units::{PageId, Pages, TenantId, TierId};

/// Equation 1 of Equilibria: the pages of an LRU list of `n_lru` pages that are considered for
/// demotion, if its tenant holds `n_cgroup` in the tier and `n_protection` of them are protected.
/// All numbers are base pages.
pub fn demotion_scan(n_lru: Pages, n_cgroup: Pages, n_protection: Pages) -> Pages {
    let over = n_cgroup.saturating_sub(n_protection);
    if n_cgroup == Pages(0) {
        return Pages(0);
    }
    Pages((u128::from(n_lru.0) * u128::from(over.0) / u128::from(n_cgroup.0)) as u64)
}

/// The reason for a demotion. It decides which pages beside cold ones above the floors
/// [`RegulatedDemotion::find`] may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DemotionReason {
    /// A tenant that has its floor promotes: no other pages.
    Wish,
    /// A tenant lacks its entitlement: also hot pages above the floors.
    Entitled,
    /// The tier itself is short: also hot pages above the floors, and cold pages below them.
    Pressure,
}

/// The pages of a tenant that may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heat {
    Cold,
    Any,
}

/// Distributes a shortage over the tenants. The value is used again, which keeps its memory.
#[derive(Debug, Clone, Default)]
pub(super) struct RegulatedDemotion {
    /// Base pages that each tenant may still give.
    over: Vec<(TenantId, Pages)>,
}

impl RegulatedDemotion {
    /// Adds to `out` pages of a tier until their base pages reach `wanted`.
    pub(super) fn find(
        &mut self,
        tier: TierId,
        wanted: Pages,
        need: DemotionReason,
        pass: &mut Pass<'_, '_>,
        out: &mut Vec<PageId>,
    ) {
        if pass.shares.is_empty() {
            pass.estimator.demotable(Scope::tier(tier), wanted, pass.ctx.pages, out);
            return;
        }
        let gives = |tenant: &TenantId| need == DemotionReason::Entitled || pass.is_known(*tenant);
        self.over.clear();
        self.over.extend(pass.projection.tenants().filter(gives).filter_map(|tenant| {
            let held = pass.projection.held(tenant, tier);
            let scan = demotion_scan(held, held, pass.shares.of(tenant, tier).floor);
            (scan > Pages(0)).then_some((tenant, scan))
        }));
        let mut found = self.take(tier, wanted, Heat::Cold, pass, out);
        if need != DemotionReason::Wish && found < wanted {
            found += self.take(tier, wanted - found, Heat::Any, pass, out);
        }
        if need == DemotionReason::Pressure && found < wanted {
            self.over.clear();
            let projection = &pass.projection;
            let known = projection.tenants().filter(|tenant| pass.is_known(*tenant));
            self.over.extend(known.map(|tenant| (tenant, projection.held(tenant, tier))));
            self.take(tier, wanted - found, Heat::Cold, pass, out);
        }
    }

    /// Takes from every tenant in proportion, then the missing pages from tenants that have more.
    fn take(
        &mut self,
        tier: TierId,
        wanted: Pages,
        heat: Heat,
        pass: &mut Pass<'_, '_>,
        out: &mut Vec<PageId>,
    ) -> Pages {
        let all: u64 = self.over.iter().map(|(_, over)| over.0).sum();
        let mut found = Pages(0);
        for proportional in [true, false] {
            for (tenant, over) in &mut self.over {
                let part = (u128::from(wanted.0) * u128::from(over.0)).div_ceil(all.max(1).into());
                let part = if proportional { Pages(part as u64) } else { *over };
                let limit = part.min(*over).min(wanted.saturating_sub(found));
                if limit == Pages(0) {
                    continue;
                }
                let from = out.len();
                let scope = Scope { tier, tenant: Some(*tenant) };
                match heat {
                    Heat::Cold => pass.estimator.demotable(scope, limit, pass.ctx.pages, out),
                    Heat::Any => pass.estimator.coldest(scope, limit, pass.ctx.pages, out),
                }
                let got = pass.frames(&out[from..]);
                found += got;
                *over = over.saturating_sub(got);
            }
        }
        found
    }
}

/// Promotion candidates of one tenant, or of all if no partitioner sets shares. The value is used
/// again, which keeps its memory.
#[derive(Debug, Clone, Default)]
pub(super) struct RateLimitedPromotion {
    order: Vec<Option<TenantId>>,
    /// Base pages that each tenant's rate has allowed and that were not used, below one page.
    remainders: Vec<f64>,
    /// The candidates of the last search.
    pub(super) found: Vec<PageId>,
}

impl RateLimitedPromotion {
    /// Sets the order in which the tenants promote: latency-critical ones first. Without shares it
    /// is one `None`, which stands for all tenants. Returns its length.
    pub(super) fn order(&mut self, pass: &Pass<'_, '_>) -> usize {
        let ctx = &pass.ctx;
        self.order.clear();
        if pass.shares.is_empty() {
            self.order.push(None);
            return 1;
        }
        let critical = |t: &TenantId| {
            ctx.specs.get(t.index()).is_some_and(|spec| spec.class == Class::LatencyCritical)
        };
        let all = (0..ctx.tenants.len()).map(|i| TenantId(i as u16));
        self.order.extend(all.clone().filter(critical).map(Some));
        self.order.extend(all.filter(|t| !critical(t)).map(Some));
        self.order.len()
    }

    /// Finds the candidates of the `i`-th tenant in the order, at most `limit`. Returns the tenant
    /// and the base pages found.
    pub(super) fn find(
        &mut self,
        i: usize,
        lower: TierId,
        upper: TierId,
        limit: Pages,
        pass: &mut Pass<'_, '_>,
    ) -> (Option<TenantId>, Pages) {
        let tenant = self.order.get(i).copied().flatten();
        self.found.clear();
        let scope = Scope { tier: lower, tenant };
        pass.estimator.promotable(scope, limit, pass.ctx.pages, &mut self.found);
        if let Some(tenant) = tenant.filter(|_| !pass.estimator.regulates()) {
            self.limit_rate(tenant, pass.shares.of(tenant, upper).promotion, pass.ctx);
        }
        (tenant, pass.frames(&self.found))
    }

    /// Keeps the first part of the candidates. The next search adds the fraction of a page that the
    /// rate allowed and this one did not use, so a rate of a sixteenth lets every sixteenth single
    /// candidate through.
    fn limit_rate(&mut self, tenant: TenantId, rate: f64, ctx: &PlanContext<'_>) {
        if rate >= 1.0 || self.found.is_empty() {
            return;
        }
        if self.remainders.len() <= tenant.index() {
            self.remainders.resize(tenant.index() + 1, 0.0);
        }
        let frames = |page: &PageId| ctx.pages.frames(*page) as f64;
        let all: f64 = self.found.iter().map(frames).sum();
        let mut allowed = self.remainders[tenant.index()] + rate * all;
        let mut kept = 0;
        while let Some(page) = self.found.get(kept).map(frames).filter(|&page| page <= allowed) {
            allowed -= page;
            kept += 1;
        }
        self.found.truncate(kept);
        self.remainders[tenant.index()] = allowed;
    }
}
