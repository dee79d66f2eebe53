//! Equilibria: the validations of section V-B and the stacked cases of V-C and V-D, on
//! scenarios/equilibria.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tierwise_core::recipe::Recipe;
use tierwise_sim::result::{RunOutput, TimelinePoint};
use tierwise_sim::scenario::Scenario;

use super::claims::{Here, equilibria as claims};
use super::measurements::{LazyScenario, Measurements};
use super::part::{Findings, PaperPart, Table, sheets};
use super::runs::{self, fast_gb};
use super::sheet::{FigureSheet, publish};
use crate::failure::{CommandResult, Failure};
use crate::run_args::PaperArgs;

/// Equilibria: the five validations (V-B) and the stacked caches, builds, web servers and
/// benchmarks (V-C, V-D) against Linux, which is TPP.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise reproduce equilibria --json")]
pub struct EquilibriaCommand {
    /// Directory of the scenarios.
    #[arg(long, default_value = "scenarios/equilibria", value_name = "DIR")]
    scenarios: PathBuf,
    #[command(flatten)]
    paper: PaperArgs,
}

/// The scenarios of V-B 1 to 4, in the order of [`claims::VALIDATIONS`].
const VALIDATIONS: [&str; 4] = ["local-preferred", "lower-protection", "donation", "upper-bound"];

/// Bytes of a base page.
const PAGE: u64 = 4096;

/// Seconds of the copies of the longest plan of V-B 2: 73 granules of 64 MiB take the one thread of
/// a node 2.7 s.
const COPIED: usize = 3;

/// The paper's baseline: Linux's tiering, derived from TPP (section V-A).
const LINUX: &str = "tpp";

const STACKED: [&str; 5] = ["cache", "cache-burst", "ci", "web", "tao-spark"];

impl EquilibriaCommand {
    /// The command on the scenarios below a directory.
    pub fn below(root: &Path, paper: PaperArgs) -> Self {
        Self { scenarios: root.join("scenarios/equilibria"), paper }
    }

    pub fn execute(&self) -> CommandResult {
        publish("equilibria", &self.paper, &sheets(&self.parts(), self.paper.seed)?)
    }

    /// The paper's parts.
    pub fn parts(&self) -> Vec<PaperPart<'_>> {
        vec![
            PaperPart {
                name: "equilibria-validations",
                claims: claims::VALIDATIONS,
                // The demotions of one case are counted by the second.
                jobs: VALIDATIONS.len() * 2 + 1,
                measure: Box::new(|m| self.validations(m)),
            },
            PaperPart {
                name: "equilibria-thrashing",
                claims: claims::THRASHING,
                // The quiet containers alone, and four policies, on both machines; section III.
                jobs: 2 + 2 * 4 + 2,
                measure: Box::new(|m| self.thrashing(m)),
            },
            PaperPart {
                name: "equilibria-stacked",
                claims: claims::STACKED,
                // The last case again with its first container alone, with its cap and without.
                jobs: STACKED.len() * 3 + 2,
                measure: Box::new(|m| self.stacked(m)),
            },
        ]
    }

    fn validations(&self, m: &Measurements) -> Result<Findings, Failure> {
        let outputs = self.run(m, &VALIDATIONS, &runs::recipes(&["tpp", "equilibria"])?)?;
        let paper = "GB of each container in local memory once it is stable";
        let head = ["case", "policy", "GB here", "GB in the paper", "verdict"];
        let mut sheet = FigureSheet::new("Section V-B 1 to 4: validations", paper, &head);
        let mut here = Vec::new();
        for ((name, claim), outputs) in VALIDATIONS.iter().zip(claims::VALIDATIONS).zip(&outputs) {
            for output in outputs {
                let held = held(output);
                let gb = Here::Numbers(held.clone());
                let verdict = match output.result.policy.as_str() {
                    "equilibria" => claim.verdict(&gb).to_string(),
                    _ => "-".to_owned(),
                };
                sheet.rows.push(vec![
                    (*name).to_owned(),
                    output.result.policy.clone(),
                    list(&held),
                    claim.published(),
                    verdict,
                ]);
                if output.result.policy == "equilibria" {
                    here.push(gb);
                }
            }
        }
        // V-B 2 by the second.
        let setting = LazyScenario::new(runs::scenario(&self.scenarios, VALIDATIONS[1])?);
        let recipe = Recipe::named("equilibria")?;
        let converging = m.run(&setting, &recipe, Some(Duration::from_secs(1)))?;
        let granule_pages = 1u64 << setting.scenario().machine.granule_order;
        here.push(Here::number(fastest_demotion(&converging.timeline)));
        here.push(throttled(&converging.timeline, granule_pages));
        Ok(Findings::sheet(sheet, here))
    }

    /// Section V-B 5, with all CPUs in use and with idle ones, and the quiet containers alone.
    fn thrashing(&self, m: &Measurements) -> Result<Findings, Failure> {
        let crowded = runs::scenario(&self.scenarios, "thrashing")?;
        let mut roomy = crowded.clone();
        roomy.machine.cpus = None;
        let without_a = |scenario: &Scenario| {
            let mut scenario = scenario.clone();
            scenario.workloads.remove(0);
            scenario
        };
        let quiet = [without_a(&crowded), without_a(&roomy)];
        let alone = runs::all(m, &quiet, &runs::recipes(&["equilibria"])?)?;
        let noisy = runs::scenario(&self.scenarios, "noisy")?;
        let linux = runs::all(m, &[without_a(&noisy), noisy], &runs::recipes(&[LINUX])?)?;
        let outputs = runs::all(m, &[crowded, roomy], &self.variants()?)?;
        let paper = "section III: over 100,000 promotions a second on Linux, the others 7 % \
                     slower than alone; V-B 5: fewer migrations, better throughput of the others \
                     (its figures are not in the text)";
        let head = [
            "CPUs",
            "policy",
            "A: pages promoted/s",
            "of these accessed again %",
            "A: GB/s read",
            "B, C: throughput, % of alone",
            "kernel, cores",
        ];
        let mut sheet = FigureSheet::new("Section V-B 5: thrashing", paper, &head);
        let mut crowded = Vec::new();
        for (i, cpus) in ["all in use", "idle ones"].iter().enumerate() {
            for output in &outputs[i] {
                let thrash = Thrash::of(output, &alone[i][0]);
                sheet.rows.push(thrash.row(cpus, output));
                if i == 0 {
                    crowded.push(thrash);
                }
            }
        }
        let [_, _, off, on] = &crowded[..] else {
            return Err(Failure::Internal("a thrashing run is missing".to_owned()));
        };
        let free = Thrash::of(&linux[1][0], &linux[0][0]);
        sheet.rows.push(free.row("all in use, no limits (III)", &linux[1][0]));
        let slower = 100.0 - free.others.iter().sum::<f64>() / 2.0;
        let fewer = format!("{:.0} instead of {:.0} pages/s", on.promoted, off.promoted);
        let more = |others: &[f64; 2]| others.map(|part| format!("{part:.1}")).join(", ");
        let better = format!("{} instead of {} %", more(&on.others), more(&off.others));
        let here = vec![
            Here::number(free.promoted),
            Here::number(slower),
            Here::Holds(on.promoted < off.promoted, fewer),
            Here::Holds((0..2).all(|i| on.others[i] > off.others[i]), better),
        ];
        Ok(Findings::sheet(sheet, here))
    }

    /// Returns Linux, Equilibria without its thrash control, and with it.
    fn variants(&self) -> Result<Vec<Recipe>, Failure> {
        let shipped = Recipe::named("equilibria")?;
        let control = "algorithm = \"equilibria\"";
        // Without thrash control its keys are refused.
        let keeps = |line: &&str| !line.starts_with("thrash_");
        let text = shipped.text().lines().filter(keeps).collect::<Vec<_>>().join("\n");
        let text = text
            .replace(control, &format!("{control}\nthrash_control = false"))
            .replace("name = \"equilibria\"", "name = \"no thrash control\"");
        let off = Recipe::parse("no thrash control", &text)?;
        Ok(vec![Recipe::named("tpp")?, Recipe::named("kernel-tiering-6.12")?, off, shipped])
    }

    /// The stacked containers: what each has at the end, and the paper's statements.
    fn stacked(&self, m: &Measurements) -> Result<Findings, Failure> {
        let outputs = self.run(m, &STACKED, &runs::recipes(&["static", LINUX, "equilibria"])?)?;
        let head = [
            "case",
            "policy",
            "tenant",
            "GB fast",
            "share fast %",
            "slowdown",
            "P99 ms",
            "operations/s",
        ];
        let paper = "the statements of the next table";
        let mut sheet = FigureSheet::new("Sections V-C and V-D: stacked containers", paper, &head);
        for (name, outputs) in STACKED.iter().zip(&outputs) {
            for output in outputs {
                sheet.rows.extend(tenants(name, output));
            }
        }
        let head = ["case", "statement", "paper", "here", "verdict"];
        let paper = "sections V-C and V-D; Linux is TPP";
        let mut said = FigureSheet::new("Sections V-C and V-D: statements", paper, &head);
        let pairs: Vec<Pair<'_>> =
            outputs.iter().map(|o| Pair { linux: &o[1], ours: &o[2] }).collect();
        let mut here = [cache(&pairs), ci(&pairs), web(&pairs), spark(&pairs)].concat();
        here.push(Here::number(self.price_of_the_cap(m)?));
        said.rows = claims::STACKED
            .iter()
            .zip(&here)
            .map(|(claim, here)| {
                let verdict = claim.verdict(here).to_string();
                let [case, what] = [claim.place, claim.what].map(str::to_owned);
                vec![case, what, claim.published(), claim.measured(here), verdict]
            })
            .collect();
        Ok(Findings { tables: vec![Table::Sheet(sheet), Table::Sheet(said)], here })
    }

    /// What its cap costs SparkBench without neighbours, in percent of its throughput without it.
    fn price_of_the_cap(&self, m: &Measurements) -> Result<f64, Failure> {
        let mut capped = runs::scenario(&self.scenarios, "tao-spark")?;
        capped.workloads.truncate(1);
        let mut free = capped.clone();
        free.workloads.iter_mut().for_each(|workload| workload.caps.clear());
        let outputs = runs::all(m, &[capped, free], &runs::recipes(&["equilibria"])?)?;
        let [capped, free] = [0, 1].map(|i| outputs[i][0].result.throughput);
        Ok(100.0 * (1.0 - capped / free))
    }

    fn run(
        &self,
        m: &Measurements,
        names: &[&str],
        recipes: &[Recipe],
    ) -> Result<Vec<Vec<RunOutput>>, Failure> {
        let scenarios = names
            .iter()
            .map(|name| runs::scenario(&self.scenarios, name))
            .collect::<Result<Vec<_>, _>>()?;
        runs::all(m, &scenarios, recipes)
    }
}

/// A's bytes in local memory.
fn local(point: &TimelinePoint) -> u64 {
    let usage = point.tenants.first().and_then(|a| a.usage_bytes.first());
    usage.copied().unwrap_or(0)
}

/// Pages by which A's local memory shrinks in a second of V-B 2, at most, in the mean of
/// [`COPIED`]. The moves of a plan count when it starts, and its copies take seconds.
fn fastest_demotion(timeline: &[TimelinePoint]) -> f64 {
    let shrunk =
        |points: &[TimelinePoint]| local(&points[0]).saturating_sub(local(&points[COPIED]));
    let most = timeline.windows(COPIED + 1).map(shrunk).max().unwrap_or(0);
    (most / PAGE) as f64 / COPIED as f64
}

/// A's floor in V-B 2, in bytes.
const FLOOR: f64 = 80e9;

/// How far above its floor A counts as above it: at a tenth equation 2 leaves 68 % of the scans.
const ABOVE: f64 = 1.1;

/// Seconds until B and C start. Until then A has all of its memory local.
const ALONE_S: f64 = 10.0;

/// A point's time is that of the first quantum after its interval, a little later than its end.
const LATE_S: f64 = 0.5;

/// The points whose intervals are after a time.
fn after(timeline: &[TimelinePoint], seconds: f64) -> impl Iterator<Item = &TimelinePoint> {
    timeline.iter().filter(move |point| point.time_seconds > seconds + LATE_S)
}

/// Figure 6: pages that A promotes in a second while it is above its protection, and afterwards,
/// when it has more slow memory to promote from.
fn throttled(timeline: &[TimelinePoint], granule_pages: u64) -> Here {
    let shared = after(timeline, ALONE_S);
    let (above, below): (Vec<_>, Vec<_>) = shared.partition(|p| local(p) as f64 > ABOVE * FLOOR);
    let rate = |points: &[&TimelinePoint]| {
        let promoted = points.iter().filter_map(|p| p.tenants.first()).map(|a| a.promotions);
        (promoted.sum::<u64>() * granule_pages) as f64 / points.len().max(1) as f64
    };
    let (above_s, above, below) = (above.len(), rate(&above), rate(&below));
    let seen = format!("{above:.0} pages/s in {above_s} s, then {below:.0}");
    Here::Holds(above_s > 0 && above < below, seen)
}

/// Returns the GB in fast memory at the end, by tenant.
fn held(output: &RunOutput) -> Vec<f64> {
    let last = output.timeline.len().saturating_sub(1);
    (0..output.result.tenants.len()).map(|i| fast_gb(output, last, i)).collect()
}

fn list(gb: &[f64]) -> String {
    gb.iter().map(|gb| format!("{gb:.1}")).collect::<Vec<_>>().join(", ")
}

/// Base pages of a granule in the scenarios "thrashing" and "noisy".
const GRANULE_PAGES: f64 = 1024.0;

/// Bytes of a line, which A reads once in 100 instructions (scripts/equilibria_scenarios.py).
const BYTES_PER_INSTRUCTION: f64 = 64.0 / 100.0;

/// Seconds in which thrash control finds A's rate: some of its periods of 5 s.
const FOUND_S: f64 = 60.0;

/// A run with a thrashing container.
struct Thrash {
    /// Base pages that A promotes in a second.
    promoted: f64,
    /// Throughput of A, in GB read in a second.
    reads: f64,
    /// Throughput of B and C, in per cent of that alone.
    others: [f64; 2],
}

impl Thrash {
    /// Measures what is after the first minute.
    fn of(output: &RunOutput, alone: &RunOutput) -> Self {
        let late: Vec<u64> =
            after(&output.timeline, FOUND_S).map(|p| p.tenants[0].promotions).collect();
        let seconds = late.len() as f64 * 20.0;
        let promoted: u64 = late.iter().sum();
        let throughput = |output: &RunOutput, tenant: usize| {
            let late = after(&output.timeline, FOUND_S);
            let all: Vec<f64> = late.map(|p| p.tenants[tenant].throughput).collect();
            all.iter().sum::<f64>() / all.len().max(1) as f64
        };
        let part = |tenant: usize| throughput(output, tenant) / throughput(alone, tenant - 1);
        Self {
            promoted: promoted as f64 * GRANULE_PAGES / seconds,
            reads: throughput(output, 0) * BYTES_PER_INSTRUCTION * 1e-9,
            others: [1, 2].map(|tenant| part(tenant) * 100.0),
        }
    }

    fn row(&self, cpus: &str, output: &RunOutput) -> Vec<String> {
        let a = &output.result.tenants[0];
        let again = a.reaccessed.map_or(0.0, |n| n as f64 / a.promotions.max(1) as f64);
        let end = output.timeline.last().map_or(1.0, |p| p.time_seconds);
        vec![
            cpus.to_owned(),
            output.result.policy.clone(),
            format!("{:.0}", self.promoted),
            format!("{:.1}", again * 100.0),
            format!("{:.2}", self.reads),
            self.others.map(|part| format!("{part:.1}")).join(", "),
            format!("{:.2}", output.result.overhead_seconds / end),
        ]
    }
}

fn tenants(case: &str, output: &RunOutput) -> Vec<Vec<String>> {
    let last = output.timeline.last();
    let row = |(i, t): (usize, &tierwise_sim::result::TenantResult)| {
        let usage = last.and_then(|p| p.tenants.get(i)).map_or(&[][..], |t| &t.usage_bytes);
        let (fast, all) = (usage.first().copied().unwrap_or(0), usage.iter().sum::<u64>());
        vec![
            case.to_owned(),
            output.result.policy.clone(),
            t.name.clone(),
            format!("{:.1}", fast as f64 * 1e-9),
            format!("{:.1}", 100.0 * fast as f64 / all.max(1) as f64),
            format!("{:.3}", t.slowdown),
            t.latency.map_or_else(|| "-".to_owned(), |l| format!("{:.3}", l.p99_ms)),
            t.operations_per_second.map_or_else(|| "-".to_owned(), |o| format!("{o:.1}")),
        ]
    };
    output.result.tenants.iter().enumerate().map(row).collect()
}

/// One stacked case under Linux and under Equilibria.
struct Pair<'a> {
    linux: &'a RunOutput,
    ours: &'a RunOutput,
}

/// The part of a tenant's memory that is fast at the end, in per cent.
fn share(output: &RunOutput, tenant: usize) -> f64 {
    let usage = output.timeline.last().and_then(|p| p.tenants.get(tenant));
    let usage = usage.map_or(&[][..], |t| &t.usage_bytes);
    let all = usage.iter().sum::<u64>().max(1) as f64;
    100.0 * usage.first().copied().unwrap_or(0) as f64 / all
}

/// Requests per second of a service in its worst interval after `from` seconds, over its mean.
fn worst_over_mean(output: &RunOutput, tenant: usize, from: f64) -> f64 {
    let late = after(&output.timeline, from);
    let rates = late.filter_map(|p| p.tenants[tenant].requests_per_second);
    let worst = rates.fold(f64::INFINITY, f64::min);
    worst / output.result.tenants[tenant].operations_per_second.unwrap_or(f64::NAN)
}

fn p99(output: &RunOutput, tenant: usize) -> f64 {
    output.result.tenants[tenant].latency.map_or(f64::NAN, |l| l.p99_ms)
}

/// Whether the first figure is greater, as far as both can be told apart.
fn more(greater: f64, than: f64) -> Here {
    Here::Holds(greater > than, format!("{greater:.1} and {than:.1}"))
}

fn cache(pairs: &[Pair<'_>]) -> Vec<Here> {
    let (both, burst) = (&pairs[0], &pairs[1]);
    let shares = |o: &RunOutput| Here::Numbers(vec![share(o, 0), share(o, 1)]);
    let lower = |tenant| 100.0 * (1.0 - p99(both.ours, tenant) / p99(both.linux, tenant));
    let uneven = |o: &RunOutput| Here::numbers(vec![p99(o, 1) / p99(o, 0)], NO_REQUESTS);
    let kept = |o: &RunOutput| 100.0 * worst_over_mean(o, 0, 100.0);
    let (linux, ours) = (kept(burst.linux), kept(burst.ours));
    vec![
        shares(both.ours),
        shares(both.linux),
        Here::numbers(vec![lower(0), lower(1)], NO_REQUESTS),
        uneven(both.linux),
        uneven(both.ours),
        Here::numbers(vec![linux], NO_REQUESTS),
        if linux.is_finite() && ours.is_finite() {
            Here::Holds(ours >= linux, format!("{ours:.1} and {linux:.1}"))
        } else {
            Here::NotMeasured(NO_REQUESTS.into())
        },
    ]
}

const NO_REQUESTS: &str = "a service answered no request";

fn ci(pairs: &[Pair<'_>]) -> Vec<Here> {
    let pair = &pairs[2];
    let worst = |o: &RunOutput| (0..4).map(|i| share(o, i)).fold(f64::INFINITY, f64::min);
    let mean =
        |o: &RunOutput| o.result.tenants.iter().map(|t| t.throughput.ln()).sum::<f64>() / 4.0;
    let faster = 100.0 * ((mean(pair.ours) - mean(pair.linux)).exp() - 1.0);
    vec![
        Here::number(share(pair.ours, 3)),
        Here::number(share(pair.linux, 3)),
        more(worst(pair.ours), worst(pair.linux)),
        Here::number(faster),
    ]
}

fn web(pairs: &[Pair<'_>]) -> Vec<Here> {
    let pair = &pairs[3];
    let gb = held(pair.ours);
    let slowest = |o: &RunOutput, of: &[usize]| {
        let slowdowns = of.iter().map(|&i| o.result.tenants[i].slowdown);
        100.0 * (slowdowns.fold(0.0, f64::max) - 1.0)
    };
    let throughput =
        |o: &RunOutput| o.result.tenants[0].throughput + o.result.tenants[3].throughput;
    let more = 100.0 * (throughput(pair.ours) / throughput(pair.linux) - 1.0);
    vec![
        Here::number(gb.iter().copied().fold(f64::INFINITY, f64::min)),
        Here::Numbers(vec![gb[0], gb[3]]),
        Here::number(more),
        Here::number(slowest(pair.ours, &[0, 1, 2, 3, 4])),
        Here::number(slowest(pair.linux, &[0, 3])),
    ]
}

fn spark(pairs: &[Pair<'_>]) -> Vec<Here> {
    let pair = &pairs[4];
    let of = |o: &RunOutput| o.result.tenants[0].throughput;
    vec![
        Here::number(of(pair.ours) / of(pair.linux)),
        more(share(pair.ours, 0), share(pair.linux, 0)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_points_end_the_interval_before() {
        let at = |time_seconds| TimelinePoint {
            time_seconds,
            fast_access_ratio: 1.0,
            misses: 0.0,
            promotions: 0,
            demotions: 0,
            tenants: Vec::new(),
        };
        let timeline = [at(40.0), at(60.000_24), at(80.000_1)];
        let times: Vec<f64> = after(&timeline, 60.0).map(|point| point.time_seconds).collect();
        assert_eq!(times, [80.000_1]);
    }
}
