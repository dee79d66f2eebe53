//! Results of the simulator against results computed by hand.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{machine, scenario, workload};
use tierwise_core::recipe::Recipe;
use tierwise_sim::costs::Costs;
use tierwise_sim::machine::Machine;
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_trace::generate::{self, GeneratorSpec};

fn result(
    scenario: tierwise_sim::scenario::Scenario,
    policy: &str,
) -> tierwise_sim::result::PolicyResult {
    let prepared = Prepared::load(scenario).unwrap();
    let options = RunOptions { seed: 7, check: true, ..RunOptions::default() };
    run(&prepared, &Recipe::named(policy).unwrap(), &options, &mut |_| ()).unwrap().result
}

fn spec(pages: u64) -> GeneratorSpec {
    GeneratorSpec {
        footprint_pages: pages,
        accesses_per_window: 100_000,
        windows: Some(20),
        exact: true,
        write_ratio: 0.0,
        ..GeneratorSpec::default()
    }
}

/// Uniform accesses over a footprint of which a quarter is fast: a quarter of the misses is fast,
/// and a miss costs 73/4 + 3*202/4 ns. One thread uses two percent of either tier's bandwidth, so
/// the loaded latency stays within half a nanosecond of the idle one.
#[test]
fn uniform_access_hits_by_memory_share() {
    let r =
        result(scenario(machine(250, 2000), vec![workload("u", "uniform", spec(1000))]), "none");
    assert!((r.fast_access_ratio - 0.25).abs() < 1e-6, "{}", r.fast_access_ratio);
    let instructions = 100.0 / 2.3;
    let expected = (instructions + 73.0 * 0.25 + 202.0 * 0.75) / (instructions + 73.0);
    assert!((r.slowdown - expected).abs() < 0.01, "{} against {expected}", r.slowdown);
}

/// A stationary Zipf pattern whose hottest pages were touched first: static placement is perfect,
/// the hit ratio is H(k)/H(n), and the oracle does no better.
#[test]
fn stationary_zipf_hits_by_harmonic_numbers() {
    let zipf = GeneratorSpec { scrambled: false, zipf_exponent: 0.99, ..spec(1000) };
    let truth = generate::ground_truth("zipf", &zipf).unwrap().unwrap();
    let r = result(scenario(machine(100, 2000), vec![workload("z", "zipf", zipf.clone())]), "none");
    let expected = truth.hottest_share(0, 100);
    // "exact" counts are expectations rounded to whole accesses, one in 100,000 a page.
    assert!((r.fast_access_ratio - expected).abs() < 1e-3, "{} {expected}", r.fast_access_ratio);
    let oracle = result(scenario(machine(100, 2000), vec![workload("z", "zipf", zipf)]), "oracle");
    assert!((oracle.fast_access_ratio - expected).abs() < 1e-3);
    assert!(r.distance_to_oracle >= 0.0 && r.distance_to_oracle < 0.01, "{}", r.distance_to_oracle);
}

/// Two pages, fast memory for one, each hot alternately: the next move undoes each move, and every
/// window's misses are all fast or all slow. Static serves exactly half of them fast.
#[test]
fn alternating_pages_are_half_fast_unmoved() {
    let rounds = GeneratorSpec {
        hot_fraction: 0.5,
        hot_access_share: 1.0,
        dwell_windows: 1,
        motion: generate::Motion::Zigzag,
        ..spec(2)
    };
    let r = result(scenario(machine(1, 10), vec![workload("p", "moving-hot-set", rounds)]), "none");
    assert!((r.fast_access_ratio - 0.5).abs() < 1e-9, "{}", r.fast_access_ratio);
}

/// With enough fast memory and no other tenant, a workload has the speed of the bound with all
/// memory fast.
#[test]
fn enough_fast_memory_is_all_fast() {
    let mut s = scenario(machine(4000, 4000), vec![workload("u", "uniform", spec(1000))]);
    s.costs = Costs::FREE;
    for policy in ["none", "fmem-all", "oracle"] {
        let r = result(s.clone(), policy);
        assert_eq!(r.fast_access_ratio, 1.0, "{policy}");
        assert!((r.slowdown - 1.0).abs() < 0.01, "{policy}: {}", r.slowdown);
    }
    let r = result(s, "smem-all");
    let expected = (100.0 / 2.3 + 202.0) / (100.0 / 2.3 + 73.0);
    assert_eq!(r.fast_access_ratio, 0.0);
    assert!((r.slowdown - expected).abs() < 0.02, "{} against {expected}", r.slowdown);
}

/// Three tiers fill in order, and each serves its share.
#[test]
fn three_tiers_fill_from_the_fastest() {
    let mut m = machine(250, 250);
    let mut third = m.tiers[1].clone();
    third.name = "far CXL".to_owned();
    third.load_ns = 400.0;
    third.capacity = tierwise_core::units::Bytes(2000 * common::PAGE);
    m.tiers.push(third);
    let r = result(scenario(m, vec![workload("u", "uniform", spec(1000))]), "none");
    let page = common::PAGE;
    let usage = &r.tenants[0].usage_bytes;
    assert_eq!(usage["DRAM"], 250 * page);
    assert_eq!(usage["CXL"], 250 * page);
    assert_eq!(usage["far CXL"], 500 * page);
    let instructions = 100.0 / 2.3;
    let expected =
        (instructions + 73.0 * 0.25 + 202.0 * 0.25 + 400.0 * 0.5) / (instructions + 73.0);
    assert!((r.slowdown - expected).abs() < 0.02, "{} against {expected}", r.slowdown);
}

/// A workload that outgrows the machine is killed, and the result reports it; the other continues.
#[test]
fn running_out_of_memory_is_an_outcome() {
    let two = vec![
        workload("first", "uniform", spec(700)),
        workload("second", "uniform", GeneratorSpec { windows: Some(5), ..spec(700) }),
    ];
    let r = result(scenario(machine(500, 500), two), "none");
    let failures: Vec<bool> = r.tenants.iter().map(|t| t.failure.is_some()).collect();
    assert_eq!(failures.iter().filter(|&&f| f).count(), 1, "{:?}", r.tenants);
    let killed = r.tenants.iter().find_map(|t| t.failure.as_ref()).unwrap();
    assert!(killed.starts_with("out of memory at"), "{killed}");
}

/// A program that touches all its pages alike fills the heat map, whatever a page stands for.
#[test]
fn heat_map_is_of_simulated_pages() {
    for granule_order in [0, 3] {
        let machine = Machine { granule_order, ..machine(8000, 8000) };
        let prepared =
            Prepared::load(scenario(machine, vec![workload("u", "uniform", spec(960))])).unwrap();
        let options = RunOptions { heat_map: true, ..RunOptions::default() };
        let none = Recipe::named("none").unwrap();
        let map = run(&prepared, &none, &options, &mut |_| ()).unwrap().heat_map.unwrap();
        assert_eq!(map.pages_per_row, 10, "960 pages in 96 rows");
        let touched = map.misses[0].iter().filter(|&&misses| misses > 0.0).count();
        assert_eq!((map.misses[0].len(), touched), (96, 96), "granules of {granule_order}");
    }
}

/// The heat map holds every miss, and is steady for a steady workload, whether or not the policy
/// samples.
#[test]
fn steady_workload_has_steady_heat_map() {
    let s = scenario(
        machine(250, 2000),
        vec![tierwise_sim::scenario::WorkloadSpec {
            dilation: 500,
            measure_from: None,
            ..workload("u", "uniform", GeneratorSpec { windows: Some(4), ..spec(1000) })
        }],
    );
    let prepared = Prepared::load(s).unwrap();
    for policy in ["none", "multi-clock"] {
        let options = RunOptions { heat_map: true, check: true, ..RunOptions::default() };
        let output =
            run(&prepared, &Recipe::named(policy).unwrap(), &options, &mut |_| ()).unwrap();
        let columns: Vec<f64> =
            output.heat_map.unwrap().misses.iter().map(|c| c.iter().sum()).collect();
        // 1000 pages touched once and four windows of 100,000 accesses, each 500 times.
        let all: f64 = columns.iter().sum();
        assert!((all / (500.0 * 401_000.0) - 1.0).abs() < 1e-6, "{policy}: {all}");
        let inner = &columns[2..columns.len() - 1];
        let (low, high) = inner.iter().fold((f64::MAX, 0.0f64), |(l, h), &c| (l.min(c), h.max(c)));
        assert!(inner.len() > 10 && high < low * 1.2, "{policy}: {low} to {high} in a second");
    }
}
