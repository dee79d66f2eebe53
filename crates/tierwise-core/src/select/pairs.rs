//! Exchanges of dedicated against managed pages, conflicting pages always together (Memstrata,
//! section 4.3).
//!
//! A tenant that is to hold more dedicated pages (the floor of its share of the first tier) gives
//! up as many managed ones, and one that is to hold fewer takes those. The pages of one colour go
//! together: were one of them left behind, its neighbour's place would go to another tenant and the
//! two would conflict. So a *group*, all pages of a tenant in one colour, is promoted, and as many
//! dedicated pages of lenders are demoted into the room that it leaves.
//!
//! The promotions of a group stand before its demotions: the fast tier keeps some pages free (its
//! watermarks), which are the spare pages of the exchange. Nobody's size changes: a page changes
//! its tier, never its tenant.
//!
//! Which groups and which dedicated pages, chance says, as in the paper. With
//! `placement = "hotness"` a tenant's hot managed pages are then exchanged against its cold
//! dedicated ones, a small part of its memory each time (section 4.3, "Assigning dedicated
//! memory"); that needs an estimator that knows how hot pages are.
//!
//! Parameters: `placement` ("random" or "hotness"), `hot` (20), `cold` (0) and `step_ratio` (0.02),
//! which only "hotness" has.

use std::ops::Range;

use crate::config::{ConfigError, Section};
use crate::migrate::{Cause, ChargeTo, MigrationPlan, Move};
use crate::page::PageTable;
use crate::policy::PlanContext;
use crate::registry::BuildContext;
use crate::share::Shares;
use crate::stage::{Estimator, Selector, Tick};
use crate::units::{Hotness, PageId, TenantId, TierId};

/// When hot pages are sought.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ByHotness {
    /// Above this a page is hot.
    hot: Hotness,
    /// Up to this it is cold.
    cold: Hotness,
    /// Most of a tenant's pages that are exchanged at once.
    step_ratio: f64,
}

/// What one tenant has for an exchange.
#[derive(Debug, Clone, Default)]
struct Side {
    /// What it is to hold of the first tier, in base pages; `None` if it takes no part.
    floor: Option<u64>,
    /// What it holds of it, in base pages.
    holds: u64,
    /// Its pages there, and in the managed tier.
    dedicated: Vec<PageId>,
    managed: Vec<PageId>,
}

/// The selector.
#[derive(Debug, Clone)]
pub struct Pairs {
    by_hotness: Option<ByHotness>,
    /// What chance comes from.
    state: u64,
    /// By tenant; kept for its memory.
    sides: Vec<Side>,
}

impl Pairs {
    /// Reads its parameters.
    ///
    /// # Errors
    /// A parameter outside what is allowed.
    pub fn build(section: &Section<'_>, ctx: &BuildContext<'_>) -> Result<Self, ConfigError> {
        let seeks =
            section.choice_or("placement", false, &[("random", false), ("hotness", true)])?;
        let by_hotness = if seeks {
            // DAMON counts at most one access a sample; 2^16 samples are what its counters hold.
            let hot = Hotness(section.whole_or("hot", 20, 1..=65_535)? as u32);
            let cold = Hotness(section.whole_or("cold", 0, 0..=65_535)? as u32);
            let step_ratio = section.number_or("step_ratio", 0.02, 0.001..=1.0)?;
            Some(ByHotness { hot, cold, step_ratio })
        } else {
            None
        };
        Ok(Self { by_hotness, state: ctx.seed, sides: Vec::new() })
    }

    /// A number by lot, below `below`.
    fn draw(&mut self, below: usize) -> usize {
        // splitmix64: every seed is a good one.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.state;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % below.max(1) as u64) as usize
    }

    /// Who takes part: those that run and hold more or less than they are to, and with hotness all
    /// that run. Most tenants neither lend nor borrow, and their pages need not be looked at
    /// further.
    fn enlist(&mut self, ctx: &PlanContext<'_>, shares: &Shares) {
        self.sides.resize_with(ctx.tenants.len().max(self.sides.len()), Side::default);
        for side in &mut self.sides {
            side.floor = None;
            side.holds = 0;
            side.dedicated.clear();
            side.managed.clear();
        }
        let with_shares = shares.tenants().count();
        for (i, reading) in ctx.tenants.iter().enumerate() {
            let tenant = TenantId(i as u16);
            let holds = ctx.usage(tenant, TierId::FASTEST).0;
            // Who was given no share keeps what it has.
            let share = shares.of(tenant, TierId::FASTEST);
            let floor = if i < with_shares { share.floor.0 } else { holds };
            let is_due = holds != floor || self.by_hotness.is_some();
            self.sides[i].floor = (is_due && reading.running).then_some(floor);
        }
    }

    /// Sorts the pages of those that take part by tier.
    fn survey(&mut self, ctx: &PlanContext<'_>) {
        let managed = ctx.topology.slowest();
        for page in (0..ctx.pages.len() as u32).map(PageId) {
            let Some(tier) = ctx.pages.tier(page) else { continue };
            let side = self.sides.get_mut(ctx.pages.tenant(page).index());
            let Some(side) = side.filter(|side| side.floor.is_some()) else { continue };
            if tier == TierId::FASTEST {
                side.holds += ctx.pages.frames(page);
                side.dedicated.push(page);
            } else if tier == managed {
                side.managed.push(page);
            }
        }
    }

    /// Between tenants: those below their floors get groups promoted, those above lose as many
    /// pages.
    fn between(&mut self, ctx: &PlanContext<'_>, plan: &mut MigrationPlan) {
        let mut lenders: Vec<(usize, u64)> = Vec::new();
        let mut borrowers = Vec::new();
        for (tenant, side) in self.sides.iter().enumerate() {
            let Some(floor) = side.floor else { continue };
            match side.holds.abs_diff(floor) {
                0 => {}
                surplus if side.holds > floor => lenders.push((tenant, surplus)),
                lacks => borrowers.push((tenant, lacks)),
            }
        }
        let mut lent: u64 = lenders.iter().map(|&(_, surplus)| surplus).sum();
        // The first lender stands last, where it is taken off as soon as it has lent everything.
        lenders.reverse();
        for (borrower, mut lacks) in borrowers {
            let mut groups = Groups::of(&self.sides[borrower].managed, ctx.pages);
            while lacks > 0 && !groups.is_empty() {
                let group = groups.take(self.draw(groups.len()));
                let mut wanted = size(group, ctx.pages);
                // The whole group or nothing of it; the last step may go one group's rest beyond
                // what is lacking.
                if wanted > lent {
                    break;
                }
                lacks = lacks.saturating_sub(wanted);
                plan.moves.extend(group.iter().map(|&(_, page)| up(page, Cause::Grow)));
                while wanted > 0 {
                    let Some(page) = self.lend_one(&mut lenders, ctx.pages) else { break };
                    let pages = ctx.pages.frames(page);
                    (wanted, lent) = (wanted.saturating_sub(pages), lent.saturating_sub(pages));
                    plan.moves.push(down(page, ctx.topology.slowest(), Cause::Shrink));
                }
            }
        }
    }

    /// A dedicated page, by lot, of the last lender that still has something to lend.
    fn lend_one(&mut self, lenders: &mut Vec<(usize, u64)>, pages: &PageTable) -> Option<PageId> {
        let (lender, surplus) = lenders.last_mut()?;
        let at = self.draw(self.sides[*lender].dedicated.len());
        let left = &mut self.sides[*lender].dedicated;
        let page = (at < left.len()).then(|| left.swap_remove(at))?;
        *surplus = surplus.saturating_sub(pages.frames(page));
        if *surplus == 0 {
            lenders.pop();
        }
        Some(page)
    }

    /// Within each tenant: hot managed pages against cold dedicated ones.
    fn within(
        &self,
        by: ByHotness,
        ctx: &PlanContext<'_>,
        estimator: &dyn Estimator,
        plan: &mut MigrationPlan,
    ) {
        let mut moved: Vec<PageId> = plan.moves.iter().map(|m| m.page).collect();
        moved.sort_unstable();
        for Side { dedicated, managed, .. } in &self.sides {
            let limit = ((dedicated.len() + managed.len()) as f64 * by.step_ratio) as usize;
            let hotness = |page: &PageId| estimator.hotness(*page, ctx.pages);
            let still = |page: &&PageId| moved.binary_search(page).is_err();
            let hot = managed.iter().filter(|p| hotness(p) > by.hot).filter(still);
            let cold = dedicated.iter().filter(|p| hotness(p) <= by.cold).filter(still);
            for (&hot, &cold) in hot.zip(cold).take(limit) {
                plan.moves.push(up(hot, Cause::Hot));
                plan.moves.push(down(cold, ctx.topology.slowest(), Cause::MakeRoom));
            }
        }
    }
}

fn up(page: PageId, cause: Cause) -> Move {
    Move { page, to: TierId::FASTEST, charge_to: ChargeTo::Background, cause }
}

fn down(page: PageId, to: TierId, cause: Cause) -> Move {
    Move { page, to, charge_to: ChargeTo::Background, cause }
}

/// A page and its colour; one of which no colour is known stands alone.
type Member = (Option<u32>, PageId);

/// Base pages of a group.
fn size(group: &[Member], table: &PageTable) -> u64 {
    group.iter().map(|&(_, page)| table.frames(page)).sum()
}

/// A tenant's managed pages by colour.
struct Groups {
    /// All pages, those of one colour side by side.
    members: Vec<Member>,
    /// Where each group stands that was not taken yet.
    left: Vec<Range<u32>>,
}

impl Groups {
    fn of(pages: &[PageId], table: &PageTable) -> Self {
        let mut members: Vec<Member> =
            pages.iter().map(|&page| (table.colour(page), page)).collect();
        members.sort_unstable();
        let same = |a: &Member, b: &Member| a.0.is_some() && a.0 == b.0;
        let mut from = 0;
        let place = |group: &[Member]| {
            let place = from..from + group.len() as u32;
            from = place.end;
            place
        };
        let left = members.chunk_by(same).map(place).collect();
        Self { members, left }
    }

    fn len(&self) -> usize {
        self.left.len()
    }

    fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Takes out the group that stands there.
    fn take(&mut self, at: usize) -> &[Member] {
        let place = self.left.swap_remove(at);
        &self.members[place.start as usize..place.end as usize]
    }
}

impl Selector for Pairs {
    fn select(
        &mut self,
        tick: Tick,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        shares: &Shares,
        plan: &mut MigrationPlan,
    ) {
        if !tick.partitioned {
            return;
        }
        self.enlist(ctx, shares);
        self.survey(ctx);
        self.between(ctx, plan);
        if let Some(by) = self.by_hotness {
            self.within(by, ctx, estimator, plan);
        }
    }
}

#[cfg(test)]
mod tests;
