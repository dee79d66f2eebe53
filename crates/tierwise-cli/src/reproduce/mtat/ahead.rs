//! What `tierwise` gives the best-effort programs under a load that it sustains.

use tierwise_sim::result::RunOutput;
use tierwise_sim::scenario::Scenario;

use super::super::measurements::Measurements;
use super::super::part::Findings;
use super::super::runs;
use super::super::sheet::FigureSheet;
use super::outputs::{fairness, of_policy, over_slo, throughput};
use super::percent;
use crate::failure::Failure;

/// The recipe, and what it is held against.
pub(super) const COMPARED: [&str; 4] = ["memtis", "mtat-lc-only", "mtat", "tierwise"];

/// The published share of FMEM_ALL's maximum load that MTAT sustains (section 5.2).
const SUSTAINED: f64 = 0.99;

/// Measures the ramp to a share of the load that FMEM_ALL sustains, which is given with each
/// scenario.
pub(super) fn measure(m: &Measurements, full: &[(Scenario, f64)]) -> Result<Findings, Failure> {
    let scenarios: Vec<Scenario> =
        full.iter().map(|(scenario, _)| runs::with_load(scenario, SUSTAINED)).collect();
    let ramp = runs::all(m, &scenarios, &runs::recipes(&COMPARED)?)?;
    let paper = "MTAT sustains more than 99 % of FMEM_ALL's load (section 5.2); its throughput is \
                 18 % below MEMTIS's (section 5.1)";
    let head = ["service", "policy", "P99 over SLO", "smallest NP", "throughput over MEMTIS"];
    let mut sheet = FigureSheet::new(
        &format!("The ramp to {} of FMEM_ALL's load", percent(SUSTAINED)),
        paper,
        &head,
    );
    for (scenario, outputs) in scenarios.iter().zip(&ramp) {
        sheet.rows.extend(outputs.iter().map(|output| row(scenario, outputs, output)));
    }
    Ok(Findings::sheet(sheet, Vec::new()))
}

fn row(scenario: &Scenario, outputs: &[RunOutput], output: &RunOutput) -> Vec<String> {
    let memtis = of_policy(outputs, "memtis").unwrap_or(output);
    let service = scenario.workloads.first().map_or("", |workload| &workload.name);
    vec![
        service.to_owned(),
        output.result.policy.clone(),
        format!("{:.2}", over_slo(output, 0)),
        format!("{:.3}", fairness(output)),
        format!("{:.3}", throughput(output) / throughput(memtis)),
    ]
}
