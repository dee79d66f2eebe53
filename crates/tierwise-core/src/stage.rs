//! A policy made of three stages: the hotness of pages, the shares of tenants, the moves.
//!
//! [`Staged::plan`] runs them in this order: update, share, select. Any estimator works with any
//! partitioner and any selector.

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

/// The pages of a tier, of one tenant or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// The tier.
    pub tier: TierId,
    /// The tenant; `None` for all.
    pub tenant: Option<TenantId>,
}

impl Scope {
    /// All tenants' pages in a tier.
    pub const fn tier(tier: TierId) -> Self {
        Self { tier, tenant: None }
    }
}

/// Estimates the hotness of pages.
///
/// An estimator owns its lists or histograms. It may clear reference bits (in [`Estimator::update`]
/// only) and set flags on pages; it never moves a page.
pub trait Estimator: Send {
    /// The access signals that it requires.
    fn signals(&self) -> Signals;

    /// The misses per sample of a tenant of which few samples suffice; `None` if the estimator has
    /// only one period.
    fn sparse_period(&self) -> Option<u32> {
        None
    }

    /// The time between two updates; `None` if it only reacts to observations.
    fn interval(&self) -> Option<Duration>;

    /// Handles allocations, accesses and freed pages, as [`Policy::on_observation`] does.
    fn on_observation(&mut self, now: Timestamp, obs: &Observation, pages: &mut PageTable);

    /// Handles moves: a page that moved now belongs to another tier's lists.
    fn on_outcomes(&mut self, now: Timestamp, outcomes: &[MoveOutcome], pages: &mut PageTable);

    /// The periodic update: scan, age, cool. Called when [`Estimator::interval`] has passed.
    fn update(&mut self, now: Timestamp, ctx: &mut PlanContext<'_>);

    /// Adds pages to poison, so that their next access is a hint fault. Called in every plan, after
    /// the partitioner.
    fn poison(&mut self, _ctx: &PlanContext<'_>, _shares: &Shares, _out: &mut Vec<PageRange>) {}

    /// Returns true if the estimator has candidates that cannot wait for the next update.
    fn ready(&self) -> bool {
        false
    }

    /// Returns true if the estimator limits its candidates by the shares' promotion rates itself.
    fn regulates(&self) -> bool {
        false
    }

    /// The thread that is charged for the promotion of its candidates.
    fn charge_to(&self) -> ChargeTo {
        ChargeTo::Background
    }

    /// Adds the promotion candidates of `scope` to `out`, hottest first, until their base pages
    /// reach `limit`. A page is added at most once per observation.
    fn promotable(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    );

    /// Adds to `out` the pages of `scope` that can go to a slower tier, coldest first, until their
    /// base pages reach `limit`. Called only under memory pressure or for a promotion's victims, so
    /// it may read reference bits of the pages that it considers (as the kernel's
    /// `shrink_inactive_list` does).
    fn demotable(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    );

    /// Adds to `out` the coldest pages of `scope` until their base pages reach `limit`, whether
    /// they are hot or not. Called for a tenant that holds more than its entitlement while another
    /// lacks its own.
    fn coldest(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        self.demotable(scope, limit, pages, out);
    }

    /// The hotness of a page, on this estimator's own scale.
    fn hotness(&self, page: PageId, pages: &PageTable) -> Hotness;

    /// The heat of a page for a later engine ([`Observation::remembered`]): its sampled accesses,
    /// as far as ageing left them. Zero for an estimator that does not count them page by page.
    fn heat(&self, _page: PageId) -> u16 {
        0
    }

    /// The misses that one base page of a page has to expect, if the estimator learned them from
    /// what became of pages like it.
    fn outlook(&self, _page: PageId, _pages: &PageTable) -> Option<f64> {
        None
    }

    /// Returns true if the estimator learns [`Estimator::outlook`] from misses, so that no exchange
    /// that does not pay has to be found out afterwards.
    fn foresees(&self) -> bool {
        false
    }

    /// Returns true if a tenant's pages are hot for a moment only, and the estimator knows that
    /// moving them pays. A selector with a rhythm of its own has to be quicker than that moment,
    /// and a page that leaves again soon is no sign of thrashing.
    fn in_bursts(&self, _tenant: TenantId) -> bool {
        false
    }

    /// Base pages of a tenant in tiers slower than `tier` that were accessed lately, so that
    /// [`Estimator::promotable`] would name them; `None` if the estimator cannot tell.
    fn accessed_below(&self, _tenant: TenantId, _tier: TierId) -> Option<Pages> {
        None
    }

    /// Base pages on a tenant's active lists, in all tiers; zero for an estimator without lists.
    fn active(&self, _tenant: TenantId) -> Pages {
        Pages(0)
    }

    /// Adds to `out` a tenant's pages from the hottest to the coldest, in classes of similar
    /// hotness, if the estimator counts accesses: the base pages of each class and the accesses of
    /// one such page, on one scale for all tenants.
    fn curve(&self, _tenant: TenantId, _out: &mut Vec<(Pages, f64)>) {}

    /// Adds the same with the accesses that pages have to expect instead of those that they had, if
    /// the estimator learned them from what became of pages like them.
    fn expected_curve(&self, _tenant: TenantId, _out: &mut Vec<(Pages, f64)>) {}
}

/// Computes the share of each tenant in each tier.
pub trait Partitioner: Send {
    /// The access signals that it requires.
    fn signals(&self) -> Signals {
        Signals::default()
    }

    /// The time between two partitions; `None` if it has no interval.
    fn interval(&self) -> Option<Duration>;

    /// Handles the tenants' readings. Freed pages are in the table for the last time.
    fn on_observation(&mut self, now: Timestamp, obs: &Observation, pages: &PageTable);

    /// Handles the outcomes of moves.
    fn on_outcomes(&mut self, _now: Timestamp, _outcomes: &[MoveOutcome], _pages: &PageTable) {}

    /// Writes the new shares.
    fn partition(
        &mut self,
        now: Timestamp,
        ctx: &PlanContext<'_>,
        estimator: &dyn Estimator,
        shares: &mut Shares,
    );

    /// Returns true if few samples of a tenant suffice until the next partition.
    fn is_sparse(&self, _tenant: TenantId) -> bool {
        false
    }

    /// The configured caps, which hold before the first partition.
    fn first_caps(&self, _specs: &[TenantSpec], _topology: &Topology) -> Vec<Cap> {
        Vec::new()
    }

    /// Like [`Policy::thrash_events`].
    fn thrash_events(&self, _tenant: TenantId) -> u64 {
        0
    }
}

/// The time of a selection, and the stages that ran just before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// The time.
    pub now: Timestamp,
    /// True if the estimator just updated, or has candidates that cannot wait. A selector that
    /// promotes once per interval promotes only then. It demotes under pressure at any time.
    pub updated: bool,
    /// True if the partitioner computed new shares just before.
    pub partitioned: bool,
}

/// Selects the pages to move.
pub trait Selector: Send {
    /// Returns the time of the selector's next periodic pass, if it has passes beside the
    /// estimator's updates.
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
    /// True if the estimator reads bits and no bits were collected since its last update: it would
    /// find every page idle.
    bits_unread: bool,
    /// True if the estimator is due and waits for bits.
    waits_for_bits: bool,
}

impl Staged {
    /// Composes three stages.
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

    /// Returns true if the estimator updates now: it is due and its bits were collected.
    fn updates(&mut self, now: Timestamp) -> bool {
        let due = self.update.next().is_some_and(|next| next <= now);
        self.waits_for_bits = due && self.bits_unread;
        let updated = !self.waits_for_bits && self.update.take(now);
        if updated {
            let signals = self.estimator.signals();
            self.bits_unread = signals.reference_bits || signals.dirty_bits;
        }
        updated
    }

    /// Adopts an interval that the estimator changed (MULTI-CLOCK's adaptive scan interval).
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

    fn heat(&self, page: PageId) -> u16 {
        self.estimator.heat(page)
    }

    fn curve(&self, tenant: TenantId, out: &mut Vec<(Pages, f64)>) {
        self.estimator.curve(tenant, out);
    }

    fn next_wake(&self) -> Option<Timestamp> {
        let update = self.update.next().filter(|_| !self.waits_for_bits);
        let wakes = [update, self.share.next(), self.selector.next_wake()];
        wakes.into_iter().flatten().min()
    }

    fn plan(&mut self, now: Timestamp, ctx: &mut PlanContext<'_>, plan: &mut MigrationPlan) {
        let updated = self.updates(now);
        if updated {
            self.estimator.update(now, ctx);
            self.follow_interval(now);
        }
        self.shares.forget_decisions();
        // A new tenant gets its share at once.
        let newcomers = ctx.tenants.len() > self.known_tenants;
        self.known_tenants = ctx.tenants.len();
        let partitioned = self.share.take(now) || newcomers;
        if partitioned {
            self.partitioner.partition(now, ctx, self.estimator.as_ref(), &mut self.shares);
            self.shares.caps(&mut self.caps);
            plan.sparse.clear();
            if let Some(period) = self.estimator.sparse_period() {
                let all = (0..ctx.tenants.len()).map(|i| TenantId(i as u16));
                let sparse = all.filter(|&tenant| self.partitioner.is_sparse(tenant));
                plan.sparse.extend(sparse.map(|tenant| (tenant, period)));
            }
        }
        self.estimator.poison(ctx, &self.shares, &mut plan.poison);
        let updated = updated || self.estimator.ready();
        let tick = Tick { now, updated, partitioned };
        self.selector.select(tick, ctx, self.estimator.as_mut(), &self.shares, plan);
        plan.caps.clone_from(&self.caps);
    }
}
