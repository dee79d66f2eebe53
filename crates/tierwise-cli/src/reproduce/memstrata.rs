//! Memstrata (OSDI 2024), figures 5, 6, 10, 14 and 15, on the recorded programs; figures 12, 13 and
//! 16 are in [`super::memstrata_lending`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rayon::prelude::*;
use tierwise_core::recipe::Recipe;
use tierwise_core::units::Pages;
use tierwise_learn::SLOWDOWN_MANIFEST;
use tierwise_sim::hardware::Colouring;
use tierwise_sim::scenario::{Scenario, TierSize, WorkloadSpec, managed};

use super::claims::{Here, memstrata as claims};
use super::measurements::{LazyScenario, Measurements};
use super::memstrata_lending as lending;
use super::part::{Findings, PaperPart, sheets};
use super::runs;
use super::sheet::{FigureSheet, publish};
use crate::failure::{CommandResult, Failure};
use crate::input;
use crate::run_args::PaperArgs;

/// Memstrata (OSDI 2024): figure 5 (hardware tiering), 6 (noisy neighbour), 9 (the classifier), 10
/// (outliers among tenants), 12 (more outliers and dedicated memory), 13 (arrivals), 14 (hotness)
/// and 16 (sensitivity).
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
    /// Directory of the mixes of figures 10, 12, 13 and 16.
    #[arg(long, default_value = "scenarios/memstrata", value_name = "DIR")]
    mixes: PathBuf,
    #[command(flatten)]
    paper: PaperArgs,
}

/// The figures that can be measured.
const FIGURES: [u32; 8] = [5, 6, 9, 10, 12, 13, 14, 16];

fn figure(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| FIGURES.contains(number));
    number.ok_or_else(|| format!("allowed: {}", FIGURES.map(|n| n.to_string()).join(", ")))
}

/// The paper's mixed mode: a third of each tenant's memory is dedicated (section 3.2).
pub(super) const THIRD: f64 = 1.0 / 3.0;

/// TPP inside each virtual machine has as much fast memory as the hardware: one half without, two
/// thirds with dedicated memory (figure 11; section 6).
const HALF: f64 = 0.5;

/// A gain in points that counts as marginal (figures 14 and 15): a fifth of the five points that a
/// tenant may lose.
const MARGINAL: f64 = 1.0;

/// Factor by which the programs of figure 14 run longer than recorded: some ten minutes. Memstrata
/// acts every ten seconds, and by hotness on 2 % of a tenant's memory, so a run of a minute would
/// end before it has done much.
const LONGER: u32 = 8;

/// Slow memory's size beyond the programs': TPP never lacks slow memory.
const ROOMY: TierSize = TierSize::ShareOfResident(2.0);

/// The mixes of figure 10, each with its outlier last.
const MIXES: [&str; 3] = ["web-heavy", "data-heavy", "balanced"];

/// The recipes of figure 10, beside TPP in each of six virtual machines.
const LENDERS: [&str; 3] = ["flat", "flat-memstrata", "flat-karma"];

impl MemstrataCommand {
    /// The command on the scenarios below a directory.
    pub fn below(root: &Path, paper: PaperArgs) -> Self {
        let [scenarios, mixes] =
            ["scenarios/recorded", "scenarios/memstrata"].map(|path| root.join(path));
        Self { figures: FIGURES.to_vec(), scenarios, mixes, paper }
    }

    pub fn execute(&self) -> CommandResult {
        publish("memstrata", &self.paper, &sheets(&self.parts(), self.paper.seed)?)
    }

    /// The paper's parts.
    pub fn parts(&self) -> Vec<PaperPart<'_>> {
        let figures = self.figures.iter().map(|&number| self.part(number));
        // It belongs to no figure.
        let all = self.figures.len() == FIGURES.len();
        figures.chain(all.then(|| super::cpu::memstrata(&self.mixes))).collect()
    }

    fn part(&self, number: u32) -> PaperPart<'_> {
        // A directory that cannot be read is reported when the part is measured.
        let programs = self.files().map_or(0, |files| files.len());
        match number {
            5 => PaperPart {
                name: "memstrata-5",
                claims: claims::HARDWARE_TIERING,
                jobs: programs * 5,
                measure: Box::new(|m| self.hardware_tiering(m)),
            },
            6 => PaperPart {
                name: "memstrata-6",
                claims: claims::NEIGHBOUR,
                jobs: programs * 2,
                measure: Box::new(|m| self.noisy_neighbour(m)),
            },
            9 => PaperPart {
                name: "memstrata-9",
                claims: claims::CLASSIFIER,
                jobs: 0,
                measure: Box::new(|_| classifier()),
            },
            10 => PaperPart {
                name: "memstrata-10",
                claims: claims::MIXES,
                jobs: MIXES.len() * (6 + LENDERS.len()),
                measure: Box::new(|m| self.mixes(m)),
            },
            14 => PaperPart {
                name: "memstrata-14",
                claims: claims::HOTNESS,
                jobs: programs * 2,
                measure: Box::new(|m| self.hotness(m)),
            },
            other => lending::part(&self.mixes, other),
        }
    }

    /// The files of the recorded programs' scenarios, sorted.
    fn files(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut files: Vec<PathBuf> = std::fs::read_dir(&self.scenarios)
            .map_err(|error| Failure::User(format!("{}: {error}", self.scenarios.display())))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|e| e == "toml"))
            .collect();
        files.sort();
        Ok(files)
    }

    /// Every recorded program's scenario.
    fn programs(&self) -> Result<Vec<Scenario>, Failure> {
        let files = self.files()?;
        files.iter().map(|file| Ok(managed::overlapped(input::scenario(file)?))).collect()
    }

    fn hardware_tiering(&self, m: &Measurements) -> Result<Findings, Failure> {
        let systems = [
            System { name: "cxl only", recipe: "smem-all", setting: |_, p| Ok(p.ordinary(HALF)) },
            System { name: "hw-tiered", recipe: "flat", setting: |_, p| Ok(p.managed(0.0)) },
            System { name: "mixed", recipe: "flat", setting: |_, p| Ok(p.managed(THIRD)) },
            System { name: "2lm", recipe: "2lm", setting: |_, p| Ok(p.cached()) },
            System { name: "tpp 50 %", recipe: "tpp", setting: |_, p| Ok(p.ordinary(HALF)) },
        ];
        let rows = slowdowns(m, &self.programs()?, &systems)?;
        let paper = "at most 5 % slower: 73 % of the programs hardware-tiered, 82 % mixed; at \
                     most 10 %: 86 % and 95 %; more than 50 %: 17 % with TPP";
        let title = "Figure 5: slowdown against local memory only, in percent";
        let mut sheet = table(title, paper, "program", systems.iter().map(|s| s.name), &rows);
        for limit in [5.0, 10.0, 50.0] {
            sheet.rows.push(within(limit, &rows));
        }
        let both = |limit| Here::Numbers([1, 2].map(|i| share_within(limit, &rows, i)).to_vec());
        let here = vec![both(5.0), both(10.0), Here::number(100.0 - share_within(50.0, &rows, 4))];
        Ok(Findings::sheet(sheet, here))
    }

    fn noisy_neighbour(&self, m: &Measurements) -> Result<Findings, Failure> {
        let systems = [
            System {
                name: "isolated",
                recipe: "flat",
                setting: |m, p| p.beside_noise(m, Colouring::Isolated),
            },
            System {
                name: "conflicting",
                recipe: "flat",
                setting: |m, p| p.beside_noise(m, Colouring::Conflicting),
            },
        ];
        let mut rows = slowdowns(m, &self.programs()?, &systems)?;
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
        let here = vec![Here::number(100.0 - share_within(10.0, &rows, 2))];
        Ok(Findings::sheet(sheet, here))
    }

    fn mixes(&self, m: &Measurements) -> Result<Findings, Failure> {
        let mixes: Vec<Vec<Slowdowns>> =
            MIXES.par_iter().map(|mix| self.mix(m, mix)).collect::<Result<_, Failure>>()?;
        let rows = mixes.concat();
        let systems = ["tpp 67 %", "hw-tiered", "memstrata", "karma"];
        let paper = "the worst tenant, hardware-tiered: 35 %; with Memstrata: below 6 %";
        let title =
            "Figure 10: slowdown of each tenant, a third of the memory dedicated, in percent";
        let mut sheet = table(title, paper, "mix: tenant", systems.into_iter(), &rows);
        sheet.rows.push(worst(&rows));
        let outlier = |mix: &Vec<Slowdowns>| mix.last().map_or(f64::NAN, |row| row.percent[2]);
        let here = vec![
            Here::number(greatest(&rows, 1)),
            Here::number(greatest(&rows, 2)),
            Here::numbers(mixes.iter().map(outlier).collect(), "a mix has no tenant"),
        ];
        Ok(Findings::sheet(sheet, here))
    }

    /// The tenants of a mix.
    fn mix(&self, m: &Measurements, mix: &str) -> Result<Vec<Slowdowns>, Failure> {
        let scenario = managed::overlapped(runs::scenario(&self.mixes, mix)?);
        let mixed = LazyScenario::new(scenario.clone());
        let mut columns = vec![tpp(m, &scenario)?];
        for recipe in LENDERS {
            columns.push(all_slowdowns(m, &mixed, &Recipe::named(recipe)?)?);
        }
        let row = |(i, workload): (usize, &WorkloadSpec)| Slowdowns {
            name: format!("{mix}: {}", workload.name),
            percent: columns.iter().map(|column| column[i]).collect(),
        };
        Ok(scenario.workloads.iter().enumerate().map(row).collect())
    }

    fn hotness(&self, m: &Measurements) -> Result<Findings, Failure> {
        let mixed = |_: &Measurements, program: &Program| Ok(program.managed(THIRD));
        let systems = [
            System { name: "random", recipe: "flat-memstrata", setting: mixed },
            System { name: "by hotness", recipe: "flat-memstrata-hotness", setting: mixed },
        ];
        let programs: Vec<Scenario> = self.programs()?.into_iter().map(longer).collect();
        let rows = slowdowns(m, &programs, &systems)?;
        let paper = "marginal benefits by hotness, and some programs slower";
        let title = "Figure 14: dedicated pages at random and by hotness, slowdown in percent";
        let mut sheet = table(title, paper, "program", systems.iter().map(|s| s.name), &rows);
        sheet.rows.push(within(5.0, &rows));
        sheet.rows.push(worst(&rows));
        let gains: Vec<f64> = rows.iter().map(|row| row.percent[0] - row.percent[1]).collect();
        let mean = gains.iter().sum::<f64>() / gains.len().max(1) as f64;
        let slower = gains.iter().filter(|&&gain| gain < 0.0).count();
        let seen = format!("{mean:.2} points in the mean, {slower} programs slower");
        let marginal = Here::Holds(mean.abs() <= MARGINAL && slower > 0, seen);
        Ok(Findings::sheet(sheet, vec![marginal, followed(m, &programs, &gains)?]))
    }
}

/// Figure 15: the pages that moved into dedicated memory because DAMON found them hot, as a share
/// of the program's own, and what each program gained. A program alone on its machine neither lends
/// nor borrows, so all of its promotions are such pages.
fn followed(m: &Measurements, programs: &[Scenario], gains: &[f64]) -> Result<Here, Failure> {
    let recipe = Recipe::named("flat-memstrata-hotness")?;
    let share = |scenario: &Scenario| {
        let mixed = LazyScenario::new(managed::flat(scenario, THIRD, Colouring::Isolated));
        let tenant = &m.run(&mixed, &recipe, None)?.result.tenants[0];
        let all: u64 = tenant.usage_bytes.values().sum();
        let page = scenario.machine.page_size.0 << scenario.machine.granule_order;
        let moved = (tenant.promotions * page) as f64;
        Ok(100.0 * moved / all.max(1) as f64)
    };
    let shares: Vec<f64> = programs.par_iter().map(share).collect::<Result<_, Failure>>()?;
    let moving: Vec<usize> = (0..shares.len()).filter(|&i| shares[i] >= 1.0).collect();
    let most = shares.iter().copied().fold(0.0, f64::max);
    let gained = moving.iter().map(|&i| gains[i]).fold(0.0, f64::max);
    let seen = format!(
        "on {} of {}, up to {most:.0} % of the pages; gain at most {gained:.1} points",
        moving.len(),
        shares.len()
    );
    Ok(Here::Holds(!moving.is_empty() && gained <= MARGINAL, seen))
}

/// What the training of the classifier that ships found out about it.
fn classifier() -> Result<Findings, Failure> {
    let manifest: serde_json::Value = serde_json::from_str(SLOWDOWN_MANIFEST)
        .map_err(|error| Failure::Internal(format!("the classifier's manifest: {error}")))?;
    let figure = |place: &str| manifest.pointer(place).and_then(serde_json::Value::as_f64);
    let rows = [
        ("accuracy in training", "/training/accuracy"),
        ("accuracy on families left out", "/families_left_out_together/all/accuracy"),
        ("accuracy of the ratio alone", "/families_left_out_together/ratio_alone/accuracy"),
        ("r squared of L3 miss latency with miss ratio", "/fit/r_squared"),
        ("r squared of MPKI with slowdown", "/fit/mpki_r_squared"),
    ];
    let found: Vec<f64> = rows.iter().map(|(_, place)| figure(place).unwrap_or(f64::NAN)).collect();
    let paper = "section 4.2: 100 % in training, 88 % in validation, 63 % by MPKI alone; figure 9: \
                 0.87";
    let title = "Figure 9 and section 4.2: the classifier that ships, from its training";
    let mut sheet = FigureSheet::new(title, paper, &["what", "here"]);
    let cells = rows.iter().zip(&found);
    sheet.rows = cells.map(|((what, _), n)| vec![(*what).to_owned(), format!("{n:.3}")]).collect();
    let percent = found[..3].iter().map(|share| 100.0 * share).collect();
    let why = "the manifest does not have it";
    let figures = [percent, vec![found[3]], vec![found[4]]];
    let here = figures.map(|figures| Here::numbers(figures, why)).to_vec();
    Ok(Findings::sheet(sheet, here))
}

/// Returns the slowdowns with TPP inside each virtual machine: every tenant alone with two thirds
/// of its memory fast (section 6).
fn tpp(m: &Measurements, mix: &Scenario) -> Result<Vec<f64>, Failure> {
    let recipe = Recipe::named("tpp")?;
    let alone = |workload: &WorkloadSpec| {
        let scenario = Scenario { workloads: vec![workload.clone()], ..mix.clone() };
        Ok(all_slowdowns(m, &ordinary(&scenario, 1.0 - THIRD), &recipe)?[0])
    };
    mix.workloads.iter().map(alone).collect()
}

/// Returns slowdowns in percent of each program by each system.
fn slowdowns(
    m: &Measurements,
    programs: &[Scenario],
    systems: &[System],
) -> Result<Vec<Slowdowns>, Failure> {
    let one = |scenario: &Scenario| {
        let base = LazyScenario::new(managed::flat(scenario, 0.0, Colouring::Isolated));
        let program = Program { scenario, base: Arc::new(base) };
        let of = |system: &System| {
            let setting = (system.setting)(m, &program)?;
            Ok(all_slowdowns(m, &setting, &Recipe::named(system.recipe)?)?[0])
        };
        let percent = systems.iter().map(of).collect::<Result<Vec<f64>, Failure>>()?;
        Ok(Slowdowns { name: scenario.name.clone(), percent })
    };
    programs.par_iter().map(one).collect()
}

/// Returns every tenant's slowdown in percent; there is at least one.
pub(super) fn all_slowdowns(
    m: &Measurements,
    setting: &LazyScenario,
    recipe: &Recipe,
) -> Result<Vec<f64>, Failure> {
    let output = m.run(setting, recipe, None)?;
    Ok(output.result.tenants.iter().map(|t| (t.slowdown - 1.0) * 100.0).collect())
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
pub(super) struct Slowdowns {
    pub(super) name: String,
    pub(super) percent: Vec<f64>,
}

pub(super) fn table<'a>(
    title: &str,
    paper: &'static str,
    what: &'a str,
    systems: impl Iterator<Item = &'a str>,
    rows: &[Slowdowns],
) -> FigureSheet {
    let head: Vec<&str> = std::iter::once(what).chain(systems).collect();
    let mut sheet = FigureSheet::new(title, paper, &head);
    let cells = |row: &Slowdowns| {
        let percent = row.percent.iter().map(|percent| format!("{percent:.1}"));
        std::iter::once(row.name.clone()).chain(percent).collect()
    };
    sheet.rows = rows.iter().map(cells).collect();
    sheet
}

/// Applies `of` to all slowdowns of each system.
fn summary(name: String, rows: &[Slowdowns], of: impl Fn(&[f64]) -> String) -> Vec<String> {
    let systems = rows.first().map_or(0, |row| row.percent.len());
    let column = |i: usize| rows.iter().map(|row| row.percent[i]).collect::<Vec<f64>>();
    std::iter::once(name).chain((0..systems).map(|i| of(&column(i)))).collect()
}

/// Returns the share of the programs whose slowdown is within the limit.
fn within(limit: f64, rows: &[Slowdowns]) -> Vec<String> {
    summary(format!("at most {limit} % slower"), rows, |all| {
        let count = all.iter().filter(|&&percent| percent <= limit).count();
        format!("{:.0} % of them", 100.0 * count as f64 / all.len().max(1) as f64)
    })
}

/// The share of the programs whose slowdown by a system is within the limit, in percent.
fn share_within(limit: f64, rows: &[Slowdowns], system: usize) -> f64 {
    let count = rows.iter().filter(|row| row.percent[system] <= limit).count();
    100.0 * count as f64 / rows.len().max(1) as f64
}

/// The greatest slowdown by a system.
pub(super) fn greatest(rows: &[Slowdowns], system: usize) -> f64 {
    rows.iter().map(|row| row.percent[system]).fold(0.0, f64::max)
}

pub(super) fn worst(rows: &[Slowdowns]) -> Vec<String> {
    summary("the worst".to_owned(), rows, |all| {
        format!("{:.1}", all.iter().copied().fold(0.0, f64::max))
    })
}

/// A recorded program, and its setting with everything managed.
struct Program<'a> {
    scenario: &'a Scenario,
    base: Arc<LazyScenario>,
}

impl Program<'_> {
    /// The program on a machine that software manages.
    fn ordinary(&self, fast: f64) -> LazyScenario {
        ordinary(self.scenario, fast)
    }

    /// The program in Flat Memory Mode with another share of dedicated memory.
    fn managed(&self, dedicated: f64) -> LazyScenario {
        self.base.resized(managed::sizes(dedicated))
    }

    /// The program behind a cache as large as Flat Memory Mode's fast memory.
    fn cached(&self) -> LazyScenario {
        LazyScenario::new(managed::two_level(self.scenario))
    }

    /// The program beside a noisy neighbour of its size.
    fn beside_noise(
        &self,
        m: &Measurements,
        colouring: Colouring,
    ) -> Result<LazyScenario, Failure> {
        let base = m.keys().scenario(self.base.scenario());
        let pages = m.once("resident", &[&base], || Ok(self.base.prepared()?.resident_pages()))?;
        let resident = Pages(pages).in_bytes(self.base.scenario().machine.page_size);
        let mut both = managed::flat(self.scenario, 0.0, colouring);
        both.workloads.push(managed::noisy_neighbour(resident));
        both.duration = Some(NOISE);
        Ok(LazyScenario::new(both))
    }
}

/// Duration of the neighbour's noise, which never ends by itself.
const NOISE: Duration = Duration::from_secs(60);

/// A system of a figure: its machine and its recipe.
struct System {
    name: &'static str,
    recipe: &'static str,
    setting: fn(&Measurements, &Program<'_>) -> Result<LazyScenario, Failure>,
}

/// Returns a machine that software manages, with this share of the resident set in fast memory.
fn ordinary(scenario: &Scenario, fast: f64) -> LazyScenario {
    let mut scenario = scenario.clone();
    scenario.machine.hardware = None;
    scenario.sizes = vec![TierSize::ShareOfResident(fast), ROOMY];
    LazyScenario::new(scenario)
}
