//! What can go wrong between Tierwise and the kernel: always with the path or the process, and the
//! kernel's answer in words.

use std::io;
use std::path::{Path, PathBuf};

use crate::bytes::shown_path;

/// A refusal of the kernel's, or something in one of its files that is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum LinuxError {
    /// A file could not be read, written or listed.
    #[error("{}: cannot {what}: {source}", shown_path(path))]
    File {
        /// The file.
        path: PathBuf,
        /// "read", "write \"on\"", "list".
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A file's content is not what the kernel documents.
    #[error("{}{}: found {found}; expected {expected}", shown_path(path), line.map_or(String::new(), |n| format!(":{n}")))]
    Format {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1, if it has more than one.
        line: Option<usize>,
        /// What is there.
        found: String,
        /// What should be.
        expected: &'static str,
    },
    /// A system call on a process failed.
    #[error("process {pid}: {call}: {source}")]
    Process {
        /// The process.
        pid: i32,
        /// The call, by its name in the manual.
        call: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A process keeps whoever asks about its memory waiting.
    #[error(
        "process {pid}: {why}; its memory is left where it is until the lock is free (a thread \
         that waits for a file system, or is throttled by cpu.max, may hold it)"
    )]
    Locked {
        /// The process.
        pid: i32,
        /// What it did.
        why: &'static str,
    },
    /// Several control groups have the name that should say which one is meant.
    #[error(
        "cgroup {written:?}: found {count} groups of that name: {}; \
         write the path of the one that is meant",
        groups.iter().map(|group| shown_path(group).to_string()).collect::<Vec<_>>().join(", ")
    )]
    Ambiguous {
        /// As the operator wrote it.
        written: String,
        /// Some of the groups, below the mount point.
        groups: Vec<PathBuf>,
        /// How many there are.
        count: usize,
    },
    /// The machine, its kernel or the configuration lacks something.
    #[error("{what}; {remedy}")]
    Missing {
        /// What is missing, as one clause.
        what: String,
        /// What to do about it.
        remedy: String,
    },
}

impl LinuxError {
    /// A failed access to a file.
    pub fn file(path: &Path, what: impl Into<String>, source: io::Error) -> Self {
        Self::File { path: path.to_owned(), what: what.into(), source }
    }

    /// Whether the file or the process was not there (any more): for whoever follows things that
    /// come and go, that is news and not a failure.
    pub fn is_gone(&self) -> bool {
        let (Self::File { source, .. } | Self::Process { source, .. }) = self else { return false };
        says_gone(source)
    }

    /// Whether the kernel answered that the file is in use (`EBUSY`).
    pub fn is_busy(&self) -> bool {
        let Self::File { source, .. } = self else { return false };
        source.raw_os_error() == Some(libc::EBUSY)
    }

    /// Whether it is the machine that lacks something, whatever was being read: descriptors,
    /// memory, or what [`LinuxError::Missing`] says.
    pub fn is_of_machine(&self) -> bool {
        match self {
            Self::File { source, .. } | Self::Process { source, .. } => {
                matches!(source.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
            }
            Self::Missing { .. } => true,
            Self::Format { .. } | Self::Locked { .. } | Self::Ambiguous { .. } => false,
        }
    }
}

/// Whether this is the kernel's way to say that something is not there (any more).
pub(crate) fn says_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV))
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, LinuxError>;
