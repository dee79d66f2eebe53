//! Comma-separated values.

use std::io::{self, BufWriter, Write};

use super::{Sink, TraceTable, Value};

/// Returns the system's own error, whose kind shows whether the disk is full.
fn written(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// Sink that writes CSV.
pub(super) struct CsvSink<W: Write> {
    writer: csv::Writer<BufWriter<W>>,
}

impl<W: Write> CsvSink<W> {
    /// Writes the line of names.
    pub(super) fn new(out: W, table: TraceTable) -> io::Result<Self> {
        let mut writer = csv::Writer::from_writer(BufWriter::new(out));
        writer.write_record(table.columns().iter().map(|(name, _)| name)).map_err(written)?;
        Ok(Self { writer })
    }
}

impl<W: Write> Sink for CsvSink<W> {
    fn row(&mut self, row: &[Value<'_>]) -> io::Result<()> {
        for value in row {
            match value {
                Value::Number(number) => {
                    self.writer.write_field(number.to_string()).map_err(written)?;
                }
                Value::Text(text) => self.writer.write_field(text).map_err(written)?,
            }
        }
        // An empty record ends the current one.
        self.writer.write_record(None::<&[u8]>).map_err(written)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.writer.flush()
    }
}
