//! The classifier of slowdowns: a model that fits the machine, or else the ratio alone, with its
//! name in the reason; and refused recipes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::sync::Arc;

use tierwise_core::engine::{Engine, EngineConfig};
use tierwise_core::estimate::slowdown::{Classifier, Features, LatencyFit};
use tierwise_core::learn::{Agent, Learning, Null, Objective};
use tierwise_core::observe::{
    Allocated, Capabilities, CpuCounters, Observation, TenantReading, TierReading,
};
use tierwise_core::page::{Attributes, PageKind};
use tierwise_core::recipe::Recipe;
use tierwise_core::units::{PageId, Pages, TenantId, TierId, Timestamp};

/// A model of one machine, which finds no outlier.
struct Model(LatencyFit);

impl Classifier for Model {
    fn name(&self) -> &'static str {
        "the model"
    }

    fn fit(&self) -> LatencyFit {
        self.0
    }

    fn is_outlier(&self, _: &Features) -> bool {
        false
    }
}

impl Learning for Model {
    fn agent(&self, model: Option<&str>, seed: u64) -> Result<Box<dyn Agent>, String> {
        Null.agent(model, seed)
    }

    fn classifier(&self, _: &str) -> Result<Box<dyn Classifier>, String> {
        Ok(Box::new(Self(self.0)))
    }

    fn anneal(&self, _: &dyn Objective, start: &[u64], _: u64) -> Vec<u64> {
        start.to_vec()
    }
}

/// The machine of the tests: memories of 100 and 200 ns.
const HERE: LatencyFit = LatencyFit { intercept: 100.0, slope: 200.0 };
/// A machine with a slower slow memory.
const ELSEWHERE: LatencyFit = LatencyFit { intercept: 100.0, slope: 300.0 };

fn engine(recipe: Recipe, learning: Option<Arc<dyn Learning>>) -> Result<Engine, String> {
    let config = EngineConfig { learning, ..EngineConfig::new(recipe) };
    Engine::new(&config, common::topology(&[1600, 1600]), &Capabilities::ALL, 1)
        .map_err(|e| e.to_string())
}

/// Two tenants of 400 base pages, a quarter of them dedicated, of which the second waits for slow
/// memory half of the time.
fn observation() -> Observation {
    let mut observation =
        Observation { tiers: vec![TierReading::default(); 2], ..Observation::default() };
    for tenant in 0..2u16 {
        for (first, count, tier) in [(0, 100, 0), (100, 300, 1)] {
            let (tenant, tier, kind) = (TenantId(tenant), TierId(tier), PageKind::Anon);
            let first = PageId(u32::from(tenant.0) * 400 + first);
            let attributes = Attributes { tenant, tier, kind, order: 0 };
            observation.allocated.push(Allocated { first, count, attributes });
        }
        let counters = CpuCounters {
            l3_miss_ns: if tenant == 1 { 200.0 } else { 100.0 },
            memory_requests: 1e6,
            instructions: 1e8,
            ..CpuCounters::default()
        };
        observation.tenants.push(TenantReading {
            usage: vec![Pages(100), Pages(300)],
            counters: Some(counters),
            running: true,
            ..TenantReading::default()
        });
    }
    observation
}

/// The rule in the second tenant's decision, and its floor.
fn decided(learning: Option<Arc<dyn Learning>>) -> (String, u64) {
    let mut engine = engine(Recipe::named("flat-memstrata").unwrap(), learning).unwrap();
    let now = Timestamp(10_000_000_000);
    engine.handle_observation(now, &observation());
    engine.poll_plan(now);
    let decisions = engine.decisions().iter().rev();
    let last = decisions.into_iter().find(|d| d.tenant == TenantId(1)).unwrap();
    (last.rule.to_string(), last.share.floor.0)
}

#[test]
fn a_model_of_this_machine_decides() {
    let (reason, dedicated) = decided(Some(Arc::new(Model(HERE))));
    assert!(reason.contains("the model finds that it is not an outlier and lends"), "{reason}");
    assert_eq!(dedicated, 100);
}

#[test]
fn without_a_model_the_ratio_decides() {
    let without_models: Option<Arc<dyn Learning>> = Some(Arc::new(Null));
    let others: Option<Arc<dyn Learning>> = Some(Arc::new(Model(ELSEWHERE)));
    for learning in [None, without_models, others] {
        let (reason, dedicated) = decided(learning);
        assert!(reason.contains("ratio-only finds that it is an outlier and borrows"), "{reason}");
        assert_eq!(dedicated, 140);
    }
}

#[test]
fn strict_recipe_refuses_foreign_model() {
    let line = "ewma = 0.2";
    let strict = common::recipe("flat-memstrata", &[(line, "ewma = 0.2\nfallback = \"refuse\"")]);
    let error = engine(strict, Some(Arc::new(Model(ELSEWHERE)))).err().unwrap();
    let end = "it was trained where fast memory takes 100 ns and a miss 300 ns more; here it is \
               100 and 200 ns; train one for this machine, or set fallback = \"ratio-only\"";
    assert!(error.ends_with(end), "{error}");
}

#[test]
fn machine_without_counters_is_refused() {
    let config = EngineConfig::new(Recipe::named("flat-memstrata").unwrap());
    let blind = Capabilities { counters: false, ..Capabilities::ALL };
    let error = Engine::new(&config, common::topology(&[1600, 1600]), &blind, 1).err().unwrap();
    let error = error.to_string();
    assert!(error.contains("needs the CPU's counters of each tenant, which this"), "{error}");
}
