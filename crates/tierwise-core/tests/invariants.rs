//! Properties under random observations and outcomes: every present page of the LRU estimators is
//! on exactly one list, plans fit the machine, and the same inputs give the same plans.

mod common;

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tierwise_core::config::Section;
use tierwise_core::engine::{Engine, EngineConfig};
use tierwise_core::estimate::{MultiClock, Nimble};
use tierwise_core::lru::{LruList, LruLists, LruVec};
use tierwise_core::migrate::{Budget, FailReason, MoveOutcome};
use tierwise_core::observe::{Allocated, Capabilities, Observation, Signals, TierReading};
use tierwise_core::page::{Attributes, PageKind, PageTable};
use tierwise_core::partition;
use tierwise_core::policy::PlanContext;
use tierwise_core::recipe::Recipe;
use tierwise_core::registry::BuildContext;
use tierwise_core::select;
use tierwise_core::stage::{Estimator, Scope, Selector, Staged};
use tierwise_core::topology::Topology;
use tierwise_core::units::{Bandwidth, Hotness, PageId, Pages, TenantId, TierId, Timestamp};

const TIERS: [u64; 3] = [2048, 4096, 8192];
const PAGES: u32 = 120;

/// One event; its page and tier may not exist.
#[derive(Debug, Clone, Copy)]
enum Event {
    Allocated { page: u32, tenant: u16, tier: u8, file: bool, huge: bool },
    Freed(u32),
    Referenced(u32),
    Written(u32),
    Supervised(u32),
}

/// One observation and the outcomes of its plan.
#[derive(Debug, Clone)]
struct Step {
    events: Vec<Event>,
    seconds: u64,
    /// Free pages of each tier, in sixteenths of it.
    free: [u64; 3],
    /// The results of the moves, in order.
    ends: Vec<u8>,
    /// Outcomes without a move.
    migration: Option<(u32, u8, u8)>,
}

fn event() -> impl Strategy<Value = Event> {
    let page = 0..PAGES;
    prop_oneof![
        2 => (page.clone(), 0u16..3, 0u8..4, any::<bool>(), prop::bool::weighted(0.1)).prop_map(
            |(page, tenant, tier, file, huge)| Event::Allocated { page, tenant, tier, file, huge }
        ),
        1 => page.clone().prop_map(Event::Freed),
        4 => page.clone().prop_map(Event::Referenced),
        1 => page.clone().prop_map(Event::Written),
        2 => page.prop_map(Event::Supervised),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    (
        prop::collection::vec(event(), 0..60),
        0u64..3,
        [0u64..17, 0u64..17, 0u64..17],
        prop::collection::vec(0u8..6, 1..8),
        prop::option::weighted(0.2, (0..PAGES + 10, 0u8..4, 0u8..4)),
    )
        .prop_map(|(events, seconds, free, ends, migration)| Step {
            events,
            seconds,
            free,
            ends,
            migration,
        })
}

fn observation(step: &Step) -> Observation {
    let mut obs = Observation::default();
    for &event in &step.events {
        match event {
            Event::Allocated { page, tenant, tier, file, huge } => obs.allocated.push(Allocated {
                first: PageId(page),
                count: 3,
                attributes: Attributes {
                    tenant: TenantId(tenant),
                    tier: TierId(tier),
                    kind: if file { PageKind::File } else { PageKind::Anon },
                    order: if huge { 9 } else { 0 },
                },
            }),
            Event::Freed(page) => obs.freed.push(PageId(page)),
            Event::Referenced(page) => obs.referenced.set(PageId(page)),
            Event::Written(page) => obs.written.set(PageId(page)),
            Event::Supervised(page) => obs.supervised.push(PageId(page)),
        }
    }
    let free = |(&sixteenths, capacity): (&u64, u64)| Pages(sixteenths * capacity / 16);
    let reading = |free| TierReading { free, ..TierReading::default() };
    obs.tiers.extend(step.free.iter().zip(TIERS).map(free).map(reading));
    obs
}

/// Checks that the plan, applied in order, only uses free pages if every move succeeds.
fn assert_fits(plan: &[tierwise_core::migrate::Move], obs: &Observation, pages: &PageTable) {
    let mut free: Vec<u64> = obs.tiers.iter().map(|t| t.free.0).collect();
    let mut seen = std::collections::BTreeSet::new();
    for m in plan {
        let Some(from) = pages.tier(m.page) else { panic!("{m:?} names no page") };
        assert_ne!(from, m.to);
        assert!(seen.insert(m.page), "{:?} is named twice", m.page);
        assert!(free[m.to.index()] >= pages.frames(m.page), "{m:?} does not fit");
        free[m.to.index()] -= pages.frames(m.page);
        free[from.index()] += pages.frames(m.page);
    }
}

fn outcomes(
    engine: &Engine,
    plan: &[tierwise_core::migrate::Move],
    step: &Step,
) -> Vec<MoveOutcome> {
    let mut outcomes: Vec<MoveOutcome> = plan
        .iter()
        .zip(step.ends.iter().cycle())
        .map(|(m, &end)| MoveOutcome {
            page: m.page,
            from: engine.pages().tier(m.page),
            to: m.to,
            result: FailReason::ALL.get(usize::from(end)).map_or(Ok(()), |&why| Err(why)),
        })
        .collect();
    if let Some((page, from, to)) = step.migration {
        let (from, to) = (Some(TierId(from)), TierId(to));
        outcomes.push(MoveOutcome { page: PageId(page), from, to, result: Ok(()) });
    }
    outcomes
}

/// Drives the engines through the steps side by side.
fn drive(engines: &mut [Engine], steps: &[Step]) {
    let mut now = Timestamp::ZERO;
    for step in steps {
        now = now + Duration::from_secs(step.seconds);
        let obs = observation(step);
        let mut first = None;
        for engine in &mut *engines {
            engine.handle_observation(now, &obs);
            let plan = engine.poll_plan(now).map_or(Vec::new(), |plan| plan.moves.clone());
            assert_fits(&plan, &obs, engine.pages());
            let outcomes = outcomes(engine, &plan, step);
            engine.handle_outcomes(now, &outcomes);
            assert_eq!(first.get_or_insert_with(|| plan.clone()), &plan);
        }
    }
}

/// An estimator with readable lists.
trait HasLru: Estimator {
    fn lists(&self) -> &LruLists;
}

impl HasLru for MultiClock {
    fn lists(&self) -> &LruLists {
        self.lru()
    }
}

impl HasLru for Nimble {
    fn lists(&self) -> &LruLists {
        self.lru()
    }
}

/// Checks the lists after every step that could disturb them.
struct Checked<E>(E);

impl<E: HasLru> Checked<E> {
    fn check(&self, pages: &PageTable) {
        let lru = self.0.lists();
        let mut on_lists = 0;
        for tier in (0..TIERS.len() as u8).map(TierId) {
            for vec in lru.vecs(tier) {
                for which in LruList::ALL {
                    let (mut count, mut frames) = (0, Pages(0));
                    let mut at = lru.tail(vec, which);
                    while let Some(page) = at {
                        assert_eq!(LruVec::of(page, pages), Some(vec));
                        assert_eq!(LruLists::which(page, pages), which);
                        count += 1;
                        frames += Pages(pages.frames(page));
                        at = lru.lists().newer(page);
                    }
                    assert_eq!((count, frames), (lru.len(vec, which), lru.frames(vec, which)));
                    on_lists += count;
                }
            }
        }
        let present = |&page: &PageId| pages.tier(page).is_some();
        let present = (0..pages.len() as u32).map(PageId).filter(present).count() as u64;
        assert_eq!(on_lists, present);
    }
}

impl<E: HasLru> Estimator for Checked<E> {
    fn signals(&self) -> Signals {
        self.0.signals()
    }
    fn interval(&self) -> Option<Duration> {
        self.0.interval()
    }
    fn on_observation(&mut self, now: Timestamp, obs: &Observation, pages: &mut PageTable) {
        self.0.on_observation(now, obs, pages);
    }
    fn on_outcomes(&mut self, now: Timestamp, outcomes: &[MoveOutcome], pages: &mut PageTable) {
        self.0.on_outcomes(now, outcomes, pages);
        self.check(pages);
    }
    fn update(&mut self, now: Timestamp, ctx: &mut PlanContext<'_>) {
        self.check(ctx.pages);
        self.0.update(now, ctx);
        self.check(ctx.pages);
    }
    fn promotable(&mut self, s: Scope, limit: Pages, pages: &mut PageTable, out: &mut Vec<PageId>) {
        self.0.promotable(s, limit, pages, out);
        self.check(pages);
    }
    fn demotable(&mut self, s: Scope, limit: Pages, pages: &mut PageTable, out: &mut Vec<PageId>) {
        self.0.demotable(s, limit, pages, out);
        self.check(pages);
    }
    fn hotness(&self, page: PageId, pages: &PageTable) -> Hotness {
        self.0.hotness(page, pages)
    }
}

fn checked<E: HasLru + 'static>(
    estimator: E,
    selector: Box<dyn Selector>,
    topology: Topology,
    budget: Budget,
) -> Engine {
    let partitioner = Box::new(partition::NoPartitioner);
    let staged =
        Staged::new(Box::new(Checked(estimator)), partitioner, selector, Default::default());
    Engine::with_policy(Box::new(staged), topology, budget)
}

/// A budget of some 64 base pages per second, so that plans are cut.
const TIGHT: Budget = Budget { bandwidth: Some(Bandwidth(64 * 4096)) };

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        // The same cases every time.
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_page_stays_on_exactly_one_list(
        steps in prop::collection::vec(step(), 1..40),
        tight in any::<bool>(),
    ) {
        let budget = if tight { TIGHT } else { Budget::default() };
        let topology = common::topology(&TIERS);
        let ctx = BuildContext::new(&topology, 1);
        let section = Section::empty();
        let selectors: [fn() -> Box<dyn Selector>; 2] = [
            || Box::new(select::LruSelector::promote_list(&Section::empty()).unwrap()),
            || Box::new(select::LruSelector::exchange(&Section::empty()).unwrap()),
        ];
        for selector in selectors {
            let multi_clock = MultiClock::build(&section, &ctx).unwrap();
            let nimble = Nimble::build(&section, &ctx).unwrap();
            drive(&mut [checked(multi_clock, selector(), topology.clone(), budget)], &steps);
            drive(&mut [checked(nimble, selector(), topology.clone(), budget)], &steps);
        }
    }

    #[test]
    fn same_inputs_give_the_same_plans(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        for name in ["clock", "nimble", "multi-clock"] {
            let config = EngineConfig::new(Recipe::named(name).unwrap());
            let topology = common::topology(&TIERS);
            let engine = || {
                Engine::new(&config, topology.clone(), &Capabilities::ALL, 1).unwrap()
            };
            drive(&mut [engine(), engine()], &steps);
        }
    }

    #[test]
    fn the_extensions_keep_the_lists_too(steps in prop::collection::vec(step(), 1..40)) {
        let changes = [
            ("dirty_weight = 0", "dirty_weight = 2"),
            ("adaptive_interval = false", "adaptive_interval = true"),
        ];
        let config = EngineConfig::new(common::recipe("multi-clock", &changes));
        let topology = common::topology(&TIERS);
        let engine = Engine::new(&config, topology, &Capabilities::ALL, 1).unwrap();
        drive(&mut [engine], &steps);
    }
}
