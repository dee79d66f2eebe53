//! Properties of every policy on every scenario: nothing beats the oracle, nothing is lost, the
//! same inputs give the same result, plans stay within the budget.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{machine, scenario, workload};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tierwise_core::migrate::Budget;
use tierwise_core::recipe::Recipe;
use tierwise_core::units::Bandwidth;
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::{Scenario, WorkloadSpec};
use tierwise_trace::generate::GeneratorSpec;

const PATTERNS: [&str; 8] = [
    "uniform",
    "zipf",
    "latest",
    "sequential",
    "moving-hot-set",
    "phase-change",
    "ycsb-a",
    "ycsb-d",
];

fn generated(name: &str, pattern: &str, pages: u64, seed: u64, huge: bool) -> WorkloadSpec {
    let spec = GeneratorSpec {
        footprint_pages: if huge { pages.div_ceil(512) * 512 * 4 } else { pages },
        order: if huge { 9 } else { 0 },
        accesses_per_window: 3_000,
        windows: Some(8),
        change_windows: vec![4],
        file_fraction: 0.25,
        // The smallest footprint has four pages.
        hot_fraction: 0.25,
        seed,
        ..GeneratorSpec::default()
    };
    WorkloadSpec { dilation: 2_000, loops: 2, ..workload(name, pattern, spec) }
}

fn any_scenario() -> impl Strategy<Value = Scenario> {
    let pattern = 0..PATTERNS.len();
    let preset = prop::sample::select(vec!["dram-cxl", "dram-optane"]);
    (pattern.clone(), pattern, 200u64..1500, 0.05f64..0.9, any::<u64>(), any::<bool>(), preset)
        .prop_map(|(first, second, pages, share, seed, huge, preset)| {
            let one = generated("one", PATTERNS[first], pages, seed, huge);
            let two = WorkloadSpec {
                start: std::time::Duration::from_secs(3),
                ..generated("two", PATTERNS[second], pages / 2 + 1, seed ^ 1, false)
            };
            let footprint = |w: &WorkloadSpec| match &w.source {
                tierwise_sim::scenario::WorkloadSource::Generator(_, spec) => spec.footprint_pages,
                _ => 0,
            };
            let all = footprint(&one) + footprint(&two);
            let m = machine((all as f64 * share) as u64 + 8, all * 2 + 4096);
            let p = tierwise_sim::machine::Machine::preset(
                preset,
                m.tiers[0].capacity,
                m.tiers[1].capacity,
            );
            scenario(p.unwrap(), vec![one, two])
        })
}

proptest! {
    // Each case runs every policy twice with all checkers on. The cases are the same on every
    // machine; raise their number to search further.
    #![proptest_config(ProptestConfig {
        cases: 12,
        rng_seed: RngSeed::Fixed(20),
        ..ProptestConfig::default()
    })]

    #[test]
    fn policies_are_deterministic_and_below_oracle(s in any_scenario(), seed: u64) {
        let prepared = Prepared::load(s).unwrap();
        let options = RunOptions { seed, check: true, ..RunOptions::default() };
        let oracle = Recipe::named("oracle").unwrap();
        let best = run(&prepared, &oracle, &options, &mut |_| ()).unwrap().result;
        for recipe in Recipe::shipped().filter(|recipe| prepared.can_run(recipe)) {
            let once = run(&prepared, &recipe, &options, &mut |_| ()).unwrap();
            let again = run(&prepared, &recipe, &options, &mut |_| ()).unwrap();
            prop_assert_eq!(&once, &again, "{}", recipe.name());
            // With all memory fast there is no placement to choose, so that bound may be better
            // than the oracle.
            if recipe.bound() != Some(tierwise_core::recipe::Bound::AllFast) {
                let r = &once.result;
                let distance = r.distance_to_oracle;
                prop_assert!(distance > -1e-6, "{} {distance}", recipe.name());
                prop_assert!(r.throughput <= best.throughput * (1.0 + 1e-6), "{}", recipe.name());
                for (tenant, bound) in r.tenants.iter().zip(&best.tenants) {
                    prop_assert!(tenant.slowdown >= bound.slowdown * (1.0 - 1e-6));
                }
            }
        }
    }

    #[test]
    fn plans_stay_within_the_budget(s in any_scenario(), log in 16u32..26) {
        // From a thirty-second of a huge page per second to sixteen of them.
        let budget = Budget { bandwidth: Some(Bandwidth(1 << log)) };
        let prepared = Prepared::load(Scenario { budget, ..s }).unwrap();
        // The checkers compare the bytes moved with the budget after every step.
        let options = RunOptions { seed: 1, check: true, ..RunOptions::default() };
        for recipe in Recipe::shipped().filter(|recipe| prepared.can_run(recipe)) {
            run(&prepared, &recipe, &options, &mut |_| ()).unwrap();
        }
    }
}

#[test]
fn scaled_rows_beyond_memory_are_refused() {
    let spec = GeneratorSpec {
        footprint_pages: 16,
        accesses_per_window: 1,
        windows: Some(1 << 63),
        ..GeneratorSpec::default()
    };
    let endless = WorkloadSpec { scale: 2, ..workload("w", "uniform", spec) };
    let error = Prepared::load(scenario(machine(64, 64), vec![endless])).unwrap_err().to_string();
    assert!(error.contains("need a workload that fits into memory"), "{error}");
}
