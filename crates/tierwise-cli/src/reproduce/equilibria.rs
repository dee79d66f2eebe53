//! Equilibria: the validations of section V-B and the stacked cases of V-C and V-D, on
//! scenarios/equilibria.

use std::path::PathBuf;

use clap::Args;
use tierwise_core::recipe::Recipe;
use tierwise_sim::result::RunOutput;

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

/// Scenario, and the paper's statement of the containers' final memory.
const VALIDATIONS: [(&str, &str); 5] = [
    ("local-preferred", "all local: 120, 40, 40"),
    ("lower-protection", "80, 80, 80"),
    ("donation", "100, 70, 70"),
    ("upper-bound", "80, 40, 40"),
    ("thrashing", "fewer migrations; the others not slower"),
];

const STACKED: [&str; 5] = ["cache", "cache-burst", "ci", "web", "tao-spark"];

impl EquilibriaCommand {
    pub fn execute(&self) -> CommandResult {
        let sheets = [self.validations()?, self.stacked()?];
        publish("equilibria", &self.paper, &sheets)
    }

    fn validations(&self) -> Result<FigureSheet, Failure> {
        let names: Vec<&str> = VALIDATIONS.iter().map(|(name, _)| *name).collect();
        let outputs = self.run(&names, &self.variants()?)?;
        let paper = "the last column (GB; the thrashing case is in MiB here)";
        let head = ["case", "policy", "GB fast at the end", "promoted", "demoted", "paper"];
        let mut sheet = FigureSheet::new("Section V-B: validations", paper, &head);
        for ((name, expected), outputs) in VALIDATIONS.iter().zip(&outputs) {
            for output in outputs {
                sheet.rows.push(vec![
                    (*name).to_owned(),
                    output.result.policy.clone(),
                    held(output),
                    output.result.promotions.to_string(),
                    output.result.demotions.to_string(),
                    (*expected).to_owned(),
                ]);
            }
        }
        Ok(sheet)
    }

    /// Returns Linux, Equilibria without its thrash control, and with it.
    fn variants(&self) -> Result<Vec<Recipe>, Failure> {
        let shipped = Recipe::named("equilibria")?;
        let control = "algorithm = \"equilibria\"";
        let text = shipped
            .text()
            .replace(control, &format!("{control}\nthrash_control = false"))
            .replace("name = \"equilibria\"", "name = \"no thrash control\"");
        Ok(vec![Recipe::named("tpp")?, Recipe::parse("no thrash control", &text)?, shipped])
    }

    fn stacked(&self) -> Result<FigureSheet, Failure> {
        let outputs = self.run(&STACKED, &runs::recipes(&["static", "tpp", "equilibria"])?)?;
        let paper = "cache: shares 72 and 73 % instead of 90 and 70 %, P99 of B 47 % and of A 52 \
                     % lower than Linux; burst: A loses 65 % of its throughput on Linux only; CI: \
                     3.3 % shorter builds, D over 90 % local instead of under half; web: every \
                     container at least 28 GB, 8 % more for partition B; SparkBench 1.7 times the \
                     throughput of Linux";
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
        let mut sheet = FigureSheet::new("Sections V-C and V-D: stacked containers", paper, &head);
        for (name, outputs) in STACKED.iter().zip(&outputs) {
            for output in outputs {
                sheet.rows.extend(tenants(name, output));
            }
        }
        Ok(sheet)
    }

    fn run(&self, names: &[&str], recipes: &[Recipe]) -> Result<Vec<Vec<RunOutput>>, Failure> {
        let scenarios = names
            .iter()
            .map(|name| runs::scenario(&self.scenarios, name))
            .collect::<Result<Vec<_>, _>>()?;
        runs::all(&scenarios, recipes, self.paper.seed)
    }
}

/// Returns the GB (MB on the small machine) in fast memory at the end, by tenant.
fn held(output: &RunOutput) -> String {
    let last = output.timeline.len().saturating_sub(1);
    let all = 0..output.result.tenants.len();
    let scale = |gb: f64| if gb < 1.0 { gb * 1e3 / 1.048_576 } else { gb };
    all.map(|i| format!("{:.1}", scale(fast_gb(output, last, i)))).collect::<Vec<_>>().join(", ")
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
