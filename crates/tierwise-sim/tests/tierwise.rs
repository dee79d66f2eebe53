//! Properties of the recipe `tierwise`, on shipped scenarios.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its scenario has failed")]

use std::path::Path;
use std::time::Duration;

use tierwise_core::recipe::Recipe;
use tierwise_sim::result::RunOutput;
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::Scenario;

fn outcome(name: &str, policy: &str) -> RunOutput {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let file = directory.join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&file).unwrap();
    let scenario = Scenario::parse(&file.display().to_string(), &text, &directory).unwrap();
    let timeline = Some(Duration::from_secs(1));
    let options = RunOptions { timeline, ..RunOptions::default() };
    let recipe = Recipe::named(policy).unwrap();
    run(&Prepared::load(scenario).unwrap(), &recipe, &options, &mut |_| ()).unwrap()
}

/// The scan starts at 30 s and ends at 90. Its pages are sampled as it passes, and are not accessed
/// again before its next round. After a few seconds its neighbour has its memory back.
#[test]
fn scan_discards_what_it_cannot_use() {
    let output = outcome("two-tenants", "tierwise");
    let late: Vec<f64> = output
        .timeline
        .iter()
        .filter(|point| (45.0..90.0).contains(&point.time_seconds))
        .map(|point| {
            let fast = |i: usize| point.tenants[i].usage_bytes[0] as f64;
            fast(0) / (fast(0) + fast(1))
        })
        .collect();
    let mean = late.iter().sum::<f64>() / late.len() as f64;
    assert!(mean > 0.85, "the store has {mean} of the fast memory");
}

/// A tier between the fastest and the slowest is not left as it was first touched.
#[test]
fn three_tiers_are_all_used() {
    let slowdown = |policy| outcome("three-tiers", policy).result.slowdown;
    let (ours, untouched) = (slowdown("tierwise"), slowdown("static"));
    assert!(ours < 0.75 * untouched, "{ours} against {untouched}");
}
