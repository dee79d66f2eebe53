//! `tierwise record`: a program becomes a trace.

use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use tierwise_core::units::Bytes;
use tierwise_trace::CacheModel;
use tierwise_trace::record::{
    DEFAULT_WINDOW_INSTRUCTIONS, RecordError, RecordOptions, RecordSummary, record,
};

use crate::failure::{Failure, Outcome};
use crate::output::counted;
use crate::trace::llc;

/// Run a program and record which pages it touches, window by window.
///
/// The program runs unmodified under QEMU's user-mode emulation, some tens of times slower than
/// alone. Its phases can be named while it runs: see --marks. When the program executes another, as a
/// shell script that ends with exec does, that one is recorded too; forked processes are not, and
/// their number is reported.
///
/// The exit code is 0 when a trace was written, also when the program failed or a signal stopped the
/// recording: notes on standard error name that. It is 1 when the recording failed; what was recorded
/// until then is kept. It is 2 for a mistake in the command.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise record -o sort.twt -- sort big-file.txt\n  \
                        tierwise record -o db.twt --llc 16MiB/16 -- python3 load.py")]
pub struct Record {
    /// The trace to write.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Instructions of a window.
    #[arg(long, value_name = "NUMBER", default_value_t = DEFAULT_WINDOW_INSTRUCTIONS)]
    window: u64,
    /// The last-level cache to model: size and ways.
    #[arg(long, value_name = "SIZE/WAYS", default_value = "32MiB/16", value_parser = llc)]
    llc: CacheModel,
    /// A FIFO to make: a line written to it names the phase that begins. The program finds its path
    /// in TIERWISE_MARKS. A FIFO that is there already is used, and stays.
    #[arg(long, value_name = "FIFO")]
    marks: Option<PathBuf>,
    /// Stop the program once it has executed so many instructions.
    #[arg(long, value_name = "NUMBER")]
    max_instructions: Option<u64>,
    /// Replace an existing trace.
    #[arg(long)]
    force: bool,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Record {
    pub fn execute(&self) -> Outcome {
        let mut options = RecordOptions::new(self.command.clone(), &self.output);
        options.overwrite = self.force;
        options.window_instructions = self.window;
        options.llc = self.llc;
        options.marks.clone_from(&self.marks);
        options.max_instructions = self.max_instructions;
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
            bar.set_style(style);
        }
        let recorded = record(&options, |progress| {
            bar.set_message(format!(
                "{}, {}, {}",
                counted(progress.totals.windows, "window"),
                counted(progress.totals.pages, "page"),
                Bytes(progress.bytes)
            ));
            bar.tick();
        });
        bar.finish_and_clear();
        let summary = recorded?;
        self.conclude(&summary);
        Ok(())
    }

    fn conclude(&self, summary: &RecordSummary) {
        crate::output::tell(format_args!(
            "{}: {}, {}, {}, {}",
            self.output.display(),
            counted(summary.totals.windows, "window"),
            counted(summary.totals.instructions, "instruction"),
            counted(summary.totals.pages, "page"),
            Bytes(summary.bytes)
        ));
        if summary.totals.windows == 0 {
            crate::output::tell(format_args!(
                "warning: the trace holds no window, so that nothing can be simulated with it"
            ));
        }
        for program in &summary.followed {
            crate::output::tell(format_args!(
                "note: followed the program to {}",
                program.display()
            ));
        }
        if summary.children > 0 {
            crate::output::tell(format_args!(
                "warning: the trace is without {}; it holds what the first process did, and the \
                 programs that it executed. To record another, give it as COMMAND, without a wrapper \
                 such as timeout or a shell before it",
                counted(summary.children, "forked process")
            ));
        }
        if !summary.status.success() {
            crate::output::tell(format_args!("note: the program ended with {}", summary.status));
        }
        if !summary.complete {
            crate::output::tell(format_args!(
                "note: the program did not report its end; what it did after its last full window \
                 is not in the trace"
            ));
        }
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::System { .. }
            | RecordError::Wire { .. }
            | RecordError::NotFollowed { .. }
            | RecordError::GaveUp
            | RecordError::Kept { .. } => Self::Internal(error.to_string()),
            _ => Self::user(&error),
        }
    }
}
