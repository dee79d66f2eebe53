//! Nimble's exchange as MULTI-CLOCK describes it (HPCA 2022, sections II-D and III-A): at each scan a
//! fixed number of the lower tier's most recently used pages against as many of the upper tier's least
//! recently used. As long as the upper tier has free pages above its low watermark they are used first,
//! and then each demotion stands right before the promotion that it makes way for. Tiers under pressure
//! demote by themselves, as in the kernel.
//!
//! Where nothing of the upper tier can go, because all of it was accessed, nothing is promoted into it
//! beyond its low watermark: an exchange has two sides.
//!
//! Parameter: `pages` (1024) base pages promoted into each tier at a scan. The paper says "a fixed
//! number" without naming it; this is its number of pages in a scan (section V-C).

use super::kswapd::{Kswapd, Victims, move_to};
use crate::config::{ConfigError, Section};
use crate::migrate::MigrationPlan;
use crate::policy::PlanContext;
use crate::room::Room;
use crate::stage::{Estimator, Scope, Selector, Shares};
use crate::units::{PageId, Pages, TierId};

/// Exchanges a fixed number of pages.
#[derive(Debug, Clone)]
pub struct Exchange {
    pages: Pages,
    kswapd: Kswapd,
    victims: Victims,
    found: Vec<PageId>,
}

impl Exchange {
    /// The number of pages in a scan, MULTI-CLOCK section V-C.
    const PAGES: u64 = 1024;

    /// Reads its parameter.
    ///
    /// # Errors
    /// Not a whole number of at least one.
    pub fn build(section: &Section<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            pages: Pages(section.whole_or("pages", Self::PAGES, 1..=u64::MAX)?),
            kswapd: Kswapd::default(),
            victims: Victims::default(),
            found: Vec::new(),
        })
    }

    fn exchange(
        &mut self,
        lower: TierId,
        upper: TierId,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        room: &mut Room,
        plan: &mut MigrationPlan,
    ) {
        self.found.clear();
        estimator.promotable(Scope::tier(lower), self.pages, ctx.pages, &mut self.found);
        let incoming = self.found.iter().map(|&page| Pages(ctx.pages.frames(page))).sum();
        if incoming == Pages(0) {
            return;
        }
        self.victims.find(upper, incoming, ctx, estimator, room);
        for &page in &self.found {
            let frames = Pages(ctx.pages.frames(page));
            if !self.victims.make_way(upper, frames, ctx, room, plan) {
                return;
            }
            move_to(page, upper, ctx, room, plan);
        }
    }
}

impl Selector for Exchange {
    fn select(
        &mut self,
        looked: bool,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        _: &Shares,
        plan: &mut MigrationPlan,
    ) {
        let mut room = Room::new(ctx.free);
        self.kswapd.balance(ctx, estimator, &mut room, plan);
        for lower in ctx.topology.ids().filter(|_| looked) {
            if let Some(upper) = lower.faster() {
                self.exchange(lower, upper, ctx, estimator, &mut room, plan);
            }
        }
    }
}
