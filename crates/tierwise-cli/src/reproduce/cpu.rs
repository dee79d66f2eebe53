//! The CPU time of policies: Memstrata, section 6.1, and MTAT, section 5.5.

use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tierwise_core::recipe::Recipe;
use tierwise_sim::run::{RunOptions, decision_cost};
use tierwise_sim::scenario::{Scenario, managed};

use super::claims::{Here, cpu as claims};
use super::measurements::{LazyScenario, Measurements};
use super::part::{Findings, PaperPart};
use super::runs;
use super::sheet::FigureSheet;
use crate::failure::Failure;

/// Memstrata's part, on the mix of its figure 16.
pub fn memstrata(mixes: &Path) -> PaperPart<'_> {
    PaperPart {
        name: "memstrata-cpu",
        claims: claims::MEMSTRATA,
        jobs: 1,
        measure: Box::new(|m| {
            let mix = managed::overlapped(runs::scenario(mixes, "data-heavy")?);
            found(m, mix, "flat-memstrata", "section 6.1: at most 4 % of a core")
        }),
    }
}

/// MTAT's part, on Redis as in the paper.
pub fn mtat(scenarios: &Path) -> PaperPart<'_> {
    PaperPart {
        name: "mtat-cpu",
        claims: claims::MTAT,
        jobs: 1,
        measure: Box::new(|m| {
            let redis = runs::scenario(scenarios, "redis")?;
            found(m, redis, "mtat", "section 5.5: inference and sampling, below 7 % of a core")
        }),
    }
}

/// What was measured of a run.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Measured {
    cpu_s: f64,
    samples: u64,
    plans: u64,
    passed_s: f64,
}

fn found(
    m: &Measurements,
    scenario: Scenario,
    policy: &str,
    paper: &'static str,
) -> Result<Findings, Failure> {
    let read_ns = scenario.costs.sample_read_ns;
    let measured = measure(m, scenario, policy)?;
    let of_a_core = |seconds: f64| 100.0 * seconds / measured.passed_s.max(f64::MIN_POSITIVE);
    let (deciding, reading) =
        (of_a_core(measured.cpu_s), of_a_core(measured.samples as f64 * read_ns * 1e-9));
    let head = ["policy", "seconds", "plans", "deciding, % of a core", "samples, % of a core"];
    let title = format!("CPU of {policy} (deciding: measured on this machine; samples: modelled)");
    let mut sheet = FigureSheet::new(&title, paper, &head);
    sheet.rows.push(vec![
        policy.to_owned(),
        format!("{:.0}", measured.passed_s),
        measured.plans.to_string(),
        format!("{deciding:.3}"),
        format!("{reading:.3}"),
    ]);
    Ok(Findings::sheet(sheet, vec![Here::number(deciding + reading)]))
}

fn measure(m: &Measurements, scenario: Scenario, policy: &str) -> Result<Measured, Failure> {
    let recipe = Recipe::named(policy)?;
    let setting = LazyScenario::new(scenario);
    let inputs =
        [m.keys().scenario(setting.scenario()), m.keys().recipe(&recipe), m.seed.to_string()];
    let inputs = inputs.each_ref().map(String::as_str);
    m.job(&setting.scenario().name, policy, |job| {
        m.once("decision cost", &inputs, || {
            let options = RunOptions { seed: m.seed, ..RunOptions::default() };
            let cost = decision_cost(
                &*setting.prepared()?,
                &recipe,
                &options,
                &thread_time,
                &mut |share| job.reached(share),
            )?;
            Ok(Measured {
                cpu_s: cost.cpu.as_secs_f64(),
                samples: cost.samples,
                plans: cost.plans,
                passed_s: cost.passed.as_secs_f64(),
            })
        })
    })
}

/// The CPU time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
