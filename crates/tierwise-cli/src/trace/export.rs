//! `tierwise trace export`: converts traces to other tools' formats.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tierwise_sim::machine::Machine;
use tierwise_trace::export::{self, export, export_oracle_general};
use tierwise_trace::reader::TraceReader;

use crate::failure::{CommandResult, Failure};
use crate::number::counted;

/// Write a trace for other tools: a table as CSV or Parquet, or requests for libCacheSim.
///
/// docs/traces.md says what an exported request is, and why no other simulator's format is
/// written.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise trace export a.twt --table pages -o pages.csv\n  \
                        tierwise trace export a.twt -o accesses.parquet\n  \
                        tierwise trace export a.twt -o a.oracleGeneral")]
pub struct Export {
    /// The trace.
    #[arg(value_name = "TRACE.twt")]
    trace: PathBuf,
    /// The file to write.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The table, of CSV and Parquet [default: accesses].
    #[arg(long, value_enum)]
    table: Option<Table>,
    /// The format [default: by the file's extension].
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Table {
    /// One row per page and window in which it was touched.
    Accesses,
    /// One row per window.
    Windows,
    /// One row per page.
    Pages,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// Comma-separated values with a line of names.
    Csv,
    /// Apache Parquet.
    Parquet,
    /// libCacheSim's oracleGeneral: a request for each page of each window.
    OracleGeneral,
}

impl Export {
    pub fn execute(&self) -> CommandResult {
        let (rows, noun) = match self.format.map_or_else(|| by_ending(&self.output), Ok)? {
            Format::OracleGeneral => (self.requests()?, "request"),
            format => (self.rows(format)?, "row"),
        };
        crate::output::print_error_line(format_args!(
            "{}: {}",
            self.output.display(),
            counted(rows, noun)
        ));
        Ok(())
    }

    fn requests(&self) -> Result<u64, Failure> {
        if self.table.is_some() {
            return Err(Failure::user(&"--table is for csv and parquet; oracleGeneral has none"));
        }
        let mut reader = TraceReader::open(&self.trace)?;
        let instruction_ns = Machine::DEFAULT_INSTRUCTION_NS;
        Ok(export_oracle_general(&self.output, &mut reader, instruction_ns, self.force)?)
    }

    fn rows(&self, format: Format) -> Result<u64, Failure> {
        let format = match format {
            Format::Csv => export::ExportFormat::Csv,
            #[cfg(feature = "parquet")]
            Format::Parquet => export::ExportFormat::Parquet,
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => return Err(Failure::without_parquet()),
            Format::OracleGeneral => return self.requests(),
        };
        let table = match self.table.unwrap_or(Table::Accesses) {
            Table::Accesses => export::TraceTable::Accesses,
            Table::Windows => export::TraceTable::Windows,
            Table::Pages => export::TraceTable::Pages,
        };
        let mut reader = TraceReader::open(&self.trace)?;
        Ok(export(&self.output, &mut reader, table, format, self.force)?)
    }
}

fn by_ending(path: &Path) -> Result<Format, Failure> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("csv") => Ok(Format::Csv),
        Some("parquet") => Ok(Format::Parquet),
        Some("oracleGeneral") => Ok(Format::OracleGeneral),
        _ => Err(Failure::User(format!(
            "{}: its suffix is neither csv, parquet nor oracleGeneral; add --format",
            path.display()
        ))),
    }
}
