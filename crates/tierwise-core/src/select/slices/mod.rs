//! MTAT's partition policy enforcer (Kim et al., Middleware 2025, section 3.3): it changes the
//! partitions in slices of time, and keeps the hottest pages in each partition.
//!
//! - *Adjust* (algorithm 3, section 3.3.1). Each slice compares every tenant's memory in the
//!   fastest tier with its share, and [`plan_slice`] computes the pages that each gives or takes.
//!   Pages are demoted from the lowest bin and promoted from the highest (section 3.3.2). A share
//!   is filled even with pages that were not accessed: a latency-critical tenant needs them when a
//!   request arrives, not after it.
//! - *Refine* (section 3.3.2, Figure 4b). With the rest of the slice, a tenant's slow pages are
//!   exchanged for its own fast ones if they are in a higher bin, and never for another tenant's.
//!   On more than two tiers, the rest of that is used for the tiers below the fastest, where pages
//!   are exchanged by bin, regardless of tenant.
//! - *Compete.* Tenants whose floor is below their cap share the unpartitioned memory by frequency
//!   alone: the hottest pages of all of them are fast, but no tenant drops below its floor or
//!   exceeds its cap. In the schedule they count as one best-effort tenant. The best-effort tenants
//!   of MTAT (LC Only) of section 5 compete. Without shares, all tenants do.
//!
//! A share is an entitlement and no limit ([`Share`]): pages beyond it are taken away only as far
//! as other tenants lack their entitlements and free memory does not suffice ([`entitlement`]).
//! Where shares are not filled with pages that were not accessed (`fill`), a tenant lacks only what
//! it can promote: what others gave beyond that would stay free. Pages beyond the cap are always
//! taken away.
//!
//! A share's promotion rate slows its tenant's exchanges down, to that part of the pages that it
//! exchanged in its busiest recent slice at the full rate. The growth and shrinking of a share keep
//! the slices' pace.
//!
//! A tier short of its low watermark is relieved at any time, first by tenants that hold more than
//! their shares. If that immediately follows the growth of shares, the shares exceed the memory,
//! which can happen on a live machine. Best-effort shares then wait before they grow, one second at
//! first and twice as long each time. Otherwise every slice would promote and relieve the same
//! pages. Deltas are computed again at each slice, which corrects failed moves, allocations and
//! freed pages.
//!
//! While a tenant is used in bursts ([`Estimator::in_bursts`]), slices are a fifth as long and move
//! a fifth as much.
//!
//! Parameters: `slice_ms` (100), and `p_max`, the maximum of base pages that a slice demotes and
//! that it promotes: by default as many as half the next slower tier's bandwidth copies in a slice,
//! the change of a partition by equation 1. The paper prints neither. `fill` ("all") selects the
//! tenants whose shares are filled with pages that were not accessed; with "latency-critical" the
//! others' shares are filled so up to a configured floor, and keep free memory for their next
//! allocations beyond it.

mod candidates;
mod entitlement;
mod growth;
mod schedule;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use schedule::{Change, plan_slice};

use candidates::{CandidateTenant, Candidates};
use entitlement::Entitlement;
use growth::Growth;

use super::pass::Pass;
use super::pass::Projection;
use super::payoff;
use super::regulated::{DemotionReason, RegulatedDemotion};
use crate::config::{ConfigError, Section};
use crate::migrate::{Cause, MigrationPlan};
use crate::partition::largest_step;
use crate::policy::PlanContext;
use crate::registry::BuildContext;
use crate::share::{Share, Shares};
use crate::stage::{Estimator, Selector, Tick};
use crate::tenant::Class;
use crate::ticker::Ticker;
use crate::units::{PageId, Pages, TenantId, TierId, Timestamp};

/// Values of `fill`: true if best-effort tenants' shares are filled with pages that were not
/// accessed.
const FILLS: [(&str, bool); 2] = [("all", true), ("latency-critical", false)];

/// Slices in the time of one while a tenant is used in bursts: 20 ms, as a page may stay hot for a
/// fifth of a second. Tuned on `scenarios/optane.toml`.
const HASTE: u32 = 5;

/// The part of the largest exchange so far, at the full rate, that is kept from slice to slice:
/// workloads change their pages in bursts, and a slice without changes does not predict the next
/// ten.
const PACE_MEMORY: f64 = 0.9;

/// Base pages of the first search for pages to exchange. A search of which all pages are exchanged
/// doubles the next. Chosen, not measured: a larger search names more pages in vain when few are to
/// be exchanged; a smaller one takes more searches until its size is right.
const FIRST_BATCH: Pages = Pages(8);

/// Candidates whose exchange does not pay until a search ends. Hotter pages are named first, so
/// that the others pay rarely. Chosen, not measured: a larger number takes longer in each slice; a
/// smaller one ends among pages that were hot until lately, before those that are hot now.
const MAX_REFUSED: usize = 1024;

/// The order in which shares grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GrowthTurn {
    Critical,
    Floors,
    Rest,
}

impl GrowthTurn {
    /// Base pages that a tenant takes in this turn, if any.
    fn pages(self, change: &Change, pass: &Pass<'_, '_>) -> Option<Pages> {
        let step = Pages(u64::try_from(change.step).ok().filter(|&step| step > 0)?);
        match self {
            Self::Critical => change.critical.then_some(step),
            Self::Floors if change.critical => None,
            Self::Floors => {
                let missing = missing_of_floor(change.tenant?, pass).min(step);
                (missing > Pages(0)).then_some(missing)
            }
            Self::Rest => (!change.critical).then_some(step),
        }
    }
}

/// MTAT's selector: changes partitions slice by slice, and exchanges pages within them.
#[derive(Debug, Clone)]
pub struct Slices {
    length: Duration,
    /// The length of the present slices.
    present: Duration,
    slice: Ticker,
    limit: Pages,
    /// True if the shares of best-effort tenants are filled with pages that were not accessed.
    fills_all: bool,
    pressure: RegulatedDemotion,
    projection: Projection,
    /// Base pages that each tenant exchanged in its busiest recent slice at the full rate.
    pace: Vec<Pages>,
    /// One change per tenant, and one for the tenants that compete.
    changes: Vec<Change>,
    /// Base pages of each tenant beyond its entitlement and below its cap.
    beyond: Vec<u64>,
    competing: Vec<CandidateTenant>,
    found: Candidates,
    growth: Growth,
    /// Candidates of this search whose exchange does not pay.
    refused: usize,
}

impl Slices {
    /// Reads its parameters.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub fn build(section: &Section<'_>, build: &BuildContext<'_>) -> Result<Self, ConfigError> {
        let length = section.millis_or("slice_ms", Duration::from_millis(100), 1..=60_000)?;
        let topology = build.topology;
        let source = topology.slower(TierId::FASTEST).unwrap_or(TierId::FASTEST);
        let bound = largest_step(topology.tier(source).bandwidth, length, topology.page_size);
        let limit = section.whole_or("p_max", bound.0.max(1), 1..=u64::MAX)?;
        Ok(Self {
            length,
            present: length,
            slice: Ticker::new(Some(length)),
            limit: Pages(limit),
            fills_all: section.choice_or("fill", true, &FILLS)?,
            pressure: RegulatedDemotion::default(),
            projection: Projection::default(),
            pace: Vec::new(),
            changes: Vec::new(),
            beyond: Vec::new(),
            competing: Vec::new(),
            found: Candidates::default(),
            growth: Growth::default(),
            refused: 0,
        })
    }

    /// Demotes from tiers that are short of memory, slowest first.
    fn relieve(&mut self, now: Timestamp, pass: &mut Pass<'_, '_>) {
        for tier in pass.ctx.topology.ids().rev().skip(1) {
            let marks = pass.ctx.topology.tier(tier).watermarks;
            let free = pass.projection.free.of(tier);
            if free >= marks.low {
                continue;
            }
            let (wanted, found) = (marks.high - free, &mut self.found.cold);
            found.clear();
            self.pressure.find(tier, wanted, DemotionReason::Pressure, pass, found);
            // Floors give last, and no more than the tier is short of.
            found.retain(|&page| {
                let is_first = tier != TierId::FASTEST || may_shrink(page, pass);
                !(is_first && pass.demote(page, tier, Cause::Pressure))
            });
            for &page in found.iter() {
                if pass.projection.free.of(tier) < marks.low {
                    pass.demote(page, tier, Cause::Pressure);
                }
            }
            if tier == TierId::FASTEST {
                self.growth.relieved(now, self.present);
            }
        }
    }

    /// Computes every delta, and the tenants that compete for the rest.
    fn survey(&mut self, pass: &Pass<'_, '_>) {
        self.changes.clear();
        self.competing.clear();
        self.beyond.clear();
        self.found.rejected.clear();
        let fast = TierId::FASTEST;
        let mut missing_pages = Pages(0);
        for tenant in pass.projection.tenants() {
            let share = pass.shares.of(tenant, fast);
            let slower =
                pass.ctx.topology.ids().skip(1).map(|tier| pass.projection.held(tenant, tier));
            let its = Entitlement::of(&share, pass.projection.held(tenant, fast), slower.sum());
            let spec = pass.ctx.specs.get(tenant.index());
            let critical = spec.is_some_and(|spec| spec.class == Class::LatencyCritical);
            let delta = signed(its.shortfall) - signed(its.above_cap);
            self.changes.push(Change::new(Some(tenant), critical, delta));
            self.beyond.push(its.beyond.0);
            missing_pages = Pages(missing_pages.0.saturating_add((its.shortfall + its.takes).0));
            if !share.is_partition() {
                let Entitlement { gives, takes, .. } = its;
                self.competing.push(CandidateTenant { tenant: Some(tenant), gives, takes });
            }
        }
        let high = pass.ctx.topology.tier(fast).watermarks.high;
        let free = pass.projection.free.of(fast).saturating_sub(high);
        let mut wanted = missing_pages.saturating_sub(free);
        if !self.fills_all && wanted > Pages(0) && self.beyond.iter().any(|&pages| pages > 0) {
            wanted = wanted.min(self.movable(pass).saturating_sub(free));
        }
        entitlement::share_out(&mut self.beyond, wanted.0);
        let mut claimed = 0;
        for (change, &beyond) in self.changes.iter_mut().zip(&self.beyond) {
            change.delta -= signed(Pages(beyond));
            claimed += change.delta;
        }
        if pass.projection.tenants().all(|tenant| pass.shares.of(tenant, fast) == Share::FREE) {
            self.competing.clear();
            self.competing.push(CandidateTenant::ALL);
        }
        if !self.competing.is_empty() {
            let left = signed(pass.projection.free.of(fast)) - signed(high) - claimed;
            self.changes.push(Change::new(None, false, left));
        }
    }

    /// Base pages that can be promoted: what others than services lack counts as far as pages were
    /// accessed or a configured floor is missing. No tenant gives memory that would stay free.
    fn movable(&self, pass: &Pass<'_, '_>) -> Pages {
        let takes = self.competing.iter().map(|member| member.takes);
        let lacks = self.changes.iter().filter_map(|change| {
            let (tenant, lacks) = (change.tenant?, Pages(u64::try_from(change.delta).ok()?));
            let accessed = pass.estimator.accessed_below(tenant, TierId::FASTEST);
            let known = accessed.filter(|_| !change.critical);
            Some(known.map_or(lacks, |pages| pages.max(missing_of_floor(tenant, pass)).min(lacks)))
        });
        takes.chain(lacks).sum()
    }

    /// Demotes the pages that the slice takes away. Returns their base pages.
    fn give(&mut self, pass: &mut Pass<'_, '_>) -> Pages {
        let mut given = Pages(0);
        for i in 0..self.changes.len() {
            let Change { tenant, step, .. } = self.changes[i];
            let wanted = Pages(step.min(0).unsigned_abs());
            if wanted == Pages(0) {
                continue;
            }
            match tenant {
                Some(tenant) => {
                    let member = [CandidateTenant::alone(tenant, wanted)];
                    self.found.find_cold(&member, TierId::FASTEST, wanted, pass);
                }
                None => self.found.find_cold(&self.competing, TierId::FASTEST, wanted, pass),
            }
            let mut moved = Pages(0);
            for i in 0..self.found.cold.len() {
                let page = self.found.cold[i];
                if moved < wanted
                    && may_shrink(page, pass)
                    && pass.demote(page, TierId::FASTEST, Cause::Shrink)
                {
                    moved += pass.frames(&[page]);
                }
            }
            given += moved;
        }
        given
    }

    /// Promotes the pages that the slice adds: latency-critical tenants first, then what others
    /// lack of their configured floors, and then the rest, so that a world that cannot make all
    /// moves keeps promises first. Returns their base pages.
    fn take(&mut self, now: Timestamp, pass: &mut Pass<'_, '_>) -> Pages {
        let mut taken = Pages(0);
        self.growth.started(now, self.present);
        for turn in [GrowthTurn::Critical, GrowthTurn::Floors, GrowthTurn::Rest] {
            for i in 0..self.changes.len() {
                let change = self.changes[i];
                let Some(pages) = turn.pages(&change, pass) else { continue };
                if turn != GrowthTurn::Critical && self.growth.waits(now) {
                    continue;
                }
                let moved = self.promote(Change { step: signed(pages), ..change }, pass);
                self.changes[i].step -= signed(moved);
                self.growth.grew(now, moved);
                taken += moved;
            }
        }
        taken
    }

    fn promote(&mut self, change: Change, pass: &mut Pass<'_, '_>) -> Pages {
        let wanted = Pages(change.step.unsigned_abs());
        let cause = match change.tenant {
            Some(tenant) => {
                let member = [CandidateTenant::alone(tenant, wanted)];
                self.found.find_hot(&member, TierId::FASTEST, wanted, pass);
                let filled = if change.critical || self.fills_all {
                    wanted
                } else {
                    wanted.min(missing_of_floor(tenant, pass))
                };
                let missing = filled.saturating_sub(pass.frames(&self.found.hot));
                self.found.fill(tenant, missing, pass);
                Cause::Grow
            }
            None => {
                self.found.find_hot(&self.competing, TierId::FASTEST, wanted, pass);
                Cause::Hot
            }
        };
        let mut moved = Pages(0);
        for &page in &self.found.hot {
            let frames = pass.frames(&[page]);
            // A huge page larger than the missing pages waits: its tenant would exceed its share.
            // A configured floor is held all the same.
            let is_wanted = moved + frames <= wanted
                || missing_of_floor(pass.ctx.pages.tenant(page), pass) > Pages(0);
            if is_wanted
                && self.may_take(page, frames, pass)
                && pass.move_to(page, TierId::FASTEST, cause)
            {
                moved += frames;
            }
        }
        moved
    }

    /// Returns true if a page's tenant stays within its cap with `frames` more.
    fn may_take(&self, page: PageId, frames: Pages, pass: &Pass<'_, '_>) -> bool {
        let tenant = pass.ctx.pages.tenant(page);
        let cap = pass.shares.of(tenant, TierId::FASTEST).cap;
        pass.projection.held(tenant, TierId::FASTEST) + frames <= cap
    }

    /// Exchanges pages within the partitions, latency-critical tenants first, and then among those
    /// that compete.
    fn refine(&mut self, mut left: Pages, pass: &mut Pass<'_, '_>) {
        for critical in [true, false] {
            for i in 0..self.changes.len() {
                let Change { tenant: Some(tenant), critical: class, .. } = self.changes[i] else {
                    continue;
                };
                let share = pass.shares.of(tenant, TierId::FASTEST);
                if class == critical && share.is_partition() {
                    left = left.saturating_sub(self.exchange_own(tenant, left, pass));
                }
            }
        }
        let competing = std::mem::take(&mut self.competing);
        if !competing.is_empty() {
            left = left.saturating_sub(self.exchange(&competing, TierId::FASTEST, left, pass));
        }
        self.competing = competing;
        for upper in pass.ctx.topology.ids().skip(1) {
            left = left.saturating_sub(self.exchange_below(upper, left, pass));
        }
    }

    /// Exchanges a tenant's own pages, at its share's rate. Returns the base pages promoted.
    fn exchange_own(&mut self, tenant: TenantId, left: Pages, pass: &mut Pass<'_, '_>) -> Pages {
        if self.pace.len() <= tenant.index() {
            self.pace.resize(tenant.index() + 1, Pages(0));
        }
        let rate = pass.shares.of(tenant, TierId::FASTEST).promotion;
        let pace = self.pace[tenant.index()].0 as f64;
        // Rounded up: promotion is slowed down, never stopped.
        let limit = if rate < 1.0 { left.min(Pages((pace * rate).ceil() as u64)) } else { left };
        let member = [CandidateTenant::alone(tenant, Pages(u64::MAX))];
        let moved = self.exchange(&member, TierId::FASTEST, limit, pass);
        if rate >= 1.0 {
            let remembered = (pace * PACE_MEMORY) as u64;
            self.pace[tenant.index()] = moved.max(Pages(remembered));
        }
        moved
    }

    /// Exchanges pages of a tier below the fastest, regardless of tenant: first for pages that were
    /// not hot enough for the fastest, as a page is named once per plan. Returns the base pages
    /// promoted.
    fn exchange_below(&mut self, upper: TierId, left: Pages, pass: &mut Pass<'_, '_>) -> Pages {
        let all = [CandidateTenant::ALL];
        self.found.take_rejected(upper, pass);
        self.found.find_cold(&all, upper, pass.frames(&self.found.hot), pass);
        let (moved, _) = self.pair(upper, left, pass);
        moved + self.exchange(&all, upper, left.saturating_sub(moved), pass)
    }

    /// Exchanges pages of these members until none below a tier is in a higher bin than one in it,
    /// or `limit` base pages are promoted. Returns the base pages promoted.
    fn exchange(
        &mut self,
        members: &[CandidateTenant],
        upper: TierId,
        limit: Pages,
        pass: &mut Pass<'_, '_>,
    ) -> Pages {
        let (mut moved, mut batch) = (Pages(0), FIRST_BATCH);
        self.refused = 0;
        while moved < limit && self.refused < MAX_REFUSED {
            let asked = batch.min(limit - moved);
            self.found.find_hot(members, upper, asked, pass);
            let incoming = pass.frames(&self.found.hot);
            if incoming == Pages(0) {
                break;
            }
            self.found.find_cold(members, upper, incoming, pass);
            let (exchanged, all) = self.pair(upper, limit - moved, pass);
            moved += exchanged;
            if !all {
                break;
            }
            batch = Pages(batch.0.saturating_mul(2));
        }
        moved
    }

    /// Pairs the candidates, hottest with coldest. Returns the base pages promoted, and true if
    /// every candidate was.
    fn pair(&mut self, upper: TierId, limit: Pages, pass: &mut Pass<'_, '_>) -> (Pages, bool) {
        let (mut moved, mut freed, mut used) = (Pages(0), Pages(0), 0);
        for i in 0..self.found.hot.len() {
            let page = self.found.hot[i];
            let (frames, heat) = (pass.frames(&[page]), pass.hotness(page));
            let missing = frames.saturating_sub(freed);
            let Some(victims) = self.found.colder(used, missing, heat, pass) else {
                self.found.reject(i);
                return (moved, false);
            };
            if moved + frames > limit {
                return (moved, false);
            }
            if !self.may_swap(page, upper, frames, pass) {
                continue;
            }
            if !payoff::pays(page, &self.found.cold[used..used + victims], upper, pass) {
                self.refuse(page, frames, pass);
                continue;
            }
            for _ in 0..victims {
                let victim = self.found.cold[used];
                used += 1;
                let cause = Self::cause_of_giving(victim, upper, pass);
                if self.may_give(victim, upper, pass) && pass.demote(victim, upper, cause) {
                    freed += pass.frames(&[victim]);
                }
            }
            if freed >= frames && pass.move_to(page, upper, Cause::Hot) {
                freed -= frames;
                moved += frames;
            }
        }
        (moved, true)
    }

    /// Leaves a page that does not pay where it is, and offers it to the next tier.
    fn refuse(&mut self, page: PageId, frames: Pages, pass: &mut Pass<'_, '_>) {
        pass.plan.unpaid += frames;
        self.refused += 1;
        self.found.rejected.push(page);
    }

    /// Returns true if a page's tenant may promote it once its victims are demoted. In a partition
    /// the victims are its own; among tenants that compete its cap counts.
    fn may_swap(&self, page: PageId, upper: TierId, frames: Pages, pass: &Pass<'_, '_>) -> bool {
        if upper != TierId::FASTEST {
            return true;
        }
        let share = pass.shares.of(pass.ctx.pages.tenant(page), TierId::FASTEST);
        share.is_partition() || self.may_take(page, frames, pass)
    }

    fn cause_of_giving(page: PageId, upper: TierId, pass: &Pass<'_, '_>) -> Cause {
        let share = pass.shares.of(pass.ctx.pages.tenant(page), TierId::FASTEST);
        if upper == TierId::FASTEST && share.is_partition() {
            Cause::AtShare
        } else {
            Cause::MakeRoom
        }
    }

    /// Returns true if a page's tenant stays at its floor without it. In a partition the tenant
    /// gets a page back at once.
    fn may_give(&self, page: PageId, upper: TierId, pass: &Pass<'_, '_>) -> bool {
        if upper != TierId::FASTEST {
            return true;
        }
        let tenant = pass.ctx.pages.tenant(page);
        let share = pass.shares.of(tenant, TierId::FASTEST);
        let held = pass.projection.held(tenant, TierId::FASTEST);
        share.is_partition() || held.saturating_sub(pass.frames(&[page])) >= share.floor
    }
}

/// Base pages by which a tenant is below its configured floor. A floor is a promise of memory: it
/// does not wait for accesses to be found.
fn missing_of_floor(tenant: TenantId, pass: &Pass<'_, '_>) -> Pages {
    configured_floor(tenant, pass).saturating_sub(pass.projection.held(tenant, TierId::FASTEST))
}

/// A tenant's configured floor in the fastest tier. One that depends on the neighbours counts as
/// none.
fn configured_floor(tenant: TenantId, pass: &Pass<'_, '_>) -> Pages {
    let spec = pass.ctx.specs.get(tenant.index());
    let floor = spec.and_then(|spec| spec.floors.first().copied().flatten());
    let resident = pass.ctx.resident(tenant);
    let floor = floor.and_then(|floor| floor.pages(resident, pass.ctx.topology.page_size));
    floor.unwrap_or_default()
}

/// Returns true if a page's tenant keeps its configured floor without it, or is above its cap. A
/// huge page, or a block, may be larger than what the tenant has to give.
fn may_shrink(page: PageId, pass: &Pass<'_, '_>) -> bool {
    let tenant = pass.ctx.pages.tenant(page);
    let held = pass.projection.held(tenant, TierId::FASTEST);
    let cap = pass.shares.of(tenant, TierId::FASTEST).cap;
    held > cap || held >= configured_floor(tenant, pass) + pass.frames(&[page])
}

fn signed(pages: Pages) -> i64 {
    i64::try_from(pages.0).unwrap_or(i64::MAX)
}

impl Selector for Slices {
    fn next_wake(&self) -> Option<Timestamp> {
        self.slice.next()
    }

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
        self.relieve(tick.now, &mut pass);
        let due = self.slice.take(tick.now);
        let hurries = pass.projection.tenants().any(|tenant| pass.estimator.in_bursts(tenant));
        let haste = if hurries { HASTE } else { 1 };
        self.present = self.length / haste;
        if tick.partitioned || self.slice.interval() != Some(self.present) {
            // The first slice of a partition starts with it.
            self.slice.set_interval(tick.now, self.present);
        }
        if due || tick.partitioned {
            let limit = Pages((self.limit.0 / u64::from(haste)).max(1));
            self.survey(&pass);
            plan_slice(&mut self.changes, limit);
            let moved = self.give(&mut pass).max(self.take(tick.now, &mut pass));
            self.refine(limit.saturating_sub(moved), &mut pass);
        }
        self.projection = pass.projection;
    }
}
