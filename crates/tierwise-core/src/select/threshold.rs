//! MEMTIS's migration threads (`kmigrated`; SOSP 2023, section 4; `mm/htmm_migrater.c`): what the estimator
//! calls hot goes to the fastest tier, and what it calls cold leaves to keep headroom there.
//!
//! At each of the estimator's looks, for the fastest tier with capacity `C`:
//!
//! - if hot pages wait in slower tiers, cold pages are demoted until the waiting pages and 3 % of `C` are
//!   free (`need_toptier_demotion`);
//! - if none wait, demotion begins when less than 2 % of `C` is free, and goes on to 3 %;
//! - hot pages are promoted, hottest first, as long as 3 % stay free (`promotion_available`).
//!
//! Between two looks only demotion under pressure is done. All moves are in the background. The artifact
//! also clamps the two marks to between 50 MB and 1.5 GB; on a machine of any size they are shares here, but
//! never below the tier's min watermark. Tiers between the fastest and the slowest keep their headroom in
//! the same way.
//!
//! If a partitioner sets shares, each tenant's promotions stop at its share of the fastest tier, and a tenant
//! beyond its share demotes down to it.

use crate::config::{ConfigError, Section};
use crate::migrate::MigrationPlan;
use crate::policy::PlanContext;
use crate::room::Room;
use crate::stage::{Estimator, Scope, Selector, Shares};
use crate::topology::WatermarkLevel;
use crate::units::{PageId, Pages, TenantId, TierId};

/// The selector.
#[derive(Debug, Clone)]
pub struct Threshold {
    /// Demotion begins below this share of a tier.
    demotion_free: f64,
    /// Demotion ends, and promotion stops, at this share of a tier.
    promotion_free: f64,
    hot: Vec<PageId>,
    cold: Vec<PageId>,
}

impl Threshold {
    /// Reads `demotion_free_percent` (2) and `promotion_free_percent` (3).
    ///
    /// # Errors
    /// A parameter outside what is allowed.
    pub fn build(section: &Section<'_>) -> Result<Self, ConfigError> {
        let demotion = section.number_or("demotion_free_percent", 2.0, 0.0..=50.0)?;
        let promotion =
            section.number_or("promotion_free_percent", demotion.max(3.0), demotion..=50.0)?;
        Ok(Self {
            demotion_free: demotion / 100.0,
            promotion_free: promotion / 100.0,
            hot: Vec::new(),
            cold: Vec::new(),
        })
    }

    fn mark(share: f64, tier: TierId, ctx: &PlanContext<'_>) -> Pages {
        let tier = ctx.topology.tier(tier);
        Pages((tier.capacity.0 as f64 * share).ceil() as u64).max(tier.watermarks.min)
    }

    /// Demotes up to `most` cold base pages of a scope.
    fn demote(
        &mut self,
        scope: Scope,
        most: Pages,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        room: &mut Room,
        plan: &mut MigrationPlan,
    ) -> Pages {
        self.cold.clear();
        if most > Pages(0) {
            estimator.demotable(scope, most, ctx.pages, &mut self.cold);
        }
        let mut demoted = Pages(0);
        for &page in &self.cold {
            let frames = Pages(ctx.pages.frames(page));
            let min = WatermarkLevel::Min;
            let Some(to) = room.slower_with_room(frames, scope.tier, ctx.topology, min) else {
                continue;
            };
            plan.background(page, to);
            room.record(frames, scope.tier, to);
            demoted += frames;
        }
        demoted
    }

    /// Keeps the headroom of a tier that nothing is to be promoted to now.
    fn relieve(
        &mut self,
        tier: TierId,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        room: &mut Room,
        plan: &mut MigrationPlan,
    ) {
        if room.free(tier) < Self::mark(self.demotion_free, tier, ctx) {
            let stop = Self::mark(self.promotion_free, tier, ctx);
            let most = stop.saturating_sub(room.free(tier));
            self.demote(Scope::tier(tier), most, ctx, estimator, room, plan);
        }
    }

    /// Brings hot pages up and cold ones down, of one tenant within its share or of all.
    fn balance(
        &mut self,
        tenant: Option<(TenantId, Pages)>,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        room: &mut Room,
        plan: &mut MigrationPlan,
    ) {
        let fast = TierId::FASTEST;
        let scope = |tier| Scope { tier, tenant: tenant.map(|(id, _)| id) };
        let stop = Self::mark(self.promotion_free, fast, ctx);
        let (mut usage, share) = match tenant {
            None => (Pages(0), ctx.topology.tier(fast).capacity),
            Some((id, share)) => (usage(ctx, id), share),
        };
        let most = share.min(ctx.topology.tier(fast).capacity.saturating_sub(stop));
        let waiting = self.find_hot(scope, most, ctx, estimator);
        let short = (waiting + stop).saturating_sub(room.free(fast));
        let beyond = (usage + waiting).saturating_sub(share);
        let exceeds = if waiting > Pages(0) { short.max(beyond) } else { beyond };
        let demoted = self.demote(scope(fast), exceeds, ctx, estimator, room, plan);
        usage = usage.saturating_sub(demoted);
        for &page in &self.hot {
            let frames = Pages(ctx.pages.frames(page));
            let Some(from) = ctx.pages.tier(page) else { continue };
            if room.free(fast) >= frames + stop && usage + frames <= share {
                plan.background(page, fast);
                room.record(frames, from, fast);
                usage += frames;
            }
        }
    }

    /// Fills `hot` with the pages that deserve the fastest tier, from the nearest tier first.
    fn find_hot(
        &mut self,
        scope: impl Fn(TierId) -> Scope,
        most: Pages,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
    ) -> Pages {
        self.hot.clear();
        let mut waiting = Pages(0);
        for tier in ctx.topology.ids().skip(1) {
            let from = self.hot.len();
            estimator.promotable(
                scope(tier),
                most.saturating_sub(waiting),
                ctx.pages,
                &mut self.hot,
            );
            waiting += self.hot[from..].iter().map(|&page| Pages(ctx.pages.frames(page))).sum();
        }
        waiting
    }
}

fn usage(ctx: &PlanContext<'_>, tenant: TenantId) -> Pages {
    let reading = ctx.tenants.get(tenant.index());
    reading.and_then(|t| t.usage.first()).copied().unwrap_or_default()
}

impl Selector for Threshold {
    fn select(
        &mut self,
        looked: bool,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        shares: &Shares,
        plan: &mut MigrationPlan,
    ) {
        let mut room = Room::new(ctx.free);
        for tier in ctx.topology.ids().rev().skip(1) {
            if !looked || tier != TierId::FASTEST {
                self.relieve(tier, ctx, estimator, &mut room, plan);
            }
        }
        if !looked {
            return;
        }
        for (id, by_tier) in shares.by_tenant.iter().enumerate() {
            if let Some(&share) = by_tier.first() {
                let tenant = Some((TenantId(id as u16), share));
                self.balance(tenant, ctx, estimator, &mut room, plan);
            }
        }
        if shares.by_tenant.is_empty() {
            self.balance(None, ctx, estimator, &mut room, plan);
        }
        self.relieve(TierId::FASTEST, ctx, estimator, &mut room, plan);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::testing::Machine;
    use crate::config::Document;
    use crate::estimate::Histogram;
    use crate::observe::{Sample, TenantReading};
    use crate::recipe::BuildContext;
    use crate::units::Timestamp;

    /// Pages with samples are hot, pages without are cold but for the first look.
    struct Memtis {
        machine: Machine,
        estimator: Histogram,
        selector: Threshold,
        shares: Shares,
    }

    impl Memtis {
        fn new(tiers: usize, text: &str) -> Self {
            let machine = Machine::new(tiers);
            let build = BuildContext { topology: &machine.topology, seed: 0 };
            let document = Document::parse("t.toml", "threshold_min = 5").unwrap();
            let estimator = Histogram::build(&document.root(), &build).unwrap();
            let document = Document::parse("t.toml", text).unwrap();
            let selector = Threshold::build(&document.root()).unwrap();
            Self { machine, estimator, selector, shares: Shares::default() }
        }

        fn plan(&mut self, looked: bool, sampled: std::ops::Range<u32>) -> Vec<(u32, u8)> {
            let machine = &mut self.machine;
            let sample = |page| Sample { page: PageId(page), tier: TierId(0), write: false };
            machine.seen.samples.extend(sampled.map(sample));
            self.estimator.on_observation(Timestamp(0), &machine.seen, &mut machine.pages);
            machine.seen.clear();
            let mut plan = MigrationPlan::default();
            let estimator = &mut self.estimator;
            self.selector.select(
                looked,
                &mut machine.context(),
                estimator,
                &self.shares,
                &mut plan,
            );
            let outcomes = machine.carry_out(&plan);
            self.estimator.on_outcomes(Timestamp(0), &outcomes, &mut machine.pages);
            plan.moves.iter().map(|m| (m.page.0, m.to.0)).collect()
        }

        /// Pages born until now have been there so long that they are cold.
        fn cold(&mut self) {
            self.plan(false, 0..0);
            self.estimator.cool_down(&self.machine.pages);
        }
    }

    #[test]
    fn cold_pages_make_room_for_the_hot_ones_that_wait_and_three_percent() {
        let mut memtis = Memtis::new(2, "");
        memtis.machine.born(0..90, 0).born(100..150, 1);
        memtis.cold();
        // Ten are free and twelve wait: five are demoted, so that three stay free.
        let moves = memtis.plan(true, 100..112);
        assert_eq!(moves[..5], [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]);
        assert_eq!(moves[5..], (100..112).map(|page| (page, 0)).collect::<Vec<_>>());
        assert_eq!(memtis.machine.free[0], Pages(3));
    }

    #[test]
    fn hot_pages_are_not_demoted_for_other_hot_pages() {
        let mut memtis = Memtis::new(2, "");
        memtis.machine.born(0..97, 0).born(100..150, 1);
        memtis.cold();
        memtis.plan(false, 0..97);
        assert_eq!(memtis.plan(true, 100..112), []);
    }

    #[test]
    fn without_waiting_pages_demotion_begins_at_two_percent_and_ends_at_three() {
        let mut memtis = Memtis::new(2, "demotion_free_percent = 5\npromotion_free_percent = 10");
        memtis.machine.born(0..95, 0);
        memtis.cold();
        assert_eq!(memtis.plan(true, 0..0), []);
        memtis.machine.born(95..96, 0);
        assert_eq!(memtis.plan(false, 0..0).len(), 6);
        assert_eq!(memtis.machine.free[0], Pages(10));
    }

    #[test]
    fn between_looks_nothing_is_promoted() {
        let mut memtis = Memtis::new(2, "");
        memtis.machine.born(0..4, 1);
        assert_eq!(memtis.plan(false, 0..4), []);
        assert_eq!(memtis.plan(true, 0..0).len(), 4);
    }

    #[test]
    fn hot_pages_of_every_slower_tier_go_to_the_fastest() {
        let mut memtis = Memtis::new(3, "");
        memtis.machine.born(0..50, 1).born(50..99, 2);
        assert_eq!(memtis.plan(true, 48..52), [(48, 0), (49, 0), (50, 0), (51, 0)]);
    }

    #[test]
    fn a_tenant_stays_within_its_share() {
        let mut memtis = Memtis::new(2, "");
        memtis.machine.born(0..10, 0).born(100..150, 1);
        memtis.cold();
        memtis.shares.by_tenant = vec![vec![Pages(12), Pages(100)]];
        let usage = vec![Pages(10), Pages(50)];
        memtis.machine.tenants = vec![TenantReading { usage, ..TenantReading::default() }];
        let moves = memtis.plan(true, 100..105);
        // Five wait, two fit beside the ten: three must go, though eighty pages are free.
        assert_eq!(moves[..3], [(0, 1), (1, 1), (2, 1)]);
        assert_eq!(moves[3..], [(100, 0), (101, 0), (102, 0), (103, 0), (104, 0)]);
    }

    #[test]
    fn a_tenant_with_nothing_cold_is_promoted_up_to_its_share_only() {
        let mut memtis = Memtis::new(2, "");
        memtis.machine.born(0..10, 0).born(100..150, 1);
        memtis.shares.by_tenant = vec![vec![Pages(12), Pages(100)]];
        let usage = vec![Pages(10), Pages(50)];
        memtis.machine.tenants = vec![TenantReading { usage, ..TenantReading::default() }];
        assert_eq!(memtis.plan(true, 100..105), [(100, 0), (101, 0)]);
    }
}
