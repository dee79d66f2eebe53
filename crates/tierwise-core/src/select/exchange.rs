//! Nimble's exchange as MULTI-CLOCK describes it (HPCA 2022, sections II-D and III-A): at each scan a
//! fixed number of the lower tier's most recently used pages against as many of the upper tier's least
//! recently used. As long as the upper tier has free pages above its low watermark they are used first,
//! and then each demotion stands right before the promotion that it makes way for. Tiers under pressure
//! demote by themselves, as in the kernel.
//!
//! Where nothing of the upper tier can go, because all of it was accessed, nothing is promoted into it
//! beyond its low watermark: an exchange has two sides.
//!
//! If a partitioner sets shares, each tenant exchanges by itself: at the rate of its share, up to its cap,
//! against pages of whoever holds more than its floor.
//!
//! Parameter: `pages` (1024) base pages promoted into each tier at a scan. The paper says "a fixed
//! number" without naming it; this is its number of pages in a scan (section V-C).

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

/// Exchanges a fixed number of pages.
#[derive(Debug, Clone)]
pub struct Exchange {
    pages: Pages,
    kswapd: Kswapd,
    victims: Victims,
    candidates: Regulated,
    books: Books,
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
            candidates: Regulated::default(),
            books: Books::default(),
        })
    }

    fn exchange(&mut self, lower: TierId, upper: TierId, turn: &mut Turn<'_, '_>) {
        for i in 0..self.candidates.order(turn) {
            let (tenant, incoming) = self.candidates.find(i, lower, upper, self.pages, turn);
            if incoming == Pages(0) {
                continue;
            }
            self.victims.find(upper, tenant, incoming, turn);
            for &page in &self.candidates.found {
                if !self.victims.make_way(upper, tenant, turn.frames(&[page]), turn) {
                    break;
                }
                turn.move_to(page, upper, Cause::Hot);
            }
        }
    }
}

impl Selector for Exchange {
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
        for lower in turn.ctx.topology.ids().filter(|_| tick.looked) {
            if let Some(upper) = lower.faster() {
                self.exchange(lower, upper, &mut turn);
            }
        }
        self.books = turn.books;
    }
}
