//! Errors of this crate. Each has the path or the process, and the kernel's answer.

use std::io;
use std::path::{Path, PathBuf};

use crate::bytes::shown_path;

/// A refusal of the kernel, or an unexpected content of one of its files.
#[derive(Debug, thiserror::Error)]
pub enum LinuxError {
    /// A file could not be read, written or listed.
    #[error("{}: cannot {what}: {source}", shown_path(path))]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Action: "read", "write \"on\"", "list".
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A file's content is not what the kernel documents.
    #[error(
        "{}{}: found {found}; expected {expected}",
        shown_path(path),
        line.map_or(String::new(), |n| format!(":{n}"))
    )]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// Line, counted from 1, if the file has more than one.
        line: Option<usize>,
        /// Content found.
        found: String,
        /// Content expected.
        expected: &'static str,
    },
    /// A system call on a process failed.
    #[error("process {pid}: {call}: {source}")]
    Process {
        /// Pid.
        pid: i32,
        /// Name of the call in the manual.
        call: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A process makes calls on its memory wait.
    #[error(
        "process {pid}: {why}; its memory is left where it is until the lock is free (a thread \
         that waits for a file system, or is throttled by cpu.max, may hold it)"
    )]
    Locked {
        /// Pid.
        pid: i32,
        /// Reason, as a clause about the process.
        why: &'static str,
    },
    /// Several control groups have the given name.
    #[error(
        "cgroup {written:?}: found {count} groups of that name: {}; \
         write the path of the one that is meant",
        groups.iter().map(|group| shown_path(group).to_string()).collect::<Vec<_>>().join(", ")
    )]
    Ambiguous {
        /// Name in the configuration.
        written: String,
        /// Some of the groups, by path below the mount point.
        groups: Vec<PathBuf>,
        /// Number of groups.
        count: usize,
    },
    /// The machine, its kernel or the configuration lacks something.
    #[error("{what}; {remedy}")]
    Missing {
        /// The lack, as one clause.
        what: String,
        /// Remedy, as one clause.
        remedy: String,
    },
}

impl LinuxError {
    /// A failed access to a file.
    pub fn file(path: &Path, what: impl Into<String>, source: io::Error) -> Self {
        Self::File { path: path.to_owned(), what: what.into(), source }
    }

    /// True if the file or process does not exist (any more). For code that follows things that
    /// come and go, that is no failure.
    pub fn is_gone(&self) -> bool {
        let (Self::File { source, .. } | Self::Process { source, .. }) = self else { return false };
        means_gone(source)
    }

    /// True if the kernel answered that the file is in use (`EBUSY`).
    pub fn is_busy(&self) -> bool {
        let Self::File { source, .. } = self else { return false };
        source.raw_os_error() == Some(libc::EBUSY)
    }

    /// True if the machine lacks something, independent of the file that was read: descriptors,
    /// memory, or the content of [`LinuxError::Missing`].
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

/// True if the kernel answers that something does not exist (any more).
pub(crate) fn means_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV))
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, LinuxError>;
