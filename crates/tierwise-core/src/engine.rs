//! The engine: a state machine that takes observations and outcomes and returns plans. It does no
//! I/O and reads no clock; the driver passes it the time.
//!
//! ```
//! use tierwise_core::engine::{Engine, EngineConfig};
//! use tierwise_core::observe::{Allocated, Capabilities, Observation, TierReading};
//! use tierwise_core::page::{Attributes, PageKind};
//! use tierwise_core::recipe::Recipe;
//! use tierwise_core::topology::{Tier, Topology, Watermarks};
//! use tierwise_core::units::*;
//! use std::time::Duration;
//!
//! let tier = |name: &str, ns| Tier {
//!     name: name.into(),
//!     capacity: Pages(100),
//!     watermarks: Watermarks::NONE,
//!     load_latency: Duration::from_nanos(ns),
//!     store_latency: Duration::from_nanos(ns),
//!     bandwidth: Bandwidth(30_000_000_000),
//! };
//! let tiers = vec![tier("DRAM", 73), tier("CXL", 202)];
//! let topology = Topology { page_size: Bytes(4096), tiers };
//! let config = EngineConfig::new(Recipe::named("multi-clock").unwrap());
//! let mut engine = Engine::new(&config, topology, &Capabilities::ALL, 1).unwrap();
//!
//! // One page is allocated in the slow tier and accessed in every interval. By Figure 4 of the
//! // paper it is inactive and referenced at the first scan (1), active at the second (6), active
//! // and referenced at the third (7). At the fourth it enters the promote list (10) and is
//! // promoted in the same run (13).
//! let (tenant, tier) = (TenantId(0), TierId(1));
//! let attributes = Attributes { tenant, tier, kind: PageKind::Anon, order: 0 };
//! let mut obs = Observation::default();
//! obs.tiers = vec![TierReading { free: Pages(100), ..TierReading::default() }; 2];
//! obs.allocated.push(Allocated { first: PageId(0), count: 1, attributes });
//! let mut promoted_at = None;
//! for second in 1..10 {
//!     let now = Timestamp(second * 1_000_000_000);
//!     obs.referenced.set(PageId(0));
//!     engine.handle_observation(now, &obs);
//!     if let Some(plan) = engine.poll_plan(now) && !plan.moves.is_empty() {
//!         promoted_at = Some(second);
//!         break;
//!     }
//!     obs.clear();
//! }
//! assert_eq!(promoted_at, Some(4));
//! ```

mod config;

use std::time::Duration;

pub use config::{EngineConfig, EngineError};

use crate::metrics::Metrics;
use crate::migrate::{
    Budget, Cap, FailReason, MigrationPlan, Move, MoveOutcome, Placement, Planner,
};
use crate::observe::{Capabilities, ExternalMigration, Observation, Signals, TenantReading};
use crate::page::PageTable;
use crate::policy::{PlanContext, Policy};
use crate::recipe::Recipe;
use crate::registry::BuildContext;
use crate::share::Decision;
use crate::tenant::{self, TenantError, TenantSpec};
use crate::topology::Topology;
use crate::units::{PageId, Pages, TenantId, Timestamp};

/// State machine that makes plans and never applies them. The same inputs and seed give the same
/// plans.
pub struct Engine {
    topology: Topology,
    /// The topology without unmanaged memory: the memory that tenants share.
    shared: Topology,
    policy: Box<dyn Policy>,
    planner: Planner,
    pages: PageTable,
    free: Vec<Pages>,
    tenants: Vec<TenantReading>,
    specs: Vec<TenantSpec>,
    move_cost: Option<Duration>,
    plan: MigrationPlan,
    /// Moves of the last plan for which the world had no time.
    rest: Vec<Move>,
    cut: Vec<MoveOutcome>,
    /// The outcomes being handled, cuts included; kept for its memory.
    outcomes: Vec<MoveOutcome>,
    /// The settings of the last plan returned.
    last_settings: Option<Settings>,
    /// True until a plan answers the last observation.
    due: bool,
    metrics: Metrics,
}

/// What holds from a plan on until the next.
#[derive(Debug, Clone, Default)]
struct Settings {
    signals: Signals,
    placement: Placement,
    caps: Vec<Cap>,
    sparse: Vec<(TenantId, u32)>,
}

impl Settings {
    fn are_those_of(&self, plan: &MigrationPlan) -> bool {
        self.signals == plan.signals
            && self.placement == plan.placement
            && self.caps == plan.caps
            && self.sparse == plan.sparse
    }

    fn copy(&mut self, plan: &MigrationPlan) {
        (self.signals, self.placement) = (plan.signals, plan.placement);
        self.caps.clone_from(&plan.caps);
        self.sparse.clone_from(&plan.sparse);
    }
}

impl Engine {
    /// Makes an engine for a machine.
    ///
    /// # Errors
    /// The recipe's parameters are wrong, it requires signals that this world cannot report, or the
    /// tenant configuration does not fit the machine.
    pub fn new(
        config: &EngineConfig,
        topology: Topology,
        capabilities: &Capabilities,
        seed: u64,
    ) -> Result<Self, EngineError> {
        let learning = config.learning.as_ref();
        let policy = config.recipe.build(&BuildContext { topology: &topology, seed, learning })?;
        if let Some(missing) = policy.signals().missing_from(capabilities) {
            return Err(EngineError::Unobservable {
                recipe: config.recipe.name().to_owned(),
                missing,
                instead: Recipe::nearest_runnable(&topology, capabilities),
            });
        }
        let mut engine = Self::with_policy(policy, topology, config.budget);
        engine.set_tenants(config.tenants.clone())?;
        Ok(engine)
    }

    /// Makes an engine for a policy that the caller built and that no recipe names.
    pub fn with_policy(policy: Box<dyn Policy>, topology: Topology, budget: Budget) -> Self {
        Self {
            free: vec![Pages(0); topology.tiers.len()],
            shared: topology.clone(),
            topology,
            policy,
            planner: Planner::new(budget),
            pages: PageTable::default(),
            tenants: Vec::new(),
            specs: Vec::new(),
            move_cost: None,
            plan: MigrationPlan::default(),
            rest: Vec::new(),
            cut: Vec::new(),
            outcomes: Vec::new(),
            last_settings: None,
            due: false,
            metrics: Metrics::default(),
        }
    }

    /// Replaces the tenant specs from the next plan on.
    ///
    /// # Errors
    /// Floors do not fit into their tier together. The specs stay as they were.
    pub fn set_tenants(&mut self, specs: Vec<TenantSpec>) -> Result<(), TenantError> {
        tenant::check(&specs, &self.topology)?;
        self.specs = specs;
        Ok(())
    }

    /// The tenant specs.
    pub fn specs(&self) -> &[TenantSpec] {
        &self.specs
    }

    /// The shares that the last plan changed, with the reasons.
    pub fn decisions(&self) -> &[Decision] {
        self.policy.decisions()
    }

    /// Handles the world's report of everything since the last observation.
    pub fn handle_observation(&mut self, now: Timestamp, obs: &Observation) {
        self.handle_allocations(obs);
        self.handle_external_migrations(now, obs);
        obs.coloured.iter().for_each(|c| self.pages.set_colour(c.page, c.colour));
        obs.referenced.for_each(|page| self.pages.mark_referenced(page));
        obs.written.for_each(|page| self.pages.mark_written(page));
        self.policy.on_observation(now, obs, &mut self.pages);
        self.count_samples(obs);
        obs.freed.iter().for_each(|&page| self.pages.remove(page));
        self.handle_tiers(obs);
        self.move_cost = obs.move_cost;
        self.tenants.clone_from(&obs.tenants);
        for (i, reading) in self.tenants.iter().enumerate() {
            self.metrics.reading(i, reading);
        }
        self.due = true;
    }

    fn handle_tiers(&mut self, obs: &Observation) {
        for (i, reading) in obs.tiers.iter().enumerate().take(self.free.len()) {
            self.free[i] = reading.free;
            let whole = self.topology.tiers[i].capacity;
            self.shared.tiers[i].capacity = whole.saturating_sub(reading.unmanaged);
        }
    }

    /// Adds allocated pages. An allocation of a page that is present, or in a tier that does not
    /// exist, contradicts the table and is ignored.
    fn handle_allocations(&mut self, obs: &Observation) {
        let tiers = self.topology.tiers.len();
        for allocated in obs.allocated.iter().filter(|b| b.attributes.tier.index() < tiers) {
            for page in allocated.pages() {
                if self.pages.tier(page).is_none() {
                    self.pages.insert(page, allocated.attributes);
                }
            }
        }
    }

    /// Reports external migrations to the policy as if the policy had made them. They do not count
    /// as moves.
    fn handle_external_migrations(&mut self, now: Timestamp, obs: &Observation) {
        self.outcomes.clear();
        for &ExternalMigration { page, tier } in &obs.external_migrations {
            let outcome =
                MoveOutcome { page, from: self.pages.tier(page), to: tier, result: Ok(()) };
            if outcome.from != Some(tier) && self.is_possible(&outcome) {
                self.pages.set_tier(page, tier);
                self.outcomes.push(outcome);
            }
        }
        self.metrics.external_migrations += self.outcomes.len() as u64;
        if !self.outcomes.is_empty() {
            self.policy.on_outcomes(now, &self.outcomes, &mut self.pages);
        }
    }

    fn count_samples(&mut self, obs: &Observation) {
        self.metrics.hint_faults += obs.hint_faults.len() as u64;
        self.metrics.samples += obs.samples.len() as u64;
        for fault in &obs.hint_faults {
            let tenant = self.pages.tenant(fault.page).index();
            if let Some(tier) = self.pages.tier(fault.page) {
                self.metrics.hint_fault(tenant, tier);
            }
        }
    }

    /// Returns the plan that answers the last observation, if there is anything to do.
    pub fn poll_plan(&mut self, now: Timestamp) -> Option<&MigrationPlan> {
        if !std::mem::take(&mut self.due) {
            return None;
        }
        self.rest.clear();
        self.plan.clear();
        let mut ctx = PlanContext {
            topology: &self.shared,
            pages: &mut self.pages,
            free: &self.free,
            tenants: &self.tenants,
            specs: &self.specs,
            move_cost: self.move_cost,
        };
        self.policy.plan(now, &mut ctx, &mut self.plan);
        self.plan.signals = self.policy.signals();
        self.plan.placement = self.policy.placement();
        self.plan.scan = self.pages.take_scan_cost();
        for tenant in 0..self.tenants.len() {
            self.metrics.tenant_mut(tenant).thrash_events =
                self.policy.thrash_events(TenantId(tenant as u16));
        }
        self.cut_to_budget(now);
        self.count_plan()
    }

    /// Returns the moves of the last plan for which the world had no time, as far as they are still
    /// possible. They cost no decision: a world that cannot afford one goes on with the last.
    pub fn poll_rest(&mut self) -> Option<&MigrationPlan> {
        self.plan.clear();
        std::mem::swap(&mut self.plan.moves, &mut self.rest);
        let pages = &self.pages;
        self.plan.moves.retain(|m| pages.tier(m.page).is_some_and(|tier| tier != m.to));
        (!self.plan.moves.is_empty()).then_some(&self.plan)
    }

    fn cut_to_budget(&mut self, now: Timestamp) {
        let (pages, page_size, cut) = (&self.pages, self.topology.page_size, &mut self.cut);
        self.planner.cut(
            now,
            &mut self.plan.moves,
            |page| Pages(pages.frames(page)).in_bytes(page_size),
            |m: Move| {
                cut.push(MoveOutcome {
                    page: m.page,
                    from: pages.tier(m.page),
                    to: m.to,
                    result: Err(FailReason::Budget),
                });
            },
        );
    }

    fn count_plan(&mut self) -> Option<&MigrationPlan> {
        let plan = &self.plan;
        self.metrics.unpaid += plan.unpaid;
        self.metrics.scan.scanned += plan.scan.scanned;
        self.metrics.scan.cleared += plan.scan.cleared;
        self.metrics.poisoned += plan.poison.iter().map(|r| u64::from(r.count)).sum::<u64>();
        let last = self.last_settings.as_ref();
        let changed = last.is_none_or(|last| !last.are_those_of(plan));
        if changed {
            self.last_settings.get_or_insert_default().copy(plan);
        }
        let something = changed
            || !plan.moves.is_empty()
            || !plan.poison.is_empty()
            || !self.cut.is_empty()
            || plan.scan.scanned > 0;
        self.metrics.plans += u64::from(something);
        something.then_some(&self.plan)
    }

    /// Handles the outcomes of the last plan, one per move. A success that the table contradicts
    /// (the page is not known, or was not in the tier that the outcome names) is stale and ignored.
    pub fn handle_outcomes(&mut self, now: Timestamp, outcomes: &[MoveOutcome]) {
        let late = |outcome: &MoveOutcome| outcome.result == Err(FailReason::Budget);
        let moves = self.plan.moves.iter().zip(outcomes);
        self.rest.clear();
        self.rest.extend(moves.filter(|(_, outcome)| late(outcome)).map(|(m, _)| *m));
        self.outcomes.clear();
        for outcome in outcomes.iter().chain(&self.cut) {
            if outcome.result.is_ok() && !self.is_possible(outcome) {
                continue;
            }
            self.metrics.count(outcome, &self.pages);
            if outcome.result.is_ok() {
                self.pages.set_tier(outcome.page, outcome.to);
            }
            self.outcomes.push(*outcome);
        }
        self.cut.clear();
        if !self.outcomes.is_empty() {
            self.policy.on_outcomes(now, &self.outcomes, &mut self.pages);
        }
    }

    fn is_possible(&self, outcome: &MoveOutcome) -> bool {
        outcome.from.is_some()
            && outcome.from == self.pages.tier(outcome.page)
            && outcome.to.index() < self.topology.tiers.len()
    }

    /// The last polled plan.
    pub fn plan(&self) -> &MigrationPlan {
        &self.plan
    }

    /// The moves of the last plan that the budget did not cover, until its outcomes are handled.
    pub fn cut(&self) -> &[MoveOutcome] {
        &self.cut
    }

    /// The time by which the engine needs the next observation, even if no event occurs.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.policy.next_wake()
    }

    /// The signals, placement and caps that a world applies before the first plan.
    pub fn initial_plan(&self) -> MigrationPlan {
        MigrationPlan {
            signals: self.policy.signals(),
            placement: self.policy.placement(),
            caps: self.policy.first_caps(&self.specs, &self.topology),
            ..MigrationPlan::default()
        }
    }

    /// The heat of a page for a later engine ([`Observation::remembered`]): its sampled accesses,
    /// as far as ageing left them. Zero if the policy does not count them page by page.
    pub fn heat(&self, page: PageId) -> u16 {
        self.policy.heat(page)
    }

    /// Adds to `out` a tenant's pages from the hottest to the coldest, in classes of similar
    /// hotness: the base pages of each class, and the accesses of one such page on one scale for
    /// all tenants. Nothing if the policy does not count accesses.
    pub fn curve(&self, tenant: TenantId, out: &mut Vec<(Pages, f64)>) {
        self.policy.curve(tenant, out);
    }

    /// The counters so far.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The engine's page table.
    pub fn pages(&self) -> &PageTable {
        &self.pages
    }

    /// The machine for which the engine decides.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{Allocated, TierReading};
    use crate::page::{Attributes, PageKind};
    use crate::topology::{Tier, Watermarks};
    use crate::units::{Bytes, PageId, TierId};
    use std::time::Duration;

    fn two_tiers() -> Engine {
        engine("multi-clock", Vec::new())
    }

    fn engine(recipe: &str, tenants: Vec<TenantSpec>) -> Engine {
        let tier = |name: &str| Tier {
            name: name.into(),
            capacity: Pages(100),
            watermarks: Watermarks::NONE,
            load_latency: Duration::from_nanos(100),
            store_latency: Duration::from_nanos(100),
            bandwidth: crate::units::Bandwidth(30_000_000_000),
        };
        let topology = Topology { page_size: Bytes(4096), tiers: vec![tier("DRAM"), tier("CXL")] };
        let config = EngineConfig { tenants, ..EngineConfig::new(Recipe::named(recipe).unwrap()) };
        Engine::new(&config, topology, &Capabilities::ALL, 1).unwrap()
    }

    #[test]
    fn tenants_share_all_but_unmanaged_memory() {
        let floor = vec![Some(crate::tenant::Limit::Bytes(Bytes(40 * 4096)))];
        let spec = |name: &str| TenantSpec { floors: floor.clone(), ..TenantSpec::new(name) };
        let mut engine = engine("equilibria-multi-clock", vec![spec("a"), spec("b")]);
        let holds =
            TenantReading { running: true, usage: vec![Pages(30); 2], ..TenantReading::default() };
        let mut floors = |second: u64, unmanaged| {
            let tier = TierReading { unmanaged: Pages(unmanaged), ..TierReading::default() };
            let tenants = vec![holds.clone(); 2];
            let obs = Observation { tiers: vec![tier; 2], tenants, ..Observation::default() };
            let now = Timestamp(second * 1_000_000_000);
            engine.handle_observation(now, &obs);
            engine.poll_plan(now);
            let fast = engine.decisions().iter().filter(|d| d.tier == TierId::FASTEST);
            fast.map(|d| d.share.floor.0).collect::<Vec<_>>()
        };
        assert_eq!(floors(1, 0), [40, 40]);
        // The two floors no longer fit into the remaining memory, and both are cut by the same
        // factor.
        assert_eq!(floors(2, 40), [30, 30]);
    }

    #[test]
    fn accesses_of_readings_add_up() {
        let mut engine = engine("tierwise", vec![TenantSpec::new("a")]);
        for second in [1, 2] {
            let reading = TenantReading { misses: vec![5, 7], ..TenantReading::default() };
            let obs = Observation { tenants: vec![reading], ..Observation::default() };
            engine.handle_observation(Timestamp(second * 1_000_000_000), &obs);
        }
        let tiers = engine.metrics().tenants[0].tiers.iter();
        assert_eq!(tiers.map(|tier| tier.accesses).collect::<Vec<_>>(), [10, 14]);
    }

    fn allocation(tier: u8) -> Observation {
        let attributes =
            Attributes { tenant: TenantId(0), tier: TierId(tier), kind: PageKind::Anon, order: 0 };
        Observation {
            allocated: vec![Allocated { first: PageId(0), count: 1, attributes }],
            tiers: vec![TierReading::default(); 2],
            ..Observation::default()
        }
    }

    #[test]
    fn contradicting_allocations_change_nothing() {
        let mut engine = two_tiers();
        engine.handle_observation(Timestamp::ZERO, &allocation(2));
        assert_eq!(engine.pages().tier(PageId(0)), None);
        engine.handle_observation(Timestamp::ZERO, &allocation(1));
        engine.handle_observation(Timestamp::ZERO, &allocation(0));
        assert_eq!(engine.pages().tier(PageId(0)), Some(TierId(1)));
    }

    #[test]
    fn external_migration_is_known_but_not_counted() {
        let mut engine = two_tiers();
        engine.handle_observation(Timestamp::ZERO, &allocation(0));
        let migration = |page, tier| ExternalMigration { page: PageId(page), tier: TierId(tier) };
        let obs = Observation {
            external_migrations: vec![
                migration(0, 1),
                migration(0, 1),
                migration(0, 2),
                migration(7, 1),
            ],
            tiers: vec![TierReading::default(); 2],
            ..Observation::default()
        };
        engine.handle_observation(Timestamp::ZERO, &obs);
        assert_eq!(engine.pages().tier(PageId(0)), Some(TierId(1)));
        assert_eq!((engine.metrics().external_migrations, engine.metrics().demote.success), (1, 0));
    }

    #[test]
    fn contradicting_successes_are_not_counted() {
        let mut engine = two_tiers();
        engine.handle_observation(Timestamp::ZERO, &allocation(1));
        let outcome = |page, from, to| MoveOutcome {
            page: PageId(page),
            from: Some(TierId(from)),
            to: TierId(to),
            result: Ok(()),
        };
        let stale = [outcome(0, 0, 1), outcome(0, 1, 2), outcome(7, 1, 0)];
        engine.handle_outcomes(Timestamp::ZERO, &stale);
        assert_eq!(engine.pages().tier(PageId(0)), Some(TierId(1)));
        assert_eq!(*engine.metrics(), Metrics::default());
        engine.handle_outcomes(Timestamp::ZERO, &[outcome(0, 1, 0)]);
        assert_eq!(engine.pages().tier(PageId(0)), Some(TierId(0)));
        assert_eq!(engine.metrics().promote.success, 1);
    }

    #[test]
    fn late_moves_are_kept_while_possible() {
        let mut engine = two_tiers();
        engine.handle_observation(Timestamp::ZERO, &allocation(1));
        let outcome = |result| MoveOutcome {
            page: PageId(0),
            from: Some(TierId(1)),
            to: TierId::FASTEST,
            result,
        };
        let tried = |engine: &mut Engine, result| {
            engine.plan.clear();
            engine.plan.background(PageId(0), TierId::FASTEST);
            engine.handle_outcomes(Timestamp::ZERO, &[outcome(result)]);
        };
        tried(&mut engine, Err(FailReason::Busy));
        assert!(engine.poll_rest().is_none(), "the world had time for it");
        tried(&mut engine, Err(FailReason::Budget));
        let rest = engine.poll_rest().map(|plan| plan.moves.clone()).unwrap();
        assert_eq!(
            rest.iter().map(|m| (m.page, m.to)).collect::<Vec<_>>(),
            [(PageId(0), TierId(0))]
        );
        assert!(engine.poll_rest().is_none(), "once");
        tried(&mut engine, Err(FailReason::Budget));
        engine.poll_plan(Timestamp::ZERO);
        assert!(engine.poll_rest().is_none(), "there is another plan");
        tried(&mut engine, Err(FailReason::Budget));
        engine.pages.set_tier(PageId(0), TierId::FASTEST);
        assert!(engine.poll_rest().is_none(), "it is there by now");
    }
}
