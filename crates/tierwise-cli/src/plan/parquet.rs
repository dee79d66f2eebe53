//! Every measurement as a row of a Parquet file.

use tierwise_trace::export::parquet::{Cell, ColumnKind, ParquetTable};

use super::answer::PlanAnswer;
use super::measure::{ProgramFigure, RunSpread};
use crate::failure::CommandResult;
use crate::output::NewFile;

/// What a row is about.
#[derive(Default)]
struct RowKey<'a> {
    kind: &'a str,
    machine: &'a str,
    policy: &'a str,
    beside: &'a str,
    price: f64,
    fast_bytes: u64,
    slow_bytes: u64,
}

/// Writes the file: kinds are machine, curve, next and pair.
pub fn write(answer: &PlanAnswer, mut file: NewFile) -> CommandResult {
    let columns = [
        ("kind", ColumnKind::Text),
        ("machine", ColumnKind::Text),
        ("policy", ColumnKind::Text),
        ("program", ColumnKind::Text),
        ("beside", ColumnKind::Text),
        ("price", ColumnKind::Real),
        ("fast_bytes", ColumnKind::Whole),
        ("slow_bytes", ColumnKind::Whole),
        ("slowdown", ColumnKind::Real),
        ("slowdown_low", ColumnKind::Real),
        ("slowdown_high", ColumnKind::Real),
        ("of_limit", ColumnKind::Real),
    ];
    let mut table = ParquetTable::new(&mut file, &columns)?;
    let mut row = |key: &RowKey<'_>, program: &str, slowdown: &RunSpread, of_limit: f64| {
        table.row(&[
            Cell::Text(key.kind),
            Cell::Text(key.machine),
            Cell::Text(key.policy),
            Cell::Text(program),
            Cell::Text(key.beside),
            Cell::Real(key.price),
            Cell::Whole(key.fast_bytes),
            Cell::Whole(key.slow_bytes),
            Cell::Real(slowdown.mean),
            Cell::Real(slowdown.low),
            Cell::Real(slowdown.high),
            Cell::Real(of_limit),
        ])
    };
    for one in &answer.machines {
        let Some(best) = &one.best else { continue };
        let key = RowKey {
            kind: "machine",
            machine: &one.machine,
            policy: &best.policy,
            price: one.price,
            fast_bytes: one.fast_bytes,
            slow_bytes: one.slow_bytes,
            ..RowKey::default()
        };
        for ProgramFigure { program, slowdown, of_limit, .. } in &best.programs {
            row(&key, program, slowdown, *of_limit)?;
        }
    }
    for curve in &answer.curves {
        for point in &curve.points {
            let (kind, policy, fast_bytes) = ("curve", &curve.policy[..], point.fast_bytes);
            let key = RowKey { kind, policy, fast_bytes, ..RowKey::default() };
            row(&key, &curve.program, &point.figure.slowdown, point.figure.of_limit)?;
        }
    }
    if let Some(next) = &answer.next {
        let (kind, policy, fast_bytes) = ("next", &next.after.policy[..], next.step_bytes);
        let key = RowKey { kind, policy, fast_bytes, price: next.price, ..RowKey::default() };
        for figure in &next.after.programs {
            row(&key, &figure.program, &figure.slowdown, figure.of_limit)?;
        }
    }
    for cost in &answer.pairs {
        let beside = cost.beside.as_deref().unwrap_or("");
        let key = RowKey { kind: "pair", policy: answer.policy(), beside, ..RowKey::default() };
        // A pair has no limit of its own.
        row(&key, &cost.program, &cost.slowdown, 0.0)?;
    }
    table.finish()?;
    file.finish()
}
