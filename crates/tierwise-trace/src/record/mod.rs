//! Records an unmodified Linux program.
//!
//! The program runs under QEMU's user-mode emulation with a plugin (recorder/ in the source tree)
//! that counts its instructions and accesses. The plugin streams one message per window to this
//! process, which writes the trace. Another process may name the phases of the program's work, and
//! count its operations, through a FIFO ([`marks`]).

mod command;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod host;
pub mod marks;
mod requests;
mod session;
mod tools;
mod wire;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::cache::{self, GeometryError};
use crate::format::Totals;
use crate::{CacheModel, TraceError};

pub use session::record;

/// 100 million instructions: some 30 to 50 ms of one core. That is short compared with the second
/// or so in which kernels and the published systems scan pages, so a simulation can place their
/// intervals freely. It is long enough that a window touches each hot page many times and a row is
/// worth its bytes.
pub const DEFAULT_WINDOW_INSTRUCTIONS: u64 = 100_000_000;

/// The options of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordOptions {
    /// The program and its arguments; a name without a slash is searched in PATH.
    pub command: Vec<OsString>,
    /// The trace to write.
    pub out: PathBuf,
    /// True to replace an existing trace.
    pub overwrite: bool,
    /// Guest instructions of a window.
    pub window_instructions: u64,
    /// The last-level cache to model.
    pub llc: CacheModel,
    /// zstd level of the trace.
    pub level: i32,
    /// The recorder plugin; found automatically if not given.
    pub plugin: Option<PathBuf>,
    /// The QEMU user-mode emulator; found automatically if not given.
    pub qemu: Option<PathBuf>,
    /// A FIFO to create for marks; its path is given to the program as `TIERWISE_MARKS`.
    pub marks: Option<PathBuf>,
    /// The number of instructions after whose window the program is stopped; `None` for no limit.
    pub max_instructions: Option<u64>,
    /// True to follow the reference counts of a CPython program's objects.
    pub objects: bool,
    /// True to report the addresses that the kernel would give to mappings. The emulator maps
    /// upwards, and the kernel downwards in the highest gap.
    pub kernel_layout: bool,
}

impl RecordOptions {
    /// Makes options that record `command` into `out`, with defaults for all others.
    #[must_use]
    pub fn new(command: Vec<OsString>, out: impl Into<PathBuf>) -> Self {
        Self {
            command,
            out: out.into(),
            overwrite: false,
            window_instructions: DEFAULT_WINDOW_INSTRUCTIONS,
            llc: cache::DEFAULT,
            level: crate::writer::WriterOptions::default().level,
            plugin: None,
            qemu: None,
            marks: None,
            max_instructions: None,
            objects: false,
            kernel_layout: false,
        }
    }
}

/// The progress of a recording, after each window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingProgress {
    /// The data written so far.
    pub totals: Totals,
    /// Size of the trace in bytes.
    pub bytes: u64,
}

/// The result of a recording. Without a window there is no trace: what was there before stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordSummary {
    /// The data written.
    pub totals: Totals,
    /// Size of the trace in bytes.
    pub bytes: u64,
    /// The exit status of the program.
    pub status: ExitStatus,
    /// True if the program reported its end. If it was killed, the trace lacks everything after its
    /// last full window.
    pub complete: bool,
    /// True if the recorder stopped the program, at [`RecordOptions::max_instructions`].
    pub stopped: bool,
    /// The programs that replaced the first one by `execve`, in order. They are in the trace. The
    /// pages of each program end with it.
    pub followed: Vec<PathBuf>,
    /// Processes that were forked. They are not in the trace.
    pub children: u64,
    /// Refused lines of the marks FIFO, each with the reason.
    pub refused_marks: Vec<String>,
}

/// The reason why a program could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The cache cannot be modelled.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The command cannot be run.
    #[error("{command}: {reason}")]
    Command {
        /// The program named.
        command: String,
        /// Its defect.
        reason: String,
    },
    /// QEMU's user-mode emulation is missing.
    #[error(
        "{name} was not found in PATH; recording runs the program under it. Install it: \
         apt-get install qemu-user"
    )]
    NoQemu {
        /// The name of the emulator.
        name: String,
    },
    /// The recorder plugin is missing.
    #[error(
        "the recorder plugin was not found (paths tried: {}). Build it in the source tree: make \
         recorder; or name it in TIERWISE_RECORDER", searched.join(", ")
    )]
    NoPlugin {
        /// The paths tried.
        searched: Vec<String>,
    },
    /// An option is out of its range.
    #[error("{option}: {reason}")]
    Option {
        /// The option.
        option: &'static str,
        /// The value found and the values allowed.
        reason: String,
    },
    /// The emulator ended before the plugin sent a message.
    #[error("{qemu} ended ({status}) before the recording started; its own message is above")]
    NotStarted {
        /// The emulator.
        qemu: String,
        /// Its exit status.
        status: ExitStatus,
    },
    /// The program executed another, and the recorder did not start in it.
    #[error(
        "the program executed {program}, which could not be followed ({status}); the message of \
         the emulator is above. What was recorded before it is in the trace"
    )]
    NotFollowed {
        /// The program executed.
        program: String,
        /// Its exit status.
        status: ExitStatus,
    },
    /// The recorder stopped the program, for a reason that it printed.
    #[error("the recorder stopped the program; its reason is above")]
    GaveUp,
    /// The recording failed, and the part until then is a whole trace.
    #[error(
        "{error}. {} holds what was recorded before: {windows} window{}",
        out.display(),
        if *windows == 1 { "" } else { "s" }
    )]
    Kept {
        /// The failure itself.
        error: Box<RecordError>,
        /// The trace.
        out: PathBuf,
        /// Its windows.
        windows: u64,
    },
    /// The plugin sent a message that this version does not understand.
    #[error("the recorder plugin sent {found}; expected {expected}. Rebuild it: make recorder")]
    Wire {
        /// The value found.
        found: String,
        /// The value expected.
        expected: &'static str,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// The attempted action.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
}

impl RecordError {
    fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}
