//! Equilibria (section IV): a floor and a cap for every tenant and tier, promotion slowed down above the floor
//! and for tenants that thrash. What follows for demotion is the selectors' ([`crate::select`]).
//!
//! - *Floors and caps* are the operator's ([`crate::tenant::TenantSpec`]); a tenant without a floor in the
//!   fastest tier has the recipe's (`floors`). Explicit floors come first, `auto` ones share what they leave;
//!   floors that do not fit are cut in proportion.
//! - *Promotion* (equation 2, section IV-E) of a tenant above its floor while the tier is full, or near its
//!   cap, goes on at `max((floor / usage)^4, 1/16)` of its rate. The equation is printed with min; the text
//!   says that a sixteenth is always allowed, 96 % at an overage of 1 % and 68 % at 10 %, which is max.
//! - *Thrashing* (section IV-F): every 5 s, a tenant in its steady state whose thrash events exceed a rate has
//!   its promotion halved, and doubled back when they no longer do. Steady is a tenant whose active pages
//!   and freed pages both change by less than a part of its memory a second.
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
//! Parameters: `floors` ("auto", or "none", a size, or a share of the resident set as a number), `interval_ms`
//! (1000), `thrash_control` (true), `thrash_resident_ms` (5000), `thrash_rate` (256 base pages a second: two
//! migrations of each are a thousandth of a core), `steady_change` (0.05 of the tenant's memory a second).
//! The paper prints none of the last three.

use std::time::Duration;

use super::floors::{Default as DefaultFloor, Floors};
use super::thrash::{SAMPLE, ThrashTable};
use crate::config::{ConfigError, Section};
use crate::migrate::{Cap, MoveOutcome};
use crate::observe::Observation;
use crate::page::PageTable;
use crate::policy::PlanContext;
use crate::reason::Rule;
use crate::stage::{Estimator, Partitioner, Share, Shares, Ticker};
use crate::tenant::TenantSpec;
use crate::topology::{Topology, WatermarkLevel};
use crate::units::{Pages, TenantId, TierId, Timestamp};

/// The least that is left of a tenant's promotion rate above its floor (section IV-E).
const LEAST: f64 = 1.0 / 16.0;

/// Halvings for thrashing end here: a tenant whose pages all thrash still finds the few that do not.
const LEAST_THRASHING: f64 = 1.0 / 256.0;

/// How often thrash events are looked at (section IV-F).
const PERIOD: Duration = Duration::from_secs(5);

/// Equation 2 of Equilibria: the part of its rate at which a tenant above its floor promotes.
pub fn promotion_rate(usage: Pages, floor: Pages) -> f64 {
    if usage <= floor {
        return 1.0;
    }
    (floor.0 as f64 / usage.0 as f64).powi(4).max(LEAST)
}

/// What is known of one tenant.
#[derive(Debug, Clone, Copy)]
struct Tenant {
    thrash_events: u64,
    events_before: u64,
    freed: Pages,
    active_before: Pages,
    /// Of its promotion rate, for thrashing.
    promotion: f64,
    rule: Option<Rule>,
}

impl Tenant {
    const NEW: Self = Self {
        thrash_events: 0,
        events_before: 0,
        freed: Pages(0),
        active_before: Pages(0),
        promotion: 1.0,
        rule: None,
    };
}

/// The partitioner.
#[derive(Debug, Clone)]
pub struct Equilibria {
    interval: Duration,
    floors: Floors,
    thrash_control: bool,
    thrash_resident: Duration,
    thrash_rate: f64,
    steady_change: f64,
    period: Ticker,
    last_period: Timestamp,
    table: ThrashTable,
    tenants: Vec<Tenant>,
}

impl Equilibria {
    /// Reads its parameters.
    ///
    /// # Errors
    /// A parameter outside what is allowed.
    pub fn build(section: &Section<'_>) -> Result<Self, ConfigError> {
        let interval = section.millis_or("interval_ms", Duration::from_secs(1), 1..=60_000)?;
        Ok(Self {
            interval,
            floors: Floors::read(section, DefaultFloor::Auto)?,
            thrash_control: section.flag_or("thrash_control", true)?,
            // As long as the table can see: the paper does not print its threshold.
            thrash_resident: section.millis_or("thrash_resident_ms", PERIOD, 1..=60_000)?,
            thrash_rate: section.number_or("thrash_rate", 256.0, 0.0..=1e9)?,
            steady_change: section.number_or("steady_change", 0.05, 0.0..=1.0)?,
            period: Ticker::new(Some(PERIOD)),
            last_period: Timestamp::ZERO,
            table: ThrashTable::default(),
            tenants: Vec::new(),
        })
    }

    fn tenant_mut(&mut self, tenant: TenantId) -> &mut Tenant {
        if self.tenants.len() <= tenant.index() {
            self.tenants.resize(tenant.index() + 1, Tenant::NEW);
        }
        &mut self.tenants[tenant.index()]
    }

    /// The end of a period: who thrashes in its steady state, who does no more.
    fn judge(&mut self, now: Timestamp, ctx: &PlanContext<'_>, estimator: &dyn Estimator) {
        let seconds = now.since(self.last_period).as_secs_f64().max(1e-9);
        self.last_period = now;
        self.table.clear();
        let (limit, steady_change) = (self.thrash_rate, self.steady_change);
        for tenant in 0..ctx.tenants.len() {
            let id = TenantId(tenant as u16);
            let (active, resident) = (estimator.active(id), ctx.resident(id).0.max(1) as f64);
            let t = self.tenant_mut(id);
            let changed = active.0.abs_diff(t.active_before.0) as f64 / resident / seconds;
            let freed = t.freed.0 as f64 / resident / seconds;
            let rate = (t.thrash_events - t.events_before) as f64 / seconds;
            let steady = changed < steady_change && freed < steady_change;
            if rate > limit && steady {
                t.promotion = (t.promotion / 2.0).max(LEAST_THRASHING);
                t.rule = Some(Rule::Thrashing { rate, limit, promotion: t.promotion });
            } else if rate <= limit && t.promotion < 1.0 {
                t.promotion = (t.promotion * 2.0).min(1.0);
                t.rule = Some(Rule::Recovering { promotion: t.promotion });
            }
            (t.events_before, t.active_before, t.freed) = (t.thrash_events, active, Pages(0));
        }
    }

    /// A tenant's share of a tier with its floor and cap, and the rule that set its promotion.
    fn share(
        &self,
        tenant: TenantId,
        tier: TierId,
        (floor, cap): (Pages, Pages),
        ctx: &PlanContext<'_>,
    ) -> (Share, Option<Rule>) {
        let usage = ctx.usage(tenant, tier);
        // kswapd keeps the tier between low and high; below the promo mark it is at work.
        let full = ctx.shortfall(tier, WatermarkLevel::Promo) > Pages(0);
        let near_cap = cap != Share::UNCAPPED && usage >= crate::select::cap_marks(cap).0;
        let rate = if full || near_cap { promotion_rate(usage, floor) } else { 1.0 };
        let known = self.tenants.get(tenant.index()).copied().unwrap_or(Tenant::NEW);
        let share = Share { floor, cap, promotion: rate * known.promotion };
        let throttled = (rate < 1.0).then_some(Rule::Throttled { usage, floor, rate });
        (share, known.rule.filter(|_| known.promotion < 1.0).or(throttled))
    }
}

impl Partitioner for Equilibria {
    fn interval(&self) -> Option<Duration> {
        Some(self.interval)
    }

    fn on_observation(&mut self, _: Timestamp, obs: &Observation, pages: &PageTable) {
        for &page in obs.gone.iter().filter(|&&page| pages.tier(page).is_some()) {
            let frames = Pages(pages.frames(page));
            self.tenant_mut(pages.tenant(page)).freed += frames;
        }
    }

    fn on_outcomes(&mut self, now: Timestamp, outcomes: &[MoveOutcome], pages: &PageTable) {
        for outcome in outcomes.iter().filter(|o| o.result.is_ok()) {
            if outcome.from.is_some_and(|from| outcome.to < from) {
                self.table.promoted(outcome.page, now);
            } else if self.table.demoted(outcome.page, now, self.thrash_resident) {
                let events = SAMPLE * pages.frames(outcome.page);
                self.tenant_mut(pages.tenant(outcome.page)).thrash_events += events;
            }
        }
    }

    fn partition(
        &mut self,
        now: Timestamp,
        ctx: &PlanContext<'_>,
        estimator: &dyn Estimator,
        shares: &mut Shares,
    ) {
        if self.thrash_control && self.period.take(now) {
            self.judge(now, ctx, estimator);
        }
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
        self.tenants.get(tenant.index()).map_or(0, |t| t.thrash_events)
    }
}
