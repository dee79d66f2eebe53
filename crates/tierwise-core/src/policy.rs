//! The interface of a complete tiering policy: it takes observations and fills a plan.

use std::time::Duration;

use crate::migrate::{Cap, MigrationPlan, MoveOutcome, Placement};
use crate::observe::{Observation, Signals, TenantReading};
use crate::page::PageTable;
use crate::share::Decision;
use crate::tenant::TenantSpec;
use crate::topology::{Topology, WatermarkLevel};
use crate::units::{PageId, Pages, TenantId, TierId, Timestamp};

/// The state that a policy may read while it plans. It may clear reference bits and set its own
/// flags on pages; everything else is read-only.
#[derive(Debug)]
pub struct PlanContext<'a> {
    /// The machine.
    pub topology: &'a Topology,
    /// The table of all pages.
    pub pages: &'a mut PageTable,
    /// Free base pages of each tier, fastest first, as last reported.
    pub free: &'a [Pages],
    /// The tenants, by [`crate::units::TenantId`], as last reported.
    pub tenants: &'a [TenantReading],
    /// The tenant specs, by [`TenantId`]. May be shorter than the number of tenants: missing
    /// entries use the defaults.
    pub specs: &'a [TenantSpec],
    /// CPU time of migrating one base page, as last reported.
    pub move_cost: Option<Duration>,
}

impl PlanContext<'_> {
    /// Free base pages of a tier.
    pub fn free(&self, tier: TierId) -> Pages {
        self.free.get(tier.index()).copied().unwrap_or_default()
    }

    /// Base pages that a tenant holds in a tier, as last reported.
    pub fn usage(&self, tenant: TenantId, tier: TierId) -> Pages {
        let reading = self.tenants.get(tenant.index());
        reading.and_then(|t| t.usage.get(tier.index())).copied().unwrap_or_default()
    }

    /// Base pages that a tenant has resident in all tiers, as last reported.
    pub fn resident(&self, tenant: TenantId) -> Pages {
        self.tenants.get(tenant.index()).map_or(Pages(0), |t| t.usage.iter().copied().sum())
    }

    /// Base pages that must leave `tier` for its free pages to reach `level`.
    pub fn shortfall(&self, tier: TierId, level: WatermarkLevel) -> Pages {
        self.topology.tier(tier).watermarks.at(level).saturating_sub(self.free(tier))
    }
}

/// A complete tiering policy. Deterministic: the same calls give the same plans.
pub trait Policy: Send {
    /// Returns the access signals that the policy requires. The engine reads them after every plan;
    /// they may change with time.
    fn signals(&self) -> Signals {
        Signals::default()
    }

    /// The placement of new pages.
    fn placement(&self) -> Placement {
        Placement::default()
    }

    /// Handles an observation. Pages of `obs.allocated` are in the table already. Pages of
    /// `obs.freed` are in it for the last time.
    fn on_observation(&mut self, now: Timestamp, obs: &Observation, pages: &mut PageTable);

    /// Handles the outcomes of the last plan's moves. The table has the new tiers already. Moves
    /// that the budget cut fail with [`crate::migrate::FailReason::Budget`].
    fn on_outcomes(&mut self, _now: Timestamp, _outcomes: &[MoveOutcome], _pages: &mut PageTable) {}

    /// Returns the time of the policy's next periodic work; `None` if it only reacts to
    /// observations.
    fn next_wake(&self) -> Option<Timestamp>;

    /// The tenants' limits before the first plan.
    fn first_caps(&self, _specs: &[TenantSpec], _topology: &Topology) -> Vec<Cap> {
        Vec::new()
    }

    /// The shares that the last plan changed, with the reasons.
    fn decisions(&self) -> &[Decision] {
        &[]
    }

    /// Pages of a tenant that were demoted soon after their promotion, since the start
    /// (Equilibria, section IV-F), if the policy counts them.
    fn thrash_events(&self, _tenant: TenantId) -> u64 {
        0
    }

    /// The heat of a page for a later engine; see [`crate::stage::Estimator::heat`].
    fn heat(&self, _page: PageId) -> u16 {
        0
    }

    /// A tenant's pages in classes of similar hotness; see [`crate::stage::Estimator::curve`].
    fn curve(&self, _tenant: TenantId, _out: &mut Vec<(Pages, f64)>) {}

    /// Adds the policy's moves to an empty plan. The engine calls it once per observation, even
    /// before [`Policy::next_wake`]: a policy with an interval checks `now` first.
    fn plan(&mut self, now: Timestamp, ctx: &mut PlanContext<'_>, plan: &mut MigrationPlan);
}
