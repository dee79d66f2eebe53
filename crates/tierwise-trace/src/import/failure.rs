//! The failures of an import.

use std::path::{Path, PathBuf};

use super::ImportFormat;
use crate::TraceError;
use crate::cache::GeometryError;
use crate::model::unreadable;

/// The failure of an import.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The cache cannot be modelled.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The input could not be read.
    #[error("{input}: {}", unreadable(input, source))]
    Read {
        /// The input.
        input: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// No record is an event: a tool's own messages alone, or nothing.
    #[error("{input}: there is no instruction and no access in it; expected {expected}")]
    Nothing {
        /// The input.
        input: PathBuf,
        /// The form of the format's records, and how to make them.
        expected: &'static str,
    },
    /// A line is not of the format.
    #[error("{input}:{line}: {text:?}: {reason}; expected {expected}")]
    Line {
        /// The input.
        input: PathBuf,
        /// Its number, from 1.
        line: u64,
        /// Its start.
        text: String,
        /// Its defect.
        reason: String,
        /// The form of the format's lines, and how to make them.
        expected: &'static str,
    },
    /// A record of a binary format is not of the format.
    #[error("{input}: at byte {offset}: {reason}; expected {expected}")]
    Record {
        /// The input.
        input: PathBuf,
        /// Start of the record, in the unpacked input.
        offset: u64,
        /// Its defect.
        reason: String,
        /// The form of the format's records.
        expected: &'static str,
    },
    /// The input names more pages than allowed.
    #[error(
        "{input}: its accesses are in more than {limit} bytes of memory; raise the limit of memory \
         (--max-memory), or import a part"
    )]
    TooMuchMemory {
        /// The input.
        input: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
}

/// A failure of a format's reader, which does not know the name of its input.
#[derive(Debug)]
pub enum ImportProblem {
    /// The trace could not be written.
    Trace(TraceError),
    /// The input could not be read.
    Read(std::io::Error),
    /// No record is an event.
    Nothing,
    /// Number, start and defect of a line.
    Line(u64, String, String),
    /// Offset and defect of a record.
    Record(u64, String),
    /// The limit of memory, in bytes.
    TooMuchMemory(u64),
}

impl From<TraceError> for ImportProblem {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

impl From<std::io::Error> for ImportProblem {
    fn from(error: std::io::Error) -> Self {
        Self::Read(error)
    }
}

impl ImportProblem {
    /// The failure of reading this input.
    pub(super) fn of(self, format: ImportFormat, input: &Path) -> ImportError {
        let (input, expected) = (input.to_owned(), format.expected());
        match self {
            Self::Trace(error) => error.into(),
            Self::Read(source) => ImportError::Read { input, source },
            Self::Nothing => ImportError::Nothing { input, expected },
            Self::Line(line, text, reason) => {
                ImportError::Line { input, line, text, reason, expected }
            }
            Self::Record(offset, reason) => ImportError::Record { input, offset, reason, expected },
            Self::TooMuchMemory(limit) => ImportError::TooMuchMemory { input, limit },
        }
    }
}
