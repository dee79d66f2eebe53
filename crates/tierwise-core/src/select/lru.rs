//! Promotion as in the kernel's memory management: each tenant's candidates, their victims, and
//! kswapd's demotions before both. Two selectors follow MULTI-CLOCK (HPCA 2022).
//!
//! *promote-list* makes MULTI-CLOCK's own migrations (sections III-B and III-C):
//!
//! - A run promotes every promotion candidate that it finds, without a limit on their number. An
//!   upper tier that is short of memory demotes at once to make room. kswapd demotes from a tier
//!   under pressure, from below its low watermark up to its high one.
//! - Each tier's kswapd also promotes: under pressure it scans the promote list first (section
//!   III-C). So a tier's promotions come with every scan and whenever the tier itself is short.
//! - A promotion without victims, down to the min watermark, is left out of the plan. Its page
//!   stays on the promote list, and the next scan returns it to the active list unless it was
//!   accessed again (Figure 4, 11 and 12).
//!
//! *exchange* is Nimble's exchange as MULTI-CLOCK describes it (sections II-D and III-A):
//!
//! - Each scan exchanges a fixed number of the lower tier's most recently used pages for as many of
//!   the upper tier's least recently used. It first uses the upper tier's free pages above its low
//!   watermark. After that each demotion directly precedes its promotion. Tiers under pressure
//!   demote by themselves, as in the kernel.
//! - If too few pages of the upper tier are unreferenced, the rest are its oldest, referenced or
//!   not: first of the inactive lists, then of the active ones. Nimble's own code (`do_mm_manage`,
//!   `mm/memory_manage.c` of github.com/ysarch-lab/nimble_page_management_asplos_2019) takes the
//!   oldest inactive pages of the fast node without a look at their reference bits, and its
//!   `shrink_active_list` deactivates referenced pages too, so that it never runs out of them.
//! - Without any page to demote no page is promoted beyond the low watermark: an exchange has two
//!   sides (`putback_overflow_pages`).
//!
//! If a partitioner sets shares, tenants promote one after the other, latency-critical ones first,
//! each at the rate of its share and up to its cap. The victims belong to tenants that hold more
//! than their floors.
//!
//! Parameter: `pages`, the limit of base pages that each tenant promotes into each tier per scan.
//! promote-list has no limit by default. exchange takes 1024: the paper says "a fixed number" and
//! does not state it, and 1024 is its number of pages in a scan (section V-C).

use super::kswapd::{RegulatedKswapd, Victims};
use super::pass::{Pass, Projection};
use super::regulated::RateLimitedPromotion;
use crate::config::{ConfigError, Section};
use crate::migrate::{Cause, MigrationPlan};
use crate::policy::PlanContext;
use crate::share::Shares;
use crate::stage::{Estimator, Selector, Tick};
use crate::units::{Pages, TierId};

/// The fate of a candidate without a victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnNoVictim {
    /// The candidate ends the promotion of its tenant: an exchange has two sides.
    Skip,
    /// The candidate is promoted down to the min watermark, unless a partitioner sets shares: then
    /// that memory may be below another tenant's floor.
    UseReserve,
}

/// The selectors "promote-list" and "exchange".
#[derive(Debug, Clone)]
pub struct LruSelector {
    limit: Pages,
    on_no_victim: OnNoVictim,
    /// True if a tier under pressure promotes too, not only at a scan.
    promotes_under_pressure: bool,
    kswapd: RegulatedKswapd,
    victims: Victims,
    candidates: RateLimitedPromotion,
    projection: Projection,
}

impl LruSelector {
    /// exchange's limit: the number of pages in a scan, MULTI-CLOCK section V-C.
    const EXCHANGED_PAGES: u64 = 1024;

    /// Builds "promote-list".
    ///
    /// # Errors
    /// `pages` is not a whole number of at least one.
    pub fn promote_list(section: &Section<'_>) -> Result<Self, ConfigError> {
        Self::build(section, u64::MAX, OnNoVictim::UseReserve, true)
    }

    /// Builds "exchange".
    ///
    /// # Errors
    /// `pages` is not a whole number of at least one.
    pub fn exchange(section: &Section<'_>) -> Result<Self, ConfigError> {
        Self::build(section, Self::EXCHANGED_PAGES, OnNoVictim::Skip, false)
    }

    fn build(
        section: &Section<'_>,
        pages: u64,
        on_no_victim: OnNoVictim,
        promotes_under_pressure: bool,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            limit: Pages(section.whole_or("pages", pages, 1..=u64::MAX)?),
            on_no_victim,
            promotes_under_pressure,
            kswapd: RegulatedKswapd::default(),
            victims: Victims::default(),
            candidates: RateLimitedPromotion::default(),
            projection: Projection::default(),
        })
    }

    fn promote(&mut self, lower: TierId, upper: TierId, pass: &mut Pass<'_, '_>) {
        for i in 0..self.candidates.order(pass) {
            let (tenant, incoming) = self.candidates.find(i, lower, upper, self.limit, pass);
            if incoming == Pages(0) {
                continue;
            }
            self.victims.find(upper, tenant, incoming, pass);
            if self.on_no_victim == OnNoVictim::Skip {
                self.victims.find_oldest(upper, tenant, incoming, pass);
            }
            for &page in &self.candidates.found {
                let fits = self.victims.make_room(upper, tenant, pass.frames(&[page]), pass);
                match self.on_no_victim {
                    OnNoVictim::Skip if !fits => break,
                    OnNoVictim::UseReserve if !fits && tenant.is_some() => {}
                    OnNoVictim::Skip | OnNoVictim::UseReserve => {
                        pass.move_to(page, upper, Cause::Hot);
                    }
                }
            }
        }
    }
}

impl Selector for LruSelector {
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
        self.kswapd.balance(&mut pass);
        for lower in pass.ctx.topology.ids() {
            let under_pressure = self.promotes_under_pressure && self.kswapd.is_awake(lower);
            if let Some(upper) = lower.faster()
                && (tick.updated || under_pressure)
            {
                self.promote(lower, upper, &mut pass);
            }
        }
        self.projection = pass.projection;
    }
}
