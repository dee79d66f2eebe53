//! EMT, figures 6 and 9: run times of Python programs with a part of their memory fast, on
//! scenarios/emt. The other figures need a real interpreter: python/emt/reproduction has them.

use std::path::{Path, PathBuf};

use clap::Args;
use rayon::prelude::*;
use tierwise_core::recipe::Recipe;
use tierwise_sim::scenario::{Scenario, TierSize};

use super::claims::{Here, emt as claims};
use super::measurements::{LazyScenario, Measurements};
use super::part::{Findings, PaperPart, Table, sheets};
use super::runs;
use super::sheet::{FigureSheet, publish};
use crate::failure::{CommandResult, Failure};
use crate::run_args::PaperArgs;

/// EMT: figure 6 (run times with a quarter, a half and three quarters of the memory fast, against
/// first touch, `AutoNUMA`, TPP and MEMTIS) and figure 9 (marking), on recorded Python programs.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise reproduce emt --json")]
pub struct EmtCommand {
    /// Directory of the scenarios.
    #[arg(long, default_value = "scenarios/emt", value_name = "DIR")]
    scenarios: PathBuf,
    #[command(flatten)]
    paper: PaperArgs,
}

/// The workloads of table 3.
const WORKLOADS: [&str; 11] = [
    "astar",
    "bellman",
    "bfs",
    "bfs-rand",
    "bidirectional",
    "kc",
    "lc",
    "sp",
    "sql1",
    "sql2",
    "sql3",
];

/// Shares of the resident set in fast memory (section 7.1).
const SHARES: [f64; 3] = [0.25, 0.5, 0.75];

/// The paper's systems; first touch is the measure of all.
const SYSTEMS: [&str; 4] = ["static", "autonuma", "tpp", "memtis"];

/// Places in a case's slowdowns, behind static.
const AUTONUMA: usize = 1;
const TPP: usize = 2;
const MEMTIS: usize = 3;
const EMT: usize = 4;

/// The paper's system. It is in no table of recipes: only a recording with objects can run it.
const RECIPE: &str = "\
name = \"emt\"
summary = \"Pages of a Python program by the hotness of their objects\"
source = \"EMT, sections 5.2 to 7.1\"

[policy]
algorithm = \"emt\"
pressure = \"1GiB\" # mem_pressure, section 7.1
";

/// The memory-intensive workloads and those with databases (section 7.2).
const HEAVY: &[&str] = &["bellman", "bfs-rand", "kc", "sql2", "sql3"];
const SQL: &[&str] = &["sql1", "sql2", "sql3"];
const OTHER_SQL: &[&str] = &["sql2", "sql3"];

/// Why there is no figure without a scenario of a workload.
const NOT_RECORDED: &str = "a workload of table 3 has no scenario";

/// Slow memory's size beyond the program's: it is never short.
const ROOMY: TierSize = TierSize::ShareOfResident(2.0);

impl EmtCommand {
    /// The command on the scenarios below a directory.
    pub fn below(root: &Path, paper: PaperArgs) -> Self {
        Self { scenarios: root.join("scenarios/emt"), paper }
    }

    pub fn execute(&self) -> CommandResult {
        publish("emt", &self.paper, &sheets(&self.parts(), self.paper.seed)?)
    }

    /// The paper's parts.
    pub fn parts(&self) -> Vec<PaperPart<'_>> {
        // Each case under every system, with all of it slow, and under EMT without the cost of
        // marking.
        let recorded = WORKLOADS.iter().filter(|name| self.file(name).exists()).count();
        let jobs = recorded * SHARES.len() * (SYSTEMS.len() + 3);
        vec![PaperPart {
            name: "emt-6",
            claims: claims::RUN_TIMES,
            jobs,
            measure: Box::new(|m| self.run_times(m)),
        }]
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scenarios.join(format!("{name}.toml"))
    }

    fn run_times(&self, m: &Measurements) -> Result<Findings, Failure> {
        let recorded = WORKLOADS.into_iter().filter(|name| self.file(name).exists());
        let cases: Vec<(&str, f64)> =
            recorded.flat_map(|name| SHARES.map(|share| (name, share))).collect();
        let cases = cases.into_par_iter().map(|(name, share)| self.case(m, name, share));
        let cases = cases.collect::<Result<Vec<Case>, Failure>>()?;
        let head = [
            "workload",
            "fast",
            "static",
            "autonuma",
            "tpp",
            "memtis",
            "emt",
            "marking, %",
            "all slow",
        ];
        let paper = "EMT is faster than TPP in 25 of 33 cases, AutoNUMA in 30 and MEMTIS in 15; \
                     geometric mean 1.18, MEMTIS 1.20; marking takes up to 8.3 %";
        let title = "Figures 6 and 9: slowdown against all memory fast";
        let mut sheet = FigureSheet::new(title, paper, &head);
        sheet.rows = cases.iter().map(Case::row).collect();
        sheet.rows.push(means(&cases));
        Ok(Findings { tables: vec![Table::Sheet(sheet)], here: said(&cases) })
    }

    fn case(&self, m: &Measurements, name: &'static str, share: f64) -> Result<Case, Failure> {
        let mut scenario = runs::scenario(&self.scenarios, name)?;
        scenario.sizes = vec![TierSize::ShareOfResident(share), ROOMY];
        let emt = Recipe::parse("emt", RECIPE)?;
        let setting = LazyScenario::new(scenario.clone());
        let mut slowdowns = Vec::new();
        for system in SYSTEMS {
            slowdowns.push(m.run(&setting, &Recipe::named(system)?, None)?.result.slowdown);
        }
        slowdowns.push(m.run(&setting, &emt, None)?.result.slowdown);
        let unmarked = m.run(&unmarked(scenario), &emt, None)?.result.slowdown;
        let marking = 100.0 * (1.0 - unmarked / slowdowns[EMT]);
        let all_slow = m.run(&setting, &Recipe::named("smem-all")?, None)?.result.slowdown;
        Ok(Case { name, share, slowdowns, marking, all_slow })
    }
}

/// The scenario without the cost of marking.
fn unmarked(mut scenario: Scenario) -> LazyScenario {
    scenario.costs.mark_object_ns = 0.0;
    LazyScenario::new(scenario)
}

/// A workload with a share of its memory fast.
struct Case {
    name: &'static str,
    share: f64,
    /// By system, EMT last.
    slowdowns: Vec<f64>,
    /// Marking's part of EMT's time, in percent.
    marking: f64,
    /// With all of its memory slow: more than this is the cost of a system.
    all_slow: f64,
}

impl Case {
    fn row(&self) -> Vec<String> {
        let mut row = vec![self.name.to_owned(), format!("{:.0} %", 100.0 * self.share)];
        row.extend(self.slowdowns.iter().map(|slowdown| format!("{slowdown:.3}")));
        row.push(format!("{:.2}", self.marking));
        row.push(format!("{:.3}", self.all_slow));
        row
    }
}

/// The geometric mean of a system's slowdowns.
fn mean<'a>(cases: impl Iterator<Item = &'a Case>, system: usize) -> f64 {
    let logs: Vec<f64> = cases.map(|case| case.slowdowns[system].ln()).collect();
    // Not a number where there is no case.
    (logs.iter().sum::<f64>() / logs.len() as f64).exp()
}

fn means(cases: &[Case]) -> Vec<String> {
    let mut row = vec!["geometric mean".to_owned(), String::new()];
    row.extend((0..=EMT).map(|system| format!("{:.3}", mean(cases.iter(), system))));
    row.extend([String::new(), String::new()]);
    row
}

/// What was found for each of [`claims::RUN_TIMES`].
fn said(cases: &[Case]) -> Vec<Here> {
    let of = |names: &'static [&'static str]| cases.iter().filter(move |c| names.contains(&c.name));
    let ahead = |than: usize| {
        let ahead = cases.iter().filter(|c| c.slowdowns[EMT] < c.slowdowns[than]).count();
        100.0 * ahead as f64 / cases.len() as f64
    };
    // The first and the last share.
    let ends = |name: &'static str, system: usize| {
        let all = cases.iter().filter(|c| c.name == name).map(|c| c.slowdowns[system]);
        let all: Vec<f64> = all.collect();
        vec![all.first().copied().unwrap_or(f64::NAN), all.last().copied().unwrap_or(f64::NAN)]
    };
    let gain = |names: &'static [&'static str], ours: usize, theirs: usize| {
        100.0 * (mean(of(names), theirs) / mean(of(names), ours) - 1.0)
    };
    let worse = |name: &str| {
        let all = || cases.iter().filter(|c| c.name == name);
        mean(all(), TPP) > mean(all(), AUTONUMA)
    };
    let slower = ["astar", "bidirectional", "sql1"].into_iter().filter(|&name| worse(name)).count();
    let marking = cases.iter().map(|case| case.marking);
    let most = marking.clone().fold(f64::NEG_INFINITY, f64::max);
    let least = marking.fold(f64::INFINITY, f64::min);
    let found = |figures: Vec<f64>| Here::numbers(figures, NOT_RECORDED);
    vec![
        found(vec![ahead(TPP), ahead(AUTONUMA), ahead(MEMTIS)]),
        found(vec![mean(cases.iter(), EMT), mean(cases.iter(), MEMTIS)]),
        found(ends("astar", MEMTIS)),
        found(ends("astar", AUTONUMA)),
        found(ends("bellman", AUTONUMA)),
        found(vec![gain(HEAVY, TPP, AUTONUMA)]),
        Here::Holds(slower == 3, format!("on {slower} of 3")),
        found(vec![gain(SQL, EMT, AUTONUMA)]),
        found(vec![gain(OTHER_SQL, TPP, EMT), gain(OTHER_SQL, MEMTIS, EMT)]),
        found(vec![least, most]),
    ]
}
