//! Tables of what was measured beside what a paper says, for papers whose figures are not all of
//! one kind.

use std::io::Write;

use anstyle::Style;
use serde::Serialize;

use crate::failure::Outcome;
use crate::run_args::PaperArgs;
use crate::table::new_table;

const HEAD: Style = Style::new().bold();

/// One table.
#[derive(Debug, Clone, Serialize)]
pub struct Sheet {
    /// Number and subject of the figure.
    pub title: String,
    /// What the paper says of it.
    pub paper: &'static str,
    /// Names of the columns.
    pub head: Vec<String>,
    /// The cells, as they are printed.
    pub rows: Vec<Vec<String>>,
}

impl Sheet {
    pub fn new(title: &str, paper: &'static str, head: &[&str]) -> Self {
        let head = head.iter().map(|&name| name.to_owned()).collect();
        Self { title: title.to_owned(), paper, head, rows: Vec::new() }
    }

    pub fn print(&self) -> Outcome {
        let mut out = anstream::stdout().lock();
        writeln!(out, "{HEAD}{}{HEAD:#}", self.title)?;
        let mut table = new_table(self.head.clone());
        for row in &self.rows {
            table.add_row(row);
        }
        writeln!(out, "{table}")?;
        writeln!(out, "paper: {}\n", self.paper)?;
        Ok(())
    }
}

/// Prints all of them, or one JSON object.
pub fn publish(paper: &str, arguments: &PaperArgs, sheets: &[Sheet]) -> Outcome {
    if arguments.json {
        let seed = arguments.seed;
        let object = serde_json::json!({ "paper": paper, "seed": seed, "tables": sheets });
        return crate::output::json(&object);
    }
    sheets.iter().try_for_each(Sheet::print)
}
