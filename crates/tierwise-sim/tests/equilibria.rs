//! The five validations of Equilibria's section V-B, on scenarios/equilibria, with the shipped
//! recipe.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its scenario has failed")]

use std::path::Path;
use std::time::Duration;

use tierwise_core::recipe::Recipe;
use tierwise_sim::result::RunOutput;
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::Scenario;

fn scenario(name: &str) -> Scenario {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/equilibria");
    let file = directory.join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&file).unwrap();
    Scenario::parse(&file.display().to_string(), &text, &directory).unwrap()
}

fn outcome(name: &str, recipe: &Recipe) -> RunOutput {
    let timeline = Some(Duration::from_secs(1));
    // The checkers count all pages after every step; the scenario "thrashing" has many pages and
    // many steps.
    let check = name != "thrashing";
    let options = RunOptions { check, timeline, ..RunOptions::default() };
    run(&Prepared::load(scenario(name)).unwrap(), recipe, &options, &mut |_| ()).unwrap()
}

fn equilibria(name: &str) -> RunOutput {
    outcome(name, &Recipe::named("equilibria").unwrap())
}

/// GB in fast memory at the end, by tenant.
fn fast(output: &RunOutput) -> Vec<f64> {
    output.result.tenants.iter().map(|t| t.usage_bytes["DRAM"] as f64 * 1e-9).collect()
}

/// Compares within four gigabytes: the memory that kswapd's watermarks keep free on a machine of
/// 408 GB, and the change of one scan.
fn assert_near(output: &RunOutput, expected: [f64; 3]) {
    for (found, expected) in fast(output).into_iter().zip(expected) {
        assert!((found - expected).abs() <= 4.0, "{found} GB in fast memory, expected {expected}");
    }
}

#[test]
fn local_memory_is_preferred() {
    let output = equilibria("local-preferred");
    assert_near(&output, [120.0, 40.0, 40.0]);
    assert_eq!(output.result.demotions, 0);
    assert!(output.result.tenants.iter().all(|t| t.fast_access_ratio == 1.0));
}

#[test]
fn lower_protection_is_enforced() {
    let output = equilibria("lower-protection");
    assert_near(&output, [80.0, 80.0, 80.0]);
    let demotions: Vec<u64> = output.result.tenants.iter().map(|t| t.demotions).collect();
    assert!(demotions[0] > demotions[1] && demotions[0] > demotions[2], "{demotions:?}");
}

#[test]
fn unused_protection_is_donated() {
    let output = equilibria("donation");
    assert_near(&output, [100.0, 70.0, 70.0]);
    assert_eq!([output.result.tenants[1].demotions, output.result.tenants[2].demotions], [0, 0]);
}

#[test]
fn the_upper_bound_is_enforced() {
    let output = equilibria("upper-bound");
    assert_near(&output, [80.0, 40.0, 40.0]);
    let limit = output.timeline.iter().map(|p| p.tenants[0].usage_bytes[0]).max();
    assert!(limit <= Some(80_000_000_000), "{limit:?} bytes at one time");
}

/// At the paper's size and rate: 100 GB behind a cap of 10 GB, over 100,000 promotions per second.
#[test]
fn thrash_control_mitigates_thrashing() {
    let recipe = Recipe::named("equilibria").unwrap();
    let control = "algorithm = \"equilibria\"";
    // Without thrash control its keys are refused.
    let keeps = |line: &&str| !line.starts_with("thrash_");
    let text = recipe.text().lines().filter(keeps).collect::<Vec<_>>().join("\n");
    let text = text.replace(control, &format!("{control}\nthrash_control = false"));
    let off = outcome("thrashing", &Recipe::parse("off.toml", &text).unwrap());
    let on = outcome("thrashing", &recipe);
    // Base pages promoted per second in the second minute.
    let rate = |o: &RunOutput| {
        let late: Vec<_> = o.timeline.iter().filter(|p| p.time_seconds > 60.0).collect();
        late.iter().map(|p| p.promotions * 1024).sum::<u64>() / late.len() as u64
    };
    assert!(rate(&off) > 100_000, "{} promotions per second without control", rate(&off));
    assert!(rate(&on) * 10 < rate(&off), "{} promotions per second, {}", rate(&on), rate(&off));
    for tenant in 1..3 {
        let (on, off) = (&on.result.tenants[tenant], &off.result.tenants[tenant]);
        assert!(on.throughput > off.throughput, "{}: {on:?} {off:?}", on.name);
    }
}
