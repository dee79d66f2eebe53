//! Traces for other tools: tables as CSV, and as Parquet with the feature `parquet`; requests for
//! simulators of caches.

mod csv;
mod oracle_general;
#[cfg(feature = "parquet")]
pub mod parquet;
mod table;

use std::fs::File;
use std::path::Path;

use crate::writer::beside;
use crate::{TraceError, WindowSource};

pub use oracle_general::export_oracle_general;
pub use table::TraceTable;

/// The format of an exported table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Comma-separated values with a line of names.
    Csv,
    /// Apache Parquet, compressed with zstd.
    #[cfg(feature = "parquet")]
    Parquet,
}

/// Receives a table row by row.
trait Sink {
    fn row(&mut self, row: &[Value<'_>]) -> std::io::Result<()>;
    fn finish(self: Box<Self>) -> std::io::Result<()>;
}

/// A cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value<'a> {
    Number(u64),
    Text(&'a str),
}

/// Writes one table of a source to the file at `path`: beside it first, then renamed. Returns the
/// number of rows.
///
/// # Errors
/// The source is damaged, the file exists and `overwrite` is off, or the file cannot be written.
pub fn export(
    path: &Path,
    source: &mut dyn WindowSource,
    table: TraceTable,
    format: ExportFormat,
    overwrite: bool,
) -> Result<u64, TraceError> {
    beside(path, overwrite, |file| {
        let failed = |error| TraceError::io(path, error);
        let mut sink = sink(format, file, table).map_err(failed)?;
        let rows = table::write(table, source, &mut |row| sink.row(row).map_err(failed))?;
        sink.finish().map_err(failed)?;
        Ok(rows)
    })
}

fn sink<'a>(
    format: ExportFormat,
    file: &'a File,
    table: TraceTable,
) -> std::io::Result<Box<dyn Sink + 'a>> {
    Ok(match format {
        ExportFormat::Csv => Box::new(csv::CsvSink::new(file, table)?),
        #[cfg(feature = "parquet")]
        ExportFormat::Parquet => Box::new(parquet_sink(file, table)?),
    })
}

#[cfg(feature = "parquet")]
fn parquet_sink(file: &File, table: TraceTable) -> std::io::Result<parquet::ParquetTable<&File>> {
    let kind = |text| if text { parquet::ColumnKind::Text } else { parquet::ColumnKind::Whole };
    let columns: Vec<_> = table.columns().iter().map(|&(name, text)| (name, kind(text))).collect();
    parquet::ParquetTable::new(file, &columns)
}

#[cfg(feature = "parquet")]
impl Sink for parquet::ParquetTable<&File> {
    fn row(&mut self, row: &[Value<'_>]) -> std::io::Result<()> {
        let cells: Vec<parquet::Cell<'_>> = row
            .iter()
            .map(|value| match value {
                Value::Number(number) => parquet::Cell::Whole(*number),
                Value::Text(text) => parquet::Cell::Text(text),
            })
            .collect();
        self.row(&cells)
    }

    fn finish(self: Box<Self>) -> std::io::Result<()> {
        (*self).finish()
    }
}
