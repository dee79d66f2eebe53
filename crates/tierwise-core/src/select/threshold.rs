//! MEMTIS's migration threads (`kmigrated`; SOSP 2023, section 4; `mm/htmm_migrater.c`): they
//! promote the estimator's hot pages to the fastest tier, and demote its cold ones to keep headroom
//! there.
//!
//! At each of the estimator's updates, for the fastest tier with capacity `C`:
//!
//! - if hot pages wait in slower tiers, cold pages are demoted until enough memory is free for the
//!   waiting pages and 3 % of `C` (`need_toptier_demotion`);
//! - if none wait, demotion starts when less than 2 % of `C` is free, and continues to 3 %;
//! - hot pages are promoted, hottest first, as long as 3 % stay free (`promotion_available`).
//!
//! Between two updates there is only demotion under pressure. All moves are in the background. The
//! artifact also clamps the two marks to between 50 MB and 1.5 GB. Here they are shares on a
//! machine of any size, but never below the tier's min watermark. Tiers between the fastest and the
//! slowest keep their headroom in the same way.
//!
//! If a partitioner sets shares, each tenant's promotions stop at its cap in the fastest tier, a
//! tenant beyond its cap demotes down to it, and the victims belong to tenants that hold more than
//! their floors. A partition is such a cap unless memory is free to which no other tenant is
//! entitled.

use super::pass::{Pass, Projection};
use super::regulated::{DemotionReason, RegulatedDemotion};
use crate::config::{ConfigError, Section};
use crate::migrate::{Cause, MigrationPlan};
use crate::policy::PlanContext;
use crate::share::Shares;
use crate::stage::{Estimator, Scope, Selector, Tick};
use crate::units::{PageId, Pages, TenantId, TierId};

/// MEMTIS's selector: promotes hot pages and keeps headroom in the fastest tier.
#[derive(Debug, Clone)]
pub struct Threshold {
    /// The free share of a tier below which demotion starts.
    demotion_free: f64,
    /// The free share of a tier at which demotion ends and promotion stops.
    promotion_free: f64,
    hot: Vec<PageId>,
    cold: Vec<PageId>,
    pressure: RegulatedDemotion,
    projection: Projection,
}

impl Threshold {
    /// Reads `demotion_free_percent` (2) and `promotion_free_percent` (3).
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub fn build(section: &Section<'_>) -> Result<Self, ConfigError> {
        let demotion = section.number_or("demotion_free_percent", 2.0, 0.0..=50.0)?;
        let promotion =
            section.number_or("promotion_free_percent", demotion.max(3.0), demotion..=50.0)?;
        Ok(Self {
            demotion_free: demotion / 100.0,
            promotion_free: promotion / 100.0,
            hot: Vec::new(),
            cold: Vec::new(),
            pressure: RegulatedDemotion::default(),
            projection: Projection::default(),
        })
    }

    fn mark(share: f64, tier: TierId, ctx: &PlanContext<'_>) -> Pages {
        let tier = ctx.topology.tier(tier);
        Pages((tier.capacity.0 as f64 * share).ceil() as u64).max(tier.watermarks.min)
    }

    /// Demotes up to `limit` cold base pages of a tier: of one tenant, or of all that hold more
    /// than their floors.
    fn demote(&mut self, scope: Scope, limit: Pages, cause: Cause, pass: &mut Pass<'_, '_>) {
        self.cold.clear();
        if limit == Pages(0) {
            return;
        }
        let cold = &mut self.cold;
        match scope.tenant {
            None => self.pressure.find(scope.tier, limit, DemotionReason::Pressure, pass, cold),
            Some(_) => pass.estimator.demotable(scope, limit, pass.ctx.pages, cold),
        }
        for &page in &self.cold {
            pass.demote(page, scope.tier, cause);
        }
    }

    /// Keeps the headroom of a tier without promotions to it now.
    fn relieve(&mut self, tier: TierId, pass: &mut Pass<'_, '_>) {
        let free = pass.projection.free.of(tier);
        if free < Self::mark(self.demotion_free, tier, pass.ctx) {
            let stop = Self::mark(self.promotion_free, tier, pass.ctx);
            self.demote(Scope::tier(tier), stop.saturating_sub(free), Cause::Pressure, pass);
        }
    }

    /// Promotes hot pages and demotes cold ones, of one tenant within its share or of all.
    fn balance(&mut self, tenant: Option<TenantId>, pass: &mut Pass<'_, '_>) {
        let fast = TierId::FASTEST;
        let capacity = pass.ctx.topology.tier(fast).capacity;
        let scope = |tier| Scope { tier, tenant };
        let stop = Self::mark(self.promotion_free, fast, pass.ctx);
        let cap = tenant.map_or(capacity, |t| pass.limit(t, fast, stop).min(capacity));
        let held = |pass: &Pass<'_, '_>| tenant.map_or(Pages(0), |t| pass.projection.held(t, fast));
        let limit = cap.min(capacity.saturating_sub(stop));
        let waiting = self.find_hot(scope, limit, pass);
        let beyond = (held(pass) + waiting).saturating_sub(cap);
        if tenant.is_some() {
            self.demote(scope(fast), beyond, Cause::AtShare, pass);
        }
        let short = (waiting + stop).saturating_sub(pass.projection.free.of(fast));
        if waiting > Pages(0) {
            self.demote(Scope::tier(fast), short, Cause::MakeRoom, pass);
        }
        for &page in &self.hot {
            let frames = pass.frames(&[page]);
            let fits = pass.projection.free.of(fast) >= frames + stop;
            if fits && held(pass) + frames <= cap {
                pass.move_to(page, fast, Cause::Hot);
            }
        }
    }

    /// Fills `hot` with promotion candidates for the fastest tier, from the nearest tier first.
    fn find_hot(
        &mut self,
        scope: impl Fn(TierId) -> Scope,
        limit: Pages,
        pass: &mut Pass<'_, '_>,
    ) -> Pages {
        self.hot.clear();
        let mut waiting = Pages(0);
        for tier in pass.ctx.topology.ids().skip(1) {
            let (from, limit) = (self.hot.len(), limit.saturating_sub(waiting));
            pass.estimator.promotable(scope(tier), limit, pass.ctx.pages, &mut self.hot);
            waiting += pass.frames(&self.hot[from..]);
        }
        waiting
    }
}

impl Selector for Threshold {
    fn select(
        &mut self,
        tick: Tick,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        shares: &Shares,
        plan: &mut MigrationPlan,
    ) {
        let projection = std::mem::take(&mut self.projection);
        let mut pass = Pass::start(projection, ctx, estimator, shares, plan);
        for tier in pass.ctx.topology.ids().rev().skip(1) {
            if !tick.updated || tier != TierId::FASTEST {
                self.relieve(tier, &mut pass);
            }
        }
        if tick.updated {
            if shares.is_empty() {
                self.balance(None, &mut pass);
            } else {
                pass.projection.tenants().for_each(|tenant| self.balance(Some(tenant), &mut pass));
            }
            self.relieve(TierId::FASTEST, &mut pass);
        }
        self.projection = pass.projection;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::testing::PolicyFixture;
    use crate::config::Document;
    use crate::estimate::Histogram;
    use crate::observe::{Sample, TenantReading};
    use crate::registry::BuildContext;
    use crate::share::{Rule, Share};
    use crate::units::Timestamp;

    /// Pages with samples are hot; pages without are cold after the first update.
    struct Memtis {
        machine: PolicyFixture,
        estimator: Histogram,
        selector: Threshold,
        shares: Shares,
    }

    impl Memtis {
        fn new(tiers: usize, text: &str) -> Self {
            let machine = PolicyFixture::new(tiers);
            let build = BuildContext::new(&machine.topology, 0);
            let document = Document::parse("t.toml", "threshold_min = 5").unwrap();
            let estimator = Histogram::build(&document.root(), &build).unwrap();
            let document = Document::parse("t.toml", text).unwrap();
            let selector = Threshold::build(&document.root()).unwrap();
            Self { machine, estimator, selector, shares: Shares::default() }
        }

        fn plan(&mut self, updated: bool, sampled: std::ops::Range<u32>) -> Vec<(u32, u8)> {
            let machine = &mut self.machine;
            let sample = |page| Sample { page: PageId(page), tier: TierId(0), write: false };
            machine.obs.samples.extend(sampled.map(sample));
            self.estimator.on_observation(Timestamp(0), &machine.obs, &mut machine.pages);
            machine.obs.clear();
            let mut plan = MigrationPlan::default();
            let estimator = &mut self.estimator;
            let tick = Tick { now: Timestamp(0), updated, partitioned: false };
            self.selector.select(tick, &mut machine.context(), estimator, &self.shares, &mut plan);
            let outcomes = machine.execute(&plan);
            self.estimator.on_outcomes(Timestamp(0), &outcomes, &mut machine.pages);
            plan.moves.iter().map(|m| (m.page.0, m.to.0)).collect()
        }

        /// Ages all pages so that they are cold.
        fn cold(&mut self) {
            self.plan(false, 0..0);
            self.estimator.cool_down(&self.machine.pages);
        }
    }

    #[test]
    fn cold_pages_yield_to_waiting_hot_ones() {
        let mut memtis = Memtis::new(2, "");
        memtis.machine.allocated(0..90, 0).allocated(100..150, 1);
        memtis.cold();
        // Ten are free and twelve wait: five are demoted, so that three stay free.
        let moves = memtis.plan(true, 100..112);
        assert_eq!(moves[..5], [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]);
        assert_eq!(moves[5..], (100..112).map(|page| (page, 0)).collect::<Vec<_>>());
        assert_eq!(memtis.machine.free[0], Pages(3));
    }

    #[test]
    fn hot_pages_do_not_displace_hot_pages() {
        let mut memtis = Memtis::new(2, "");
        memtis.machine.allocated(0..97, 0).allocated(100..150, 1);
        memtis.cold();
        memtis.plan(false, 0..97);
        assert_eq!(memtis.plan(true, 100..112), []);
    }

    #[test]
    fn idle_demotion_spans_two_to_three_percent() {
        let mut memtis = Memtis::new(2, "demotion_free_percent = 5\npromotion_free_percent = 10");
        memtis.machine.allocated(0..95, 0);
        memtis.cold();
        assert_eq!(memtis.plan(true, 0..0), []);
        memtis.machine.allocated(95..96, 0);
        assert_eq!(memtis.plan(false, 0..0).len(), 6);
        assert_eq!(memtis.machine.free[0], Pages(10));
    }

    #[test]
    fn between_updates_nothing_is_promoted() {
        let mut memtis = Memtis::new(2, "");
        memtis.machine.allocated(0..4, 1);
        assert_eq!(memtis.plan(false, 0..4), []);
        assert_eq!(memtis.plan(true, 0..0).len(), 4);
    }

    #[test]
    fn hot_pages_of_slower_tiers_reach_fastest() {
        let mut memtis = Memtis::new(3, "");
        memtis.machine.allocated(0..50, 1).allocated(50..99, 2);
        assert_eq!(memtis.plan(true, 48..52), [(48, 0), (49, 0), (50, 0), (51, 0)]);
    }

    /// Tenant 0 has ten fast pages and fifty slow ones; tenant 1 has forty, of which
    /// `missing_pages` are slow.
    fn partitioned(share: u64, missing_pages: u64) -> Memtis {
        let mut memtis = Memtis::new(2, "");
        memtis.machine.allocated(0..10, 0).allocated(100..150, 1);
        memtis.machine.allocated_by(1, 200..200 + 40 - missing_pages as u32, 0);
        memtis.machine.allocated_by(1, 300..300 + missing_pages as u32, 1);
        memtis.cold();
        for (tenant, pages) in [share, 40].into_iter().enumerate() {
            let (id, share) = (TenantId(tenant as u16), Share::partition(Pages(pages)));
            memtis.shares.set(Timestamp(0), id, TierId(0), share, Rule::Configured);
        }
        let reading = |fast, slow| {
            let usage = vec![Pages(fast), Pages(slow)];
            TenantReading { usage, ..TenantReading::default() }
        };
        memtis.machine.tenants = vec![reading(10, 50), reading(40 - missing_pages, missing_pages)];
        memtis
    }

    #[test]
    fn partition_allows_use_of_free_memory() {
        let mut memtis = partitioned(12, 0);
        let up = |page| (page, 0);
        assert_eq!(memtis.plan(true, 100..105), (100..105).map(up).collect::<Vec<_>>());
    }

    #[test]
    fn tenant_keeps_partition_where_others_are_entitled() {
        let mut memtis = partitioned(12, 40);
        // 90 pages are free: the tenant may have 47 of them, and the other its 40.
        assert_eq!(memtis.plan(true, 100..105).len(), 5);
        let mut memtis = partitioned(12, 0);
        memtis.machine.free[0] = Pages(3);
        let moves = memtis.plan(true, 100..105);
        // Five pages wait and two fit beside the ten, so three of the tenant's pages must be
        // demoted.
        let own = |m: &&(u32, u8)| m.1 == 1 && m.0 < 10;
        assert!(moves.iter().filter(own).count() >= 3, "{moves:?}");
    }

    #[test]
    fn tenant_without_cold_pages_stops_at_cap() {
        let mut memtis = Memtis::new(2, "");
        memtis.machine.allocated(0..10, 0).allocated(100..150, 1);
        let share = Share { cap: Pages(12), ..Share::partition(Pages(12)) };
        memtis.shares.set(Timestamp(0), TenantId(0), TierId(0), share, Rule::Configured);
        let usage = vec![Pages(10), Pages(50)];
        memtis.machine.tenants = vec![TenantReading { usage, ..TenantReading::default() }];
        assert_eq!(memtis.plan(true, 100..105), [(100, 0), (101, 0)]);
    }
}
