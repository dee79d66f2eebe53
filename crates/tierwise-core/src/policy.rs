//! What a complete tiering policy is: it watches, and it answers with a plan.

use crate::migrate::{Cap, MigrationPlan, MoveOutcome, Placement};
use crate::observe::{Observation, Signals, TenantReading};
use crate::page::PageTable;
use crate::share::Decision;
use crate::tenant::TenantSpec;
use crate::topology::{Topology, WatermarkLevel};
use crate::units::{Pages, TenantId, TierId, Timestamp};

/// What a policy may consult while it plans. It may use up reference bits and set its own flags on
/// pages; everything else is read-only.
#[derive(Debug)]
pub struct PlanContext<'a> {
    /// The machine.
    pub topology: &'a Topology,
    /// Every page.
    pub pages: &'a mut PageTable,
    /// Free base pages of each tier, fastest first, as last reported.
    pub free: &'a [Pages],
    /// The tenants, by [`crate::units::TenantId`], as last reported.
    pub tenants: &'a [TenantReading],
    /// What the operator says of the tenants, by [`TenantId`]; shorter if of some nothing is said.
    pub specs: &'a [TenantSpec],
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
    /// What it wants to see. Asked after every plan; it may change with time.
    fn signals(&self) -> Signals {
        Signals::default()
    }

    /// Where new pages go.
    fn placement(&self) -> Placement {
        Placement::default()
    }

    /// Takes in what the world saw. Pages of `obs.allocated` are in the table already; pages of
    /// `obs.freed` still are, for the last time.
    fn on_observation(&mut self, now: Timestamp, obs: &Observation, pages: &mut PageTable);

    /// Takes in what came of the last plan's moves; the table shows the new tiers already. Moves
    /// that the budget cut come back as [`crate::migrate::FailReason::Budget`].
    fn on_outcomes(&mut self, _now: Timestamp, _outcomes: &[MoveOutcome], _pages: &mut PageTable) {}

    /// When it next has something to do by itself. `None`: only when something is observed.
    fn next_wake(&self) -> Option<Timestamp>;

    /// What tenants may hold at most before the first plan.
    fn first_caps(&self, _specs: &[TenantSpec], _topology: &Topology) -> Vec<Cap> {
        Vec::new()
    }

    /// The shares that the last plan changed, and why.
    fn decisions(&self) -> &[Decision] {
        &[]
    }

    /// Pages of a tenant that were demoted soon after their promotion, since the beginning
    /// (Equilibria, section IV-F), if the policy counts them.
    fn thrash_events(&self, _tenant: TenantId) -> u64 {
        0
    }

    /// Adds its moves to an empty plan. Called once for each observation, whether or not
    /// [`Policy::next_wake`] has come: a policy that ticks looks at `now` first.
    fn plan(&mut self, now: Timestamp, ctx: &mut PlanContext<'_>, plan: &mut MigrationPlan);
}
