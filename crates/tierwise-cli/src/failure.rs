//! The failure of a command, and its exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use tierwise_core::config::ConfigError;
use tierwise_sim::error::SimError;
use tierwise_trace::TraceError;

use crate::prose::printable;

/// The result of a command.
pub type CommandResult = Result<(), Failure>;

/// The failure that stopped a command.
#[derive(Debug)]
pub enum Failure {
    /// A mistake of the user; exit code 2.
    User(String),
    /// The system or Tierwise itself failed; exit code 1.
    Internal(String),
    /// The trace is whole, and the program that was recorded failed; exit code 3.
    Program(String),
    /// The trace ends before its program did; exit code 4.
    Cut(String),
    /// The reader of the output has closed it (`tierwise ... | head`): a regular end.
    ClosedPipe,
}

impl Failure {
    /// Makes a user's mistake from a message.
    pub fn user(message: &dyn std::fmt::Display) -> Self {
        Self::User(message.to_string())
    }

    /// A request for Parquet.
    #[cfg(not(feature = "parquet"))]
    pub fn without_parquet() -> Self {
        Self::user(
            &"this program was built without Parquet; build it with: make install, or \
              cargo build --release -p tierwise-cli",
        )
    }

    /// Puts a name before the message: the one of several things that failed.
    pub fn of(self, what: &str) -> Self {
        self.reworded(|message| format!("{what}: {message}"))
    }

    /// Changes the words of the failure.
    pub fn reworded(self, words: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::User(message) => Self::User(words(message)),
            Self::Internal(message) => Self::Internal(words(message)),
            Self::Program(message) => Self::Program(words(message)),
            Self::Cut(message) => Self::Cut(words(message)),
            Self::ClosedPipe => Self::ClosedPipe,
        }
    }

    /// Prints the message on stderr, in one line, and returns the exit code.
    pub fn report(&self) -> ExitCode {
        let (message, code) = match self {
            Self::User(message) => (message, 2),
            Self::Internal(message) => (message, 1),
            Self::Program(message) => (message, 3),
            Self::Cut(message) => (message, 4),
            Self::ClosedPipe => return ExitCode::SUCCESS,
        };
        let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        let line = message.split('\n').map(str::trim).filter(|part| !part.is_empty());
        let line = printable(&line.collect::<Vec<_>>().join("; "));
        // A failed write to stderr changes no exit code.
        let _ = writeln!(anstream::stderr(), "{red}error:{red:#} {line}");
        ExitCode::from(code)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::user(&error)
    }
}

/// A file that is wrong is the user's mistake; a disk that is full is not.
impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        match &error {
            TraceError::Io { path, source } if no_room(source) => {
                Self::Internal(format!("{}: cannot be written: {source}", path.display()))
            }
            _ => Self::user(&error),
        }
    }
}

/// Returns true if the error reports that there is no space for more data.
fn no_room(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), FileTooLarge | QuotaExceeded | StorageFull)
}

impl From<SimError> for Failure {
    fn from(error: SimError) -> Self {
        match error {
            SimError::Violation(_) => Self::Internal(error.to_string()),
            _ => Self::user(&error),
        }
    }
}

/// The errors of writing to stdout are the system's own. Those of files name the file
/// (`output.rs`).
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ if error.raw_os_error().is_some() => {
                Self::Internal(format!("stdout: cannot be written: {error}"))
            }
            _ => Self::Internal(error.to_string()),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::from(io::Error::from(error))
    }
}
