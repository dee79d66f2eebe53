//! The table of one scenario.

use std::io::Write;

use anstyle::Style;
use comfy_table::{Cell, Table};
use tierwise_core::units::Bytes;

use crate::comparison::{Compared, best, failures, is_failed, summary};
use crate::failure::CommandResult;
use crate::number::{grouped, rate, signed_percent};
use crate::table::{new_table, write_table};

const HEAD: Style = Style::new().bold();

/// Prints the table of one scenario, and its summary below.
pub fn print(compared: &Compared) -> CommandResult {
    let mut out = anstream::stdout().lock();
    let scenario = &compared.scenario;
    writeln!(out, "{HEAD}{}{HEAD:#}: {}", scenario.name, scenario.summary)?;
    writeln!(out)?;
    let marked = best(compared);
    write_table(&mut out, &figures(compared), marked)?;
    if scenario.workloads.len() > 1 {
        writeln!(out)?;
        write_table(&mut out, &tenants(compared), marked)?;
    }
    for result in compared.outputs.iter().map(|output| &output.result) {
        for (tenant, why) in failures(result) {
            writeln!(out, "! {}: {tenant}: {why}", result.policy)?;
        }
    }
    writeln!(out)?;
    for line in summary(compared) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    Ok(out.flush()?)
}

fn figures(compared: &Compared) -> Table {
    let mut table = new_table(
        [
            "POLICY",
            "INSTR/S",
            "SLOWDOWN",
            "FAST HITS",
            "PROMOTED",
            "DEMOTED",
            "MOVED",
            "OVERHEAD",
            "VS ORACLE",
        ]
        .map(str::to_owned)
        .to_vec(),
    );
    let marked = best(compared);
    for (i, output) in compared.outputs.iter().enumerate() {
        let r = &output.result;
        table.add_row([
            name(&r.policy, compared.bounds[i].is_some(), marked == Some(i)),
            rate(r.throughput),
            if is_failed(r) { "failed".to_owned() } else { format!("{:.3} x", r.slowdown) },
            format!("{:.1} %", r.fast_access_ratio * 100.0),
            grouped(r.promotions),
            grouped(r.demotions),
            Bytes(r.migrated_bytes).to_string(),
            format!("{:.2} s", r.overhead_seconds),
            signed_percent(r.distance_to_oracle),
        ]);
    }
    table
}

fn tenants(compared: &Compared) -> Table {
    let mut head = vec!["SLOWDOWN (FAST HITS)".to_owned()];
    head.extend(compared.scenario.workloads.iter().map(|w| w.name.clone()));
    let mut table = new_table(head);
    let marked = best(compared);
    for (i, output) in compared.outputs.iter().enumerate() {
        let r = &output.result;
        let mut row =
            vec![Cell::new(name(&r.policy, compared.bounds[i].is_some(), marked == Some(i)))];
        row.extend(r.tenants.iter().map(|t| {
            Cell::new(format!("{:.3} x ({:4.1} %)", t.slowdown, t.fast_access_ratio * 100.0))
        }));
        table.add_row(row);
    }
    table
}

/// A policy's name with its mark: a star for the best, parentheses for a bound.
fn name(policy: &str, bound: bool, best: bool) -> String {
    match (bound, best) {
        (true, _) => format!("({policy})"),
        (_, true) => format!("* {policy}"),
        _ => format!("  {policy}"),
    }
}
