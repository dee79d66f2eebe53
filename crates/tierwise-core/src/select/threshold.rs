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
