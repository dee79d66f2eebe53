//! Apache Parquet.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::{Sink, Table, Value};

/// Rows handed over at once; the writer makes row groups of a million of them.
const BATCH_ROWS: usize = 1 << 16;

enum Cells {
    Numbers(Vec<u64>),
    Texts(Vec<String>),
}

impl Cells {
    fn take(&mut self) -> ArrayRef {
        match self {
            Self::Numbers(numbers) => Arc::new(UInt64Array::from(std::mem::take(numbers))),
            Self::Texts(texts) => Arc::new(StringArray::from(std::mem::take(texts))),
        }
    }
}

/// Writes Parquet.
pub(super) struct ParquetSink<W: Write + Send> {
    writer: ArrowWriter<W>,
    schema: Arc<Schema>,
    columns: Vec<Cells>,
    rows: usize,
}

impl<W: Write + Send> ParquetSink<W> {
    /// Prepares the columns of a table.
    pub fn new(out: W, table: Table) -> io::Result<Self> {
        let field = |&(name, text): &(&str, bool)| {
            let kind = if text { DataType::Utf8 } else { DataType::UInt64 };
            Field::new(name, kind, false)
        };
        let schema = Arc::new(Schema::new(table.columns().iter().map(field).collect::<Vec<_>>()));
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .build();
        let writer = ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties))?;
        let empty = |&(_, text): &(&str, bool)| match text {
            true => Cells::Texts(Vec::new()),
            false => Cells::Numbers(Vec::new()),
        };
        let columns = table.columns().iter().map(empty).collect();
        Ok(Self { writer, schema, columns, rows: 0 })
    }

    fn write_batch(&mut self) -> io::Result<()> {
        let arrays = self.columns.iter_mut().map(Cells::take).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays);
        self.writer.write(&batch.map_err(io::Error::other)?)?;
        self.rows = 0;
        Ok(())
    }
}

impl<W: Write + Send> Sink for ParquetSink<W> {
    fn row(&mut self, row: &[Value<'_>]) -> io::Result<()> {
        for (cells, value) in self.columns.iter_mut().zip(row) {
            match (cells, value) {
                (Cells::Numbers(numbers), Value::Number(number)) => numbers.push(*number),
                (Cells::Texts(texts), Value::Text(text)) => texts.push((*text).to_owned()),
                _ => return Err(io::Error::other("a row does not fit its table's columns")),
            }
        }
        self.rows += 1;
        if self.rows == BATCH_ROWS { self.write_batch() } else { Ok(()) }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.write_batch()?;
        self.writer.finish()?;
        Ok(())
    }
}
