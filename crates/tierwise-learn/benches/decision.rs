//! The cost of a decision for a thousand tenants: one plan for one second, with partition and
//! selection, on one core.
//!
//! Every tenth tenant is latency-critical. Each tenant has 256 pages, half of them in fast memory.
//! Between two decisions a hundredth of all pages is sampled, a different hundredth each time.
//! Every move succeeds.
//!
//! `cargo bench -p tierwise-learn --bench decision -- mtat` measures one recipe.

// A benchmark may fail as a test may.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use tierwise_core::engine::{Engine, EngineConfig};
use tierwise_core::migrate::MoveOutcome;
use tierwise_core::observe::{
    Allocated, Capabilities, Observation, Sample, TenantReading, TierReading,
};
use tierwise_core::page::{Attributes, PageKind};
use tierwise_core::profile::Profile;
use tierwise_core::recipe::Recipe;
use tierwise_core::tenant::{Class, TenantSpec};
use tierwise_core::topology::{Tier, Topology, Watermarks};
use tierwise_core::units::{Bandwidth, Bytes, PageId, Pages, TenantId, TierId, Timestamp};

/// A build without optimisation only shows that the benchmark runs.
const TENANTS: u16 = if cfg!(debug_assertions) { 50 } else { 1000 };
const PAGES: u32 = 256;

fn topology() -> Topology {
    let tier = |name: &str, ns: u64| Tier {
        name: name.to_owned(),
        capacity: Pages(u64::from(TENANTS) * u64::from(PAGES)),
        watermarks: Watermarks::NONE,
        load_latency: Duration::from_nanos(ns),
        store_latency: Duration::from_nanos(ns),
        bandwidth: Bandwidth(30_000_000_000),
    };
    let mut tiers = vec![tier("DRAM", 73), tier("CXL", 202)];
    tiers[0].capacity = Pages(tiers[0].capacity.0 / 2);
    Topology { page_size: Bytes(4096), tiers }
}

fn specs() -> Vec<TenantSpec> {
    let spec = |i: u16| {
        let mut spec = TenantSpec::new(format!("t{i}"));
        if i.is_multiple_of(10) {
            spec.class = Class::LatencyCritical;
            spec.slo = Some(Duration::from_millis(20));
        } else {
            let size = u64::from(PAGES) * 4096;
            let slow = 0.3 + 0.6 * f64::from(i) / f64::from(TENANTS);
            let points = vec![(Bytes(0), slow), (Bytes(size / 2), 0.9), (Bytes(size), 1.0)];
            spec.profile = Some(Profile::new(points).unwrap());
        }
        spec
    };
    (0..TENANTS).map(spec).collect()
}

fn allocations() -> Vec<Allocated> {
    let half = PAGES / 2;
    let allocated = |tenant: u16, tier: u8| Allocated {
        first: PageId(u32::from(tenant) * PAGES + u32::from(tier) * half),
        count: half,
        attributes: Attributes {
            tenant: TenantId(tenant),
            tier: TierId(tier),
            kind: PageKind::Anon,
            order: 0,
        },
    };
    (0..TENANTS).flat_map(|tenant| [allocated(tenant, 0), allocated(tenant, 1)]).collect()
}

struct Host {
    engine: Engine,
    seen: Observation,
    usage: Vec<[u64; 2]>,
    now: Timestamp,
    step: u32,
}

impl Host {
    fn new(recipe: &str) -> Self {
        let mut config = EngineConfig::new(Recipe::named(recipe).unwrap());
        config.tenants = specs();
        config.learning = Some(tierwise_learn::learning());
        let engine = Engine::new(&config, topology(), &Capabilities::ALL, 1).unwrap();
        let half = u64::from(PAGES / 2);
        let usage = vec![[half; 2]; usize::from(TENANTS)];
        let seen = Observation { allocated: allocations(), ..Observation::default() };
        Self { engine, seen, usage, now: Timestamp::ZERO, step: 0 }
    }

    /// Makes the observation of a second. The benchmark does not time it.
    fn see(&mut self) {
        self.now = self.now + Duration::from_secs(1);
        self.step += 1;
        let free = |tier: usize| {
            let used: u64 = self.usage.iter().map(|usage| usage[tier]).sum();
            Pages(topology().tiers[tier].capacity.0.saturating_sub(used))
        };
        let tier =
            |tier| TierReading { free: free(tier), utilisation: 0.1, ..TierReading::default() };
        self.seen.tiers = vec![tier(0), tier(1)];
        let reading = |(i, usage): (usize, &[u64; 2])| TenantReading {
            usage: usage.iter().map(|&pages| Pages(pages)).collect(),
            misses: vec![600_000, 400_000],
            operations: 1_000_000,
            instructions: 100_000_000,
            running: true,
            unmonitored: false,
            busy: Duration::from_millis(500),
            clients: Duration::ZERO,
            cpus: 1.0,
            p99: i.is_multiple_of(10).then_some(Duration::from_millis(5)),
            counters: None,
        };
        self.seen.tenants = self.usage.iter().enumerate().map(reading).collect();
        let all = u32::from(TENANTS) * PAGES;
        let pages = (self.step % 100..all).step_by(100).map(PageId);
        let sample = |page| Sample { page, tier: TierId(0), write: false };
        self.seen.samples = pages.map(sample).collect();
        self.engine.handle_observation(self.now, &self.seen);
        self.seen.allocated.clear();
    }

    /// Decides once, and returns the duration.
    fn decide(&mut self) -> Duration {
        let started = Instant::now();
        let moves = self.engine.poll_plan(self.now).map(|plan| plan.moves.clone());
        let took = started.elapsed();
        let outcome = |m: &tierwise_core::migrate::Move| {
            let usage = &mut self.usage[(m.page.0 / PAGES) as usize];
            let from = 1 - m.to.index();
            usage[from] -= 1;
            usage[m.to.index()] += 1;
            MoveOutcome { page: m.page, from: Some(TierId(from as u8)), to: m.to, result: Ok(()) }
        };
        let outcomes: Vec<MoveOutcome> = moves.iter().flatten().map(outcome).collect();
        self.engine.handle_outcomes(self.now, &outcomes);
        took
    }
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("decision-1000");
    group.sample_size(20).measurement_time(Duration::from_secs(8));
    for recipe in ["equilibria", "mtat", "tierwise"] {
        let mut host = Host::new(recipe);
        group.bench_function(recipe, |b| {
            b.iter_custom(|rounds| {
                let round = |_| {
                    host.see();
                    host.decide()
                };
                (0..rounds).map(round).sum()
            });
        });
    }
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
