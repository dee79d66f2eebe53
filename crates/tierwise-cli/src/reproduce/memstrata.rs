//! Memstrata (OSDI 2024), figures 5, 6, 10 and 14, on the recorded programs.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rayon::prelude::*;
use tierwise_core::recipe::Recipe;
use tierwise_core::units::Pages;
use tierwise_sim::hardware::Colouring;
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::{Scenario, TierSize, WorkloadSpec, managed};

use super::sheet::{FigureSheet, publish};
use crate::failure::{CommandResult, Failure};
use crate::input;
use crate::progress::RunProgress;
use crate::run_args::PaperArgs;

/// Memstrata (OSDI 2024): figure 5 (hardware tiering), 6 (noisy neighbour), 10 (outliers among
/// tenants) and 14 (hotness).
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  \
                  tierwise reproduce memstrata\n  \
                  tierwise reproduce memstrata --figures 5,6 --json")]
pub struct MemstrataCommand {
    /// The figures.
    #[arg(long, value_delimiter = ',', default_values_t = FIGURES, value_name = "NUMBERS",
          value_parser = figure)]
    figures: Vec<u32>,
    /// Directory of the scenarios of the recorded programs.
    #[arg(long, default_value = "scenarios/recorded", value_name = "DIR")]
    scenarios: PathBuf,
    /// Directory of the mixes of figure 10.
    #[arg(long, default_value = "scenarios/memstrata", value_name = "DIR")]
    mixes: PathBuf,
    #[command(flatten)]
    paper: PaperArgs,
}

/// The figures that can be measured.
const FIGURES: [u32; 4] = [5, 6, 10, 14];

fn figure(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| FIGURES.contains(number));
    number.ok_or_else(|| format!("allowed: {}", FIGURES.map(|n| n.to_string()).join(", ")))
}

/// The paper's mixed mode: a third of each tenant's memory is dedicated (section 3.2).
const THIRD: f64 = 1.0 / 3.0;

/// TPP inside each virtual machine has as much fast memory as the hardware: one half without, two
/// thirds with dedicated memory (figure 11; section 6).
const HALF: f64 = 0.5;

/// Factor by which the programs of figure 14 run longer than recorded: some ten minutes. Memstrata
/// acts every ten seconds, and by hotness on 2 % of a tenant's memory, so a run of a minute would
/// end before it has done much.
const LONGER: u32 = 8;

/// Slow memory's size beyond the programs': TPP never lacks slow memory.
const ROOMY: TierSize = TierSize::ShareOfResident(2.0);

impl MemstrataCommand {
    pub fn execute(&self) -> CommandResult {
        let mut figures = Vec::new();
        for number in &self.figures {
            figures.push(match number {
                5 => self.hardware_tiering()?,
                6 => self.noisy_neighbour()?,
                10 => self.mixes()?,
                _ => self.hotness()?,
            });
        }
        publish("memstrata", &self.paper, &figures)
    }

    /// Every recorded program's scenario, and its name.
    fn programs(&self) -> Result<Vec<Scenario>, Failure> {
        let mut files: Vec<PathBuf> = std::fs::read_dir(&self.scenarios)
            .map_err(|error| Failure::User(format!("{}: {error}", self.scenarios.display())))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|e| e == "toml"))
            .collect();
        files.sort();
        files.iter().map(|file| Ok(managed::overlapped(input::scenario(file)?))).collect()
    }

    /// Returns slowdowns in percent of each program by each system. A system makes its scenario
    /// from the program's.
    fn slowdowns(&self, programs: &[Scenario], systems: &[System]) -> Result<Vec<Row>, Failure> {
        let progress = RunProgress::new(programs.len() * systems.len());
        let one = |scenario: &Scenario| {
            let base = Prepared::load(managed::flat(scenario, 0.0, Colouring::Isolated))?;
            let of = |system: &System| {
                let job = progress.job(&scenario.name, system.name);
                let prepared = (system.prepare)(scenario, &base)?;
                let slowdown = self.all_slowdowns(&prepared, system.recipe)?[0];
                job.done();
                Ok(slowdown)
            };
            let percent = systems.iter().map(of).collect::<Result<Vec<f64>, Failure>>()?;
            Ok(Row { name: scenario.name.clone(), percent })
        };
        programs.par_iter().map(one).collect()
    }

    /// Returns every tenant's slowdown in percent; there is at least one.
    fn all_slowdowns(&self, prepared: &Prepared, recipe: &str) -> Result<Vec<f64>, Failure> {
        let recipe = Recipe::named(recipe)?;
        let options = RunOptions { seed: self.paper.seed, ..RunOptions::default() };
        let output = run(prepared, &recipe, &options, &mut |_| ())?;
        Ok(output.result.tenants.iter().map(|t| (t.slowdown - 1.0) * 100.0).collect())
    }

    fn hardware_tiering(&self) -> Result<FigureSheet, Failure> {
        let systems = [
            System { name: "cxl only", recipe: "smem-all", prepare: |s, _| ordinary(s, HALF) },
            System { name: "hw-tiered", recipe: "flat", prepare: |_, base| managed(base, 0.0) },
            System { name: "mixed", recipe: "flat", prepare: |_, base| managed(base, THIRD) },
            System { name: "2lm", recipe: "2lm", prepare: |s, _| cached(s) },
            System { name: "tpp 50 %", recipe: "tpp", prepare: |s, _| ordinary(s, HALF) },
        ];
        let rows = self.slowdowns(&self.programs()?, &systems)?;
        let paper = "at most 5 % slower: 73 % of the programs hardware-tiered, 82 % mixed; at \
                     most 10 %: 86 % and 95 %; more than 50 %: 17 % with TPP";
        let title = "Figure 5: slowdown against local memory only, in percent";
        let mut sheet = table(title, paper, "program", systems.iter().map(|s| s.name), &rows);
        for limit in [5.0, 10.0, 50.0] {
            sheet.rows.push(within(limit, &rows));
        }
        Ok(sheet)
    }

    fn noisy_neighbour(&self) -> Result<FigureSheet, Failure> {
        let systems = [
            System {
                name: "isolated",
                recipe: "flat",
                prepare: |s, base| neighbour(s, base, Colouring::Isolated),
            },
            System {
                name: "conflicting",
                recipe: "flat",
                prepare: |s, base| neighbour(s, base, Colouring::Conflicting),
            },
        ];
        let mut rows = self.slowdowns(&self.programs()?, &systems)?;
        // The figure's own measure: conflicting against isolated.
        rows.iter_mut().for_each(|row| {
            let [isolated, conflicting] = [row.percent[0], row.percent[1]];
            row.percent.push(((100.0 + conflicting) / (100.0 + isolated) - 1.0) * 100.0);
        });
        let paper = "more than 10 % slower by conflicts: 73 % of the programs";
        let title = "Figure 6: what a noisy neighbour costs, slowdown in percent";
        let systems = ["isolated", "conflicting", "by conflicts"];
        let mut sheet = table(title, paper, "program", systems.into_iter(), &rows);
        sheet.rows.push(within(10.0, &rows));
        Ok(sheet)
    }

    fn mixes(&self) -> Result<FigureSheet, Failure> {
        let mixes = ["web-heavy", "data-heavy", "balanced"];
        let progress = RunProgress::new(mixes.len());
        let of = |mix: &&str| {
            let job = progress.job(mix, "figure 10");
            let rows = self.mix(mix)?;
            job.done();
            Ok(rows)
        };
        let rows: Vec<Vec<Row>> = mixes.par_iter().map(of).collect::<Result<_, Failure>>()?;
        let rows = rows.concat();
        let systems = ["tpp 67 %", "hw-tiered", "memstrata", "karma"];
        let paper = "the worst tenant, hardware-tiered: 35 %; with Memstrata: below 6 %";
        let title =
            "Figure 10: slowdown of each tenant, a third of the memory dedicated, in percent";
        let mut sheet = table(title, paper, "mix: tenant", systems.into_iter(), &rows);
        sheet.rows.push(worst(&rows));
        Ok(sheet)
    }

    /// The tenants of a mix.
    fn mix(&self, mix: &str) -> Result<Vec<Row>, Failure> {
        let scenario = input::scenario(&self.mixes.join(format!("{mix}.toml")))?;
        let scenario = managed::overlapped(scenario);
        let mixed = Prepared::load(scenario.clone())?;
        let mut columns = vec![self.tpp(&scenario)?];
        for recipe in ["flat", "flat-memstrata", "flat-karma"] {
            columns.push(self.all_slowdowns(&mixed, recipe)?);
        }
        let row = |(i, workload): (usize, &WorkloadSpec)| Row {
            name: format!("{mix}: {}", workload.name),
            percent: columns.iter().map(|column| column[i]).collect(),
        };
        Ok(scenario.workloads.iter().enumerate().map(row).collect())
    }

    /// Returns the slowdowns with TPP inside each virtual machine: every tenant alone with two
    /// thirds of its memory fast (section 6).
    fn tpp(&self, mix: &Scenario) -> Result<Vec<f64>, Failure> {
        let alone = |workload: &WorkloadSpec| {
            let scenario = Scenario { workloads: vec![workload.clone()], ..mix.clone() };
            Ok(self.all_slowdowns(&ordinary(&scenario, 1.0 - THIRD)?, "tpp")?[0])
        };
        mix.workloads.iter().map(alone).collect()
    }

    fn hotness(&self) -> Result<FigureSheet, Failure> {
        let mixed = |_: &Scenario, base: &Prepared| managed(base, THIRD);
        let systems = [
            System { name: "random", recipe: "flat-memstrata", prepare: mixed },
            System { name: "by hotness", recipe: "flat-memstrata-hotness", prepare: mixed },
        ];
        let rows = self
            .slowdowns(&self.programs()?.into_iter().map(longer).collect::<Vec<_>>(), &systems)?;
        let paper = "marginal benefits by hotness, and some programs slower";
        let title = "Figure 14: dedicated pages at random and by hotness, slowdown in percent";
        let mut sheet = table(title, paper, "program", systems.iter().map(|s| s.name), &rows);
        sheet.rows.push(within(5.0, &rows));
        sheet.rows.push(worst(&rows));
        Ok(sheet)
    }
}

/// Makes the program run [`LONGER`]: a single pass with longer windows, a loop with more rounds.
fn longer(mut scenario: Scenario) -> Scenario {
    for workload in &mut scenario.workloads {
        let length = if workload.loops > 1 { &mut workload.loops } else { &mut workload.dilation };
        *length *= LONGER;
    }
    scenario.duration = scenario.duration.map(|duration| duration * LONGER);
    scenario
}

/// A program's slowdowns, by system.
#[derive(Debug, Clone)]
struct Row {
    name: String,
    percent: Vec<f64>,
}

fn table<'a>(
    title: &str,
    paper: &'static str,
    what: &'a str,
    systems: impl Iterator<Item = &'a str>,
    rows: &[Row],
) -> FigureSheet {
    let head: Vec<&str> = std::iter::once(what).chain(systems).collect();
    let mut sheet = FigureSheet::new(title, paper, &head);
    let cells = |row: &Row| {
        let percent = row.percent.iter().map(|percent| format!("{percent:.1}"));
        std::iter::once(row.name.clone()).chain(percent).collect()
    };
    sheet.rows = rows.iter().map(cells).collect();
    sheet
}

/// Applies `of` to all slowdowns of each system.
fn summary(name: String, rows: &[Row], of: impl Fn(&[f64]) -> String) -> Vec<String> {
    let systems = rows.first().map_or(0, |row| row.percent.len());
    let column = |i: usize| rows.iter().map(|row| row.percent[i]).collect::<Vec<f64>>();
    std::iter::once(name).chain((0..systems).map(|i| of(&column(i)))).collect()
}

/// Returns the share of the programs whose slowdown is within the limit.
fn within(limit: f64, rows: &[Row]) -> Vec<String> {
    summary(format!("at most {limit} % slower"), rows, |all| {
        let count = all.iter().filter(|&&percent| percent <= limit).count();
        format!("{:.0} % of them", 100.0 * count as f64 / all.len().max(1) as f64)
    })
}

fn worst(rows: &[Row]) -> Vec<String> {
    summary("the worst".to_owned(), rows, |all| {
        format!("{:.1}", all.iter().copied().fold(0.0, f64::max))
    })
}

/// A system of a figure: its machine and its recipe.
struct System {
    name: &'static str,
    recipe: &'static str,
    prepare: fn(&Scenario, &Prepared) -> Result<Prepared, Failure>,
}

/// Returns a machine that software manages, with this share of the resident set in fast memory.
fn ordinary(scenario: &Scenario, fast: f64) -> Result<Prepared, Failure> {
    let mut scenario = scenario.clone();
    scenario.machine.hardware = None;
    scenario.sizes = vec![TierSize::ShareOfResident(fast), ROOMY];
    Ok(Prepared::load(scenario)?)
}

/// Returns the program in Flat Memory Mode with another share of dedicated memory.
fn managed(base: &Prepared, dedicated: f64) -> Result<Prepared, Failure> {
    Ok(base.resized(managed::sizes(dedicated))?)
}

/// Returns the program behind a cache as large as Flat Memory Mode's fast memory.
fn cached(scenario: &Scenario) -> Result<Prepared, Failure> {
    Ok(Prepared::load(managed::two_level(scenario))?)
}

/// Duration of the neighbour's noise, which never ends by itself.
const NOISE: Duration = Duration::from_secs(60);

/// Returns the program beside a noisy neighbour of its size.
fn neighbour(
    scenario: &Scenario,
    base: &Prepared,
    colouring: Colouring,
) -> Result<Prepared, Failure> {
    let resident = Pages(base.resident_pages()).in_bytes(base.machine().page_size);
    let mut both = managed::flat(scenario, 0.0, colouring);
    both.workloads.push(managed::noisy_neighbour(resident));
    both.duration = Some(NOISE);
    Ok(Prepared::load(both)?)
}
