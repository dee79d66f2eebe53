//! A page of plots, tables and pictures, for `profile`, `advise` and `plan`.

use std::io::Write;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::plot::{self, Plot};
use crate::failure::{CommandResult, Failure};
use crate::output::NewFile;

/// The content of the page.
pub struct ReportSheet {
    /// Its heading.
    pub title: String,
    /// The answer, which stands out; may be empty.
    pub lead: String,
    /// Text before the parts, one paragraph each.
    pub lines: Vec<String>,
    /// What follows.
    pub parts: Vec<ReportPart>,
}

/// A part of the page.
pub enum ReportPart {
    /// A heading, and a paragraph that may be empty.
    Heading(String, String),
    /// A plot.
    Plot(Box<Plot>),
    /// A table.
    Table(ReportTable),
    /// A picture, and its caption.
    Picture {
        /// A `data:` address.
        source: String,
        /// What it shows.
        words: String,
    },
}

/// A table with a heading.
pub struct ReportTable {
    /// The heading.
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// Cells, row by row.
    pub rows: Vec<Vec<String>>,
    /// Index of the row that is the answer.
    pub marked: Option<usize>,
}

impl ReportSheet {
    /// Writes the page as one file that needs nothing else.
    pub fn write(&self, mut file: NewFile) -> CommandResult {
        let parts = self.parts.iter().map(part).collect::<Result<Vec<_>, _>>()?;
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
                    @if !self.lead.is_empty() { p.lead { (self.lead) } }
                    @for line in &self.lines { p { (line) } }
                    @for part in &parts { (part) }
                }
            }
        };
        file.write_all(page.into_string().as_bytes())?;
        file.finish()
    }
}

fn part(part: &ReportPart) -> Result<Markup, Failure> {
    Ok(match part {
        ReportPart::Heading(title, text) => html! {
            h2 { (title) }
            @if !text.is_empty() { p.soft { (text) } }
        },
        ReportPart::Plot(plot) => plot::figure(plot)?,
        ReportPart::Table(table) => html! {
            @if !table.title.is_empty() { h2 { (table.title) } }
            div.wide { (cells(table)) }
        },
        ReportPart::Picture { source, words } => html! {
            figure.picture {
                img src=(source) alt=(words);
                figcaption { span { (words) } }
            }
        },
    })
}

/// Cells with more letters than this are sentences, which wrap.
const SENTENCE: usize = 48;

fn cells(table: &ReportTable) -> Markup {
    let text: Vec<bool> = (0..table.head.len()).map(|column| is_text(table, column)).collect();
    html! {
        table {
            tr {
                @for (name, &text) in table.head.iter().zip(&text) { th.text[text] { (name) } }
            }
            @for (i, row) in table.rows.iter().enumerate() {
                tr.best[table.marked == Some(i)] {
                    @for (cell, &text) in row.iter().zip(&text) {
                        td.text[text].words[cell.chars().count() > SENTENCE] { (cell) }
                    }
                }
            }
        }
    }
}

/// Words stand at the left, numbers at the right.
fn is_text(table: &ReportTable, column: usize) -> bool {
    // A sentence may begin with a number.
    let number = |cell: &String| {
        cell.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c))
            && cell.chars().count() <= SENTENCE
    };
    let mut cells = table.rows.iter().filter_map(|row| row.get(column));
    !cells.any(|cell| number(cell) && cell != "-")
}
