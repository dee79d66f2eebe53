//! MULTI-CLOCK's migrations (HPCA 2022, sections III-B and III-C): everything that deserves promotion
//! is promoted in the run that found it, however much it is; an upper tier that is short of memory
//! demotes at once to take it in; and kswapd demotes from a tier under pressure, from below its low
//! watermark up to its high one.
//!
//! Each tier's kswapd also promotes: under pressure the promote list is looked at first (section III-C),
//! so a tier's promotions come with every scan and whenever the tier itself is short.
//!
//! A promotion for which no room can be made, down to the min watermark, is left out of the plan: its
//! page stays on the promote list, and the next scan sends it back to the active list unless it was
//! accessed again (Figure 4, 11 and 12).
//!
//! If a partitioner sets shares, tenants promote one after the other (latency-critical ones first), each at
//! the rate of its share and up to its cap, and room is made by whoever holds more than its floor.
//!
//! Parameter: `pages` (unlimited) base pages promoted of each tenant at a scan.

use super::books::Books;
use super::kswapd::{Kswapd, Victims};
use super::regulated::Regulated;
use super::turn::Turn;
use crate::config::{ConfigError, Section};
use crate::migrate::MigrationPlan;
use crate::policy::PlanContext;
use crate::reason::Cause;
use crate::stage::{Estimator, Selector, Shares, Tick};
use crate::units::{Pages, TierId};

/// Promotes all that is promotable.
#[derive(Debug, Clone)]
pub struct PromoteList {
    pages: Pages,
    kswapd: Kswapd,
    victims: Victims,
    candidates: Regulated,
    books: Books,
}

impl PromoteList {
    /// Reads its parameter.
    ///
    /// # Errors
    /// Not a whole number of at least one.
    pub fn build(section: &Section<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            pages: Pages(section.whole_or("pages", u64::MAX, 1..=u64::MAX)?),
            kswapd: Kswapd::default(),
            victims: Victims::default(),
            candidates: Regulated::default(),
            books: Books::default(),
        })
    }

    fn promote(&mut self, lower: TierId, upper: TierId, turn: &mut Turn<'_, '_>) {
        for i in 0..self.candidates.order(turn) {
            let (tenant, incoming) = self.candidates.find(i, lower, upper, self.pages, turn);
            if incoming == Pages(0) {
                continue;
            }
            self.victims.find(upper, tenant, incoming, turn);
            for &page in &self.candidates.found {
                let way = self.victims.make_way(upper, tenant, turn.frames(&[page]), turn);
                // Nobody's floor is touched by going below the low watermark, unless there are floors.
                if way || tenant.is_none() {
                    turn.move_to(page, upper, Cause::Hot);
                }
            }
        }
    }
}

impl Selector for PromoteList {
    fn select(
        &mut self,
        tick: Tick,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        shares: &Shares,
        plan: &mut MigrationPlan,
    ) {
        let books = std::mem::take(&mut self.books);
        let mut turn = Turn::open(books, ctx, estimator, shares, plan);
        self.kswapd.balance(&mut turn);
        for lower in turn.ctx.topology.ids() {
            if let Some(upper) = lower.faster()
                && (tick.looked || self.kswapd.is_awake(lower))
            {
                self.promote(lower, upper, &mut turn);
            }
        }
        self.books = turn.books;
    }
}
