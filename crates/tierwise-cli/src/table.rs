//! Tables on the terminal.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets,
};

use crate::failure::CommandResult;
use crate::output;

const HEAD: Style = Style::new().bold();
const BEST: Style = Style::new().bold().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));

/// Returns a table with two blanks between columns, the first aligned left and the others right.
pub fn new_table(head: Vec<String>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// Writes a table no wider than the terminal, with its head in bold and its `marked` row in colour.
pub fn write_table(out: &mut impl Write, table: &Table, marked: Option<usize>) -> CommandResult {
    write_within(out, table, marked, output::width())
}

/// Cells with words and more letters than this are sentences, which are wrapped. Figures are not.
const SENTENCE: usize = 30;

/// The part of the width that a name may take where figures need the rest: a third.
const NAME: usize = 3;

/// Writes a table within `width` columns. Sentences are wrapped; figures continue in a second table
/// below, which repeats the first column.
fn write_within(
    out: &mut impl Write,
    table: &Table,
    marked: Option<usize>,
    width: u16,
) -> CommandResult {
    let limit = usize::from(width);
    let mut widths: Vec<usize> =
        table.column_max_content_widths().into_iter().map(usize::from).collect();
    // Two blanks stand between columns.
    let needed: usize = widths.iter().map(|column| column + 2).sum();
    if needed.saturating_sub(2) <= limit {
        return write_lines(out, table, marked);
    }
    let first = widths.first().copied().unwrap_or(0);
    let widest = widths.iter().skip(1).max().copied().unwrap_or(0);
    // A long name is wrapped, so that figures beside it are not.
    let name = if first + 2 + widest > limit { first.min(limit / NAME) } else { first };
    if name + 2 + widest > limit || has_sentences(table) {
        let mut wrapped = table.clone();
        wrapped.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        return write_lines(out, &wrapped, None);
    }
    widths[0] = name;
    for (i, columns) in folds(&widths, limit).into_iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        let mut part = part(table, columns);
        if name < first {
            part.set_width(width);
            let most = ColumnConstraint::UpperBoundary(Width::Fixed(name as u16 + 2));
            if let Some(column) = part.column_mut(0) {
                column.set_constraint(most);
            }
        }
        write_lines(out, &part, marked.filter(|_| name == first))?;
    }
    Ok(())
}

/// Returns true if a cell holds a sentence; the first column holds names.
fn has_sentences(table: &Table) -> bool {
    let cells = table.row_iter().flat_map(|row| row.cell_iter().skip(1));
    let mut cells = cells.map(Cell::content);
    cells.any(|text| text.chars().count() > SENTENCE && text.contains(' '))
}

/// Returns the groups of columns that fit beside the first.
fn folds(widths: &[usize], limit: usize) -> Vec<std::ops::Range<usize>> {
    let first = widths.first().copied().unwrap_or(0);
    let (mut folds, mut start, mut used) = (Vec::new(), 1, first);
    for (i, &column) in widths.iter().enumerate().skip(1) {
        let more = column + 2;
        if used + more > limit && i > start {
            folds.push(start..i);
            (start, used) = (i, first);
        }
        used += more;
    }
    folds.push(start..widths.len());
    folds
}

/// Returns the first column and some others of a table.
fn part(table: &Table, columns: std::ops::Range<usize>) -> Table {
    let kept = |row: &comfy_table::Row| -> Vec<Cell> {
        let cells = row.cell_iter().enumerate();
        cells
            .filter(|(i, _)| *i == 0 || columns.contains(i))
            .map(|(_, cell)| cell.clone())
            .collect()
    };
    let head = table.header().map(&kept).unwrap_or_default();
    let mut part = new_table(head.iter().map(Cell::content).collect());
    table.row_iter().for_each(|row| {
        part.add_row(kept(row));
    });
    part
}

fn write_lines(out: &mut impl Write, table: &Table, marked: Option<usize>) -> CommandResult {
    let lines: Vec<String> = table.lines().collect();
    let head = lines.len().saturating_sub(table.row_count());
    for (i, line) in lines.iter().enumerate() {
        let line = line.trim_end();
        // If rows are wrapped, only the first line is certainly the head.
        let style = match i.checked_sub(head) {
            _ if i == 0 => HEAD,
            None if table.width().is_none() => HEAD,
            Some(row) if Some(row) == marked => BEST,
            _ => Style::new(),
        };
        writeln!(out, "{style}{line}{style:#}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_columns_line_up() {
        let mut table = new_table(vec!["A".into(), "B".into()]);
        table.add_row(["long name", "1"]).add_row(["x", "1,000"]);
        let mut out = Vec::new();
        write_table(&mut out, &table, None).unwrap();
        let text = anstream::adapter::strip_bytes(&out).into_vec();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text, "A              B\nlong name      1\nx          1,000\n");
    }

    fn written(table: &Table, width: u16) -> Vec<String> {
        let mut out = Vec::new();
        write_within(&mut out, table, None, width).unwrap();
        let text = String::from_utf8(anstream::adapter::strip_bytes(&out).into_vec()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn long_names_wrap_and_figures_stay() {
        for name in ["n".repeat(255), "a name of many words ".repeat(12)] {
            let mut figures = new_table((0..13).map(|i| format!("COLUMN {i}")).collect());
            figures
                .add_row((0..13).map(|i| if i == 0 { name.clone() } else { format!("{i} GiB") }));
            let lines = written(&figures, 80);
            assert!(lines.iter().all(|line| line.len() <= 80), "{lines:#?}");
            for i in 1..13 {
                let cell = format!("{i} GiB");
                assert!(lines.iter().any(|line| line.contains(&cell)), "{cell}: {lines:#?}");
            }
        }
    }

    #[test]
    fn figures_go_on_below_and_sentences_wrap() {
        let mut figures = new_table((0..13).map(|i| format!("COLUMN {i}")).collect());
        figures.add_row((0..13).map(|i| format!("{i} GiB")));
        for width in [20, 80, 100, 120] {
            let lines = written(&figures, width);
            assert!(
                lines.iter().all(|line| line.len() <= usize::from(width)),
                "{width}: {lines:#?}"
            );
            for i in 0..13 {
                let (head, cell) = (format!("COLUMN {i}"), format!("{i} GiB"));
                let has = |what: &str| lines.iter().any(|line| line.contains(what));
                assert!(has(&head) && has(&cell), "{width}: {lines:#?}");
            }
        }
        assert_eq!(written(&figures, 200).len(), 2);
        let mut prose = new_table(vec!["AT".into(), "BECAUSE".into()]);
        prose.add_row(["1.0 s", &"a reason with many words ".repeat(9)]);
        for width in [40, 80, 120] {
            let lines = written(&prose, width);
            assert!(
                lines.iter().all(|line| line.len() <= usize::from(width)),
                "{width}: {lines:#?}"
            );
        }
    }
}
