//! A paper's parts under several seeds: the range of each figure, and the verdicts of all.

use std::path::Path;

use super::claims::{Claim, ClaimVerdict, Here};
use super::measurements::Measurements;
use super::part::{Findings, PaperPart, Table};
use super::sheet::FigureSheet;
use crate::failure::Failure;

/// Measures parts under seeds from `first` on, and keeps the results in a directory if there is
/// one. With several seeds, the tables have the range of each number, and another one has the range
/// of each claim's figures.
pub fn sheets(
    parts: &[PaperPart<'_>],
    first: u64,
    seeds: u64,
    kept: Option<&Path>,
) -> Result<Vec<FigureSheet>, Failure> {
    let jobs = parts.iter().map(|part| part.jobs).sum();
    let mut by_seed = Vec::new();
    for seed in first..=first.saturating_add(seeds - 1) {
        let measurements = match kept {
            Some(directory) => Measurements::kept_in(directory, seed, jobs)?,
            None => Measurements::new(seed, jobs),
        };
        let found = parts.iter().map(|part| (part.measure)(&measurements));
        by_seed.push(found.collect::<Result<Vec<Findings>, Failure>>()?);
        measurements.sync()?;
    }
    let mut sheets = Vec::new();
    for part in 0..parts.len() {
        let tables: Vec<Vec<&FigureSheet>> =
            by_seed.iter().map(|found| tables(&found[part])).collect();
        let count = tables.iter().map(Vec::len).min().unwrap_or(0);
        let of_all = |table: usize| tables.iter().map(|of_seed| of_seed[table]).collect::<Vec<_>>();
        sheets.extend((0..count).map(|table| merged(&of_all(table))));
    }
    if seeds > 1 {
        sheets.push(statements(parts, first, &by_seed));
    }
    Ok(sheets)
}

/// The claims of parts, with what was found under each seed.
fn statements(parts: &[PaperPart<'_>], first: u64, by_seed: &[Vec<Findings>]) -> FigureSheet {
    let claims = parts.iter().enumerate().flat_map(|(part, measured)| {
        measured.claims.iter().enumerate().map(move |(claim, stated)| (part, claim, stated))
    });
    let rows = claims.map(|(part, claim, stated)| {
        let here: Vec<&Here> =
            by_seed.iter().filter_map(|found| found[part].here.get(claim)).collect();
        statement(stated, &here)
    });
    let mut all = FigureSheet::new(
        &format!("Statements under {} seeds, from {first} on", by_seed.len()),
        "a figure here is its lowest and its highest value over the seeds; the worst verdict \
         decides",
        &["where", "statement", "paper", "here", "verdict"],
    );
    all.rows.extend(rows);
    all
}

fn tables(found: &Findings) -> Vec<&FigureSheet> {
    found.tables.iter().filter_map(sheet).collect()
}

fn sheet(table: &Table) -> Option<&FigureSheet> {
    match table {
        Table::Sheet(sheet) => Some(sheet),
        Table::Figure(_) => None,
    }
}

/// One table of several seeds' tables.
fn merged(tables: &[&FigureSheet]) -> FigureSheet {
    let mut sheet = tables[0].clone();
    for (y, row) in sheet.rows.iter_mut().enumerate() {
        for (x, cell) in row.iter_mut().enumerate() {
            let cells = tables.iter().filter_map(|table| table.rows.get(y)?.get(x));
            *cell = range(&cells.map(String::as_str).collect::<Vec<_>>());
        }
    }
    sheet
}

/// Cells' lowest and highest number, before what all of them have behind it. Cells that are no such
/// numbers are those of the first seed.
fn range(cells: &[&str]) -> String {
    let first = cells.first().copied().unwrap_or_default();
    let parts: Option<Vec<(f64, &str, &str)>> = cells.iter().map(|cell| number(cell)).collect();
    let Some(parts) = parts else { return first.to_owned() };
    let behind = parts.first().map_or("", |part| part.2);
    let by_number = |a: &&(f64, &str, &str), b: &&(f64, &str, &str)| a.0.total_cmp(&b.0);
    let ends = (parts.iter().min_by(by_number), parts.iter().max_by(by_number));
    match ends {
        (Some(low), Some(high)) if low.0 < high.0 && parts.iter().all(|p| p.2 == behind) => {
            format!("{} to {}{behind}", low.1, high.1)
        }
        _ => first.to_owned(),
    }
}

/// The number with which a cell starts, as a number and as text, and what is behind it.
fn number(cell: &str) -> Option<(f64, &str, &str)> {
    let end = cell.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'));
    let (number, behind) = cell.split_at(end.unwrap_or(cell.len()));
    Some((number.parse().ok()?, number, behind))
}

/// A claim's row.
fn statement(claim: &Claim, here: &[&Here]) -> Vec<String> {
    let verdict = here.iter().map(|here| claim.verdict(here)).max();
    let seen = here.iter().map(|here| claim.measured(here)).collect::<Vec<_>>();
    let lists: Vec<Vec<&str>> = seen.iter().map(|seen| seen.split(", ").collect()).collect();
    let length = lists.first().map_or(0, Vec::len);
    let figures = |place: usize| lists.iter().filter_map(|list| list.get(place).copied()).collect();
    let ranges: Vec<String> = (0..length).map(|i| range(&figures(i) as &Vec<&str>)).collect();
    let comparisons = here.iter().filter(|here| matches!(here, Here::Holds(..))).count();
    let holding = here.iter().filter(|here| matches!(here, Here::Holds(true, _))).count();
    let measured = match comparisons {
        0 => ranges.join(", "),
        _ => format!("holds under {holding} of {comparisons} seeds"),
    };
    vec![
        claim.place.to_owned(),
        claim.what.to_owned(),
        claim.published(),
        measured,
        verdict.unwrap_or(ClaimVerdict::NotMeasured).to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::claims::Published;
    use super::*;

    #[test]
    fn numbers_have_ranges_and_texts_stay() {
        assert_eq!(range(&["0.81", "0.79", "0.80"]), "0.79 to 0.81");
        assert_eq!(range(&["12 of 200", "9 of 200"]), "9 to 12 of 200");
        assert_eq!(range(&["95.3 %", "95.3 %"]), "95.3 %");
        assert_eq!(range(&["redis", "redis"]), "redis");
        assert_eq!(range(&["0 0 32", "0 1 31"]), "0 0 32", "a course has no range");
        assert_eq!(range(&["NaN", "1.0"]), "NaN", "a seed without a figure is not left out");
    }

    #[test]
    fn worst_verdict_and_every_seed_count() {
        let paper = Published::Numbers(&[1.0, 2.0]);
        let claim = Claim { place: "figure 1", what: "w", paper, unit: " GB", cause: "" };
        let here = [vec![1.0, 2.05], vec![1.25, 1.95]].map(Here::Numbers);
        let row = statement(&claim, &here.iter().collect::<Vec<_>>());
        assert_eq!(row[3..], ["1 to 1.25, 1.95 to 2.05 GB", "near"]);
        let claim = Claim { paper: Published::Order, ..claim };
        let here = [true, false].map(|holds| Here::Holds(holds, "on 1 of 4".to_owned()));
        let row = statement(&claim, &here.iter().collect::<Vec<_>>());
        assert_eq!(row[3..], ["holds under 1 of 2 seeds", "differs"]);
    }

    #[test]
    fn rows_of_all_seeds_become_one() {
        let sheet = |figure: &str| {
            let mut sheet = FigureSheet::new("Figure 5", "more", &["service", "P99 ms"]);
            sheet.rows.push(vec!["redis".to_owned(), figure.to_owned()]);
            sheet
        };
        let (first, second) = (sheet("2.0"), sheet("1.5"));
        assert_eq!(merged(&[&first, &second]).rows, [["redis", "1.5 to 2.0"]]);
    }
}
