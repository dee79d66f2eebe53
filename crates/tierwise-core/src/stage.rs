//! A policy made of three stages: how hot is a page, who gets how much, which pages move.
//!
//! The stages meet in one place, [`Staged::plan`], which reads as the algorithm: look, share, select.
//! Any estimator works with any partitioner and any selector.

use std::time::Duration;

use crate::migrate::{MigrationPlan, MoveOutcome, Placement};
use crate::observe::{Observation, Watch};
use crate::page::PageTable;
use crate::policy::{PlanContext, Policy};
use crate::units::{Hotness, PageId, Pages, TenantId, TierId, Timestamp};

/// Which pages a stage is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// Pages of this tier.
    pub tier: TierId,
    /// Of this tenant only, or of all.
    pub tenant: Option<TenantId>,
}

impl Scope {
    /// All tenants' pages in a tier.
    pub const fn tier(tier: TierId) -> Self {
        Self { tier, tenant: None }
    }
}

/// Knows how hot pages are.
///
/// It owns its lists or histograms. It may use up reference bits (in [`Estimator::look`] only) and set
/// flags on pages; it never moves one.
pub trait Estimator: Send {
    /// What it needs to see.
    fn watch(&self) -> Watch;

    /// How often it looks; `None` if it only listens.
    fn interval(&self) -> Option<Duration>;

    /// Takes in births, accesses and ends, as [`Policy::on_observation`].
    fn on_observation(&mut self, now: Timestamp, obs: &Observation, pages: &mut PageTable);

    /// Takes in moves: a page that moved now belongs to another tier's lists.
    fn on_outcomes(&mut self, now: Timestamp, outcomes: &[MoveOutcome], pages: &mut PageTable);

    /// The periodic look: scan, age, cool. Called when [`Estimator::interval`] has passed.
    fn look(&mut self, now: Timestamp, ctx: &mut PlanContext<'_>);

    /// Adds to `out` the pages of `scope` that deserve a faster tier, hottest first, until their base
    /// pages reach `most`. A page is never named twice in one look.
    fn promotable(
        &mut self,
        scope: Scope,
        most: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    );

    /// Adds to `out` the pages of `scope` that can go to a slower tier, coldest first, until their base
    /// pages reach `most`. Called only under memory pressure or to make room, so it may look at
    /// reference bits of the pages it considers (as the kernel's `shrink_inactive_list` does).
    fn demotable(
        &mut self,
        scope: Scope,
        most: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    );

    /// How hot a page is, on this estimator's own scale.
    fn hotness(&self, page: PageId, pages: &PageTable) -> Hotness;
}

/// What each tenant may hold in each tier, in base pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shares {
    /// By tenant, then by tier; empty when nobody partitions.
    pub by_tenant: Vec<Vec<Pages>>,
}

/// Decides who gets how much of each tier.
pub trait Partitioner: Send {
    /// What it needs to see.
    fn watch(&self) -> Watch {
        Watch::default()
    }

    /// How often it decides; `None` if it never does by itself.
    fn interval(&self) -> Option<Duration>;

    /// Takes in the tenants' readings.
    fn on_observation(&mut self, now: Timestamp, obs: &Observation);

    /// Writes the shares that hold from now on.
    fn partition(&mut self, now: Timestamp, ctx: &PlanContext<'_>, shares: &mut Shares);
}

/// Decides which pages move.
pub trait Selector: Send {
    /// Adds moves to the plan. `looked` is true when the estimator looked just now: a selector that
    /// promotes once an interval does so only then; making room under pressure it does at any time.
    fn select(
        &mut self,
        looked: bool,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        shares: &Shares,
        plan: &mut MigrationPlan,
    );
}

/// Ticks at a fixed interval, without drift and without a burst after a late wake.
#[derive(Debug, Clone, Copy)]
pub struct Ticker {
    interval: Option<Duration>,
    next: Timestamp,
}

impl Ticker {
    /// First due one interval after time zero.
    pub fn new(interval: Option<Duration>) -> Self {
        Self { interval, next: Timestamp::ZERO + interval.unwrap_or(Duration::MAX) }
    }

    /// When it is due next.
    pub fn next(&self) -> Option<Timestamp> {
        self.interval.map(|_| self.next)
    }

    /// Whether it is due; if so it is set for the next interval after `now`.
    pub fn take(&mut self, now: Timestamp) -> bool {
        let Some(interval) = self.interval else { return false };
        if now < self.next {
            return false;
        }
        let step = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
        let missed = now.since(self.next).as_nanos() as u64 / step;
        self.next = Timestamp(self.next.0.saturating_add(step.saturating_mul(missed + 1)));
        true
    }

    /// Changes the interval; the next tick is one new interval after `now`.
    pub fn set_interval(&mut self, now: Timestamp, interval: Duration) {
        self.interval = Some(interval);
        self.next = now + interval;
    }
}

/// A policy composed of stages.
pub struct Staged {
    estimator: Box<dyn Estimator>,
    partitioner: Box<dyn Partitioner>,
    selector: Box<dyn Selector>,
    placement: Placement,
    look: Ticker,
    share: Ticker,
    shares: Shares,
}

impl Staged {
    /// Puts three stages together.
    pub fn new(
        estimator: Box<dyn Estimator>,
        partitioner: Box<dyn Partitioner>,
        selector: Box<dyn Selector>,
        placement: Placement,
    ) -> Self {
        let look = Ticker::new(estimator.interval());
        let share = Ticker::new(partitioner.interval());
        Self { estimator, partitioner, selector, placement, look, share, shares: Shares::default() }
    }

    /// The interval may change with what the estimator saw (MULTI-CLOCK's adaptive scan interval).
    fn follow_interval(&mut self, now: Timestamp) {
        if self.estimator.interval() != self.look.interval
            && let Some(interval) = self.estimator.interval()
        {
            self.look.set_interval(now, interval);
        }
    }
}

impl Policy for Staged {
    fn watch(&self) -> Watch {
        self.estimator.watch().and(self.partitioner.watch())
    }

    fn placement(&self) -> Placement {
        self.placement
    }

    fn on_observation(&mut self, now: Timestamp, obs: &Observation, pages: &mut PageTable) {
        self.estimator.on_observation(now, obs, pages);
        self.partitioner.on_observation(now, obs);
    }

    fn on_outcomes(&mut self, now: Timestamp, outcomes: &[MoveOutcome], pages: &mut PageTable) {
        self.estimator.on_outcomes(now, outcomes, pages);
    }

    fn next_wake(&self) -> Option<Timestamp> {
        [self.look.next(), self.share.next()].into_iter().flatten().min()
    }

    fn plan(&mut self, now: Timestamp, ctx: &mut PlanContext<'_>, plan: &mut MigrationPlan) {
        let looked = self.look.take(now);
        if looked {
            self.estimator.look(now, ctx);
            self.follow_interval(now);
        }
        if self.share.take(now) {
            self.partitioner.partition(now, ctx, &mut self.shares);
        }
        self.selector.select(looked, ctx, self.estimator.as_mut(), &self.shares, plan);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_wake_ticks_once_and_keeps_the_beat() {
        let mut ticker = Ticker::new(Some(Duration::from_nanos(10)));
        assert!(!ticker.take(Timestamp(9)));
        assert!(ticker.take(Timestamp(37)));
        assert!(!ticker.take(Timestamp(39)));
        assert_eq!(ticker.next(), Some(Timestamp(40)));
        assert!(ticker.take(Timestamp(40)));
    }
}
