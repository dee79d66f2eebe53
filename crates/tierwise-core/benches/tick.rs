//! What a look at every page costs: nanoseconds a page scanned, one core.
//!
//! A tenth of the pages is marked referenced before each look, outside the measurement; memory is
//! touched in the same order as in a long-running engine, from tables larger than any cache.

use std::cell::RefCell;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tierwise_core::config::Document;
use tierwise_core::estimate;
use tierwise_core::observe::{Born, Observation};
use tierwise_core::page::{Attributes, PageKind, PageTable};
use tierwise_core::policy::PlanContext;
use tierwise_core::recipe::BuildContext;
use tierwise_core::stage::Estimator;
use tierwise_core::topology::{Tier, Topology, Watermarks};
use tierwise_core::units::{Bandwidth, Bytes, PageId, Pages, TenantId, TierId, Timestamp};

/// 40 GB and 400 GB of base pages; tables of 40 and 400 MB, and twice that in lists.
const SIZES: [u32; 2] = [10_000_000, 100_000_000];

/// One page in so many is referenced in an interval.
const REFERENCED: usize = 10;

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
    // 2^62 pages: everything at each look.
    let document = Document::parse("bench.toml", "scan_pages = 0x4000_0000_0000_0000").unwrap();
    let row = estimate::TABLE.iter().find(|row| row.name == name).unwrap();
    (row.build)(&document.root(), &BuildContext { topology, seed: 1 }).unwrap()
}

/// A fifth of the pages in the fast tier, the rest in the slow one.
fn births(pages: u32) -> Observation {
    let born = |first, count, tier| Born {
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
        born: vec![born(0, fast, 0), born(fast, pages - fast, 1)],
        ..Observation::default()
    }
}

fn look(c: &mut Criterion) {
    let mut group = c.benchmark_group("look");
    group.sample_size(10).measurement_time(Duration::from_secs(5));
    for name in ["clock", "nimble", "multi-clock"] {
        for size in SIZES {
            let topology = topology(size);
            let mut estimator = estimator(name, &topology);
            let obs = births(size);
            let mut pages = PageTable::default();
            for born in &obs.born {
                born.pages().for_each(|page| pages.insert(page, born.attributes));
            }
            estimator.on_observation(Timestamp::ZERO, &obs, &mut pages);
            let (pages, mut turn) = (RefCell::new(pages), 0);
            let mut mark = || {
                turn = (turn + 1) % REFERENCED;
                let mut pages = pages.borrow_mut();
                (turn as u32..size)
                    .step_by(REFERENCED)
                    .for_each(|p| pages.mark_referenced(PageId(p)));
            };
            let mut routine = |()| {
                let free = [Pages(0); 2];
                let pages = &mut *pages.borrow_mut();
                let mut ctx = PlanContext { topology: &topology, pages, free: &free, tenants: &[] };
                estimator.look(Timestamp::ZERO, &mut ctx);
            };
            group.throughput(Throughput::Elements(u64::from(size)));
            group.bench_function(BenchmarkId::new(name, size), |b| {
                b.iter_batched(&mut mark, &mut routine, BatchSize::PerIteration);
            });
        }
    }
    group.finish();
}

criterion_group!(benches, look);
criterion_main!(benches);
