//! MULTI-CLOCK (HPCA 2022), sections V-C to V-E, on stores that no scan covers in one period: the
//! pages that each scan promotes, how many of them are accessed again, and the scan interval.

use std::path::Path;

use tierwise_core::recipe::Recipe;
use tierwise_sim::result::RunOutput;

use super::claims::{Here, multi_clock as claims};
use super::measurements::Measurements;
use super::part::{Findings, PaperPart};
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

/// The policies of figure 8; static is the measure.
const POLICIES: [&str; 4] = ["static", "multi-clock", "nimble", "autotiering-opm"];

/// Nimble's place in [`POLICIES`].
const NIMBLE: usize = 2;

/// Nimble with 1,024 pages of the stores in an exchange. The paper's 1,024 are base pages, as are
/// those of MULTI-CLOCK's scan, and the scan counts pages of 2 MiB here.
fn nimble_in_huge_pages() -> Result<Recipe, Failure> {
    let shipped = Recipe::named(POLICIES[NIMBLE])?;
    let pages = 1024 * HUGE_PAGES as u64;
    let text = shipped.text().replace("\npages = 1024 ", &format!("\npages = {pages} "));
    Ok(Recipe::parse(POLICIES[NIMBLE], &text)?)
}

/// The parts of these sections.
pub fn parts(directory: &Path) -> [PaperPart<'_>; 2] {
    [
        PaperPart {
            name: "multi-clock-8",
            claims: claims::PROMOTIONS,
            // One store more, in base pages.
            jobs: (STORES.len() + 1) * POLICIES.len(),
            measure: Box::new(|m| promotions(directory, m)),
        },
        PaperPart {
            name: "multi-clock-interval",
            claims: claims::INTERVALS,
            // Two stores on two machines, with static beside each interval.
            jobs: 4 * (INTERVALS_MS.len() + 1),
            measure: Box::new(|m| intervals(directory, m)),
        },
    ]
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

fn promotions(directory: &Path, m: &Measurements) -> Result<Findings, Failure> {
    let mut recipes = runs::recipes(&POLICIES)?;
    let names: Vec<&str> = STORES.iter().copied().chain(["base-pages"]).collect();
    let scenarios = names.iter().map(|name| runs::scenario(directory, name));
    let scenarios = scenarios.collect::<Result<Vec<_>, _>>()?;
    let (stores, base) = scenarios.split_at(STORES.len());
    let in_base_pages = runs::all(m, base, &recipes)?;
    recipes[NIMBLE] = nimble_in_huge_pages()?;
    let outputs = [runs::all(m, stores, &recipes)?, in_base_pages].concat();
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
    Ok(Findings::sheet(sheet, selective(&outputs)))
}

/// What was found of [`claims::PROMOTIONS`].
fn selective(outputs: &[Vec<RunOutput>]) -> Vec<Here> {
    // In base pages a scan covers the store; the paper's do not.
    let stores = || outputs.iter().take(STORES.len());
    let holds = |of: &dyn Fn(&RunOutput, &RunOutput) -> bool| {
        let held = stores().filter(|o| of(&o[1], &o[2])).count();
        Here::Holds(held == STORES.len(), format!("on {held} of {}", STORES.len()))
    };
    let gains = |than: usize| {
        let gain = |o: &Vec<RunOutput>| o[1].result.throughput / o[than].result.throughput - 1.0;
        Here::numbers(stores().map(|o| 100.0 * gain(o)).collect(), "no store was measured")
    };
    vec![
        holds(&|ours, nimble| ours.result.promotions < nimble.result.promotions),
        holds(&|ours, nimble| accessed_again(ours) >= accessed_again(nimble)),
        gains(0),
        gains(2),
    ]
}

/// The part of a run's promotions after which the page was accessed again.
fn accessed_again(output: &RunOutput) -> f64 {
    let tenant = &output.result.tenants[0];
    tenant.reaccessed.unwrap_or(0) as f64 / tenant.promotions.max(1) as f64
}

/// The paper's order of both: fewer promotions, a larger part of them accessed again, and more
/// throughput.
fn verdict(ours: &RunOutput, nimble: &RunOutput) -> String {
    let checks = [
        ("fewer promotions", ours.result.promotions < nimble.result.promotions),
        ("more of them accessed again", accessed_again(ours) >= accessed_again(nimble)),
        ("more throughput", ours.result.throughput > nimble.result.throughput),
    ];
    let failed: Vec<_> = checks.iter().filter(|(_, holds)| !holds).map(|(what, _)| *what).collect();
    if failed.is_empty() { "agrees".to_owned() } else { format!("not {}", failed.join(", not ")) }
}

/// MULTI-CLOCK's throughput by the interval between its scans, on one CPU and with idle ones.
fn intervals(directory: &Path, m: &Measurements) -> Result<Findings, Failure> {
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
    let outputs = runs::all(m, &scenarios, &recipes)?;
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
    let busy = [&outputs[0], &outputs[2]].map(|outputs| best_interval(outputs));
    let here = vec![
        Here::Numbers(busy.map(|best| INTERVALS_MS[best] as f64 / 1000.0).to_vec()),
        Here::Holds(
            busy.iter().all(|&best| best > 0),
            format!("best: {}", busy.map(|best| format!("{} ms", INTERVALS_MS[best])).join(", ")),
        ),
    ];
    Ok(Findings::sheet(sheet, here))
}

/// The place of the interval with the most throughput, behind static's run.
fn best_interval(outputs: &[RunOutput]) -> usize {
    let throughput = |&i: &usize| outputs[i + 1].result.throughput;
    let all = 0..INTERVALS_MS.len();
    all.max_by(|a, b| throughput(a).total_cmp(&throughput(b))).unwrap_or(0)
}
