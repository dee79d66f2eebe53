//! MTAT (Middleware 2025), figures 1, 2, 5, 6, 8 and 9, on scenarios/mtat.

mod ahead;
mod max_load;
mod outputs;
mod settings;
mod together;

use std::path::{Path, PathBuf};
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
use tierwise_sim::scenario::{Scenario, WorkloadSource};
use tierwise_sim::windows::{LoadedTrace, MeasuredMarks, Shape};
use tierwise_trace::reader::TraceReader;

use super::claims::{Here, mtat as claims};
use super::measurements::Measurements;
use super::part::{Findings, PaperPart};
use super::runs::{self, fast_gb};
use super::sheet::{FigureSheet, publish};
use super::spread;
use crate::failure::{CommandResult, Failure};
use crate::run_args::PaperArgs;
use crate::value::whole;
use max_load::search;
use outputs::{
    NO_REQUESTS, NO_WORK, against_memtis, busiest, copied, extreme, fairness, geometric_mean, mean,
    of_policy, over_slo, throughput, violations,
};

/// MTAT (Middleware 2025): figure 1 (load over fast memory), 2 (Redis under MEMTIS), 5 and 6 (the
/// load of figure 7), 8 (maximum load) and 9 (steady loads).
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise reproduce mtat --services redis\n  \
                  tierwise reproduce mtat --only mtat-6,mtat-9 --seeds 5")]
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
    /// Measure these parts only, as "mtat-6" [default: all].
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// Number of seeds, from --seed on. With several, the tables have ranges, and another table has
    /// the paper's statements.
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = whole(1..=100_u64))]
    seeds: u64,
    /// Directory that keeps the results, so that a stopped command goes on where it stopped.
    #[arg(long, value_name = "DIR")]
    kept: Option<PathBuf>,
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

/// The services, in the order of table 1.
const SERVICES: [&str; 4] = ["redis", "memcached", "mongodb", "silo"];

/// The steady loads of figure 9.
const LOADS: [f64; 3] = [0.2, 0.5, 0.8];

impl MtatCommand {
    /// The command on the scenarios and traces below a directory.
    pub fn below(root: &Path, paper: PaperArgs) -> Self {
        let [scenarios, traces] = ["scenarios/mtat", "traces"].map(|path| root.join(path));
        let services = SERVICES.map(str::to_owned).to_vec();
        Self { scenarios, traces, services, only: Vec::new(), seeds: 1, kept: None, paper }
    }

    pub fn execute(&self) -> CommandResult {
        for name in &self.services {
            if ServicePreset::named(name).is_none() {
                let known: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
                let problem = format!("--services: found {name:?}; allowed: {}", known.join(", "));
                return Err(Failure::User(problem));
            }
        }
        let mut parts = self.parts();
        parts.extend(self.beside());
        if let Some(name) = self.only.iter().find(|name| parts.iter().all(|p| p.name != **name)) {
            let known: Vec<&str> = parts.iter().map(|part| part.name).collect();
            let problem = format!("--only: found {name:?}; allowed: {}", known.join(", "));
            return Err(Failure::User(problem));
        }
        let wanted = |part: &PaperPart<'_>| {
            self.only.is_empty() || self.only.iter().any(|name| name == part.name)
        };
        parts.retain(wanted);
        let sheets = spread::sheets(&parts, self.paper.seed, self.seeds, self.kept.as_deref())?;
        publish("mtat", &self.paper, &sheets)
    }

    /// The paper's parts. All but the first need the load that FMEM_ALL sustains; the first to be
    /// measured searches it for all.
    pub fn parts(&self) -> Vec<PaperPart<'_>> {
        let services = self.services.len();
        vec![
            PaperPart {
                name: "mtat-1",
                claims: claims::KNEES,
                jobs: services,
                measure: Box::new(|m| self.figure_1(m)),
            },
            PaperPart {
                name: "mtat-2",
                claims: claims::MEMTIS,
                jobs: 2,
                measure: Box::new(|m| self.figure_2(m)),
            },
            PaperPart {
                name: "mtat-5",
                claims: claims::RAMP,
                jobs: services * (1 + POLICIES.len()),
                measure: Box::new(|m| self.figure_5(m)),
            },
            PaperPart {
                name: "mtat-6",
                claims: claims::BEST_EFFORT,
                jobs: services * (1 + POLICIES.len()),
                measure: Box::new(|m| self.figure_6(m)),
            },
            PaperPart {
                name: "mtat-8",
                claims: claims::MAXIMUM_LOAD,
                jobs: services * POLICIES.len(),
                measure: Box::new(|m| self.figure_8(m)),
            },
            PaperPart {
                name: "mtat-9",
                claims: claims::STEADY,
                jobs: 1 + LOADS.len() * POLICIES.len(),
                measure: Box::new(|m| self.figure_9(m)),
            },
            PaperPart {
                name: "mtat-table-3",
                claims: claims::SETTINGS,
                jobs: settings::SETTINGS * settings::JOBS,
                measure: Box::new(|m| {
                    settings::measure(m, &runs::scenario(&self.scenarios, "memcached")?)
                }),
            },
            super::cpu::mtat(&self.scenarios),
        ]
    }

    /// What the paper does not measure: several services, and `tierwise` under a load that it
    /// sustains.
    fn beside(&self) -> Vec<PaperPart<'_>> {
        let services = self.services.len();
        vec![
            PaperPart {
                name: "mtat-together",
                claims: &[],
                jobs: together::JOBS,
                measure: Box::new(|m| {
                    together::measure(m, &runs::scenario(&self.scenarios, "redis-and-silo")?)
                }),
            },
            PaperPart {
                name: "mtat-ahead",
                claims: &[],
                jobs: services * (1 + ahead::COMPARED.len()),
                measure: Box::new(|m| ahead::measure(m, &self.sustained(m, &self.services)?)),
            },
        ]
    }

    /// The scenarios of some services, each with the ramp to FMEM_ALL's maximum load, and this load
    /// as a share of the published one.
    fn sustained(
        &self,
        m: &Measurements,
        services: &[String],
    ) -> Result<Vec<(Scenario, f64)>, Failure> {
        let recipe = &runs::recipes(&[FMEM_ALL])?[0];
        let one = |name: &String| {
            let scenario = runs::scenario(&self.scenarios, name)?;
            let load = search(m, &scenario, recipe, &[], FINE)?;
            Ok((runs::with_load(&scenario, load), load))
        };
        services.par_iter().map(one).collect()
    }

    /// Every policy under the ramp to FMEM_ALL's maximum load, by service.
    fn ramp(&self, m: &Measurements) -> Result<Vec<Vec<RunOutput>>, Failure> {
        let scenarios: Vec<Scenario> =
            self.sustained(m, &self.services)?.into_iter().map(|(scenario, _)| scenario).collect();
        runs::all(m, &scenarios, &runs::recipes(&POLICIES)?)
    }

    fn figure_1(&self, m: &Measurements) -> Result<Findings, Failure> {
        let paper = "the knee lies at the maximum load of table 1 with everything fast, and \
                     throughput falls monotonically with less fast memory";
        let head = ["service", "published", "100 % fast", "75 %", "50 %", "25 %", "0 %"];
        let mut sheet =
            FigureSheet::new("Figure 1: maximum load (KRPS) over fast memory", paper, &head);
        let knees = |name: &String| {
            let preset = ServicePreset::named(name).unwrap_or(&PRESETS[0]);
            let trace = preset.trace().map(|trace| m.keys().file(&self.trace(trace)));
            let inputs = [preset.name, trace.as_deref().unwrap_or(""), &m.seed.to_string()];
            let knees: Vec<f64> = m.job(preset.name, "knees", |_| {
                m.once("knees", &inputs, || self.knees(preset, m.seed))
            })?;
            Ok((preset, knees))
        };
        let all: Vec<(&ServicePreset, Vec<f64>)> =
            self.services.par_iter().map(knees).collect::<Result<_, Failure>>()?;
        for (preset, knees) in &all {
            let mut row = vec![preset.name.to_owned(), krps(preset.max_per_second)];
            row.extend(knees.iter().map(|&knee| krps(knee)));
            sheet.rows.push(row);
        }
        let falls = |knees: &[f64]| knees.windows(2).all(|pair| pair[1] <= pair[0]);
        let falling = all.iter().filter(|(_, knees)| falls(knees)).count();
        let here = vec![
            self.of_all(all.iter().map(|(_, knees)| knees[0] * 1e-3).collect()),
            Here::Holds(falling == all.len(), format!("on {falling} of {}", all.len())),
        ];
        Ok(Findings::sheet(sheet, here))
    }

    /// Figures of all services, in the order of table 1.
    fn of_all(&self, figures: Vec<f64>) -> Here {
        if self.services == SERVICES {
            Here::Numbers(figures)
        } else {
            Here::NotMeasured("--services names others".into())
        }
    }

    fn trace(&self, name: &str) -> PathBuf {
        self.traces.join(format!("{name}.twt"))
    }

    /// Requests per second that a service sustains with all of it fast, three quarters, and so on.
    fn knees(&self, preset: &ServicePreset, seed: u64) -> Result<Vec<f64>, Failure> {
        let wrong = |e: &dyn std::fmt::Display| Failure::User(format!("{}: {e}", preset.name));
        let windows = match preset.trace() {
            None => Vec::new(),
            Some(trace) => {
                let mut reader = TraceReader::open(&self.trace(trace)).map_err(|e| wrong(&e))?;
                LoadedTrace::read(&mut reader, MeasuredMarks::default(), Shape::default())
                    .map_err(|e| wrong(&e))?
                    .windows
            }
        };
        let mix = preset.mix(preset.units(Bytes(1 << 20)), &windows).map_err(|e| wrong(&e))?;
        let latency = [FAST_NS, SLOW_NS];
        let costs = TierCosts { load_ns: &latency, store_ns: &latency };
        let knee = |quarters: u32| {
            let tier_of = mix.hottest_fast(mix.units * quarters / 4);
            // A second holds 11,000 requests of the slowest, a million of the fastest; ten show a
            // queue that grows.
            let time = Duration::from_secs(10);
            let placed = Placed { preset, mix: &mix, costs, tier_of: &tier_of, time, seed };
            placed.max_load().map_err(|e| wrong(&e))
        };
        (0..=4).rev().map(knee).collect()
    }

    /// Redis and SSSP alone, under MEMTIS.
    fn figure_2(&self, m: &Measurements) -> Result<Findings, Failure> {
        let (mut pair, _) = self.first(m)?;
        pair.workloads.truncate(2);
        let output = &runs::all(m, &[pair], &runs::recipes(&["memtis"])?)?[0][0];
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
        Ok(Findings::sheet(sheet, busiest(output)))
    }

    /// The first service's scenario with FMEM_ALL's load, and the load.
    fn first(&self, m: &Measurements) -> Result<(Scenario, f64), Failure> {
        let first = self.sustained(m, &self.services[..1])?.into_iter().next();
        first
            .ok_or_else(|| Failure::User("--services: found none; allowed: one or more".to_owned()))
    }

    fn figure_5(&self, m: &Measurements) -> Result<Findings, Failure> {
        let ramp = &self.ramp(m)?;
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
        let over_slo = |policy| {
            let of = |outputs: &Vec<RunOutput>| Some(over_slo(of_policy(outputs, policy)?, 0));
            ramp.iter().filter_map(of).collect::<Vec<f64>>()
        };
        let (tpp, slow) = (over_slo("tpp"), over_slo("smem-all"));
        let worse = tpp.iter().zip(&slow).filter(|(tpp, slow)| tpp > slow).count();
        let all = tpp.len() == slow.len() && worse == slow.len();
        let here = vec![
            Here::numbers(over_slo("mtat"), NO_REQUESTS),
            Here::numbers(over_slo("mtat-lc-only"), NO_REQUESTS),
            Here::numbers(over_slo("memtis"), NO_REQUESTS),
            Here::Holds(all, format!("on {worse} of {}", slow.len())),
            Here::numbers(vec![mean(&copied(ramp, "mtat"))], NO_REQUESTS),
        ];
        Ok(Findings::sheet(sheet, here))
    }

    fn figure_6(&self, m: &Measurements) -> Result<Findings, Failure> {
        let ramp = &self.ramp(m)?;
        let paper = "fairness: MTAT about 3 times TPP and 1.4 times MEMTIS; throughput: MTAT 18 % \
                     and MTAT (LC only) 7 % below MEMTIS";
        let head = ["service", "policy", "smallest NP", "over MEMTIS", "throughput over MEMTIS"];
        let mut sheet = FigureSheet::new("Figure 6: the best-effort programs", paper, &head);
        for (service, outputs) in self.services.iter().zip(ramp) {
            sheet.rows.extend(against_memtis(service, outputs));
        }
        let over = |of: &dyn Fn(&RunOutput) -> f64, policy, than| {
            let ratio = |outputs: &Vec<RunOutput>| {
                Some(of(of_policy(outputs, policy)?) / of(of_policy(outputs, than)?))
            };
            let ratios: Vec<f64> = ramp.iter().filter_map(ratio).collect();
            Here::numbers(vec![geometric_mean(&ratios)], NO_WORK)
        };
        let most = |than| {
            let ratio = |outputs: &Vec<RunOutput>| {
                Some(fairness(of_policy(outputs, "mtat")?) / fairness(of_policy(outputs, than)?))
            };
            ramp.iter().filter_map(ratio).fold(f64::NAN, f64::max)
        };
        let here = vec![
            over(&fairness, "mtat", "tpp"),
            over(&fairness, "mtat", "memtis"),
            over(&throughput, "mtat", "memtis"),
            over(&throughput, "mtat-lc-only", "memtis"),
            Here::numbers(vec![most("tpp"), most("memtis")], NO_WORK),
        ];
        Ok(Findings::sheet(sheet, here))
    }

    /// Searches each recipe's share of the ramp to FMEM_ALL's maximum load.
    fn figure_8(&self, m: &Measurements) -> Result<Findings, Failure> {
        let paper = "relative to FMEM_ALL: MTAT above 99 %, MEMTIS about 85 %, TPP about 70 % \
                     (geometric means)";
        let mut head = vec!["service", "FMEM_ALL, of the published"];
        head.extend(&POLICIES[1..]);
        let mut sheet = FigureSheet::new(
            "Figure 8: maximum load under the ramp with a P99 within the SLO, of FMEM_ALL's",
            paper,
            &head,
        );
        let recipes = runs::recipes(&POLICIES[1..])?;
        let sustained = self.sustained(m, &self.services)?;
        let pairs: Vec<(&Scenario, &Recipe)> =
            sustained.iter().flat_map(|(s, _)| recipes.iter().map(move |r| (s, r))).collect();
        let loads = pairs
            .par_iter()
            .map(|(scenario, recipe)| search(m, scenario, recipe, &NEAR, COARSE))
            .collect::<Result<Vec<f64>, Failure>>()?;
        for ((service, (_, full)), loads) in
            self.services.iter().zip(&sustained).zip(loads.chunks(recipes.len()))
        {
            let mut row = vec![service.clone(), percent(*full)];
            row.extend(loads.iter().map(|&load| percent(load)));
            sheet.rows.push(row);
        }
        let of =
            |i: usize| loads.iter().copied().skip(i).step_by(recipes.len()).collect::<Vec<_>>();
        let means: Vec<f64> = (0..recipes.len()).map(|i| geometric_mean(&of(i))).collect();
        let mut row = vec!["geometric mean".to_owned(), String::new()];
        row.extend(means.iter().map(|&mean| percent(mean)));
        sheet.rows.push(row);
        let place = |policy: &str| recipes.iter().position(|r| r.name() == policy).unwrap_or(0);
        let mean = |policy| Here::number(100.0 * means[place(policy)]);
        let most =
            of(place("mtat")).into_iter().zip(of(place("tpp"))).map(|(mtat, tpp)| mtat / tpp);
        let most = Here::numbers(vec![most.fold(0.0, f64::max)], "TPP sustains no load");
        Ok(Findings::sheet(sheet, vec![mean("mtat"), mean("memtis"), mean("tpp"), most]))
    }

    fn figure_9(&self, m: &Measurements) -> Result<Findings, Failure> {
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
        let recipes = runs::recipes(&POLICIES)?;
        let (scenario, _) = self.first(m)?;
        let scenarios = LOADS.map(|load| steady(&scenario, load));
        let all = runs::all(m, &scenarios, &recipes)?;
        for (&load, outputs) in LOADS.iter().zip(&all) {
            for (mut row, output) in
                against_memtis(&percent(load), outputs).into_iter().zip(outputs)
            {
                row.push(format!("{:.2}", violations(output)));
                sheet.rows.push(row);
            }
        }
        let mtat = all.iter().filter_map(|outputs| Some(violations(of_policy(outputs, "mtat")?)));
        let here = vec![
            extreme(&all, &fairness, "mtat", true),
            Here::numbers(mtat.collect(), NO_REQUESTS),
            extreme(&all, &throughput, "memtis", true),
            extreme(&all, &fairness, "tpp", false),
            extreme(&all, &throughput, "tpp", false),
            extreme(&all, &violations, "tpp", true),
        ];
        Ok(Findings::sheet(sheet, here))
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

fn krps(per_second: f64) -> String {
    format!("{:.1}", per_second * 1e-3)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
