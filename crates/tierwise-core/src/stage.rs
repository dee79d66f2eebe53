//! A policy made of three stages: how hot is a page, who gets how much, which pages move.
//!
//! The stages meet in one place, [`Staged::plan`], which reads as the algorithm: look, share,
//! select. Any estimator works with any partitioner and any selector.

use std::time::Duration;

use crate::migrate::{Cap, ChargeTo, MigrationPlan, MoveOutcome, PageRange, Placement};
use crate::observe::{Observation, Signals};
use crate::page::PageTable;
use crate::policy::{PlanContext, Policy};
use crate::share::{Decision, Shares};
use crate::tenant::TenantSpec;
use crate::ticker::Ticker;
use crate::topology::Topology;
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
/// It owns its lists or histograms. It may use up reference bits (in [`Estimator::update`] only)
/// and set flags on pages; it never moves one.
pub trait Estimator: Send {
    /// What it needs to see.
    fn signals(&self) -> Signals;

    /// How often it looks; `None` if it only listens.
    fn interval(&self) -> Option<Duration>;

    /// Takes in births, accesses and ends, as [`Policy::on_observation`].
    fn on_observation(&mut self, now: Timestamp, obs: &Observation, pages: &mut PageTable);

    /// Takes in moves: a page that moved now belongs to another tier's lists.
    fn on_outcomes(&mut self, now: Timestamp, outcomes: &[MoveOutcome], pages: &mut PageTable);

    /// The periodic look: scan, age, cool. Called when [`Estimator::interval`] has passed.
    fn update(&mut self, now: Timestamp, ctx: &mut PlanContext<'_>);

    /// Adds pages to poison, so that their next access is a hint fault. Called in every plan, after
    /// the shares were decided.
    fn poison(&mut self, _ctx: &PlanContext<'_>, _shares: &Shares, _out: &mut Vec<PageRange>) {}

    /// Whether it has candidates that cannot wait for the next look.
    fn ready(&self) -> bool {
        false
    }

    /// Whether it slows its candidates down by the shares' promotion rates itself.
    fn regulates(&self) -> bool {
        false
    }

    /// Who waits for the promotions that it proposes.
    fn promoter(&self) -> ChargeTo {
        ChargeTo::Background
    }

    /// Adds to `out` the pages of `scope` that deserve a faster tier, hottest first, until their
    /// base pages reach `limit`. A page is never named twice in one look.
    fn promotable(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    );

    /// Adds to `out` the pages of `scope` that can go to a slower tier, coldest first, until their
    /// base pages reach `limit`. Called only under memory pressure or to make room, so it may look
    /// at reference bits of the pages it considers (as the kernel's `shrink_inactive_list` does).
    fn demotable(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    );

    /// Adds to `out` the coldest pages of `scope` until their base pages reach `limit`, hot or not:
    /// for a tenant that holds more than it may while another lacks what it is entitled to.
    fn coldest(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        self.demotable(scope, limit, pages, out);
    }

    /// How hot a page is, on this estimator's own scale.
    fn hotness(&self, page: PageId, pages: &PageTable) -> Hotness;

    /// Base pages on a tenant's active lists, in all tiers; zero for an estimator without lists.
    fn active(&self, _tenant: TenantId) -> Pages {
        Pages(0)
    }

    /// A tenant's pages from the hottest to the coldest, in classes of like hotness, where the
    /// estimator counts accesses. Adds to `out` the base pages of each class and the accesses of
    /// one such page, on one scale for all tenants.
    fn curve(&self, _tenant: TenantId, _out: &mut Vec<(Pages, f64)>) {}
}

/// Decides who gets how much of each tier.
pub trait Partitioner: Send {
    /// What it needs to see.
    fn signals(&self) -> Signals {
        Signals::default()
    }

    /// How often it decides; `None` if it never does by itself.
    fn interval(&self) -> Option<Duration>;

    /// Takes in the tenants' readings. Pages that are gone are still in the table, for the last
    /// time.
    fn on_observation(&mut self, now: Timestamp, obs: &Observation, pages: &PageTable);

    /// Takes in what came of the moves.
    fn on_outcomes(&mut self, _now: Timestamp, _outcomes: &[MoveOutcome], _pages: &PageTable) {}

    /// Writes the shares that hold from now on.
    fn partition(
        &mut self,
        now: Timestamp,
        ctx: &PlanContext<'_>,
        estimator: &dyn Estimator,
        shares: &mut Shares,
    );

    /// The operator's caps that hold before the first partition.
    fn first_caps(&self, _specs: &[TenantSpec], _topology: &Topology) -> Vec<Cap> {
        Vec::new()
    }

    /// As [`Policy::thrash_events`].
    fn thrash_events(&self, _tenant: TenantId) -> u64 {
        0
    }
}

/// When a selector is asked, and what happened just before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// The time.
    pub now: Timestamp,
    /// The estimator looked just now, or has candidates that cannot wait: a selector that promotes
    /// once an interval does so only then; making room under pressure it does at any time.
    pub updated: bool,
    /// The partitioner decided just now.
    pub partitioned: bool,
}

/// Decides which pages move.
pub trait Selector: Send {
    /// When it wants to be asked again by itself, beside the estimator's looks.
    fn next_wake(&self) -> Option<Timestamp> {
        None
    }

    /// Adds moves to the plan, within the shares.
    fn select(
        &mut self,
        tick: Tick,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        shares: &Shares,
        plan: &mut MigrationPlan,
    );
}

/// A policy composed of stages.
pub struct Staged {
    estimator: Box<dyn Estimator>,
    partitioner: Box<dyn Partitioner>,
    selector: Box<dyn Selector>,
    placement: Placement,
    update: Ticker,
    share: Ticker,
    shares: Shares,
    caps: Vec<Cap>,
    known_tenants: usize,
    /// The estimator reads bits, and no bits were collected since its last update: it would find
    /// every page idle.
    bits_unread: bool,
    /// It is due, and waits for bits.
    waits_for_bits: bool,
}

impl Staged {
    /// Puts three stages together.
    pub fn new(
        estimator: Box<dyn Estimator>,
        partitioner: Box<dyn Partitioner>,
        selector: Box<dyn Selector>,
        placement: Placement,
    ) -> Self {
        let update = Ticker::new(estimator.interval());
        let share = Ticker::new(partitioner.interval());
        Self {
            estimator,
            partitioner,
            selector,
            placement,
            update,
            share,
            shares: Shares::default(),
            caps: Vec::new(),
            known_tenants: 0,
            bits_unread: false,
            waits_for_bits: false,
        }
    }

    /// Whether the estimator looks now: when it is due, and there is something to see.
    fn looks(&mut self, now: Timestamp) -> bool {
        let due = self.update.next().is_some_and(|next| next <= now);
        self.waits_for_bits = due && self.bits_unread;
        let updated = !self.waits_for_bits && self.update.take(now);
        if updated {
            let signals = self.estimator.signals();
            self.bits_unread = signals.reference_bits || signals.dirty_bits;
        }
        updated
    }

    /// The interval may change with what the estimator saw (MULTI-CLOCK's adaptive scan interval).
    fn follow_interval(&mut self, now: Timestamp) {
        if self.estimator.interval() != self.update.interval()
            && let Some(interval) = self.estimator.interval()
        {
            self.update.set_interval(now, interval);
        }
    }
}

impl Policy for Staged {
    fn signals(&self) -> Signals {
        self.estimator.signals().and(self.partitioner.signals())
    }

    fn placement(&self) -> Placement {
        self.placement
    }

    fn on_observation(&mut self, now: Timestamp, obs: &Observation, pages: &mut PageTable) {
        self.bits_unread &= obs.bits_unread;
        self.estimator.on_observation(now, obs, pages);
        self.partitioner.on_observation(now, obs, pages);
    }

    fn on_outcomes(&mut self, now: Timestamp, outcomes: &[MoveOutcome], pages: &mut PageTable) {
        self.estimator.on_outcomes(now, outcomes, pages);
        self.partitioner.on_outcomes(now, outcomes, pages);
    }

    fn first_caps(&self, specs: &[TenantSpec], topology: &Topology) -> Vec<Cap> {
        self.partitioner.first_caps(specs, topology)
    }

    fn decisions(&self) -> &[Decision] {
        self.shares.decisions()
    }

    fn thrash_events(&self, tenant: TenantId) -> u64 {
        self.partitioner.thrash_events(tenant)
    }

    fn next_wake(&self) -> Option<Timestamp> {
        let update = self.update.next().filter(|_| !self.waits_for_bits);
        let wakes = [update, self.share.next(), self.selector.next_wake()];
        wakes.into_iter().flatten().min()
    }

    fn plan(&mut self, now: Timestamp, ctx: &mut PlanContext<'_>, plan: &mut MigrationPlan) {
        let updated = self.looks(now);
        if updated {
            self.estimator.update(now, ctx);
            self.follow_interval(now);
        }
        self.shares.forget_decisions();
        // A tenant that is new is not kept waiting for its share.
        let newcomers = ctx.tenants.len() > self.known_tenants;
        self.known_tenants = ctx.tenants.len();
        let partitioned = self.share.take(now) || newcomers;
        if partitioned {
            self.partitioner.partition(now, ctx, self.estimator.as_ref(), &mut self.shares);
            self.shares.caps(&mut self.caps);
        }
        self.estimator.poison(ctx, &self.shares, &mut plan.poison);
        let updated = updated || self.estimator.ready();
        let tick = Tick { now, updated, partitioned };
        self.selector.select(tick, ctx, self.estimator.as_mut(), &self.shares, plan);
        plan.caps.clone_from(&self.caps);
    }
}
