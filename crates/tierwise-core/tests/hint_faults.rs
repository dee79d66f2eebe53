//! The policies with hint faults and samples, end to end through the engine. On a machine that
//! poisons and faults they promote the hot set, within the memory they have. For all inputs, their
//! plans fit, keep the min watermarks and are the same for the same inputs.

// Helpers outside a test function also unwrap.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/counting.rs"]
mod counting;

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use tierwise_core::engine::{Engine, EngineConfig};
use tierwise_core::migrate::{FailReason, Move, MoveOutcome, PageRange};
use tierwise_core::observe::{
    Allocated, Capabilities, HintFault, Observation, Sample, TenantReading, TierReading,
};
use tierwise_core::page::{Attributes, PageKind};
use tierwise_core::recipe::Recipe;
use tierwise_core::topology::{Topology, WatermarkLevel};
use tierwise_core::units::{PageId, Pages, TenantId, TierId, Timestamp};

/// Each recipe with its periods scaled to a machine of thousands of pages.
fn recipes() -> Vec<Recipe> {
    let scanning: &[(&str, &str)] = &[("scan_size = \"256MiB\"", "scan_size = \"4MiB\"")];
    let memtis: &[(&str, &str)] = &[
        ("adaptation_period = 100000", "adaptation_period = 500"),
        ("cooling_period = 2000000", "cooling_period = 20000"),
    ];
    ["autonuma", "autotiering-cpm", "autotiering-opm", "tpp"]
        .map(|name| common::recipe(name, scanning))
        .into_iter()
        .chain([common::recipe("memtis", memtis)])
        .collect()
}

fn engine(recipe: &Recipe, topology: &Topology) -> Engine {
    let config = EngineConfig::new(recipe.clone());
    Engine::new(&config, topology.clone(), &Capabilities::ALL, 1).unwrap()
}

/// Checks that the plan, applied in order, keeps every tier's min watermark if every move succeeds,
/// and names no page twice.
fn assert_fits(plan: &[Move], free: &[u64], engine: &Engine) {
    let (pages, topology) = (engine.pages(), engine.topology());
    let mut free = free.to_vec();
    let mut seen = BTreeSet::new();
    for m in plan {
        let from = pages.tier(m.page).unwrap();
        assert_ne!(from, m.to);
        assert!(seen.insert(m.page), "{:?} is named twice", m.page);
        let min = topology.tier(m.to).watermarks.at(WatermarkLevel::Min).0;
        let frames = pages.frames(m.page);
        assert!(free[m.to.index()] >= frames + min, "{m:?} goes below the min watermark");
        free[m.to.index()] -= frames;
        free[from.index()] += frames;
    }
}

/// A machine that poisons and faults, ten times per second.
struct Machine {
    engine: Engine,
    obs: Observation,
    free: Vec<u64>,
    poisoned: Vec<Option<Timestamp>>,
    outcomes: Vec<MoveOutcome>,
    now: Timestamp,
}

impl Machine {
    fn new(recipe: &Recipe, capacities: &[u64]) -> Self {
        let engine = engine(recipe, &common::topology(capacities));
        let reading = TenantReading { running: true, ..TenantReading::default() };
        Self {
            engine,
            obs: Observation { tenants: vec![reading], ..Observation::default() },
            free: capacities.to_vec(),
            poisoned: Vec::new(),
            outcomes: Vec::new(),
            now: Timestamp::ZERO,
        }
    }

    fn allocated(&mut self, first: u32, count: u32, tier: u8) {
        let attributes = common::base_page(tier, PageKind::Anon);
        self.obs.allocated.push(Allocated { first: PageId(first), count, attributes });
        self.free[usize::from(tier)] -= u64::from(count);
        self.poisoned.resize((first + count) as usize, None);
    }

    /// Runs a tenth of a second in which these pages are accessed.
    fn tick(&mut self, pages: impl Iterator<Item = u32>) {
        self.now = self.now + Duration::from_millis(100);
        for page in pages.map(PageId) {
            self.obs.referenced.set(page);
            let tier = self.engine.pages().tier(page).unwrap_or(TierId(0));
            self.obs.samples.push(Sample { page, tier, write: false });
            if let Some(poisoned_at) = self.poisoned[page.index()].take() {
                self.obs.hint_faults.push(HintFault {
                    page,
                    poisoned_at,
                    at: self.now,
                    write: false,
                });
            }
        }
        self.obs.tiers.clear();
        let reading = |&free: &u64| TierReading { free: Pages(free), ..TierReading::default() };
        self.obs.tiers.extend(self.free.iter().map(reading));
        self.engine.handle_observation(self.now, &self.obs);
        self.obs.clear();
        self.outcomes.clear();
        if let Some(plan) = self.engine.poll_plan(self.now) {
            for PageRange { first, count } in &plan.poison {
                self.poisoned[first.index()..first.index() + *count as usize].fill(Some(self.now));
            }
            self.outcomes.extend(plan.moves.iter().map(|m| MoveOutcome {
                page: m.page,
                from: None,
                to: m.to,
                result: Ok(()),
            }));
        }
        for outcome in &mut self.outcomes {
            outcome.from = self.engine.pages().tier(outcome.page);
            self.free[outcome.from.unwrap().index()] += 1;
            self.free[outcome.to.index()] -= 1;
            self.poisoned[outcome.page.index()] = None;
        }
        self.engine.handle_outcomes(self.now, &self.outcomes);
    }

    fn fast(&self, pages: std::ops::Range<u32>) -> usize {
        pages.filter(|&p| self.engine.pages().tier(PageId(p)) == Some(TierId(0))).count()
    }
}

/// 1600 fast pages, of which cold ones fill 1300 and 300 are free; a hot set of 600 in 6000 slow
/// pages.
fn hot_set_below(recipe: &Recipe) -> Machine {
    let mut machine = Machine::new(recipe, &[1600, 6400]);
    machine.allocated(0, 1300, 0);
    machine.allocated(1300, 4700, 1);
    for _ in 0..600 {
        machine.tick(2000..2600);
    }
    machine
}

#[test]
fn hot_set_below_cold_pages_rises() {
    for recipe in recipes() {
        let machine = hot_set_below(&recipe);
        let (hot, cold) = (machine.fast(2000..2600), machine.fast(0..1300));
        let metrics = machine.engine.metrics();
        if recipe.name() == "autotiering-cpm" {
            // The high watermark is 300, so no page ever fits, and the policy never demotes.
            assert_eq!((hot, cold, metrics.demote.success), (0, 1300, 0));
            continue;
        }
        assert_eq!(hot, 600, "{}: {metrics:?}", recipe.name());
        assert!(metrics.demote.success >= 300, "{}: {metrics:?}", recipe.name());
        assert_eq!(metrics.promote.fail, [0; FailReason::ALL.len()], "{}", recipe.name());
    }
}

#[test]
fn monitoring_costs_match_publications() {
    let costs = |name: &str| {
        let recipe = recipes().into_iter().find(|r| r.name() == name).unwrap();
        hot_set_below(&recipe).engine.metrics().clone()
    };
    let (autonuma, cpm) = (costs("autonuma"), costs("autotiering-cpm"));
    // The whole hot set is promoted, and fast pages are not poisoned: 600 pages with one or two
    // faults each.
    assert!((600..2400).contains(&autonuma.hint_faults), "{autonuma:?}");
    // All pages are poisoned and none is promoted: the hot set faults with every scan of the
    // minute.
    assert!(cpm.hint_faults > 10_000, "{cpm:?}");
    let memtis = costs("memtis");
    assert_eq!((memtis.hint_faults, memtis.poisoned, memtis.samples), (0, 0, 600 * 600));
}

#[test]
fn a_steady_tick_allocates_nothing() {
    for recipe in recipes() {
        let mut machine = Machine::new(&recipe, &[1600, 6400]);
        machine.allocated(0, 1200, 0);
        machine.allocated(1200, 4800, 1);
        // A hot set of 500 that moves through 5000 every ten seconds.
        let tick = |machine: &mut Machine, i: u32| {
            let first = i / 100 * 500 % 5000;
            machine.tick(first..first + 500);
        };
        (0..3000).for_each(|i| tick(&mut machine, i));
        let before = counting::allocations();
        (3000..5000).for_each(|i| tick(&mut machine, i));
        assert_eq!(counting::allocations() - before, 0, "{} allocates", recipe.name());
        assert!(machine.engine.metrics().promote.success > 0, "{} moved nothing", recipe.name());
    }
}

const TIERS: [u64; 3] = [2048, 4096, 8192];
const PAGES: u32 = 120;

/// One event; its page and tier may not exist.
#[derive(Debug, Clone, Copy)]
enum Event {
    Allocated { page: u32, tenant: u16, tier: u8, huge: bool },
    Freed(u32),
    Referenced(u32),
    Fault { page: u32, latency_ms: u64 },
    Sample(u32),
}

/// One observation and the outcomes of its plan.
#[derive(Debug, Clone)]
struct Step {
    events: Vec<Event>,
    after_ms: u64,
    /// Free pages of each tier, in sixteenths of it.
    free: [u64; 3],
    /// The results of the moves, in order.
    ends: Vec<u8>,
    /// An outcome without a move.
    migration: Option<(u32, u8, u8)>,
}

fn event() -> impl Strategy<Value = Event> {
    let page = 0..PAGES;
    prop_oneof![
        2 => (page.clone(), 0u16..3, 0u8..4, prop::bool::weighted(0.1))
            .prop_map(|(page, tenant, tier, huge)| Event::Allocated { page, tenant, tier, huge }),
        1 => page.clone().prop_map(Event::Freed),
        2 => page.clone().prop_map(Event::Referenced),
        4 => (0..PAGES + 10, 0u64..3000)
            .prop_map(|(page, latency_ms)| Event::Fault { page, latency_ms }),
        4 => (0..PAGES + 10).prop_map(Event::Sample),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let migration = prop::option::weighted(0.2, (0..PAGES + 10, 0u8..4, 0u8..4));
    let free = [0u64..17, 0u64..17, 0u64..17];
    let ends = prop::collection::vec(0u8..6, 1..8);
    (prop::collection::vec(event(), 0..60), 0u64..1500, free, ends, migration).prop_map(
        |(events, after_ms, free, ends, migration)| Step {
            events,
            after_ms,
            free,
            ends,
            migration,
        },
    )
}

fn observation(step: &Step, now: Timestamp) -> Observation {
    let mut obs = Observation::default();
    for &event in &step.events {
        match event {
            Event::Allocated { page, tenant, tier, huge } => obs.allocated.push(Allocated {
                first: PageId(page),
                count: 3,
                attributes: Attributes {
                    tenant: TenantId(tenant),
                    tier: TierId(tier),
                    kind: PageKind::Anon,
                    order: if huge { 9 } else { 0 },
                },
            }),
            Event::Freed(page) => obs.freed.push(PageId(page)),
            Event::Referenced(page) => obs.referenced.set(PageId(page)),
            Event::Fault { page, latency_ms } => obs.hint_faults.push(HintFault {
                page: PageId(page),
                poisoned_at: Timestamp(now.0.saturating_sub(latency_ms * 1_000_000)),
                at: now,
                write: false,
            }),
            Event::Sample(page) => {
                obs.samples.push(Sample { page: PageId(page), tier: TierId(1), write: false });
            }
        }
    }
    let free = step.free.iter().zip(TIERS).map(|(sixteenths, capacity)| sixteenths * capacity / 16);
    obs.tiers.extend(free.map(|free| TierReading { free: Pages(free), ..TierReading::default() }));
    obs
}

fn outcomes(engine: &Engine, plan: &[Move], step: &Step) -> Vec<MoveOutcome> {
    let outcome = |(m, &end): (&Move, &u8)| MoveOutcome {
        page: m.page,
        from: engine.pages().tier(m.page),
        to: m.to,
        result: FailReason::ALL.get(usize::from(end)).map_or(Ok(()), |&why| Err(why)),
    };
    let migration = step.migration.map(|(page, from, to)| MoveOutcome {
        page: PageId(page),
        from: Some(TierId(from)),
        to: TierId(to),
        result: Ok(()),
    });
    plan.iter().zip(step.ends.iter().cycle()).map(outcome).chain(migration).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn same_inputs_give_the_same_plans(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let topology = common::topology(&TIERS);
        for recipe in recipes() {
            let mut engines = [engine(&recipe, &topology), engine(&recipe, &topology)];
            let mut now = Timestamp::ZERO;
            for step in &steps {
                now = now + Duration::from_millis(step.after_ms);
                let obs = observation(step, now);
                let free: Vec<u64> = obs.tiers.iter().map(|t| t.free.0).collect();
                let plans = engines.each_mut().map(|engine| {
                    engine.handle_observation(now, &obs);
                    let plan = engine.poll_plan(now).cloned().unwrap_or_default();
                    assert_fits(&plan.moves, &free, engine);
                    let outcomes = outcomes(engine, &plan.moves, step);
                    engine.handle_outcomes(now, &outcomes);
                    (plan.moves, plan.poison, engine.poll_timeout())
                });
                prop_assert_eq!(&plans[0], &plans[1]);
            }
        }
    }
}
