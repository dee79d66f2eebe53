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

/// The scan starts at 30 s and ends at 90. It uses each page for a moment and then not before its
/// next round, so that little memory serves it, if its pages are fast at once. The store has the
/// rest.
#[test]
fn scan_and_neighbour_are_both_served() {
    let slowdowns = |policy: &str| -> Vec<f64> {
        outcome("two-tenants", policy).result.tenants.iter().map(|t| t.slowdown).collect()
    };
    let (ours, untouched) = (slowdowns("tierwise"), slowdowns("static"));
    assert!(ours[0] < 0.9 * untouched[0], "the store: {ours:?} against {untouched:?}");
    assert!(ours[1] < 0.7 * untouched[1], "the scan: {ours:?} against {untouched:?}");
}

/// A tier between the fastest and the slowest is not left as it was first touched.
#[test]
fn three_tiers_are_all_used() {
    let slowdown = |policy| outcome("three-tiers", policy).result.slowdown;
    let (ours, untouched) = (slowdown("tierwise"), slowdown("static"));
    assert!(ours < 0.75 * untouched, "{ours} against {untouched}");
}
