//! Machines whose CPU manages a tier: formulas, isolation, lending, and refusals.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::time::Duration;

use common::{machine, scenario, workload};
use tierwise_core::recipe::Recipe;
use tierwise_core::units::Bytes;
use tierwise_sim::hardware::Colouring;
use tierwise_sim::host::Injection;
use tierwise_sim::result::{PolicyResult, TenantResult};
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::{Scenario, WorkloadSource, WorkloadSpec, managed};
use tierwise_trace::generate::GeneratorSpec;

const RECIPES: [&str; 4] = ["flat", "flat-memstrata", "flat-memstrata-hotness", "flat-karma"];

/// A workload of a number of pages that never ends. A window of it takes half a second.
fn generated(name: &str, pattern: &str, pages: u64) -> WorkloadSpec {
    let spec = GeneratorSpec {
        footprint_pages: pages,
        accesses_per_window: 3_000,
        seed: 5,
        ..GeneratorSpec::default()
    };
    WorkloadSpec { dilation: 1_000, ..workload(name, pattern, spec) }
}

/// A workload that misses a hundredth as often. A window of it takes a second and a half.
fn calm(name: &str, pages: u64) -> WorkloadSpec {
    let spec = GeneratorSpec {
        footprint_pages: pages,
        accesses_per_window: 3_000,
        instructions_per_access: 10_000,
        seed: 5,
        ..GeneratorSpec::default()
    };
    WorkloadSpec { dilation: 100, ..workload(name, "zipf", spec) }
}

/// A workload that accesses its pages independently, so often in a window that all are accessed
/// nearly alike.
fn uniform(pages: u64) -> WorkloadSpec {
    let spec = GeneratorSpec {
        footprint_pages: pages,
        accesses_per_window: 200 * pages as u32,
        windows: Some(4),
        seed: 5,
        ..GeneratorSpec::default()
    };
    WorkloadSpec { dilation: 300, ..workload("uniform", "uniform", spec) }
}

/// Workloads on DRAM and CXL memory; the hardware-managed setting gives the sizes.
fn unmanaged(workloads: Vec<WorkloadSpec>) -> Scenario {
    scenario(machine(1, 1), workloads)
}

fn result(scenario: Scenario, recipe: &str, options: &RunOptions) -> PolicyResult {
    let prepared = Prepared::load(scenario).unwrap();
    run(&prepared, &Recipe::named(recipe).unwrap(), options, &mut |_| ()).unwrap().result
}

fn checked() -> RunOptions {
    RunOptions { seed: 3, check: true, ..RunOptions::default() }
}

/// Formula: all pages of a uniform workload share their places with another one: one half of the
/// misses.
#[test]
fn uniform_workload_misses_half_in_both_modes() {
    let uniform = unmanaged(vec![uniform(1000)]);
    let flat = managed::flat(&uniform, 0.0, Colouring::Isolated);
    let two_level = managed::two_level(&uniform);
    for (scenario, recipe) in [(flat, "flat"), (two_level, "2lm")] {
        let fast = result(scenario, recipe, &checked()).fast_access_ratio;
        assert!((fast - 0.5).abs() < 0.02, "{recipe}: {fast}");
    }
}

/// Formula: with a third dedicated, the other two thirds miss one half.
#[test]
fn mixed_mode_serves_two_thirds() {
    let uniform = unmanaged(vec![uniform(3000)]);
    let mixed = managed::flat(&uniform, 1.0 / 3.0, Colouring::Isolated);
    let fast = result(mixed, "flat", &checked()).fast_access_ratio;
    assert!((fast - 2.0 / 3.0).abs() < 0.02, "{fast}");
}

fn lasting(seconds: u64, workloads: Vec<WorkloadSpec>) -> Scenario {
    Scenario { duration: Some(Duration::from_secs(seconds)), ..unmanaged(workloads) }
}

#[test]
fn noisy_neighbour_hurts_only_shared_places() {
    let victim = || generated("victim", "zipf", 1000);
    let noise = || managed::noisy_neighbour(Bytes(1000 * common::PAGE));
    let fast_ratio = |workloads, colouring| {
        let scenario = managed::flat(&lasting(5, workloads), 0.0, colouring);
        result(scenario, "flat", &checked()).tenants[0].fast_access_ratio
    };
    let alone = fast_ratio(vec![victim()], Colouring::Isolated);
    let isolated = fast_ratio(vec![victim(), noise()], Colouring::Isolated);
    let conflicting = fast_ratio(vec![victim(), noise()], Colouring::Conflicting);
    // The conflicts among its own pages differ from memory to memory.
    assert!((isolated - alone).abs() < 0.05, "{isolated} {alone}");
    assert!(conflicting < isolated - 0.2, "{conflicting} {isolated}");
}

/// Mixed mode with a third dedicated: three calm workloads and one that misses all the time.
fn one_outlier() -> Scenario {
    let outlier = generated("outlier", "uniform", 600);
    let all = vec![calm("a", 600), calm("b", 600), calm("c", 600), outlier];
    managed::flat(&lasting(95, all), 1.0 / 3.0, Colouring::Isolated)
}

/// Base pages of the fourth workload in dedicated and managed memory, at the end of each interval
/// of ten seconds.
fn held(recipe: &str) -> Vec<[u64; 2]> {
    let prepared = Prepared::load(one_outlier()).unwrap();
    let timeline = Some(Duration::from_secs(10));
    let options = RunOptions { timeline, ..checked() };
    let output = run(&prepared, &Recipe::named(recipe).unwrap(), &options, &mut |_| ()).unwrap();
    let pages = |bytes: &Vec<u64>| [bytes[0] / common::PAGE, bytes[1] / common::PAGE];
    output.timeline.iter().map(|point| pages(&point.tenants[3].usage_bytes)).collect()
}

/// Computed by hand: a tenth of its 600 pages each ten seconds, in pairs, until none of its pages
/// is left in the managed tier.
#[test]
fn outlier_borrows_a_tenth_per_interval() {
    let held = held("flat-memstrata");
    assert!(held.iter().all(|[dedicated, managed]| dedicated + managed == 600), "{held:?}");
    let steps: Vec<u64> = held.windows(2).map(|w| w[1][0] - w[0][0]).collect();
    assert!(steps.iter().all(|&step| step <= 61), "{held:?}");
    assert!(steps[..5].iter().all(|&step| step >= 58), "{held:?}");
    assert!(held.last().unwrap()[1] <= 2, "{held:?}");
}

#[test]
fn lending_helps_outlier_at_little_cost() {
    let run = |recipe| result(one_outlier(), recipe, &checked());
    let (without, lent, credits) = (run("flat"), run("flat-memstrata"), run("flat-karma"));
    assert_eq!((without.tenants[3].promotions, without.tenants[3].demotions), (0, 0));
    for lent in [lent, credits] {
        let (before, after) = (&without.tenants[3], &lent.tenants[3]);
        assert!(after.fast_access_ratio > before.fast_access_ratio + 0.1, "{after:?}");
        assert!(after.slowdown < before.slowdown - 0.1, "{after:?}");
        let calm = lent.tenants[..3].iter().zip(&without.tenants);
        calm.for_each(|(after, before)| assert!(after.slowdown < before.slowdown + 0.02));
        let moved = |f: fn(&TenantResult) -> u64| lent.tenants.iter().map(f).sum::<u64>();
        // Each promotion has its demotion, except in the last group of a step.
        assert!(moved(|t| t.promotions).abs_diff(moved(|t| t.demotions)) <= 2, "{lent:?}");
    }
}

/// Six workloads, of which the last ones miss once in 600 instructions, with a number of misses in
/// flight each. None is among the programs from which the classifier learned.
fn six(outliers: usize, misses_in_flight: f64) -> Vec<WorkloadSpec> {
    let outlier = |i: usize| {
        let mut outlier = generated(&format!("outlier{i}"), "uniform", 600);
        if let WorkloadSource::Generator(_, spec) = &mut outlier.source {
            // As many as are slow with any number of misses in flight.
            spec.instructions_per_access = (600.0 / misses_in_flight) as u64;
        }
        outlier
    };
    let mut all: Vec<WorkloadSpec> =
        (0..6 - outliers).map(|i| calm(&format!("calm{i}"), 600)).collect();
    all.extend((0..outliers).map(outlier));
    all.iter_mut().for_each(|w| w.memory_level_parallelism = misses_in_flight);
    all
}

/// The greatest slowdown of the last workloads over the end of a run, as a share.
fn settled(outliers: usize, misses_in_flight: f64, dedicated: f64, recipe: &str) -> f64 {
    let (interval, end) = (Duration::from_secs(10), 8);
    let all = lasting(400, six(outliers, misses_in_flight));
    let mixed = managed::flat(&all, dedicated, Colouring::Isolated);
    let prepared = Prepared::load(mixed).unwrap();
    let options = RunOptions { timeline: Some(interval), ..checked() };
    let output = run(&prepared, &Recipe::named(recipe).unwrap(), &options, &mut |_| ()).unwrap();
    let late = &output.timeline[output.timeline.len() - end..];
    let alone = six(outliers, misses_in_flight).split_off(5);
    let alone = Scenario { machine: machine(2000, 2000), ..lasting(20, alone) };
    let fast = result(alone, "static", &checked()).tenants[0].throughput;
    let slowdown = |tenant: usize| {
        let mean = late.iter().map(|p| p.tenants[tenant].throughput).sum::<f64>() / end as f64;
        fast / mean - 1.0
    };
    (6 - outliers..6).map(slowdown).fold(f64::NEG_INFINITY, f64::max)
}

/// The threshold is 5 %: a tenant that is just within it lends again, until it is just beyond.
#[test]
fn lending_continues_until_outliers_are_fast() {
    for (outliers, dedicated) in [(1, 1.0 / 3.0), (2, 1.0 / 3.0), (4, 2.0 / 3.0)] {
        for misses_in_flight in [1.0, 1.5, 4.0, 6.0] {
            let without = settled(outliers, misses_in_flight, dedicated, "flat");
            let with = settled(outliers, misses_in_flight, dedicated, "flat-memstrata");
            let case = format!("{outliers} outliers, {misses_in_flight} in flight: {with:.3}");
            assert!(without > 0.07, "{case}: {without:.3} without lending");
            assert!(with < 0.055, "{case}");
        }
    }
}

/// Workloads that come and go beside an outlier.
fn coming_and_going() -> Scenario {
    let seconds = Duration::from_secs;
    let late = WorkloadSpec { start: seconds(22), ..calm("late", 400) };
    let early = WorkloadSpec { stop: Some(seconds(31)), ..calm("early", 500) };
    let all = vec![calm("stays", 600), early, late, generated("outlier", "uniform", 600)];
    managed::flat(&lasting(45, all), 1.0 / 3.0, Colouring::Isolated)
}

#[test]
fn recipes_keep_invariants_under_failing_moves() {
    let prepared = Prepared::load(coming_and_going()).unwrap();
    for name in RECIPES {
        let recipe = Recipe::named(name).unwrap();
        assert!(prepared.can_run(&recipe), "{name}");
        for busy_moves in [0.0, 0.3] {
            let injection = Injection { busy_moves, stale_reports: 0.0 };
            let options = RunOptions { injection, ..checked() };
            let once = run(&prepared, &recipe, &options, &mut |_| ()).unwrap();
            let again = run(&prepared, &recipe, &options, &mut |_| ()).unwrap();
            assert_eq!(once, again, "{name}");
            assert!(once.result.tenants.iter().all(|t| t.failure.is_none()), "{name}");
        }
    }
}

#[test]
fn hardware_recipes_need_their_hardware() {
    let one = || lasting(1, vec![generated("p", "zipf", 500)]);
    let ordinary = Prepared::load(Scenario { machine: machine(300, 3000), ..one() }).unwrap();
    let flat = Prepared::load(managed::flat(&one(), 0.0, Colouring::Isolated)).unwrap();
    let refusal = |prepared: &Prepared, recipe: &str| {
        let recipe = Recipe::named(recipe).unwrap();
        assert!(!prepared.can_run(&recipe));
        run(prepared, &recipe, &RunOptions::default(), &mut |_| ()).unwrap_err().to_string()
    };
    for name in RECIPES {
        let error = refusal(&ordinary, name);
        assert!(
            error.starts_with(&format!(
                "the policy \"{name}\" needs a memory tier in Flat Memory Mode, which this"
            )),
            "{error}"
        );
    }
    let error = refusal(&flat, "2lm");
    assert!(
        error.contains("needs a memory tier in 2LM (memory mode), which this machine"),
        "{error}"
    );
}

#[test]
fn unmodelled_workloads_are_refused() {
    let huge = WorkloadSpec { huge_pages: true, ..uniform(1024) };
    let scenario = managed::flat(&lasting(1, vec![huge]), 0.0, Colouring::Isolated);
    let prepared = Prepared::load(scenario).unwrap();
    let recipe = Recipe::named("flat").unwrap();
    let error = run(&prepared, &recipe, &RunOptions::default(), &mut |_| ()).unwrap_err();
    assert!(
        error.to_string().contains("simulated for workloads in base pages; remove huge_pages"),
        "{error}"
    );
}

#[test]
fn insufficient_colours_are_refused_before_running() {
    let mut scenario =
        managed::flat(&lasting(1, vec![generated("p", "zipf", 500)]), 0.0, Colouring::Isolated);
    // Enough pages in all, and too few of them with colours.
    scenario.sizes = vec![
        tierwise_sim::scenario::TierSize::ShareOfResident(0.001),
        tierwise_sim::scenario::TierSize::ShareOfResident(0.999),
    ];
    scenario.workloads.push(generated("q", "zipf", 501));
    let prepared = Prepared::load(scenario).unwrap();
    let recipe = Recipe::named("flat").unwrap();
    let error =
        run(&prepared, &recipe, &RunOptions::default(), &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("page colours and") && error.contains("are taken"), "{error}");
}

fn parse(hardware: &str) -> Result<Scenario, String> {
    let text = format!(
        "name = \"x\"\n\
         summary = \"x\"\n\
         duration_s = 1\n\
         [machine]\n\
         preset = \"dram-cxl\"\n\
         [machine.hardware]\n\
         {hardware}\n\
         [[workload]]\n\
         name = \"z\"\n\
         [workload.generator]\n\
         pattern = \"zipf\"\n\
         footprint = \"4MiB\"\n"
    );
    Scenario::parse("x.toml", &text, std::path::Path::new(".")).map_err(|e| e.to_string())
}

#[test]
fn scenario_configures_hardware_management() {
    let scenario =
        parse("mode = \"flat\"\nratio = 2\ndedicated_share = 0.25\ncolouring = \"conflicting\"")
            .unwrap();
    assert!(
        scenario.machine.capabilities().flat_memory && scenario.machine.capabilities().counters
    );
    assert!(parse("mode = \"2lm\"").unwrap().machine.capabilities().two_level);
    let error = |text| parse(text).unwrap_err();
    assert_eq!(
        error("ratio = 3"),
        "x.toml:7: machine.hardware.ratio: found a ratio of 1:3; allowed: 1 (1:1), 2 (1:2), 4 (1:4)"
    );
    assert!(
        error("mode = \"3lm\"").contains("machine.hardware.mode"),
        "{}",
        error("mode = \"3lm\"")
    );
    assert!(error("dedicated = 0.3").contains("unknown key"), "{}", error("dedicated = 0.3"));
}
