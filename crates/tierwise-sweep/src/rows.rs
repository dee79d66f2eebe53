//! The results of a sweep as two Parquet tables: a row per unit, and a row per unit and tenant.
//!
//! Both have the columns that name the unit: `key`, `scenario`, `recipe`, `seed`, and one column
//! per parameter, with its path as name. A unit that failed has no figures, and its reason.

use std::collections::BTreeSet;
use std::io::{self, Write};

use tierwise_sim::result::{LatencyResult, PolicyResult, TenantResult};
use tierwise_trace::export::parquet::{Cell, ColumnKind, ParquetTable};
use toml::Value;

use crate::record::UnitRecord;
use crate::store::SweepStore;
use crate::unit::Unit;

use ColumnKind::{Real, Text, Whole};

/// The columns that a unit's result fills, after those that name the unit.
const UNIT_COLUMNS: [(&str, ColumnKind); 11] = [
    ("outcome", Text),
    ("reason", Text),
    ("seconds", Real),
    ("slowdown", Real),
    ("throughput", Real),
    ("fast_access_ratio", Real),
    ("promotions", Whole),
    ("demotions", Whole),
    ("migrated_bytes", Whole),
    ("overhead_seconds", Real),
    ("distance_to_oracle", Real),
];

/// The columns that a tenant's result fills.
const TENANT_COLUMNS: [(&str, ColumnKind); 18] = [
    ("tenant", Text),
    ("class", Text),
    ("failure", Text),
    ("slowdown", Real),
    ("throughput", Real),
    ("fast_access_ratio", Real),
    ("promotions", Whole),
    ("demotions", Whole),
    ("measured_seconds", Real),
    ("overhead_seconds", Real),
    ("operations_per_second", Real),
    ("requests", Whole),
    ("violations", Whole),
    ("slo_ms", Real),
    ("p50_ms", Real),
    ("p95_ms", Real),
    ("p99_ms", Real),
    ("p999_ms", Real),
];

/// Writes the table of units: those of the plan that the store has, in the plan's order. Returns
/// the number of rows.
///
/// # Errors
/// The file could not be written.
pub fn units(units: &[Unit], store: &SweepStore, out: impl Write + Send) -> io::Result<usize> {
    let naming = Naming::of(units);
    let mut table = ParquetTable::with_gaps(out, &naming.columns(&UNIT_COLUMNS))?;
    let mut rows = 0;
    for (unit, record) in kept(units, store) {
        let mut row = naming.cells(unit);
        row.extend(unit_cells(record));
        table.row(&row)?;
        rows += 1;
    }
    table.finish()?;
    Ok(rows)
}

/// Writes the table of tenants. `usage_bytes.TIER` are a tenant's bytes in a tier at its end.
///
/// # Errors
/// The file could not be written.
pub fn tenants(units: &[Unit], store: &SweepStore, out: impl Write + Send) -> io::Result<()> {
    let naming = Naming::of(units);
    let results = || kept(units, store).filter_map(|(unit, r)| Some((unit, r.outcome.result()?)));
    let all = results().flat_map(|(_, result)| &result.tenants);
    let tiers: BTreeSet<&str> =
        all.flat_map(|tenant| tenant.usage_bytes.keys().map(String::as_str)).collect();
    let usage: Vec<String> = tiers.iter().map(|tier| format!("usage_bytes.{tier}")).collect();
    let mut columns = TENANT_COLUMNS.to_vec();
    columns.extend(usage.iter().map(|name| (name.as_str(), Whole)));
    let mut table = ParquetTable::with_gaps(out, &naming.columns(&columns))?;
    for (unit, result) in results() {
        for tenant in &result.tenants {
            let mut row = naming.cells(unit);
            row.extend(tenant_cells(tenant));
            row.extend(tiers.iter().map(|&tier| whole(tenant.usage_bytes.get(tier).copied())));
            table.row(&row)?;
        }
    }
    table.finish()
}

fn kept<'a>(
    units: &'a [Unit],
    store: &'a SweepStore,
) -> impl Iterator<Item = (&'a Unit, &'a UnitRecord)> {
    units.iter().filter_map(|unit| Some((unit, store.get(&unit.key)?)))
}

/// The columns that name a unit.
struct Naming {
    parameters: Vec<(String, ColumnKind)>,
    /// The parameters' values as text, by unit, for columns of text.
    texts: std::collections::HashMap<String, String>,
}

impl Naming {
    fn of(units: &[Unit]) -> Self {
        let paths: BTreeSet<&String> = units.iter().flat_map(|u| u.parameters.keys()).collect();
        let mut texts = std::collections::HashMap::new();
        let parameters = paths.into_iter().map(|path| {
            let values = || units.iter().filter_map(|unit| unit.parameters.get(path));
            let kind = kind(values());
            if kind == Text {
                texts.extend(values().map(|value| (value.to_string(), plain(value))));
            }
            (path.clone(), kind)
        });
        let parameters = parameters.collect();
        Self { parameters, texts }
    }

    fn columns<'a>(&'a self, rest: &[(&'a str, ColumnKind)]) -> Vec<(&'a str, ColumnKind)> {
        let mut columns =
            vec![("key", Text), ("scenario", Text), ("recipe", Text), ("seed", Whole)];
        columns.extend(self.parameters.iter().map(|(path, kind)| (path.as_str(), *kind)));
        columns.extend(rest);
        columns
    }

    fn cells<'a>(&'a self, unit: &'a Unit) -> Vec<Cell<'a>> {
        let mut cells = vec![
            Cell::Text(&unit.key),
            Cell::Text(&unit.scenario_name),
            Cell::Text(&unit.recipe_name),
            Cell::Whole(unit.seed),
        ];
        for (path, kind) in &self.parameters {
            let value = unit.parameters.get(path);
            cells.push(value.map_or(Cell::Absent, |value| self.cell(value, *kind)));
        }
        cells
    }

    fn cell(&self, value: &Value, kind: ColumnKind) -> Cell<'_> {
        match kind {
            Whole => whole(value.as_integer().and_then(|n| u64::try_from(n).ok())),
            Real => real(number(value)),
            Text => text(self.texts.get(&value.to_string()).map(String::as_str)),
        }
    }
}

/// The kind of column that holds all values of a parameter.
fn kind<'a>(values: impl Iterator<Item = &'a Value>) -> ColumnKind {
    let (mut whole, mut real) = (true, true);
    for value in values {
        whole &= value.as_integer().is_some_and(|n| n >= 0);
        real &= number(value).is_some();
    }
    if whole {
        Whole
    } else if real {
        Real
    } else {
        Text
    }
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|n| n as f64))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn unit_cells(record: &UnitRecord) -> [Cell<'_>; 11] {
    let result = record.outcome.result();
    // A tenant that failed leaves no figures of the whole that could be compared.
    let failure = result.and_then(|r| r.tenants.iter().find_map(|t| t.failure.as_deref()));
    let of = |figure: fn(&PolicyResult) -> f64| real(result.map(figure));
    let count = |figure: fn(&PolicyResult) -> u64| whole(result.map(figure));
    [
        Cell::Text(record.outcome.word()),
        text(record.outcome.reason().or(failure)),
        Cell::Real(record.seconds),
        of(|r| r.slowdown),
        of(|r| r.throughput),
        of(|r| r.fast_access_ratio),
        count(|r| r.promotions),
        count(|r| r.demotions),
        count(|r| r.migrated_bytes),
        of(|r| r.overhead_seconds),
        of(|r| r.distance_to_oracle),
    ]
}

fn tenant_cells(tenant: &TenantResult) -> [Cell<'_>; 18] {
    let latency = tenant.latency.as_ref();
    let of = |figure: fn(&LatencyResult) -> f64| real(latency.map(figure));
    [
        Cell::Text(&tenant.name),
        Cell::Text(&tenant.class),
        text(tenant.failure.as_deref()),
        Cell::Real(tenant.slowdown),
        Cell::Real(tenant.throughput),
        Cell::Real(tenant.fast_access_ratio),
        Cell::Whole(tenant.promotions),
        Cell::Whole(tenant.demotions),
        Cell::Real(tenant.seconds),
        Cell::Real(tenant.overhead_seconds),
        real(tenant.operations_per_second),
        whole(latency.map(|l| l.requests)),
        whole(latency.map(|l| l.violations)),
        of(|l| l.slo_ms),
        of(|l| l.p50_ms),
        of(|l| l.p95_ms),
        of(|l| l.p99_ms),
        of(|l| l.p999_ms),
    ]
}

fn text(text: Option<&str>) -> Cell<'_> {
    text.map_or(Cell::Absent, Cell::Text)
}

fn real(number: Option<f64>) -> Cell<'static> {
    number.map_or(Cell::Absent, Cell::Real)
}

fn whole(number: Option<u64>) -> Cell<'static> {
    number.map_or(Cell::Absent, Cell::Whole)
}
