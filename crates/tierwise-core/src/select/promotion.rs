//! Promotion as the kernel's memory management has it: candidates tenant by tenant, victims that
//! make way for them, and kswapd beside it.

use super::books::Books;
use super::kswapd::{Kswapd, Victims};
use super::regulated::RateLimitedPromotion;
use super::turn::Turn;
use crate::migrate::{Cause, MigrationPlan};
use crate::policy::PlanContext;
use crate::share::Shares;
use crate::stage::Estimator;
use crate::units::{Pages, TierId};

/// What becomes of a candidate for which nobody makes way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnNoVictim {
    /// It ends the promotion of its tenant: an exchange has two sides.
    Skip,
    /// It is promoted down to the min watermark, if nobody's floor stands against it.
    UseReserve,
}

/// The parts, kept between plans.
#[derive(Debug, Clone)]
pub(super) struct Promotion {
    limit: Pages,
    no_way: OnNoVictim,
    kswapd: Kswapd,
    victims: Victims,
    candidates: RateLimitedPromotion,
    books: Books,
}

impl Promotion {
    /// Of up to so many base pages of each tenant at a time.
    pub(super) fn new(limit: Pages, no_way: OnNoVictim) -> Self {
        Self {
            limit,
            no_way,
            kswapd: Kswapd::default(),
            victims: Victims::default(),
            candidates: RateLimitedPromotion::default(),
            books: Books::default(),
        }
    }

    /// Balances every tier, then promotes from those that `from` says, given whether they were
    /// under pressure.
    pub(super) fn select(
        &mut self,
        from: impl Fn(bool) -> bool,
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
                && from(self.kswapd.is_awake(lower))
            {
                self.promote(lower, upper, &mut turn);
            }
        }
        self.books = turn.books;
    }

    fn promote(&mut self, lower: TierId, upper: TierId, turn: &mut Turn<'_, '_>) {
        for i in 0..self.candidates.order(turn) {
            let (tenant, incoming) = self.candidates.find(i, lower, upper, self.limit, turn);
            if incoming == Pages(0) {
                continue;
            }
            self.victims.find(upper, tenant, incoming, turn);
            for &page in &self.candidates.found {
                let way = self.victims.make_way(upper, tenant, turn.frames(&[page]), turn);
                match self.no_way {
                    OnNoVictim::Skip if !way => break,
                    OnNoVictim::UseReserve if !way && tenant.is_some() => {}
                    OnNoVictim::Skip | OnNoVictim::UseReserve => {
                        turn.move_to(page, upper, Cause::Hot);
                    }
                }
            }
        }
    }
}
