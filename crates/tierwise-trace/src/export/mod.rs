//! Traces as tables for other tools: CSV, and Parquet with the feature `parquet`.

mod csv;
#[cfg(feature = "parquet")]
mod parquet;
mod table;

use std::fs::File;
use std::path::Path;

use crate::writer::{beside, io_error};
use crate::{TraceError, WindowSource};

pub use table::Table;

/// How to write a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a line of names.
    Csv,
    /// Apache Parquet, compressed with zstd.
    #[cfg(feature = "parquet")]
    Parquet,
}

/// Takes a table row by row.
trait Sink {
    fn row(&mut self, row: &[Value<'_>]) -> std::io::Result<()>;
    fn finish(&mut self) -> std::io::Result<()>;
}

/// A cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value<'a> {
    Number(u64),
    Text(&'a str),
}

/// Writes one table of a source to the file at `path`: beside it first, then renamed.
///
/// # Errors
/// As the source's; or the file exists and `overwrite` is off; or writing failed.
pub fn export(
    path: &Path,
    source: &mut dyn WindowSource,
    table: Table,
    format: Format,
    overwrite: bool,
) -> Result<u64, TraceError> {
    beside(path, overwrite, |file| {
        let failed = |error| io_error(path, error);
        let mut sink = sink(format, file, table).map_err(failed)?;
        let rows = table::write(table, source, &mut |row| sink.row(row).map_err(failed))?;
        sink.finish().map_err(failed)?;
        Ok(rows)
    })
}

fn sink<'a>(format: Format, file: &'a File, table: Table) -> std::io::Result<Box<dyn Sink + 'a>> {
    Ok(match format {
        Format::Csv => Box::new(csv::CsvSink::new(file, table)?),
        #[cfg(feature = "parquet")]
        Format::Parquet => Box::new(parquet::ParquetSink::new(file, table)?),
    })
}
