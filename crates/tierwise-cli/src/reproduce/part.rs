//! A part of a paper's evaluation: the experiments that one command line can ask for, the claims
//! that they judge, and the tables that they fill.

use super::claims::{Claim, Here};
use super::figure::Figure;
use super::measurements::Measurements;
use super::sheet::FigureSheet;
use crate::failure::Failure;

/// The measure of a part.
type Measure<'a> = Box<dyn Fn(&Measurements) -> Result<Findings, Failure> + 'a>;

/// A part.
pub struct PaperPart<'a> {
    /// The paper and a figure or a section: "mtat-8".
    pub name: &'static str,
    /// What the paper states.
    pub claims: &'static [Claim],
    /// Jobs that it takes, for the progress bar.
    pub jobs: usize,
    /// Measures it.
    pub measure: Measure<'a>,
}

/// A table of a part.
#[derive(Debug, Clone)]
pub enum Table {
    /// Of a paper with figures of different kinds.
    Sheet(FigureSheet),
    /// Of MULTI-CLOCK's figures 5 to 7, which have one form.
    Figure(Figure),
}

impl Table {
    /// Number and subject.
    pub fn title(&self) -> &str {
        match self {
            Self::Sheet(sheet) => &sheet.title,
            Self::Figure(figure) => &figure.title,
        }
    }

    /// The paper's own statement, if the table has one beside its claims.
    pub fn statement(&self) -> Option<&str> {
        match self {
            Self::Sheet(sheet) => Some(sheet.paper),
            Self::Figure(_) => None,
        }
    }
}

/// What a part found.
#[derive(Debug, Clone)]
pub struct Findings {
    /// Its tables.
    pub tables: Vec<Table>,
    /// What was found for each of its claims, in their order.
    pub here: Vec<Here>,
}

impl Findings {
    /// One table, with what was found.
    pub fn sheet(sheet: FigureSheet, here: Vec<Here>) -> Self {
        Self { tables: vec![Table::Sheet(sheet)], here }
    }
}

/// Measures parts one after the other, and returns the tables of all.
pub fn sheets(parts: &[PaperPart<'_>], seed: u64) -> Result<Vec<FigureSheet>, Failure> {
    Ok(tables(parts, seed)?
        .into_iter()
        .filter_map(|table| match table {
            Table::Sheet(sheet) => Some(sheet),
            Table::Figure(_) => None,
        })
        .collect())
}

/// Measures parts one after the other, and returns the tables of all.
pub fn tables(parts: &[PaperPart<'_>], seed: u64) -> Result<Vec<Table>, Failure> {
    let measurements = Measurements::new(seed, parts.iter().map(|part| part.jobs).sum());
    let mut tables = Vec::new();
    for part in parts {
        tables.extend((part.measure)(&measurements)?.tables);
    }
    Ok(tables)
}
