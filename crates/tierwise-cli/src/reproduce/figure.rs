//! One figure: the measurements, the paper's claims, and the reasons for differences.

use std::io::Write;

use anstyle::Style;
use serde::Serialize;

use crate::failure::CommandResult;
use crate::table::{new_table, write_table};

const HEAD: Style = Style::new().bold();

/// A program's bar group: one value per system, in the order of the figure's systems.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The program.
    pub program: String,
    /// Normalised to static tiering.
    pub values: Vec<f64>,
}

/// A sentence of the paper as numbers: multi-clock gains between `least` and `most` over
/// `baseline`.
#[derive(Debug, Clone, Serialize)]
pub struct Gain {
    /// The system that it is compared with.
    pub baseline: &'static str,
    /// Smallest published gain of multi-clock, as a share (0.2 is 20 %).
    pub least: f64,
    /// Greatest published gain.
    pub most: f64,
    /// Smallest and greatest gain measured here.
    pub here: Option<(f64, f64)>,
    /// Programs on which multi-clock is ahead here, of all.
    pub ahead: (usize, usize),
}

/// A figure.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// Number and subject.
    pub title: String,
    /// The meaning of a value.
    pub metric: &'static str,
    /// Names of the columns.
    pub systems: Vec<&'static str>,
    /// By program.
    pub rows: Vec<Row>,
    /// The paper's own statement.
    pub claims: Vec<Gain>,
    /// The reason for the difference from the paper's figures.
    pub why: &'static str,
}

impl Figure {
    /// A claim of the paper, measured on the figure's rows: the gain of multi-clock over
    /// `baseline`.
    pub fn claim(&mut self, baseline: &'static str, least: f64, most: f64, lower_is_better: bool) {
        let column = |name: &str| self.systems.iter().position(|&s| s == name);
        let (ours, theirs) = (column("multi-clock"), column(baseline));
        let gains: Vec<f64> = self
            .rows
            .iter()
            .filter_map(|row| {
                let (ours, theirs) =
                    (row.values.get(ours?)?, theirs.map_or(Some(&1.0), |t| row.values.get(t))?);
                Some(if lower_is_better { 1.0 - ours / theirs } else { ours / theirs - 1.0 })
            })
            .collect();
        let here = gains.iter().copied().fold(None, |range: Option<(f64, f64)>, gain| {
            Some(range.map_or((gain, gain), |(a, b)| (a.min(gain), b.max(gain))))
        });
        let ahead = (gains.iter().filter(|&&gain| gain > 0.0).count(), gains.len());
        self.claims.push(Gain { baseline, least, most, here, ahead });
    }

    /// Prints the figure.
    pub fn print(&self) -> CommandResult {
        let mut out = anstream::stdout().lock();
        writeln!(out, "{HEAD}{}{HEAD:#}\n{}\n", self.title, self.metric)?;
        let mut head = vec!["PROGRAM".to_owned()];
        head.extend(self.systems.iter().map(|s| s.to_uppercase()));
        let rows = self.rows.iter().map(|row| {
            let mut cells = vec![row.program.clone()];
            cells.extend(row.values.iter().map(|v| format!("{v:.3}")));
            cells
        });
        table(&mut out, head, rows)?;
        writeln!(out)?;
        let percent = |share: f64| format!("{:+.0} %", share * 100.0);
        let head =
            ["MULTI-CLOCK GAINS OVER", "PAPER", "HERE", "AHEAD ON"].map(str::to_owned).to_vec();
        let claims = self.claims.iter().map(|c| {
            let here =
                c.here.map_or("-".to_owned(), |(a, b)| format!("{} to {}", percent(a), percent(b)));
            let paper = format!("{} to {}", percent(c.least), percent(c.most));
            vec![c.baseline.to_owned(), paper, here, format!("{} of {}", c.ahead.0, c.ahead.1)]
        });
        table(&mut out, head, claims)?;
        writeln!(out, "\nWhy they differ: {}\n", self.why)?;
        Ok(())
    }
}

fn table(
    out: &mut impl Write,
    head: Vec<String>,
    rows: impl Iterator<Item = Vec<String>>,
) -> CommandResult {
    let mut table = new_table(head);
    for row in rows {
        table.add_row(row);
    }
    write_table(out, &table, None)
}
