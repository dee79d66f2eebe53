//! The page with the plot.

use tierwise_core::units::Bytes;

use super::measure::Profiled;
use crate::failure::CommandResult;
use crate::number::rate;
use crate::output::NewFile;
use crate::report::{Axis, Plot, PlottedCurve, ReportPart, ReportSheet, ReportTable, colour};

/// Writes it.
pub fn write(profiled: &[Profiled], policy: &str, file: NewFile) -> CommandResult {
    let largest = profiled.iter().flat_map(|one| &one.file.points).map(|p| p.fast_bytes).max();
    let axis = Axis::bytes("fast memory", Bytes(largest.unwrap_or(0)));
    let curve = |(i, one): (usize, &Profiled)| PlottedCurve {
        name: one.file.name.clone(),
        colour: colour(i),
        points: one
            .file
            .points
            .iter()
            .map(|p| (axis.place(Bytes(p.fast_bytes)), p.throughput / one.full() * 100.0))
            .collect(),
        band: Vec::new(),
        dots: false,
    };
    let plot = Plot {
        unit: "% of the throughput with the whole tier",
        minimum: 0.0,
        maximum: None,
        curves: profiled.iter().enumerate().map(curve).collect(),
        axis: axis.clone(),
    };
    let tables = profiled.iter().map(|one| ReportPart::Table(table(one)));
    let parts = [ReportPart::Plot(Box::new(plot))].into_iter().chain(tables).collect();
    let lines = vec![format!(
        "Each program alone, its hottest pages in fast memory by {policy}; the figures are \
         simulated."
    )];
    let (title, lead) = ("Throughput against fast memory".to_owned(), String::new());
    ReportSheet { title, lead, lines, parts }.write(file)
}

fn table(one: &Profiled) -> ReportTable {
    let points = one.file.points.iter().zip(&one.measured);
    let rows = points.map(|(point, m)| {
        vec![
            Bytes(point.fast_bytes).to_string(),
            rate(point.throughput),
            format!("{:.1} %", point.throughput / one.full() * 100.0),
            format!("{:.3} x", m.slowdown),
            format!("{:.1} %", m.fast_access_ratio * 100.0),
        ]
    });
    ReportTable {
        title: one.file.name.clone(),
        head: ["fast memory", "instr/s", "of full", "slowdown", "fast hits"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows.collect(),
        marked: None,
    }
}
