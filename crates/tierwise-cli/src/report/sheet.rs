//! A page with a plot and tables, for `profile` and `advise`.

use std::io::Write;

use maud::{DOCTYPE, PreEscaped, html};

use super::plot::{self, Plot};
use crate::failure::CommandResult;
use crate::output::NewFile;

/// The content of the page.
pub struct ReportSheet {
    /// Its heading.
    pub title: String,
    /// Text before the plot, one paragraph each.
    pub lines: Vec<String>,
    /// The plot.
    pub plot: Plot,
    /// Tables below the plot.
    pub tables: Vec<ReportTable>,
}

/// A table with a heading.
pub struct ReportTable {
    /// The heading.
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// Cells, row by row.
    pub rows: Vec<Vec<String>>,
}

impl ReportSheet {
    /// Writes the page as one file that needs nothing else.
    pub fn write(&self, mut file: NewFile) -> CommandResult {
        let svg = plot::svg(&self.plot)?;
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { "Tierwise: " (self.title) }
                    style { (PreEscaped(super::page::STYLE)) }
                }
                body {
                    h1 { (self.title) }
                    @for line in &self.lines { p { (line) } }
                    figure { (PreEscaped(svg)) }
                    @for table in &self.tables {
                        h2 { (table.title) }
                        div.wide {
                            table {
                                tr { @for name in &table.head { th { (name) } } }
                                @for row in &table.rows {
                                    tr { @for cell in row { td { (cell) } } }
                                }
                            }
                        }
                    }
                }
            }
        };
        file.write_all(page.into_string().as_bytes())?;
        file.finish()
    }
}
