//! Machines with a limited number of CPUs, measured watermarks, and policies that start late.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{PAGE, machine, scenario, workload};
use tierwise_core::recipe::Recipe;
use tierwise_core::topology::Watermarks;
use tierwise_core::units::{Bytes, Pages};
use tierwise_sim::machine::Machine;
use tierwise_sim::result::{PolicyResult, RunOutput};
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::WorkloadSpec;
use tierwise_trace::generate::GeneratorSpec;

const FAST: u64 = 600;
const RESIDENT: u64 = 2000;

fn output(machine: Machine, policy: &str, options: &RunOptions) -> RunOutput {
    let spec =
        GeneratorSpec { footprint_pages: RESIDENT, windows: Some(40), ..GeneratorSpec::default() };
    // Long enough for several scans of multi-clock, which come once a second.
    let one = WorkloadSpec { dilation: 20, ..workload("one", "zipf", spec) };
    let prepared = Prepared::load(scenario(machine, vec![one])).unwrap();
    run(&prepared, &Recipe::named(policy).unwrap(), options, &mut |_| ()).unwrap()
}

fn result(cpus: Option<u32>, policy: &str) -> PolicyResult {
    let machine = Machine { cpus, ..machine(FAST, 2 * RESIDENT) };
    output(machine, policy, &RunOptions::default()).result
}

#[test]
fn one_cpu_pays_for_background_work() {
    let (one, two, many) = (
        result(Some(1), "multi-clock"),
        result(Some(2), "multi-clock"),
        result(None, "multi-clock"),
    );
    assert_eq!(two, many, "a second CPU does the work beside the program");
    let [one, two] = [&one, &two].map(|result| {
        let tenant = &result.tenants[0];
        (tenant.seconds, result.overhead_seconds - tenant.overhead_seconds)
    });
    assert!(two.1 > 0.0, "it moves pages in the background");
    assert!(one.0 > two.0 + one.1 / 2.0, "{one:?} {two:?}");
}

#[test]
fn nothing_moves_without_background_work() {
    assert_eq!(result(Some(1), "static"), result(None, "static"));
}

#[test]
fn measured_watermarks_replace_derived_ones() {
    let marks = [40, 50, 60, 70].map(|pages: u64| Bytes(pages * PAGE));
    let mut machine = machine(FAST, 2 * RESIDENT);
    machine.tiers[0].watermarks = Some(marks);
    let [min, low, high, promo] = [40, 50, 60, 70].map(Pages);
    assert_eq!(machine.topology().tiers[0].watermarks, Watermarks { min, low, high, promo });
    // First touch leaves the low watermark.
    let result = output(machine, "static", &RunOptions::default()).result;
    assert_eq!(result.tenants[0].usage_bytes["DRAM"], (FAST - 50) * PAGE);
}

#[test]
fn policy_waits_for_the_measured_part() {
    let late = RunOptions { policy_at_mark: true, ..RunOptions::default() };
    let [early, late] = [RunOptions::default(), late]
        .map(|options| output(machine(FAST, 2 * RESIDENT), "multi-clock", &options).result);
    assert!(late.promotions > 0);
    // What was scanned and moved while the memory was filled is missing.
    assert!(late.overhead_seconds <= early.overhead_seconds);
    let still = RunOptions { policy_at_mark: true, ..RunOptions::default() };
    let still = output(machine(FAST, 2 * RESIDENT), "static", &still).result;
    let plain = output(machine(FAST, 2 * RESIDENT), "static", &RunOptions::default()).result;
    assert_eq!(still, plain, "first touch does not depend on it");
}
