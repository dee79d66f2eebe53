//! MULTI-CLOCK (HPCA 2022), sections V-C to V-E, on stores that no scan covers in one period: the
//! pages that each scan promotes, how many of them are accessed again, and the scan interval.

use std::path::Path;

use tierwise_core::recipe::Recipe;
use tierwise_sim::result::RunOutput;

use super::runs;
use super::sheet::FigureSheet;
use crate::failure::Failure;

/// The paper's order, as in figure 5.
const STORES: [&str; 6] = ["store-a", "store-b", "store-c", "store-f", "store-w", "store-d"];

/// Seconds between two scans, the paper's one second among them.
const INTERVALS_MS: [u64; 6] = [100, 500, 1000, 5000, 20_000, 60_000];

/// Virtual seconds of a point of the timeline, as in the paper's figure 8.
const WINDOW_S: f64 = 20.0;

/// Base pages of a page of the stores.
const HUGE_PAGES: f64 = 512.0;

/// Every table.
pub fn sheets(directory: &Path, seed: u64) -> Result<Vec<FigureSheet>, Failure> {
    Ok(vec![promotions(directory, seed)?, intervals(directory, seed)?])
}

/// Pages promoted in each scan of a second, in windows of 20 s.
fn per_scan(output: &RunOutput) -> Vec<f64> {
    output.timeline.iter().map(|point| point.promotions as f64 / WINDOW_S).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Promotions after which the page was accessed again in fast memory, in per cent.
fn again(output: &RunOutput) -> String {
    let tenant = &output.result.tenants[0];
    match tenant.reaccessed {
        Some(again) if tenant.promotions > 0 => {
            format!("{:.1}", again as f64 / tenant.promotions as f64 * 100.0)
        }
        _ => "-".to_owned(),
    }
}

fn promotions(directory: &Path, seed: u64) -> Result<FigureSheet, Failure> {
    let recipes = runs::recipes(&["static", "multi-clock", "nimble", "autotiering-opm"])?;
    let names: Vec<&str> = STORES.iter().copied().chain(["base-pages"]).collect();
    let scenarios = names.iter().map(|name| runs::scenario(directory, name));
    let scenarios = scenarios.collect::<Result<Vec<_>, _>>()?;
    let outputs = runs::all(&scenarios, &recipes, seed)?;
    let paper = "figure 8 and sections II-A, III-A and V-C.1: Nimble promotes a fixed number in \
                 each scan, MULTI-CLOCK fewer and those that are accessed again; MULTI-CLOCK is 20 \
                 to 132 % above static and 9 to 36 % above Nimble";
    let head = [
        "store",
        "policy",
        "promoted in a scan",
        "in windows of 20 s",
        "accessed again %",
        "throughput, of static",
        "verdict",
    ];
    let mut sheet = FigureSheet::new("Figure 8: promotions in each scan", paper, &head);
    for (name, outputs) in names.iter().zip(&outputs) {
        let [fixed, ours, nimble, _] = &outputs[..] else { continue };
        for output in &outputs[1..] {
            let scans = per_scan(output);
            let every = scans.len().div_ceil(6).max(1);
            let windows: Vec<_> = scans.iter().step_by(every).map(|n| format!("{n:.0}")).collect();
            sheet.rows.push(vec![
                (*name).to_owned(),
                output.result.policy.clone(),
                format!("{:.1}", mean(&scans)),
                windows.join(" "),
                again(output),
                format!("{:.3}", output.result.throughput / fixed.result.throughput),
                if output.result.policy == "multi-clock" {
                    verdict(ours, nimble)
                } else {
                    "-".to_owned()
                },
            ]);
        }
    }
    Ok(sheet)
}

/// The paper's order of both: fewer promotions, a larger part of them accessed again, and more
/// throughput.
fn verdict(ours: &RunOutput, nimble: &RunOutput) -> String {
    let part = |o: &RunOutput| {
        let tenant = &o.result.tenants[0];
        tenant.reaccessed.unwrap_or(0) as f64 / tenant.promotions.max(1) as f64
    };
    let checks = [
        ("fewer promotions", ours.result.promotions < nimble.result.promotions),
        ("more of them accessed again", part(ours) >= part(nimble)),
        ("more throughput", ours.result.throughput > nimble.result.throughput),
    ];
    let failed: Vec<_> = checks.iter().filter(|(_, holds)| !holds).map(|(what, _)| *what).collect();
    if failed.is_empty() { "agrees".to_owned() } else { format!("not {}", failed.join(", not ")) }
}

/// MULTI-CLOCK's throughput by the interval between its scans, on one CPU and with idle ones.
fn intervals(directory: &Path, seed: u64) -> Result<FigureSheet, Failure> {
    let shipped = Recipe::named("multi-clock")?;
    let at = |ms: u64| {
        let text = shipped.text().replace("interval_ms = 1000 ", &format!("interval_ms = {ms} "));
        let name = format!("{ms} ms");
        let text = text.replace("name = \"multi-clock\"", &format!("name = \"{name}\""));
        Recipe::parse(&name, &text)
    };
    let mut recipes = vec![Recipe::named("static")?];
    for ms in INTERVALS_MS {
        recipes.push(at(ms)?);
    }
    let mut scenarios = Vec::new();
    for name in ["store-a", "store-d"] {
        let busy = runs::scenario(directory, name)?;
        let mut idle = busy.clone();
        idle.machine.cpus = None;
        scenarios.extend([busy, idle]);
    }
    let outputs = runs::all(&scenarios, &recipes, seed)?;
    let paper = "section V-E: one second is the best of several intervals; more frequent scans \
                 cost context switches (section III-B)";
    let head = [
        "store",
        "CPUs",
        "scan interval",
        "GB promoted",
        "accessed again %",
        "kernel, cores",
        "throughput, of static",
    ];
    let mut sheet = FigureSheet::new("Section V-E: scan interval", paper, &head);
    for (i, outputs) in outputs.iter().enumerate() {
        let fixed = outputs[0].result.throughput;
        for output in &outputs[1..] {
            let end = output.timeline.last().map_or(1.0, |point| point.time_seconds);
            let promoted = output.result.promotions as f64 * HUGE_PAGES * 4096e-9;
            sheet.rows.push(vec![
                scenarios[i].name.clone(),
                if i % 2 == 0 { "one" } else { "idle ones" }.to_owned(),
                output.result.policy.clone(),
                format!("{promoted:.1}"),
                again(output),
                format!("{:.3}", output.result.overhead_seconds / end),
                format!("{:.3}", output.result.throughput / fixed),
            ]);
        }
    }
    Ok(sheet)
}
