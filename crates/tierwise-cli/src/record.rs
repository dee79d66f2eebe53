//! `tierwise record`: records a program's accesses as a trace.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use tierwise_core::units::Bytes;
use tierwise_trace::CacheModel;
use tierwise_trace::record::{
    DEFAULT_WINDOW_INSTRUCTIONS, RecordError, RecordOptions, RecordSummary, record,
};

use crate::failure::{CommandResult, Failure};
use crate::number::counted;
use crate::trace::llc;
use crate::value::{WINDOW, whole};

/// Run a program and record which pages it touches, window by window.
///
/// The program runs unmodified under QEMU's user-mode emulation, some tens of times slower than
/// alone. Its phases can be named while it runs: see --marks. When the program executes another, as
/// a shell script that ends with exec does, the recording follows. It does not follow forked
/// processes, and reports their number.
///
/// Exit codes: 0 the trace is whole: the program ended with 0, or it was stopped at
/// --max-instructions; 1 the recording failed, and the data so far is kept; 2 the command is wrong;
/// 3 the trace is whole, and the program ended with another code than 0; 4 the trace is cut: a
/// signal ended the program, its end was not seen, or it ended before its first window. A signal to
/// the recording (Ctrl-C, SIGTERM, SIGHUP) goes to the program, and the program decides what
/// happens.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise record -o sort.twt -- sort big-file.txt\n  \
                        tierwise record -o db.twt --llc 16MiB/16 -- python3 load.py")]
pub struct RecordCommand {
    /// The trace to write.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Instructions of a window.
    #[arg(long, value_name = "NUMBER", default_value_t = DEFAULT_WINDOW_INSTRUCTIONS,
          value_parser = whole(WINDOW))]
    window: u64,
    /// The last-level cache to model: size and ways.
    #[arg(long, value_name = "SIZE/WAYS", default_value = "32MiB/16", value_parser = llc)]
    llc: CacheModel,
    /// A FIFO to create: a line written to it names the phase that starts. The program finds its
    /// path in TIERWISE_MARKS. A FIFO that exists already is used, and stays.
    #[arg(long, value_name = "FIFO")]
    marks: Option<PathBuf>,
    /// Stop the program once it has executed this many instructions.
    #[arg(long, value_name = "NUMBER", value_parser = whole(1..=u64::MAX))]
    max_instructions: Option<u64>,
    /// Follow the objects of a CPython 3.12 or 3.13 program: the trace then has, for each window,
    /// how hot the objects of each page are by the changes of their reference counts.
    #[arg(long)]
    objects: bool,
    /// Report the addresses that the kernel would give to the program's mappings, instead of the
    /// emulator's. A policy that goes by address, as the live daemon does, then meets memory in the
    /// kernel's order. Pages of a mapping that grows keep the address of their first touch.
    #[arg(long)]
    kernel_layout: bool,
    /// Replace an existing trace.
    #[arg(long)]
    force: bool,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl RecordCommand {
    pub fn execute(&self) -> CommandResult {
        let mut options = RecordOptions::new(self.command.clone(), &self.output);
        options.overwrite = self.force;
        options.window_instructions = self.window;
        options.llc = self.llc;
        options.marks.clone_from(&self.marks);
        options.max_instructions = self.max_instructions;
        options.objects = self.objects;
        options.kernel_layout = self.kernel_layout;
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
        if summary.totals.windows > 0 {
            self.describe(&summary);
        }
        verdict(&summary)
    }

    fn describe(&self, summary: &RecordSummary) {
        crate::output::print_error_line(format_args!(
            "{}: {}, {}, {}, {}",
            self.output.display(),
            counted(summary.totals.windows, "window"),
            counted(summary.totals.instructions, "instruction"),
            counted(summary.totals.pages, "page"),
            Bytes(summary.bytes)
        ));
        for program in &summary.followed {
            crate::output::print_error_line(format_args!(
                "note: followed the program to {}",
                program.display()
            ));
        }
        if summary.children > 0 {
            crate::output::print_error_line(format_args!(
                "warning: the trace is without {}; it holds what the first process did, and the \
                 programs that it executed. To record a forked program, give it as COMMAND itself, \
                 without what forks it: timeout, sudo or a shell before it, or an option to run \
                 in the background",
                counted(summary.children, "forked process")
            ));
        }
    }
}

/// Fails unless the trace holds the whole program and the program succeeded.
fn verdict(summary: &RecordSummary) -> CommandResult {
    let status = summary.status;
    if summary.totals.windows == 0 {
        return Err(Failure::Cut(format!(
            "nothing was recorded, and no trace was written: the program ended with {status} \
             before its first window was whole"
        )));
    }
    if summary.stopped {
        return Ok(());
    }
    if !summary.complete {
        return Err(Failure::Cut(format!(
            "the trace is cut: the program ended with {status}, and what it did after its last \
             window is not in the trace"
        )));
    }
    if status.signal().is_some() {
        return Err(Failure::Cut(format!(
            "the trace is cut where the program ended with {status}"
        )));
    }
    if !status.success() {
        return Err(Failure::Program(format!(
            "the trace is whole, and the program ended with {status}"
        )));
    }
    Ok(())
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::System { .. }
            | RecordError::Wire { .. }
            | RecordError::NotFollowed { .. }
            | RecordError::GaveUp
            | RecordError::Kept { .. } => Self::Internal(error.to_string()),
            RecordError::Trace(error) => error.into(),
            // A signal, such as Ctrl-C, that came while the emulator started.
            RecordError::NotStarted { status, .. } if status.signal().is_some() => {
                Self::Cut(error.to_string())
            }
            _ => Self::user(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::ExitStatus;

    use super::*;

    /// A wait status that reports an exit code; a signal is its own number (`wait(2)`).
    const fn code(code: i32) -> i32 {
        code << 8
    }

    fn judged(status: i32, windows: u64, complete: bool, stopped: bool) -> CommandResult {
        let mut summary = RecordSummary {
            totals: Default::default(),
            bytes: 1,
            status: ExitStatus::from_raw(status),
            complete,
            stopped,
            followed: Vec::new(),
            children: 0,
            refused_marks: Vec::new(),
        };
        summary.totals.windows = windows;
        verdict(&summary)
    }

    #[test]
    fn full_disk_is_no_mistake() {
        let source = std::io::ErrorKind::StorageFull.into();
        let error = tierwise_trace::TraceError::Io { path: "a.twt".into(), source };
        let failure = Failure::from(RecordError::Trace(error));
        assert!(matches!(failure, Failure::Internal(_)), "{failure:?}");
    }

    #[test]
    fn cut_recordings_differ_from_whole_ones() {
        assert!(matches!(judged(code(0), 1, true, false), Ok(())));
        // The recorder ends the program with SIGTERM at --max-instructions.
        assert!(matches!(judged(15, 1, false, true), Ok(())));
        assert!(matches!(judged(code(1), 1, true, false), Err(Failure::Program(_))));
        for cut in [judged(2, 1, true, false), judged(9, 1, false, false)] {
            assert!(matches!(cut, Err(Failure::Cut(_))), "{cut:?}");
        }
        for status in [code(0), code(127), 11] {
            let empty = judged(status, 0, true, false);
            assert!(matches!(empty, Err(Failure::Cut(_))), "{empty:?}");
        }
    }
}
