//! `tierwise trace export` and `import`: converts to and from other tools' formats.

use std::io::{self, BufRead, BufReader, stdin};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tierwise_trace::CacheModel;
use tierwise_trace::cache::{self, parse_geometry};
use tierwise_trace::export::{self, export};
use tierwise_trace::import::lackey::{ImportError, ImportOptions, import};
use tierwise_trace::pipe;
use tierwise_trace::reader::TraceReader;
use tierwise_trace::record::DEFAULT_WINDOW_INSTRUCTIONS;
use tierwise_trace::writer::WriterOptions;

use crate::failure::{CommandResult, Failure};
use crate::input::cannot_read;
use crate::number::counted;
use crate::value::{WINDOW, whole};

/// Write a table of a trace for other tools, as CSV or Parquet.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise trace export a.twt --table pages -o pages.csv\n  \
                        tierwise trace export a.twt -o accesses.parquet")]
pub struct Export {
    /// The trace.
    #[arg(value_name = "TRACE.twt")]
    trace: PathBuf,
    /// The file to write.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The table.
    #[arg(long, value_enum, default_value_t = Table::Accesses)]
    table: Table,
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
}

impl Export {
    pub fn execute(&self) -> CommandResult {
        let format = match self.format.map_or_else(|| by_ending(&self.output), Ok)? {
            Format::Csv => export::ExportFormat::Csv,
            #[cfg(feature = "parquet")]
            Format::Parquet => export::ExportFormat::Parquet,
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => return Err(Failure::without_parquet()),
        };
        let table = match self.table {
            Table::Accesses => export::TraceTable::Accesses,
            Table::Windows => export::TraceTable::Windows,
            Table::Pages => export::TraceTable::Pages,
        };
        let mut reader = TraceReader::open(&self.trace)?;
        let rows = export(&self.output, &mut reader, table, format, self.force)?;
        crate::output::print_error_line(format_args!(
            "{}: {}",
            self.output.display(),
            counted(rows, "row")
        ));
        Ok(())
    }
}

fn by_ending(path: &Path) -> Result<Format, Failure> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("csv") => Ok(Format::Csv),
        Some("parquet") => Ok(Format::Parquet),
        _ => Err(Failure::User(format!(
            "{}: its suffix is neither csv nor parquet; add --format",
            path.display()
        ))),
    }
}

/// Make a trace from the output of `valgrind --tool=lackey --trace-mem=yes`.
#[derive(Debug, Args)]
#[command(
    after_help = "EXAMPLE\n  valgrind --tool=lackey --trace-mem=yes --log-file=ls.txt ls\n  \
                        tierwise trace import ls.txt ls.twt"
)]
pub struct Import {
    /// The output of lackey; "-" reads stdin.
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// The trace to write.
    #[arg(value_name = "TO.twt")]
    to: PathBuf,
    /// The traced command, for the trace's header.
    #[arg(long, value_name = "TEXT", default_value = "unknown")]
    command: String,
    /// Instructions of a window.
    #[arg(long, value_name = "NUMBER", default_value_t = DEFAULT_WINDOW_INSTRUCTIONS,
          value_parser = whole(WINDOW))]
    window: u64,
    /// The last-level cache to model: size and ways.
    #[arg(long, value_name = "SIZE/WAYS", default_value = "32MiB/16", value_parser = llc)]
    llc: CacheModel,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
}

/// A cache such as 32MiB/16.
pub fn llc(text: &str) -> Result<CacheModel, cache::GeometryError> {
    parse_geometry(text)
}

impl Import {
    pub fn execute(&self) -> CommandResult {
        let options = ImportOptions {
            command: self.command.split_whitespace().map(str::to_owned).collect(),
            window_instructions: self.window,
            llc: self.llc,
            writer: WriterOptions { overwrite: self.force, ..WriterOptions::default() },
        };
        let input: Box<dyn BufRead> = if self.from.as_os_str() == "-" {
            Box::new(BufReader::new(stdin()))
        } else {
            let refuse = |error: io::Error| cannot_read(&self.from, &error);
            Box::new(BufReader::new(pipe::open(&self.from).map_err(refuse)?))
        };
        let totals =
            import(input, &self.from, &self.to, &options).map_err(|error| match error {
                ImportError::Trace(error) => error.into(),
                error => Failure::user(&error),
            })?;
        crate::output::print_error_line(format_args!(
            "{}: {}, {}, {}",
            self.to.display(),
            counted(totals.windows, "window"),
            counted(totals.instructions, "instruction"),
            counted(totals.pages, "page")
        ));
        Ok(())
    }
}
