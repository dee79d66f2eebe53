//! What every part of a selection needs, in one hand.

use super::books::Books;
use crate::migrate::{Cause, ChargeTo, MigrationPlan, Move};
use crate::policy::PlanContext;
use crate::share::Shares;
use crate::stage::Estimator;
use crate::topology::WatermarkLevel;
use crate::units::{Hotness, PageId, Pages, TenantId, TierId};

/// One call of a selector.
pub(super) struct Turn<'a, 'b> {
    pub(super) ctx: &'a mut PlanContext<'b>,
    pub(super) estimator: &'a mut dyn Estimator,
    pub(super) shares: &'a Shares,
    pub(super) plan: &'a mut MigrationPlan,
    /// What the plan so far will leave.
    pub(super) books: Books,
}

impl<'a, 'b> Turn<'a, 'b> {
    /// Starts with what was last reported. `books` is an earlier turn's, for its memory.
    pub(super) fn open(
        mut books: Books,
        ctx: &'a mut PlanContext<'b>,
        estimator: &'a mut dyn Estimator,
        shares: &'a Shares,
        plan: &'a mut MigrationPlan,
    ) -> Self {
        books.open(ctx);
        Self { ctx, estimator, shares, plan, books }
    }

    /// How hot a page is.
    pub(super) fn hotness(&self, page: PageId) -> Hotness {
        self.estimator.hotness(page, self.ctx.pages)
    }

    /// Base pages of these pages.
    pub(super) fn frames(&self, pages: &[PageId]) -> Pages {
        pages.iter().map(|&page| Pages(self.ctx.pages.frames(page))).sum()
    }

    /// Adds a move if its target will have the room. A migration's allocation may go down to the
    /// min watermark, as any that does not come from reclaim itself (`__alloc_pages`,
    /// `ALLOC_WMARK_MIN`).
    pub(super) fn move_to(&mut self, page: PageId, to: TierId, cause: Cause) -> bool {
        let frames = self.frames(&[page]);
        let Some(from) = self.ctx.pages.tier(page) else { return false };
        let fits = self.books.room.fits(frames, to, self.ctx.topology, WatermarkLevel::Min);
        if fits {
            self.books.record(self.ctx.pages.tenant(page), frames, from, to);
            let charge_to = match cause {
                Cause::AtCap => ChargeTo::FaultingThread,
                Cause::Hot => self.estimator.promoter(),
                _ => ChargeTo::Background,
            };
            self.plan.moves.push(Move { page, to, charge_to, cause });
        }
        fits
    }

    /// Demotes a page to the nearest slower tier that has the room.
    pub(super) fn demote(&mut self, page: PageId, from: TierId, cause: Cause) -> bool {
        let (frames, level) = (self.frames(&[page]), WatermarkLevel::Min);
        let to = self.books.room.slower_with_room(frames, from, self.ctx.topology, level);
        to.is_some_and(|to| self.move_to(page, to, cause))
    }

    /// The most that promotion may bring a tenant to: to its cap; of a partition, to what it is
    /// entitled to, and beyond that into what is free above `keep` pages and no other tenant lacks.
    pub(super) fn limit(&self, tenant: TenantId, tier: TierId, keep: Pages) -> Pages {
        let share = self.shares.of(tenant, tier);
        if !share.partitioned {
            return share.cap;
        }
        let lacks = |other: TenantId| {
            let below = self.ctx.topology.ids().filter(|&below| below > tier);
            let slower: Pages = below.map(|below| self.books.held(other, below)).sum();
            let floor = self.shares.of(other, tier).floor;
            floor.saturating_sub(self.books.held(other, tier)).min(slower)
        };
        let lacking: Pages = self.books.tenants().filter(|&other| other != tenant).map(lacks).sum();
        let spare = self.books.room.free(tier).saturating_sub(keep).saturating_sub(lacking);
        (self.books.held(tenant, tier) + spare).max(share.floor).min(share.cap)
    }

    /// Base pages that a tier can still take from migrations: down to its min watermark.
    pub(super) fn takes(&self, tier: TierId) -> Pages {
        self.books.room.free(tier).saturating_sub(self.ctx.topology.tier(tier).watermarks.min)
    }
}
