//! Equilibria (section IV): a floor and a cap for every tenant and tier, promotion slowed down
//! above the floor and for tenants that thrash. The selectors ([`crate::select`]) apply floors and
//! caps to demotion.
//!
//! - *Floors and caps* are configured ([`crate::tenant::TenantSpec`]). A tenant without a floor in
//!   the fastest tier has the recipe's (`floors`). Explicit floors are served first, and `auto`
//!   floors share the rest. Floors that do not fit are cut in proportion.
//! - *Promotion* (equation 2, section IV-E) of a tenant above its floor while the tier is full, or
//!   near its cap, continues at `max((floor / usage)^4, 1/16)` of its rate. The paper prints the
//!   equation with min. Its text always allows a sixteenth, and has 96 % at an overage of 1 % and
//!   68 % at 10 %, which requires max.
//! - *Thrashing* (section IV-F, [`super::thrash`]) slows it down further.
//!
//! ```
//! use tierwise_core::partition::promotion_rate;
//! use tierwise_core::units::Pages;
//!
//! let percent = |usage| (promotion_rate(Pages(usage), Pages(1000)) * 100.0).round();
//! assert_eq!([1000, 1010, 1100, 4000].map(percent), [100.0, 96.0, 68.0, 6.0]);
//! assert_eq!(promotion_rate(Pages(4000), Pages(1000)), 1.0 / 16.0);
//! ```
//!
//! Parameters: `floors` ("auto", or "none", a size, or a share of the resident set as a number),
//! `interval_ms` (1000), and those of thrash control: `thrash_control` (true), `thrash_period_ms`
//! (5000), `thrash_resident_ms` (5000), `thrash_slots` (131072), `thrash_rate` (256 base pages per
//! second) and `steady_change` (0.05 of the tenant's memory per second).

use std::time::Duration;

use super::floors::{Default as DefaultFloor, Floors};
use super::thrash::ThrashControl;
use crate::config::{ConfigError, Section};
use crate::migrate::{Cap, MoveOutcome};
use crate::observe::Observation;
use crate::page::PageTable;
use crate::policy::PlanContext;
use crate::share::{Rule, Share, Shares, cap_marks};
use crate::stage::{Estimator, Partitioner};
use crate::tenant::TenantSpec;
use crate::topology::{Topology, WatermarkLevel};
use crate::units::{Pages, TenantId, TierId, Timestamp};

/// The minimum part of a tenant's promotion rate above its floor (section IV-E).
const MIN: f64 = 1.0 / 16.0;

/// Equation 2 of Equilibria: the part of its rate at which a tenant above its floor promotes.
pub fn promotion_rate(usage: Pages, floor: Pages) -> f64 {
    if usage <= floor {
        return 1.0;
    }
    (floor.0 as f64 / usage.0 as f64).powi(4).max(MIN)
}

/// Equilibria's partitioner: each tenant's floors, caps and promotion rates.
#[derive(Debug, Clone)]
pub struct Equilibria {
    interval: Duration,
    floors: Floors,
    thrash: ThrashControl,
}

impl Equilibria {
    /// Reads its parameters.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub fn build(section: &Section<'_>) -> Result<Self, ConfigError> {
        let interval = section.millis_or("interval_ms", Duration::from_secs(1), 1..=60_000)?;
        Ok(Self {
            interval,
            floors: Floors::read(section, DefaultFloor::Auto)?,
            thrash: ThrashControl::read(section)?,
        })
    }

    /// Returns a tenant's share of a tier with its floor and cap, and the rule that set its
    /// promotion.
    fn share(
        &self,
        tenant: TenantId,
        tier: TierId,
        (floor, cap): (Pages, Pages),
        ctx: &PlanContext<'_>,
    ) -> (Share, Option<Rule>) {
        let usage = ctx.usage(tenant, tier);
        // kswapd works until free memory reaches the promo watermark; below it the tier is full.
        let full = ctx.shortfall(tier, WatermarkLevel::Promo) > Pages(0);
        let near_cap = cap != Share::UNCAPPED && usage >= cap_marks(cap).0;
        let rate = if full || near_cap { promotion_rate(usage, floor) } else { 1.0 };
        let (promotion, thrashing) = self.thrash.promotion(tenant);
        let share = Share { floor, cap, promotion: rate * promotion, ..Share::FREE };
        let throttled = (rate < 1.0).then_some(Rule::Throttled { usage, floor, rate });
        (share, thrashing.or(throttled))
    }
}

impl Partitioner for Equilibria {
    fn interval(&self) -> Option<Duration> {
        Some(self.interval)
    }

    fn on_observation(&mut self, _: Timestamp, obs: &Observation, pages: &PageTable) {
        self.thrash.on_observation(obs, pages);
    }

    fn on_outcomes(&mut self, now: Timestamp, outcomes: &[MoveOutcome], pages: &PageTable) {
        self.thrash.on_outcomes(now, outcomes, pages);
    }

    fn partition(
        &mut self,
        now: Timestamp,
        ctx: &PlanContext<'_>,
        estimator: &dyn Estimator,
        shares: &mut Shares,
    ) {
        self.thrash.judge(now, ctx, estimator);
        for tier in ctx.topology.ids() {
            self.floors.resolve(tier, ctx);
            for tenant in 0..ctx.tenants.len() {
                let id = TenantId(tenant as u16);
                let limits = (self.floors.of(id), super::floors::cap(id, tier, ctx));
                let (share, rule) = self.share(id, tier, limits, ctx);
                shares.set(now, id, tier, share, rule.unwrap_or(self.floors.rule()));
            }
        }
    }

    fn first_caps(&self, specs: &[TenantSpec], topology: &Topology) -> Vec<Cap> {
        super::floors::first_caps(specs, topology)
    }

    fn thrash_events(&self, tenant: TenantId) -> u64 {
        self.thrash.events(tenant)
    }
}
