//! The advice as a table, and as a page with a plot.

use std::io::Write;

use tierwise_core::units::Bytes;

use super::Advice;
use super::point::{SizePoint, TenantSizePoint};
use crate::failure::CommandResult;
use crate::output::NewFile;
use crate::report::{Axis, Plot, PlottedCurve, ReportPart, ReportSheet, ReportTable, colour};
use crate::table::{new_table, write_table};

fn limits(advice: &Advice) -> String {
    let each = advice.limits.iter().map(|limit| format!("{} {}", limit.tenant, limit.words()));
    format!("Limits: {}.", each.collect::<Vec<_>>().join(", "))
}

fn considered(advice: &Advice) -> String {
    let each = advice.policies.iter().map(|alone| match alone.fast_bytes {
        Some(bytes) => format!("{} (alone {} are enough)", alone.policy, Bytes(bytes)),
        None => format!("{} (alone no size is enough)", alone.policy),
    });
    format!("Considered: {}.", each.collect::<Vec<_>>().join(", "))
}

fn knee(advice: &Advice) -> String {
    advice.knee.as_ref().map_or_else(
        || {
            "The curve has no knee: it lies nowhere below the line from its first point to its \
            last."
                .to_owned()
        },
        |knee| {
            format!(
                "The knee is at {} (slowdown {:.3} x): of all points it lies farthest below the \
                 line from the first to the last.",
                Bytes(knee.fast_bytes),
                knee.slowdown
            )
        },
    )
}

fn head(advice: &Advice) -> Vec<String> {
    let mut head = ["FAST MEMORY", "OF RESIDENT", "UNDER"].map(str::to_owned).to_vec();
    head.extend(advice.limits.iter().map(|limit| limit.tenant.clone()));
    head.push("LIMITS".to_owned());
    head
}

fn row(advice: &Advice, point: &SizePoint) -> Vec<String> {
    let share = point.fast_bytes as f64 / advice.resident_bytes.max(1) as f64 * 100.0;
    let size = Bytes(point.fast_bytes).to_string();
    let mut row = vec![size, format!("{share:.1} %"), point.policy.clone()];
    row.extend(point.tenants.iter().map(cell));
    row.push(if point.meets { "met" } else { "broken" }.to_owned());
    row
}

fn cell(tenant: &TenantSizePoint) -> String {
    if tenant.failure.is_some() {
        return "failed".to_owned();
    }
    let p99 = tenant.p99_ms.map_or_else(String::new, |p99| format!(" (P99 {p99:.3} ms)"));
    format!("{:.3} x{p99}", tenant.slowdown)
}

/// Returns the index of the size that is the answer.
fn marked(advice: &Advice) -> Option<usize> {
    let answer = advice.answer.as_ref().map(|answer| answer.fast_bytes);
    advice.points.iter().position(|point| Some(point.fast_bytes) == answer)
}

/// Prints the advice.
pub fn print(advice: &Advice) -> CommandResult {
    let mut out = anstream::stdout().lock();
    writeln!(
        out,
        "{}, {} resident: slowdown against fast memory only, by tenant, under the policy that \
         serves each size best",
        advice.scenario,
        Bytes(advice.resident_bytes)
    )?;
    writeln!(out)?;
    let mut table = new_table(head(advice));
    for point in &advice.points {
        table.add_row(row(advice, point));
    }
    write_table(&mut out, &table, marked(advice))?;
    writeln!(out)?;
    writeln!(out, "{}", limits(advice))?;
    writeln!(out, "{}", considered(advice))?;
    writeln!(out, "{}", advice.sentence)?;
    writeln!(out, "{}", knee(advice))?;
    Ok(out.flush()?)
}

/// Writes the page.
pub fn html(advice: &Advice, file: NewFile) -> CommandResult {
    let largest = advice.points.last().map_or(0, |point| point.fast_bytes);
    let axis = Axis::bytes("fast memory", Bytes(largest));
    let curve = |i: usize| PlottedCurve {
        name: advice.limits[i].tenant.clone(),
        colour: colour(i),
        points: advice
            .points
            .iter()
            .map(|point| (axis.place(Bytes(point.fast_bytes)), point.tenants[i].slowdown))
            .collect(),
        band: Vec::new(),
        dots: false,
    };
    let plot = Plot {
        unit: "slowdown against fast memory only",
        // The best value.
        minimum: 1.0,
        maximum: None,
        curves: (0..advice.limits.len()).map(curve).collect(),
        axis: axis.clone(),
    };
    let table = ReportTable {
        title: "Sizes that were tried".to_owned(),
        head: head(advice).into_iter().map(|name| name.to_lowercase()).collect(),
        rows: advice.points.iter().map(|point| row(advice, point)).collect(),
        marked: marked(advice),
    };
    ReportSheet {
        title: format!("How little fast memory does {} need?", advice.scenario),
        lead: advice.sentence.clone(),
        lines: vec![limits(advice), considered(advice), knee(advice)],
        parts: vec![ReportPart::Plot(Box::new(plot)), ReportPart::Table(table)],
    }
    .write(file)
}
