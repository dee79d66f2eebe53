//! Exchanges of dedicated for managed pages, conflicting pages always together (Memstrata, section
//! 4.3).
//!
//! A tenant whose share of the first tier grows (its floor there) promotes managed pages, and a
//! tenant whose share shrinks demotes as many dedicated ones. The pages of one colour move
//! together: if one of them stayed, its neighbour's place would go to another tenant and the two
//! would conflict. So a *group*, all pages of a tenant in one colour, is promoted, and as many
//! dedicated pages of lenders are demoted into the frames that it frees.
//!
//! The promotions of a group precede its demotions: the fast tier keeps some pages free (its
//! watermarks), which are the spare pages of the exchange ([`MigrationPlan::in_place`]). No
//! tenant's size changes: a page changes its tier, never its tenant.
//!
//! Groups and dedicated pages are chosen at random, as in the paper. With `placement = "hotness"` a
//! tenant's hot managed pages are then exchanged for its cold dedicated ones, a small part of its
//! memory each time (section 4.3, "Assigning dedicated memory"). That needs an estimator with the
//! hotness of pages.
//!
//! Parameters: `placement` ("random" or "hotness"), `hot` (20), `cold` (0) and `step_ratio` (0.02),
//! which apply to "hotness" only. The defaults are the paper's. `hot` is a hundredth of the checks
//! that [`crate::estimate::RegionCounts`] makes by default, and `cold` none of them: nearer to each
//! other, pages that differ by chance would be exchanged. A larger `step_ratio` follows a new hot
//! set sooner and copies more at once.

use std::ops::Range;

use crate::config::{ConfigError, Section};
use crate::migrate::{Cause, ChargeTo, MigrationPlan, Move};
use crate::page::PageTable;
use crate::policy::PlanContext;
use crate::registry::BuildContext;
use crate::share::Shares;
use crate::stage::{Estimator, Selector, Tick};
use crate::units::{Hotness, PageId, TenantId, TierId};

/// The parameters of `placement = "hotness"`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ByHotness {
    /// The hotness above which a page is hot.
    hot: Hotness,
    /// The hotness up to which a page is cold.
    cold: Hotness,
    /// Maximum part of a tenant's pages that is exchanged at once.
    step_ratio: f64,
}

/// The pages of one tenant for an exchange.
#[derive(Debug, Clone, Default)]
struct Side {
    /// Its floor in the first tier, in base pages; `None` if it takes no part.
    floor: Option<u64>,
    /// Its memory in the first tier, in base pages.
    holds: u64,
    /// Its pages in the first tier, and in the managed tier.
    dedicated: Vec<PageId>,
    managed: Vec<PageId>,
}

/// Selector that exchanges dedicated for managed pages, in groups of one colour.
#[derive(Debug, Clone)]
pub struct Pairs {
    by_hotness: Option<ByHotness>,
    /// The state of the random numbers.
    state: u64,
    /// The pages of each tenant. The value is used again, which keeps its memory.
    sides: Vec<Side>,
}

impl Pairs {
    /// Reads its parameters.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub fn build(section: &Section<'_>, ctx: &BuildContext<'_>) -> Result<Self, ConfigError> {
        let seeks =
            section.choice_or("placement", false, &[("random", false), ("hotness", true)])?;
        let by_hotness = if seeks {
            // DAMON counts at most one access per sample, and its counters hold 2^16 samples.
            let hot = Hotness(section.whole_or("hot", 20, 1..=65_535)? as u32);
            let cold = Hotness(section.whole_or("cold", 0, 0..=65_535)? as u32);
            let step_ratio = section.number_or("step_ratio", 0.02, 0.001..=1.0)?;
            Some(ByHotness { hot, cold, step_ratio })
        } else {
            None
        };
        Ok(Self { by_hotness, state: ctx.seed, sides: Vec::new() })
    }

    /// A random number below `below`.
    fn draw(&mut self, below: usize) -> usize {
        // splitmix64: every seed is a good one.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.state;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % below.max(1) as u64) as usize
    }

    /// Selects the tenants that take part: running ones that hold more or less than their floors,
    /// and with hotness all running ones. Most tenants neither lend nor borrow, and their pages are
    /// not scanned.
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
            // A tenant without a share keeps its pages.
            let share = shares.of(tenant, TierId::FASTEST);
            let floor = if i < with_shares { share.floor.0 } else { holds };
            let is_due = holds != floor || self.by_hotness.is_some();
            self.sides[i].floor = (is_due && reading.running).then_some(floor);
        }
    }

    /// Sorts the pages of the tenants that take part by tier.
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

    /// Exchanges between tenants: promotes groups of those below their floors, and demotes as many
    /// pages of those above.
    fn between(&mut self, ctx: &PlanContext<'_>, plan: &mut MigrationPlan) {
        let mut lenders: Vec<(usize, u64)> = Vec::new();
        let mut borrowers = Vec::new();
        for (tenant, side) in self.sides.iter().enumerate() {
            let Some(floor) = side.floor else { continue };
            match side.holds.abs_diff(floor) {
                0 => {}
                surplus if side.holds > floor => lenders.push((tenant, surplus)),
                shortfall => borrowers.push((tenant, shortfall)),
            }
        }
        let mut lent: u64 = lenders.iter().map(|&(_, surplus)| surplus).sum();
        // The first lender is the last element, which is removed once it has lent its surplus.
        lenders.reverse();
        for (borrower, mut shortfall) in borrowers {
            let mut groups = Groups::of(&self.sides[borrower].managed, ctx.pages);
            while shortfall > 0 && !groups.is_empty() {
                let group = groups.take(self.draw(groups.len()));
                let mut wanted = size(group, ctx.pages);
                // The whole group or none of it: the last group may exceed the missing pages.
                if wanted > lent {
                    break;
                }
                shortfall = shortfall.saturating_sub(wanted);
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

    /// A random dedicated page of the last lender that still has pages to lend.
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

    /// Exchanges hot managed pages for cold dedicated ones within each tenant.
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

/// A page and its colour. A page without a known colour is its own group.
type Member = (Option<u32>, PageId);

/// Base pages of a group.
fn size(group: &[Member], table: &PageTable) -> u64 {
    group.iter().map(|&(_, page)| table.frames(page)).sum()
}

/// A tenant's managed pages by colour.
struct Groups {
    /// All pages, those of one colour side by side.
    members: Vec<Member>,
    /// The range of each group that was not taken yet.
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

    /// Takes out the group at an index.
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
        plan.in_place = true;
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
