//! Promotion candidates tenant by tenant, at the rate that each tenant's share allows (Equilibria,
//! section IV-E: promotion scanning is slowed down, never stopped).

use super::turn::Turn;
use crate::policy::PlanContext;
use crate::stage::Scope;
use crate::tenant::Class;
use crate::units::{PageId, Pages, TenantId, TierId};

/// Candidates of one tenant, or of all when nobody partitions. Kept for its memory.
#[derive(Debug, Clone, Default)]
pub(super) struct RateLimitedPromotion {
    order: Vec<Option<TenantId>>,
    /// Base pages that each tenant's rate has allowed and that were not used, below one page.
    carry: Vec<f64>,
    /// The candidates that were found last.
    pub(super) found: Vec<PageId>,
}

impl RateLimitedPromotion {
    /// The tenants in the order in which they promote: latency-critical ones first. One `None` for
    /// all together when nobody partitions.
    pub(super) fn order(&mut self, turn: &Turn<'_, '_>) -> usize {
        let ctx = &turn.ctx;
        self.order.clear();
        if turn.shares.is_empty() {
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

    /// Finds the candidates of the `i`-th in the order, at most `limit`; returns who it is and the
    /// base pages found.
    pub(super) fn find(
        &mut self,
        i: usize,
        lower: TierId,
        upper: TierId,
        limit: Pages,
        turn: &mut Turn<'_, '_>,
    ) -> (Option<TenantId>, Pages) {
        let tenant = self.order.get(i).copied().flatten();
        self.found.clear();
        let scope = Scope { tier: lower, tenant };
        turn.estimator.promotable(scope, limit, turn.ctx.pages, &mut self.found);
        if let Some(tenant) = tenant.filter(|_| !turn.estimator.regulates()) {
            self.set_throttle(tenant, turn.shares.of(tenant, upper).promotion, turn.ctx);
        }
        (tenant, turn.frames(&self.found))
    }

    /// Keeps the first part of the candidates. What the rate allows beyond whole pages is kept for
    /// the next time, so that a rate of a sixteenth lets every sixteenth single candidate through.
    fn set_throttle(&mut self, tenant: TenantId, rate: f64, ctx: &PlanContext<'_>) {
        if rate >= 1.0 || self.found.is_empty() {
            return;
        }
        if self.carry.len() <= tenant.index() {
            self.carry.resize(tenant.index() + 1, 0.0);
        }
        let frames = |page: &PageId| ctx.pages.frames(*page) as f64;
        let all: f64 = self.found.iter().map(frames).sum();
        let mut allowed = self.carry[tenant.index()] + rate * all;
        let mut kept = 0;
        while let Some(page) = self.found.get(kept).map(frames).filter(|&page| page <= allowed) {
            allowed -= page;
            kept += 1;
        }
        self.found.truncate(kept);
        self.carry[tenant.index()] = allowed;
    }
}
