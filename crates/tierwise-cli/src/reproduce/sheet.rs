//! Tables of measured figures beside a paper's, for papers with figures of different kinds.

use std::io::Write;

use anstyle::Style;
use serde::Serialize;

use crate::failure::CommandResult;
use crate::run_args::PaperArgs;
use crate::table::{new_table, write_table};

const HEAD: Style = Style::new().bold();

/// One table.
#[derive(Debug, Clone, Serialize)]
pub struct FigureSheet {
    /// Number and subject of the figure.
    pub title: String,
    /// The paper's own statement.
    pub paper: &'static str,
    /// Names of the columns.
    pub head: Vec<String>,
    /// Cells, as printed.
    pub rows: Vec<Vec<String>>,
}

impl FigureSheet {
    pub fn new(title: &str, paper: &'static str, head: &[&str]) -> Self {
        let head = head.iter().map(|&name| name.to_owned()).collect();
        Self { title: title.to_owned(), paper, head, rows: Vec::new() }
    }

    /// Prints the table and the paper's statement.
    pub fn print(&self, out: &mut impl Write) -> CommandResult {
        writeln!(out, "{HEAD}{}{HEAD:#}", self.title)?;
        let mut table = new_table(self.head.clone());
        for row in &self.rows {
            table.add_row(row);
        }
        write_table(out, &table, None)?;
        writeln!(out, "paper: {}\n", self.paper)?;
        Ok(())
    }
}

/// Prints all sheets as text, or as one JSON object.
pub fn publish(paper: &str, arguments: &PaperArgs, sheets: &[FigureSheet]) -> CommandResult {
    if arguments.json {
        let seed = arguments.seed;
        let object = serde_json::json!({ "paper": paper, "seed": seed, "tables": sheets });
        return crate::output::json(&object);
    }
    let mut out = anstream::stdout().lock();
    sheets.iter().try_for_each(|sheet| sheet.print(&mut out))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn wide_tables_keep_within_the_width() {
        let mut sheet = FigureSheet::new("Figure 1", "more", &["COLUMN NAME"; 20]);
        sheet.rows.push((0..20).map(|i| format!("{i}.000 GB/s")).collect());
        let mut out = Vec::new();
        sheet.print(&mut out).unwrap();
        let text = String::from_utf8(anstream::adapter::strip_bytes(&out).into_vec()).unwrap();
        let width = usize::from(crate::output::width());
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
    }
}
