//! MTAT (Middleware 2025), figures 1, 2, 5, 6, 8 and 9, on scenarios/mtat.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rayon::prelude::*;
use tierwise_core::recipe::Recipe;
use tierwise_core::units::Bytes;
use tierwise_sim::requests::arrival::Arrivals;
use tierwise_sim::requests::knee::Placed;
use tierwise_sim::requests::presets::{FAST_NS, PRESETS, SLOW_NS, ServicePreset};
use tierwise_sim::requests::tier::TierCosts;
use tierwise_sim::result::RunOutput;
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::{Scenario, WorkloadSource};
use tierwise_sim::windows::{LoadedTrace, Shape};
use tierwise_trace::reader::TraceReader;

use super::runs::{self, best_effort, fast_gb};
use super::sheet::{FigureSheet, publish};
use crate::failure::{CommandResult, Failure};
use crate::progress::RunProgress;
use crate::run_args::PaperArgs;

/// MTAT (Middleware 2025): figure 1 (load over fast memory), 2 (Redis under MEMTIS), 5 and 6 (the
/// load of figure 7), 8 (maximum load) and 9 (steady loads).
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise reproduce mtat --services redis")]
pub struct MtatCommand {
    /// Directory of the scenarios.
    #[arg(long, default_value = "scenarios/mtat", value_name = "DIR")]
    scenarios: PathBuf,
    /// Directory of the recorded programs.
    #[arg(long, default_value = "traces", value_name = "DIR")]
    traces: PathBuf,
    /// The services, of redis, memcached, mongodb and silo.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "redis,memcached,mongodb,silo",
        value_name = "NAMES"
    )]
    services: Vec<String>,
    #[command(flatten)]
    paper: PaperArgs,
}

/// The paper's FMEM_ALL is the service alone in the fast tier, with the others in slow memory
/// (section 5.1): first touch with the service first. Our bound `fmem-all` has every tenant's
/// memory fast.
const FMEM_ALL: &str = "static";

const POLICIES: [&str; 7] =
    [FMEM_ALL, "smem-all", "tpp", "memtis", "mtat-lc-only", "mtat", "tierwise"];

/// Resolution of the search for FMEM_ALL's load, as a share of the published maximum.
const FINE: f64 = 0.005;

/// Resolution of the search for the others' loads, as a share of FMEM_ALL's, below [`NEAR`] of it:
/// the paper's bars have no finer resolution.
const COARSE: f64 = 0.02;

/// The paper's claim for MTAT, and all of FMEM_ALL's load: tried first.
const NEAR: [f64; 2] = [1.0, 0.99];

impl MtatCommand {
    pub fn execute(&self) -> CommandResult {
        for name in &self.services {
            if ServicePreset::named(name).is_none() {
                let known: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
                let problem = format!("--services: found {name:?}; allowed: {}", known.join(", "));
                return Err(Failure::User(problem));
            }
        }
        let scenarios = self
            .services
            .iter()
            .map(|name| runs::scenario(&self.scenarios, name))
            .collect::<Result<Vec<_>, _>>()?;
        let recipes = runs::recipes(&POLICIES)?;
        let figure_1 = self.figure_1()?;
        let (scenarios, figure_8) = self.figure_8(&scenarios, &recipes)?;
        let ramp = runs::all(&scenarios, &recipes, self.paper.seed)?;
        let sheets = [
            figure_1,
            self.figure_2(&scenarios[0])?,
            self.figure_5(&ramp),
            self.figure_6(&ramp),
            figure_8,
            self.figure_9(&scenarios[0], &recipes)?,
        ];
        publish("mtat", &self.paper, &sheets)
    }

    fn figure_1(&self) -> Result<FigureSheet, Failure> {
        let paper = "the knee lies at the maximum load of table 1 with everything fast, and \
                     throughput falls monotonically with less fast memory";
        let head = ["service", "published", "100 % fast", "75 %", "50 %", "25 %", "0 %"];
        let mut sheet =
            FigureSheet::new("Figure 1: maximum load (KRPS) over fast memory", paper, &head);
        let row = |name: &String| self.knees(ServicePreset::named(name).unwrap_or(&PRESETS[0]));
        sheet.rows = self.services.par_iter().map(row).collect::<Result<_, Failure>>()?;
        Ok(sheet)
    }

    fn knees(&self, preset: &ServicePreset) -> Result<Vec<String>, Failure> {
        let wrong = |e: &dyn std::fmt::Display| Failure::User(format!("{}: {e}", preset.name));
        let windows = match preset.trace() {
            None => Vec::new(),
            Some(trace) => {
                let file = self.traces.join(format!("{trace}.twt"));
                let mut reader = TraceReader::open(&file).map_err(|e| wrong(&e))?;
                LoadedTrace::read(&mut reader, None, Shape::default())
                    .map_err(|e| wrong(&e))?
                    .windows
            }
        };
        let mix = preset.mix(preset.units(Bytes(1 << 20)), &windows).map_err(|e| wrong(&e))?;
        let latency = [FAST_NS, SLOW_NS];
        let costs = TierCosts { load_ns: &latency, store_ns: &latency };
        let mut row = vec![preset.name.to_owned(), krps(preset.max_per_second)];
        for quarters in (0..=4).rev() {
            let tier_of = mix.hottest_fast(mix.units * quarters / 4);
            // A second holds 11,000 requests of the slowest, a million of the fastest; ten show a
            // queue that grows.
            let (time, seed) = (Duration::from_secs(10), self.paper.seed);
            let placed = Placed { preset, mix: &mix, costs, tier_of: &tier_of, time, seed };
            row.push(krps(placed.max_load().map_err(|e| wrong(&e))?));
        }
        Ok(row)
    }

    /// Redis and SSSP alone, under MEMTIS.
    fn figure_2(&self, scenario: &Scenario) -> Result<FigureSheet, Failure> {
        let mut pair = scenario.clone();
        pair.workloads.truncate(2);
        let output = &runs::all(&[pair], &runs::recipes(&["memtis"])?, self.paper.seed)?[0][0];
        let paper = "under MEMTIS, Redis keeps less than 10 % of its data in fast memory and \
                     violates its SLO at the load that 25 % would sustain";
        let head = ["until", "requests/s", "P99 ms", "fast share of Redis %"];
        let mut sheet =
            FigureSheet::new("Figure 2: a service beside SSSP under MEMTIS", paper, &head);
        for point in &output.timeline {
            let Some(service) = point.tenants.first() else { continue };
            let all: u64 = service.usage_bytes.iter().sum();
            let fast = service.usage_bytes.first().copied().unwrap_or(0);
            sheet.rows.push(vec![
                format!("{:.0} s", point.time_seconds),
                format!("{:.0}", service.requests_per_second.unwrap_or(0.0)),
                format!("{:.2}", service.p99_ms.unwrap_or(0.0)),
                format!("{:.1}", 100.0 * fast as f64 / all.max(1) as f64),
            ]);
        }
        Ok(sheet)
    }

    fn figure_5(&self, ramp: &[Vec<RunOutput>]) -> FigureSheet {
        let paper = "MTAT keeps the SLO under the load of figure 7 for all four services; MEMTIS \
                     and TPP violate it like smem-all, TPP worse";
        let head = ["service", "policy", "P99 ms", "SLO ms", "seconds above", "fast GB each 20 s"];
        let mut sheet = FigureSheet::new("Figure 5: under the ramp of figure 7", paper, &head);
        for (service, outputs) in self.services.iter().zip(ramp) {
            for output in outputs {
                let Some(latency) = output.result.tenants.first().and_then(|t| t.latency) else {
                    continue;
                };
                let course: Vec<String> = (0..output.timeline.len())
                    .map(|point| format!("{:.0}", fast_gb(output, point, 0)))
                    .collect();
                sheet.rows.push(vec![
                    service.clone(),
                    output.result.policy.clone(),
                    format!("{:.2}", latency.p99_ms),
                    format!("{:.0}", latency.slo_ms),
                    format!("{} of {}", latency.violating_seconds, latency.seconds),
                    course.join(" "),
                ]);
            }
        }
        sheet
    }

    fn figure_6(&self, ramp: &[Vec<RunOutput>]) -> FigureSheet {
        let paper = "fairness: MTAT about 3 times TPP and 1.4 times MEMTIS; throughput: MTAT 18 % \
                     and MTAT (LC only) 7 % below MEMTIS";
        let head = ["service", "policy", "smallest NP", "over MEMTIS", "throughput over MEMTIS"];
        let mut sheet = FigureSheet::new("Figure 6: the best-effort programs", paper, &head);
        for (service, outputs) in self.services.iter().zip(ramp) {
            sheet.rows.extend(against_memtis(service, outputs));
        }
        sheet
    }

    /// Runs the scenarios, each with the ramp to FMEM_ALL's maximum load, and returns each recipe's
    /// share of it.
    fn figure_8(
        &self,
        scenarios: &[Scenario],
        recipes: &[Recipe],
    ) -> Result<(Vec<Scenario>, FigureSheet), Failure> {
        let paper = "relative to FMEM_ALL: MTAT above 99 %, MEMTIS about 85 %, TPP about 70 % \
                     (geometric means)";
        let mut head = vec!["service", "FMEM_ALL, of the published"];
        head.extend(&POLICIES[1..]);
        let mut sheet = FigureSheet::new(
            "Figure 8: maximum load under the ramp with a P99 within the SLO, of FMEM_ALL's",
            paper,
            &head,
        );
        let progress = RunProgress::new(scenarios.len() * recipes.len());
        let search = |scenario: &Scenario, recipe: &Recipe, near: &[f64], fine: f64| {
            let mut job = progress.job(&scenario.name, recipe.name());
            let load = self.max_load(scenario, recipe, near, fine, &mut |share| job.reached(share));
            job.done();
            load
        };
        let sustained: Vec<f64> = scenarios
            .par_iter()
            .map(|scenario| search(scenario, &recipes[0], &[], FINE))
            .collect::<Result<_, Failure>>()?;
        let scenarios: Vec<Scenario> =
            scenarios.iter().zip(&sustained).map(|(s, &load)| runs::with_load(s, load)).collect();
        let pairs: Vec<(&Scenario, &Recipe)> =
            scenarios.iter().flat_map(|s| recipes[1..].iter().map(move |r| (s, r))).collect();
        let loads = pairs
            .par_iter()
            .map(|(scenario, recipe)| search(scenario, recipe, &NEAR, COARSE))
            .collect::<Result<Vec<f64>, Failure>>()?;
        let of_each = loads.chunks(recipes.len() - 1);
        for ((service, sustained), loads) in self.services.iter().zip(&sustained).zip(of_each) {
            let mut row = vec![service.clone(), percent(*sustained)];
            row.extend(loads.iter().map(|&load| percent(load)));
            sheet.rows.push(row);
        }
        let mean = |i: usize| {
            let logs = loads.iter().skip(i).step_by(recipes.len() - 1).map(|load| load.ln());
            percent((logs.sum::<f64>() / scenarios.len() as f64).exp())
        };
        let mut row = vec!["geometric mean".to_owned(), String::new()];
        row.extend((0..recipes.len() - 1).map(mean));
        sheet.rows.push(row);
        Ok((scenarios, sheet))
    }

    /// Returns the greatest share of the ramp's load whose 99th percentile over the whole run is
    /// within the SLO: the first of `near` that holds, or a lower one to within `fine`.
    fn max_load(
        &self,
        scenario: &Scenario,
        recipe: &Recipe,
        near: &[f64],
        fine: f64,
        reached: &mut dyn FnMut(f64),
    ) -> Result<f64, Failure> {
        for &load in near {
            if self.holds(scenario, recipe, load)? {
                return Ok(load);
            }
        }
        let (mut sustained, mut exceeded) = (0.0, near.last().copied().unwrap_or(1.1));
        let first = exceeded - sustained;
        while exceeded - sustained > fine {
            // Every policy sustains what slow memory alone does, which is more than half.
            let load =
                if sustained == 0.0 { exceeded / 1.25 } else { f64::midpoint(sustained, exceeded) };
            if self.holds(scenario, recipe, load)? {
                sustained = load
            } else {
                exceeded = load
            }
            reached(1.0 - (exceeded - sustained) / first);
        }
        Ok(sustained)
    }

    fn holds(&self, scenario: &Scenario, recipe: &Recipe, load: f64) -> Result<bool, Failure> {
        let prepared = Prepared::load(runs::with_load(scenario, load))?;
        let options = RunOptions { seed: self.paper.seed, ..RunOptions::default() };
        let output = run(&prepared, recipe, &options, &mut |_| ())?;
        let latency = output.result.tenants.first().and_then(|t| t.latency);
        Ok(latency.is_some_and(|l| l.p99_ms <= l.slo_ms && l.violated() <= 0.01))
    }

    fn figure_9(&self, scenario: &Scenario, recipes: &[Recipe]) -> Result<FigureSheet, Failure> {
        let paper = "at steady loads of 20, 50 and 80 % MTAT is the fairest at every load without \
                     a violation; MEMTIS has the highest throughput, TPP the lowest of both";
        let head = [
            "load",
            "policy",
            "smallest NP",
            "over MEMTIS",
            "throughput over MEMTIS",
            "violations %",
        ];
        let mut sheet =
            FigureSheet::new("Figure 9: steady loads of the first service", paper, &head);
        for load in [0.2, 0.5, 0.8] {
            let outputs = &runs::all(&[steady(scenario, load)], recipes, self.paper.seed)?[0];
            for (mut row, output) in
                against_memtis(&percent(load), outputs).into_iter().zip(outputs)
            {
                let latency = output.result.tenants.first().and_then(|t| t.latency);
                let share = latency.map_or(0.0, |l| l.violated());
                row.push(format!("{:.2}", share * 100.0));
                sheet.rows.push(row);
            }
        }
        Ok(sheet)
    }
}

/// The scenario with its service under a constant share of its maximum load.
fn steady(scenario: &Scenario, load: f64) -> Scenario {
    let mut scenario = scenario.clone();
    for workload in &mut scenario.workloads {
        if let WorkloadSource::Service(service) = &mut workload.source {
            service.arrivals = Arrivals::Poisson { per_second: load * service.max_per_second };
        }
    }
    scenario
}

/// Smallest NP (equation 3, with everything fast and no other tenant as the full performance) and
/// the sum of throughputs, over MEMTIS's.
fn against_memtis(first: &str, outputs: &[RunOutput]) -> Vec<Vec<String>> {
    let fairness = |o: &RunOutput| best_effort(o).map(|t| 1.0 / t.slowdown).fold(1.0, f64::min);
    let throughput = |o: &RunOutput| best_effort(o).map(|t| t.throughput).sum::<f64>();
    let memtis = outputs.iter().find(|o| o.result.policy == "memtis").unwrap_or(&outputs[0]);
    let row = |output: &RunOutput| {
        vec![
            first.to_owned(),
            output.result.policy.clone(),
            format!("{:.3}", fairness(output)),
            format!("{:.2}", fairness(output) / fairness(memtis)),
            format!("{:.3}", throughput(output) / throughput(memtis)),
        ]
    };
    outputs.iter().map(row).collect()
}

fn krps(per_second: f64) -> String {
    format!("{:.1}", per_second * 1e-3)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
