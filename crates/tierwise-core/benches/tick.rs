//! The cost of a scan of every page: nanoseconds per page scanned, one core.
//!
//! A tenth of the pages is referenced in each interval, and every page is scanned. "update" is the
//! estimator's scan alone, "tick" all work of the engine in an interval. The tables are larger than
//! any cache.
//!
//! `cargo bench -p tierwise-core --bench tick -- update/clock` runs one benchmark.

// A failed benchmark panics, as a failed test does.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::time::Duration;

use criterion::{
    BatchSize, Bencher, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use tierwise_core::config::Document;
use tierwise_core::engine::{Engine, EngineConfig};
use tierwise_core::estimate;
use tierwise_core::observe::{Allocated, Capabilities, Observation, TierReading};
use tierwise_core::page::{Attributes, PageKind, PageTable};
use tierwise_core::policy::PlanContext;
use tierwise_core::recipe::Recipe;
use tierwise_core::registry::BuildContext;
use tierwise_core::stage::Estimator;
use tierwise_core::topology::{Tier, Topology, Watermarks};
use tierwise_core::units::{Bandwidth, Bytes, PageId, Pages, TenantId, TierId, Timestamp};

/// 40 GB and 400 GB of base pages; tables of 40 and 400 MB, and twice that in lists.
const SIZES: [u32; 2] = [10_000_000, 100_000_000];

/// As a test, which `cargo test` makes of it, it shows that it runs.
const TEST_SIZES: [u32; 1] = [100_000];

/// One page in ten is referenced in an interval.
const REFERENCED: u32 = 10;

/// 2^62 pages per scan: more than any table has, so that one scan covers every page.
const ALL_PAGES: &str = "scan_pages = 0x4000_0000_0000_0000";

fn topology(pages: u32) -> Topology {
    let tier = |name: &str| Tier {
        name: name.to_owned(),
        capacity: Pages(u64::from(pages)),
        watermarks: Watermarks::NONE,
        load_latency: Duration::from_nanos(100),
        store_latency: Duration::from_nanos(100),
        bandwidth: Bandwidth(30_000_000_000),
    };
    Topology { page_size: Bytes(4096), tiers: vec![tier("DRAM"), tier("CXL")] }
}

fn estimator(name: &str, topology: &Topology) -> Box<dyn Estimator> {
    let document = Document::parse("bench.toml", ALL_PAGES).unwrap();
    let row = estimate::TABLE.iter().find(|row| row.name == name).unwrap();
    (row.build)(&document.root(), &BuildContext::new(topology, 1)).unwrap()
}

/// Allocates a fifth of the pages in the fast tier and the rest in the slow tier.
fn allocations(pages: u32) -> Observation {
    let allocated = |first, count, tier| Allocated {
        first: PageId(first),
        count,
        attributes: Attributes {
            tenant: TenantId(0),
            tier: TierId(tier),
            kind: PageKind::Anon,
            order: 0,
        },
    };
    let fast = pages / 5;
    Observation {
        allocated: vec![allocated(0, fast, 0), allocated(fast, pages - fast, 1)],
        ..Observation::default()
    }
}

/// Measures the estimator's periodic update alone.
fn update(b: &mut Bencher<'_>, name: &str, size: u32) {
    let topology = topology(size);
    let mut estimator = estimator(name, &topology);
    let obs = allocations(size);
    let mut pages = PageTable::default();
    for allocated in &obs.allocated {
        allocated.pages().for_each(|page| pages.insert(page, allocated.attributes));
    }
    estimator.on_observation(Timestamp::ZERO, &obs, &mut pages);
    let (pages, mut step) = (RefCell::new(pages), 0);
    let mark = || {
        step = (step + 1) % REFERENCED;
        let mut pages = pages.borrow_mut();
        (step..size).step_by(REFERENCED as usize).for_each(|p| pages.mark_referenced(PageId(p)));
    };
    let routine = |()| {
        let free = [Pages(0); 2];
        let pages = &mut *pages.borrow_mut();
        let mut ctx = PlanContext {
            topology: &topology,
            pages,
            free: &free,
            tenants: &[],
            specs: &[],
            move_cost: None,
        };
        estimator.update(Timestamp::ZERO, &mut ctx);
    };
    b.iter_batched(mark, routine, BatchSize::PerIteration);
}

/// Measures a whole tick of the engine: the observation, the estimator's update, the plan.
fn tick(b: &mut Bencher<'_>, name: &str, size: u32) {
    let shipped = Recipe::named(name).unwrap();
    let text = shipped.text().replace("scan_pages = 1024", ALL_PAGES);
    let config = EngineConfig::new(Recipe::parse("bench.toml", &text).unwrap());
    let mut engine = Engine::new(&config, topology(size), &Capabilities::ALL, 1).unwrap();
    let mut obs = allocations(size);
    engine.handle_observation(Timestamp::ZERO, &obs);
    obs.allocated.clear();
    obs.tiers
        .resize(2, TierReading { free: Pages(u64::from(size / 100)), ..TierReading::default() });
    (0..size).step_by(REFERENCED as usize).for_each(|page| obs.referenced.set(PageId(page)));
    let mut now = Timestamp::ZERO;
    b.iter(|| {
        now = now + Duration::from_secs(1);
        engine.handle_observation(now, &obs);
        engine.poll_plan(now).map(|plan| plan.moves.len())
    });
}

fn benches(c: &mut Criterion) {
    type Case = fn(&mut Bencher<'_>, &str, u32);
    let measured = std::env::args().any(|argument| argument == "--bench");
    let sizes = if measured { &SIZES[..] } else { &TEST_SIZES };
    for (case, run) in [("update", update as Case), ("tick", tick)] {
        let mut group = c.benchmark_group(case);
        group.sample_size(10).measurement_time(Duration::from_secs(5));
        for name in ["clock", "nimble", "multi-clock"] {
            for &size in sizes {
                group.throughput(Throughput::Elements(u64::from(size)));
                group.bench_function(BenchmarkId::new(name, size), |b| run(b, name, size));
            }
        }
        group.finish();
    }
}

criterion_group!(all, benches);
criterion_main!(all);
