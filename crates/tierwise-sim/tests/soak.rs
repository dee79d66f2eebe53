//! Long runs with injected faults: moves that fail because pages are locked, reports of freed
//! pages. The checkers run after every step; a failure prints its seed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{machine, scenario, workload};
use tierwise_core::recipe::Recipe;
use tierwise_sim::host::Injection;
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::{Scenario, WorkloadSpec};
use tierwise_trace::generate::GeneratorSpec;

/// Tenants that come and go: three start after each other, one is stopped early.
fn coming_and_going(seed: u64) -> Scenario {
    let spec = |pages| GeneratorSpec {
        footprint_pages: pages,
        accesses_per_window: 2_000,
        windows: Some(30),
        file_fraction: 0.3,
        seed,
        ..GeneratorSpec::default()
    };
    let at = std::time::Duration::from_secs;
    let slow = |w: WorkloadSpec| WorkloadSpec { dilation: 3_000, ..w };
    let workloads = vec![
        slow(workload("zipf", "zipf", spec(900))),
        slow(WorkloadSpec { start: at(4), ..workload("stairs", "moving-hot-set", spec(700)) }),
        slow(WorkloadSpec {
            start: at(8),
            stop: Some(at(14)),
            ..workload("ycsb", "ycsb-d", spec(500))
        }),
    ];
    scenario(machine(600, 4000), workloads)
}

#[test]
fn every_policy_survives_faults() {
    for seed in 0..6u64 {
        let prepared = Prepared::load(coming_and_going(seed)).unwrap();
        let injection = Injection { busy_moves: 0.2, stale_reports: 0.01 };
        let options = RunOptions { seed, check: true, injection, ..RunOptions::default() };
        for recipe in Recipe::shipped().filter(|recipe| prepared.can_run(recipe)) {
            let output = run(&prepared, &recipe, &options, &mut |_| ())
                .unwrap_or_else(|e| panic!("seed {seed}, {}: {e}", recipe.name()));
            assert!(output.result.throughput > 0.0, "seed {seed}, {}", recipe.name());
        }
    }
}
