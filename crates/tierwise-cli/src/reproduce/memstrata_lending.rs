//! Memstrata (OSDI 2024), figures 12, 13 and 16: more outliers and dedicated memory, virtual
//! machines that arrive and end, and the allocator's parameters.

use std::path::Path;

use rayon::prelude::*;
use tierwise_core::recipe::Recipe;
use tierwise_sim::scenario::{Scenario, managed};

use super::claims::{Here, memstrata as claims};
use super::measurements::{LazyScenario, Measurements};
use super::memstrata::{Slowdowns, THIRD, all_slowdowns, greatest, table, worst};
use super::part::{Findings, PaperPart};
use super::runs;
use super::sheet::FigureSheet;
use crate::failure::Failure;

/// The cases of figure 12, and two shares between and below them: scenario, number of outliers,
/// which stand last in it, and the share of dedicated memory.
const CASES: [(&str, usize, f64); 5] = [
    ("two-outliers", 2, THIRD),
    ("four-outliers", 4, THIRD),
    ("four-outliers", 4, 2.0 * THIRD),
    ("two-outliers", 2, THIRD / 2.0),
    ("four-outliers", 4, THIRD * 1.5),
];

/// The figure's own cases, the first of [`CASES`].
const PUBLISHED: usize = 3;

/// Without lending, and with it.
const RECIPES: [&str; 2] = ["flat", "flat-memstrata"];

/// The values of figure 16's parameters: the default, half of it, and twice.
const PARAMETERS: [(&str, &str, [&str; 3]); 3] = [
    ("interval_ms", "10_000", ["5_000", "10_000", "20_000"]),
    ("step_ratio", "0.1", ["0.05", "0.1", "0.2"]),
    ("ewma", "0.2", ["0.1", "0.2", "0.4"]),
];

/// Points of slowdown that a parameter may cost without being called sensitive: a fifth of the
/// threshold, which no tenant notices.
const POINT: f64 = 1.0;

/// The part of a figure.
pub(super) fn part(mixes: &Path, number: u32) -> PaperPart<'_> {
    match number {
        12 => PaperPart {
            name: "memstrata-12",
            claims: claims::OUTLIERS,
            jobs: CASES.len() * RECIPES.len(),
            measure: Box::new(|m| outliers(m, mixes)),
        },
        13 => PaperPart {
            name: "memstrata-13",
            claims: claims::ARRIVALS,
            jobs: RECIPES.len(),
            measure: Box::new(|m| arrivals(m, mixes)),
        },
        _ => PaperPart {
            name: "memstrata-16",
            claims: claims::SENSITIVITY,
            // The defaults stand in each row and are run once.
            jobs: 1 + PARAMETERS.len() * 2,
            measure: Box::new(|m| sensitivity(m, mixes)),
        },
    }
}

/// The slowdowns of a scenario's tenants without lending and with it.
fn rows(m: &Measurements, case: &str, scenario: &Scenario) -> Result<Vec<Slowdowns>, Failure> {
    let setting = LazyScenario::new(scenario.clone());
    let of = |name: &&str| all_slowdowns(m, &setting, &Recipe::named(name)?);
    let columns: Vec<Vec<f64>> = RECIPES.par_iter().map(of).collect::<Result<_, Failure>>()?;
    let row = |(i, name): (usize, &str)| Slowdowns {
        name: format!("{case}: {name}"),
        percent: columns.iter().map(|column| column[i]).collect(),
    };
    Ok(scenario.workloads.iter().map(|w| w.name.as_str()).enumerate().map(row).collect())
}

const SYSTEMS: [&str; 2] = ["hw-tiered", "memstrata"];

fn outliers(m: &Measurements, mixes: &Path) -> Result<Findings, Failure> {
    let of = |&(name, count, dedicated): &(&str, usize, f64)| {
        let mut scenario = managed::overlapped(runs::scenario(mixes, name)?);
        scenario.sizes = managed::sizes(dedicated);
        let case = format!("{count} outliers, {:.0} % dedicated", 100.0 * dedicated);
        rows(m, &case, &scenario)
    };
    let cases: Vec<Vec<Slowdowns>> = CASES.par_iter().map(of).collect::<Result<_, Failure>>()?;
    let paper = "2 outliers with 33 % dedicated, 4 with 33 %, 4 with 67 %; goal 4: no tenant more \
                 than 5 % slower (the bars are not in the text)";
    let title = "Figure 12: several outliers and shares of dedicated memory, slowdown in percent";
    let all = cases.concat();
    let mut sheet = table(title, paper, "case: tenant", SYSTEMS.into_iter(), &all);
    sheet.rows.push(worst(&all));
    // The outliers stand last.
    let worst_outlier = |(rows, &(_, count, _)): (&Vec<Slowdowns>, &(&str, usize, f64))| {
        Here::number(greatest(&rows[rows.len().saturating_sub(count)..], 1))
    };
    let here = cases.iter().zip(&CASES).take(PUBLISHED).map(worst_outlier).collect();
    Ok(Findings::sheet(sheet, here))
}

fn arrivals(m: &Measurements, mixes: &Path) -> Result<Findings, Failure> {
    let scenario = managed::overlapped(runs::scenario(mixes, "arrivals")?);
    let all = rows(m, "arrivals", &scenario)?;
    let paper = "virtual machines arrive and end while Memstrata lends; goal 4: no tenant more \
                 than 5 % slower (the course is not in the text)";
    let title = "Figure 13: tenants that arrive and end, slowdown in percent";
    let mut sheet = table(title, paper, "tenant", SYSTEMS.into_iter(), &all);
    sheet.rows.push(worst(&all));
    let [without, with] = [0, 1].map(|system| greatest(&all, system));
    let here = vec![
        Here::number(with),
        Here::Holds(with < without, format!("{with:.1} instead of {without:.1} %")),
    ];
    Ok(Findings::sheet(sheet, here))
}

/// The recipe with another value of a parameter.
fn variant(parameter: &str, default: &str, value: &str) -> Result<Recipe, Failure> {
    let shipped = Recipe::named("flat-memstrata")?;
    if value == default {
        return Ok(shipped);
    }
    let text = shipped.text();
    let changed =
        text.replace(&format!("{parameter} = {default}"), &format!("{parameter} = {value}"));
    if changed == text {
        let problem = format!("flat-memstrata has no {parameter} = {default}");
        return Err(Failure::Internal(problem));
    }
    Ok(Recipe::parse("flat-memstrata", &changed)?)
}

fn sensitivity(m: &Measurements, mixes: &Path) -> Result<Findings, Failure> {
    let scenario = managed::overlapped(runs::scenario(mixes, "data-heavy")?);
    let setting = LazyScenario::new(scenario);
    let default = Recipe::named("flat-memstrata")?;
    let slowdowns = all_slowdowns(m, &setting, &default)?;
    let one = |(parameter, default, value): (&'static str, &str, &'static str)| {
        if value == default {
            return Ok((parameter, value, slowdowns.clone()));
        }
        let recipe = variant(parameter, default, value)?;
        Ok((parameter, value, all_slowdowns(m, &setting, &recipe)?))
    };
    let values = PARAMETERS.iter().flat_map(|&(p, d, values)| values.map(|value| (p, d, value)));
    let values: Vec<_> = values.collect();
    let all = values.into_par_iter().map(one).collect::<Result<Vec<_>, Failure>>()?;
    let paper = "defaults: 10 s, a tenth and 0.2 (the curves are not in the text)";
    let title = "Figure 16: interval, step and smoothing, the data-heavy mix, slowdown in percent";
    let head = ["parameter", "value", "the worst tenant", "the outlier", "the mean"];
    let mut sheet = FigureSheet::new(title, paper, &head);
    let most = |slowdowns: &[f64]| slowdowns.iter().copied().fold(0.0, f64::max);
    for (parameter, value, slowdowns) in &all {
        let mean = slowdowns.iter().sum::<f64>() / slowdowns.len().max(1) as f64;
        let outlier = slowdowns.last().copied().unwrap_or(0.0);
        let figures = [most(slowdowns), outlier, mean].map(|percent| format!("{percent:.2}"));
        let mut row = vec![(*parameter).to_owned(), value.replace('_', "")];
        row.extend(figures);
        sheet.rows.push(row);
    }
    let best = all.iter().map(|(.., slowdowns)| most(slowdowns)).fold(f64::INFINITY, f64::min);
    let ours = most(&slowdowns);
    let seen = format!("{ours:.2} %, and {best:.2} % with the best value");
    Ok(Findings::sheet(sheet, vec![Here::Holds(ours - best <= POINT, seen)]))
}
