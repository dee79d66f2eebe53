//! With enough fast memory for all pages, no recipe makes a workload slower than `static` does,
//! except by the cost of its own monitoring. No page is demoted while memory is free, and no
//! allocation is kept out of free memory. A share that a partitioner computed is no limit; an
//! operator's cap is one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
#[path = "common/programs.rs"]
mod programs;

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{machine, scenario, workload};
use programs::{Growing, growing_trace, traces};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tierwise_core::recipe::Recipe;
use tierwise_core::tenant::{Class, Limit};
use tierwise_core::topology::WatermarkLevel;
use tierwise_core::units::{Bytes, Pages, TierId};
use tierwise_sim::result::PolicyResult;
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::{Scenario, WorkloadSource, WorkloadSpec};
use tierwise_trace::cut::{Cut, WindowSelection};
use tierwise_trace::generate::GeneratorSpec;
use tierwise_trace::reader::TraceReader;
use tierwise_trace::writer::{WriterOptions, write_trace};

/// Memory that a policy may keep free of the fastest tier beside the kernel's watermarks: 3 % in
/// memtis, the maximum of all recipes.
const HEADROOM: f64 = 0.03;

/// Allowed difference of slowdowns. Tenants that wait for their own monitoring overlap differently,
/// which changes their bandwidth a little.
const OVERLAP: f64 = 1e-3;

/// Base pages of a fast tier in which this many fit above every tenant's headroom.
fn room_for(resident: u64) -> u64 {
    let slow = resident + 4096;
    let fits = |&fast: &u64| {
        let marks = machine(fast, slow).topology().tier(TierId::FASTEST).watermarks;
        let headroom = (fast as f64 * HEADROOM).ceil() as u64;
        resident + headroom.max(marks.at(WatermarkLevel::Promo).0) <= fast
    };
    // Small tiers keep a quarter of themselves free at most.
    (resident..resident * 2 + 4096).find(fits).unwrap()
}

/// The recipes that decide. On these machines the CPU manages no tier.
fn policies(prepared: &Prepared) -> Vec<Recipe> {
    let decides = |r: &Recipe| r.bound().is_none() && prepared.can_run(r);
    Recipe::shipped().filter(decides).collect()
}

fn outcome(prepared: &Prepared, recipe: &Recipe, seed: u64) -> PolicyResult {
    let options = RunOptions { seed, ..RunOptions::default() };
    run(prepared, recipe, &options, &mut |_| ()).unwrap().result
}

/// The moves of a recipe without a reason, if there are any.
fn harm(result: &PolicyResult, untouched: &PolicyResult) -> Option<String> {
    let name = &result.policy;
    if (result.promotions, result.demotions) != (0, 0) {
        let (up, down) = (result.promotions, result.demotions);
        return Some(format!("{name} promotes {up} and demotes {down} pages with memory free"));
    }
    for (its, alone) in result.tenants.iter().zip(&untouched.tenants) {
        let overhead = its.overhead_seconds / alone.seconds;
        let limit = alone.slowdown * (1.0 + overhead) * (1.0 + OVERLAP);
        if its.fast_access_ratio < alone.fast_access_ratio {
            let tenant = &its.name;
            return Some(format!("{name} has {tenant} allocate elsewhere with memory free"));
        }
        if its.slowdown > limit {
            let (tenant, slowdown) = (&its.name, its.slowdown);
            return Some(format!("{name} slows {tenant} down to {slowdown}, allowed: {limit}"));
        }
    }
    None
}

fn harms(prepared: &Prepared, seed: u64) -> Vec<String> {
    let untouched = outcome(prepared, &Recipe::named("static").unwrap(), seed);
    assert!(untouched.tenants.iter().all(|t| t.fast_access_ratio == 1.0 && t.seconds > 0.0));
    let all = policies(prepared).into_iter();
    all.filter_map(|recipe| harm(&outcome(prepared, &recipe, seed), &untouched)).collect()
}

/// A directory of this test's own.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

#[derive(Debug, Clone)]
struct Tenant {
    /// A program that maps and unmaps, or one of the generators.
    growing: Option<Growing>,
    pattern: &'static str,
    pages: u64,
    touch_first: bool,
    dilation: u32,
    loops: u32,
    start_ms: u64,
    weight: u32,
    critical: bool,
    floor: Option<f64>,
    seed: u64,
}

fn any_tenant() -> impl Strategy<Value = Tenant> {
    let growing = prop::option::of((1u32..60, 0.0f64..1.2, any::<u64>()).prop_map(
        |(allocations, unmapped, seed)| Growing { windows: 24, allocations, unmapped, seed },
    ));
    let pattern = prop::sample::select(vec!["uniform", "zipf", "sequential", "moving-hot-set"]);
    let program = (growing, pattern, 100u64..1200, any::<bool>(), 200u32..3000, 1u32..4);
    let floor = prop::option::of(0.0f64..1.0);
    let spec = (0u64..6000, 1u32..1000, any::<bool>(), floor, any::<u64>());
    (program, spec).prop_map(|(program, spec)| {
        let (growing, pattern, pages, touch_first, dilation, loops) = program;
        let (start_ms, weight, critical, floor, seed) = spec;
        Tenant {
            growing,
            pattern,
            pages,
            touch_first,
            dilation,
            loops,
            start_ms,
            weight,
            critical,
            floor,
            seed,
        }
    })
}

impl Tenant {
    /// Its workload, and the maximum of base pages that it can have.
    fn workload(&self, index: usize, case: &str) -> (WorkloadSpec, u64) {
        let name = format!("t{index}");
        let (w, pages) = match &self.growing {
            Some(growing) => {
                let path = directory("growth").join(format!("{case}-{name}.twt"));
                let pages = growing_trace(growing, &path);
                (
                    WorkloadSpec {
                        loops: self.loops,
                        ..WorkloadSpec::new(&name, WorkloadSource::Trace(path))
                    },
                    pages,
                )
            }
            None => {
                let spec = GeneratorSpec {
                    footprint_pages: self.pages,
                    accesses_per_window: 2_000,
                    windows: Some(12),
                    touch_first: self.touch_first,
                    hot_fraction: 0.25,
                    seed: self.seed,
                    ..GeneratorSpec::default()
                };
                let generated = workload(&name, self.pattern, spec);
                let w = WorkloadSpec { measure_from: None, loops: self.loops, ..generated };
                (w, self.pages)
            }
        };
        let w = WorkloadSpec {
            dilation: self.dilation,
            start: Duration::from_millis(self.start_ms),
            weight: self.weight,
            class: if self.critical { Class::LatencyCritical } else { Class::BestEffort },
            slo: self.critical.then_some(Duration::from_millis(20)),
            floors: vec![self.floor.map(Limit::Resident)],
            ..w
        };
        (w, pages)
    }
}

fn fitting(tenants: &[Tenant], beyond: f64, case: &str) -> Scenario {
    let all = tenants.iter().enumerate().map(|(i, tenant)| tenant.workload(i, case));
    let (workloads, pages): (Vec<_>, Vec<u64>) = all.unzip();
    let resident: u64 = pages.iter().sum();
    let fast = (room_for(resident) as f64 * beyond) as u64;
    scenario(machine(fast, resident + 4096), workloads)
}

proptest! {
    // Each case runs every policy. The cases are the same on every machine; raise their number to
    // search further.
    #![proptest_config(ProptestConfig {
        cases: 16,
        rng_seed: RngSeed::Fixed(11),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn ample_fast_memory_slows_no_recipe(
        tenants in prop::collection::vec(any_tenant(), 1..5),
        beyond in 1.0f64..1.5,
        seed: u64,
    ) {
        let prepared = Prepared::load(fitting(&tenants, beyond, &seed.to_string())).unwrap();
        let harms = harms(&prepared, seed);
        prop_assert!(harms.is_empty(), "{:#?}", harms);
    }
}

/// The first windows of every recording, twice: pages mapped in the first round stay in the second.
#[test]
fn ample_fast_memory_slows_no_recording() {
    let directory = directory("growth-recorded");
    let mut wrong = Vec::new();
    for path in traces() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let start = directory.join(format!("{name}.twt"));
        let reader = TraceReader::open(&path).unwrap();
        let mut first = Cut::new(reader, WindowSelection::Windows(0..FIRST_WINDOWS));
        let overwrite = WriterOptions { level: 1, overwrite: true };
        let pages = write_trace(&start, &mut first, overwrite).unwrap().pages;
        let program =
            WorkloadSpec { loops: 2, ..WorkloadSpec::new(&name, WorkloadSource::Trace(start)) };
        let fast = room_for(pages);
        let test = scenario(machine(fast, fast + 4096), vec![program]);
        let prepared = Prepared::load(test).unwrap();
        wrong.extend(harms(&prepared, 1).into_iter().map(|harm| format!("{name}: {harm}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A few virtual seconds of each program, in which all of them map most of their memory.
const FIRST_WINDOWS: u64 = 200;

/// Caps hold at allocation too, with all of the memory beside them free.
#[test]
fn operators_cap_holds_with_memory_free() {
    let path = directory("growth").join("capped.twt");
    let growing = Growing { windows: 60, allocations: 20, unmapped: 0.0, seed: 1 };
    let pages = growing_trace(&growing, &path);
    let cap = Limit::Bytes(Pages(pages / 4).in_bytes(Bytes(common::PAGE)));
    let program = WorkloadSpec {
        dilation: 1000,
        caps: vec![Some(cap)],
        ..WorkloadSpec::new("capped", WorkloadSource::Trace(path))
    };
    let prepared = Prepared::load(scenario(machine(pages * 4, pages * 4), vec![program])).unwrap();
    let timeline = Some(Duration::from_millis(500));
    let options = RunOptions { check: true, timeline, ..RunOptions::default() };
    for name in ["tierwise", "mtat", "mtat-lc-only", "equilibria", "equilibria-multi-clock"] {
        let output = run(&prepared, &Recipe::named(name).unwrap(), &options, &mut |_| ()).unwrap();
        let fast = output.timeline.iter().map(|point| point.tenants[0].usage_bytes[0]);
        let limit = fast.max().unwrap();
        assert!(limit <= pages / 4 * common::PAGE, "{name}: {limit} bytes");
        assert!(
            limit >= pages / 5 * common::PAGE,
            "{name}: {limit} bytes, and its cap is not in use"
        );
    }
}
