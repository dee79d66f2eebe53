//! Several scenarios at a glance: slowdown by scenario and policy.

use std::io::Write;

use tierwise_sim::result::PolicyResult;

use crate::comparison::{Compared, best, is_failed, ranking};
use crate::failure::CommandResult;
use crate::output;
use crate::table::{new_table, write_table};

/// Prints the tables, as many as the terminal's width requires.
pub fn print(compared: &[Compared]) -> CommandResult {
    let Some(first) = compared.first() else { return Ok(()) };
    let names: Vec<&str> = first.outputs.iter().map(|o| o.result.policy.as_str()).collect();
    let widest = compared.iter().map(|c| c.scenario.name.chars().count()).max().unwrap_or(0);
    let mut out = anstream::stdout().lock();
    writeln!(
        out,
        "Slowdown against a machine with fast memory only, by scenario and policy; * is the best \
         policy."
    )?;
    for columns in chunks(&names, widest) {
        writeln!(out)?;
        let mut head = vec!["SCENARIO".to_owned()];
        head.extend(columns.clone().map(|i| names[i].replace('-', "-\n")));
        let mut table = new_table(head);
        for one in compared {
            let marked = best(one);
            let mut row = vec![one.scenario.name.clone()];
            row.extend(columns.clone().map(|i| cell(&one.outputs[i].result, marked == Some(i))));
            table.add_row(row);
        }
        write_table(&mut out, &table, None)?;
    }
    writeln!(out)?;
    for line in ranking(compared) {
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}

fn cell(result: &PolicyResult, best: bool) -> String {
    match (is_failed(result), best) {
        (true, _) => "failed".to_owned(),
        (false, true) => format!("*{:.3}", result.slowdown),
        (false, false) => format!("{:.3}", result.slowdown),
    }
}

/// Returns the columns that fit the terminal, in order.
fn chunks(names: &[&str], first_column: usize) -> Vec<std::ops::Range<usize>> {
    let room = usize::from(output::width());
    let mut chunks = Vec::new();
    let (mut start, mut used) = (0, first_column + 2);
    for (i, name) in names.iter().enumerate() {
        let part = name.split('-').map(|part| part.len() + 1).max().unwrap_or(0);
        // A cell such as "*1.234" takes six columns, and two blanks separate columns.
        let width = part.max(6) + 2;
        if used + width > room && i > start {
            chunks.push(start..i);
            (start, used) = (i, first_column + 2);
        }
        used += width;
    }
    chunks.push(start..names.len());
    chunks
}
