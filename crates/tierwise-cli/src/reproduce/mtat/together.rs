//! Several services at once: the paper measures one beside the programs, its agent is for one
//! service, and a host has several.

use std::iter;

use rayon::prelude::*;
use tierwise_sim::scenario::{Scenario, WorkloadSource};

use super::super::measurements::Measurements;
use super::super::part::Findings;
use super::super::runs;
use super::super::sheet::FigureSheet;
use super::max_load::search;
use super::outputs::{fairness, of_policy, over_slo, throughput};
use super::{COARSE, FINE, FMEM_ALL, NEAR, percent};
use crate::failure::Failure;

/// Policies: those of table 3, and memory without tiering.
const COMPARED: [&str; 5] = [FMEM_ALL, "memtis", "mtat-lc-only", "mtat", "tierwise"];

/// The search of FMEM_ALL's load, the searches of the others, and the ramp.
pub(super) const JOBS: usize = 2 * COMPARED.len();

/// Measures the services of a scenario under the ramp to the load that all of them sustain with
/// their memory fast.
pub(super) fn measure(m: &Measurements, scenario: &Scenario) -> Result<Findings, Failure> {
    let recipes = runs::recipes(&COMPARED)?;
    let share = search(m, scenario, &recipes[0], &[], FINE)?;
    let sustained = runs::with_load(scenario, share);
    let load = |recipe| search(m, &sustained, recipe, &NEAR, COARSE);
    let loads: Vec<f64> = recipes[1..].par_iter().map(load).collect::<Result<_, Failure>>()?;
    let outputs = runs::all(m, &[sustained], &recipes)?.remove(0);
    let services: Vec<(usize, &str)> = scenario
        .workloads
        .iter()
        .enumerate()
        .filter(|(_, workload)| matches!(workload.source, WorkloadSource::Service(_)))
        .map(|(place, workload)| (place, workload.name.as_str()))
        .collect();
    let mut head = vec!["policy".to_owned(), "maximum load".to_owned()];
    head.extend(services.iter().map(|(_, name)| format!("P99 over SLO, {name}")));
    head.extend(["NP over MEMTIS", "throughput over MEMTIS"].map(str::to_owned));
    let paper = "one service at a time";
    let mut sheet = FigureSheet::new(
        "Two services, each with half of its records, under the ramp to FMEM_ALL's load",
        paper,
        &[],
    );
    sheet.head = head;
    let loads = iter::once(1.0).chain(loads);
    for (output, load) in outputs.iter().zip(loads) {
        let mut row = vec![output.result.policy.clone(), percent(load)];
        row.extend(services.iter().map(|&(place, _)| format!("{:.2}", over_slo(output, place))));
        let memtis = of_policy(&outputs, "memtis").unwrap_or(output);
        row.push(format!("{:.3}", fairness(output) / fairness(memtis)));
        row.push(format!("{:.3}", throughput(output) / throughput(memtis)));
        sheet.rows.push(row);
    }
    Ok(Findings::sheet(sheet, Vec::new()))
}
