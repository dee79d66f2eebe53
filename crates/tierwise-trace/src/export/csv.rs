//! Comma-separated values.

use std::io::{self, BufWriter, Write};

use super::{Sink, TraceTable, Value};

/// Writes CSV.
pub(super) struct CsvSink<W: Write> {
    writer: csv::Writer<BufWriter<W>>,
}

impl<W: Write> CsvSink<W> {
    /// Writes the line of names.
    pub(super) fn new(out: W, table: TraceTable) -> io::Result<Self> {
        let mut writer = csv::Writer::from_writer(BufWriter::new(out));
        writer.write_record(table.columns().iter().map(|(name, _)| name))?;
        Ok(Self { writer })
    }
}

impl<W: Write> Sink for CsvSink<W> {
    fn row(&mut self, row: &[Value<'_>]) -> io::Result<()> {
        for value in row {
            match value {
                Value::Number(number) => self.writer.write_field(number.to_string())?,
                Value::Text(text) => self.writer.write_field(text)?,
            }
        }
        // No more fields: the end of the record.
        self.writer.write_record(None::<&[u8]>)?;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.writer.flush()
    }
}
