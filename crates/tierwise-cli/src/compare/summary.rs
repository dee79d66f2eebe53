//! Several scenarios at a glance: slowdown by scenario and policy.

use std::io::Write;

use tierwise_sim::result::PolicyResult;

use super::Compared;
use super::table::{is_failed, new_table, write_table};
use super::verdict::best;
use crate::failure::Outcome;
use crate::output;
use crate::output::counted;

/// Prints it, in as many tables beside each other as the terminal needs.
pub fn print(compared: &[Compared]) -> Outcome {
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

/// Columns that fit the terminal, in order.
fn chunks(names: &[&str], first_column: usize) -> Vec<std::ops::Range<usize>> {
    let room = usize::from(output::width());
    let mut chunks = Vec::new();
    let (mut start, mut used) = (0, first_column + 2);
    for (i, name) in names.iter().enumerate() {
        let part = name.split('-').map(|part| part.len() + 1).max().unwrap_or(0);
        // A cell such as "*1.234" takes six columns, and two blanks stand between columns.
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

/// Geometric mean of a policy's slowdowns over the scenarios; `None` if it failed in one.
pub fn mean_slowdown(compared: &[Compared], policy: usize) -> Option<f64> {
    let results = || compared.iter().map(|one| &one.outputs[policy].result);
    if results().any(is_failed) {
        return None;
    }
    Some((results().map(|r| r.slowdown.ln()).sum::<f64>() / compared.len() as f64).exp())
}

/// Who served best over all, in words.
pub fn ranking(compared: &[Compared]) -> Vec<String> {
    let Some(first) = compared.first() else { return Vec::new() };
    let mut means: Vec<(f64, usize)> = (0..first.outputs.len())
        .filter(|&i| first.bounds[i].is_none())
        .filter_map(|i| Some((mean_slowdown(compared, i)?, i)))
        .collect();
    means.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wins = |policy| compared.iter().filter(|one| best(one) == Some(policy)).count();
    let mut lines = Vec::new();
    if let [(mean, policy), rest @ ..] = means.as_slice() {
        let mut line = format!(
            "Over {} {} served best: slowdown {mean:.3} x in the geometric mean, first \
             in {}",
            counted(compared.len() as u64, "scenario"),
            first.outputs[*policy].result.policy,
            wins(*policy),
        );
        if let Some((mean, policy)) = rest.first() {
            let name = &first.outputs[*policy].result.policy;
            line += &format!("; next {name} with {mean:.3} x, first in {}", wins(*policy));
        }
        lines.push(line + ".");
    }
    lines
}
