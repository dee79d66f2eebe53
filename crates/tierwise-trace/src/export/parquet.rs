//! Apache Parquet, written column by column with the format's own low-level writer: the tables here
//! are flat and their columns simple, so that Arrow, a large dependency, would add nothing.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

/// Rows of a row group: the unit of work of readers, and the amount held in memory here.
const GROUP_ROWS: usize = 1 << 20;

/// The content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Whole numbers.
    Whole,
    /// Floating-point numbers.
    Real,
    /// Texts.
    Text,
}

/// A cell of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// For a [`ColumnKind::Whole`] column.
    Whole(u64),
    /// For a [`ColumnKind::Real`] column.
    Real(f64),
    /// For a [`ColumnKind::Text`] column.
    Text(&'a str),
    /// No value, in a table with gaps.
    Absent,
}

enum Cells {
    Whole(Vec<i64>),
    Real(Vec<f64>),
    Text(Vec<ByteArray>),
}

/// A column of the current row group.
struct Column {
    cells: Cells,
    /// One definition level per row if the column has gaps: 1 for a value, 0 for none.
    levels: Option<Vec<i16>>,
}

/// Writes a flat table as a Parquet file.
pub struct ParquetTable<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Column>,
    rows: usize,
}

fn column_type(name: &str, kind: ColumnKind, gaps: bool) -> Result<Type, ParquetError> {
    let physical = match kind {
        ColumnKind::Whole => Physical::INT64,
        ColumnKind::Real => Physical::DOUBLE,
        ColumnKind::Text => Physical::BYTE_ARRAY,
    };
    Type::primitive_type_builder(name, physical)
        .with_repetition(if gaps { Repetition::OPTIONAL } else { Repetition::REQUIRED })
        .with_logical_type((kind == ColumnKind::Text).then_some(LogicalType::String))
        .build()
}

impl<W: Write + Send> ParquetTable<W> {
    /// Starts a file with these columns.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn new(out: W, columns: &[(&str, ColumnKind)]) -> io::Result<Self> {
        Self::start(out, columns, false)
    }

    /// Starts a file with these columns, each of whose cells may be absent.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn with_gaps(out: W, columns: &[(&str, ColumnKind)]) -> io::Result<Self> {
        Self::start(out, columns, true)
    }

    fn start(out: W, columns: &[(&str, ColumnKind)], gaps: bool) -> io::Result<Self> {
        let types = columns.iter().map(|&(name, kind)| column_type(name, kind, gaps).map(Arc::new));
        let fields = types.collect::<Result<Vec<_>, _>>()?;
        let schema = Type::group_type_builder("table").with_fields(fields).build()?;
        let compression = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(compression).build();
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
        let empty = |&(_, kind): &(&str, ColumnKind)| {
            let cells = match kind {
                ColumnKind::Whole => Cells::Whole(Vec::new()),
                ColumnKind::Real => Cells::Real(Vec::new()),
                ColumnKind::Text => Cells::Text(Vec::new()),
            };
            Column { cells, levels: gaps.then(Vec::new) }
        };
        Ok(Self { writer, columns: columns.iter().map(empty).collect(), rows: 0 })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// The row does not fit the columns, or the file could not be written.
    pub fn row(&mut self, row: &[Cell<'_>]) -> io::Result<()> {
        if row.len() != self.columns.len() {
            return Err(io::Error::other("a row does not fit its table's columns"));
        }
        for (column, cell) in self.columns.iter_mut().zip(row) {
            if let Some(levels) = &mut column.levels {
                levels.push(i16::from(*cell != Cell::Absent));
                if *cell == Cell::Absent {
                    continue;
                }
            }
            match (&mut column.cells, cell) {
                // Parquet's INT64 is signed; counts stay below 2^63.
                (Cells::Whole(cells), Cell::Whole(n)) => cells.push(n.cast_signed()),
                (Cells::Real(cells), Cell::Real(n)) => cells.push(*n),
                (Cells::Text(cells), Cell::Text(text)) => cells.push((*text).into()),
                _ => return Err(io::Error::other("a row does not fit its table's columns")),
            }
        }
        self.rows += 1;
        if self.rows == GROUP_ROWS { self.write_group().map_err(of_system) } else { Ok(()) }
    }

    fn write_group(&mut self) -> io::Result<()> {
        self.rows = 0;
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            write_column(&mut group, column)?;
        }
        group.close()?;
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.write_group().map_err(of_system)?;
        self.writer.finish().map_err(|error| of_system(error.into()))?;
        Ok(())
    }
}

/// Takes the system's error, such as that of a full disk, out of Parquet's.
fn of_system(error: io::Error) -> io::Error {
    match error.downcast::<ParquetError>() {
        Ok(ParquetError::External(inner)) => {
            inner.downcast::<io::Error>().map_or_else(io::Error::other, |error| *error)
        }
        Ok(other) => other.into(),
        Err(error) => error,
    }
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    column: &mut Column,
) -> io::Result<()> {
    let Some(mut out) = group.next_column()? else {
        return Err(io::Error::other("a table has more columns than its file"));
    };
    let levels = column.levels.as_mut().map(std::mem::take);
    let levels = levels.as_deref();
    match &mut column.cells {
        Cells::Whole(cells) => {
            out.typed::<Int64Type>().write_batch(&std::mem::take(cells), levels, None)?
        }
        Cells::Real(cells) => {
            out.typed::<DoubleType>().write_batch(&std::mem::take(cells), levels, None)?
        }
        Cells::Text(cells) => {
            out.typed::<ByteArrayType>().write_batch(&std::mem::take(cells), levels, None)?
        }
    };
    out.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    /// A disk with room for the first bytes only.
    struct FullDisk(usize);

    impl Write for FullDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn full_disk_keeps_its_kind() {
        for room in [0, 10, 100, 200] {
            let mut table = ParquetTable::new(FullDisk(room), &[("n", ColumnKind::Whole)]).unwrap();
            let filled = (0..100_000).try_for_each(|n| table.row(&[Cell::Whole(n)]));
            let failed = filled.and_then(|()| table.finish()).unwrap_err();
            assert_eq!(failed.kind(), io::ErrorKind::StorageFull, "{room}: {failed}");
        }
    }
}
