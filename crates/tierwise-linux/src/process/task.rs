//! The thread through which the memory of a process is reached.
//!
//! Threads share their memory, and the main thread may end before the others (`pthread_exit`). The
//! process is then a zombie, its `maps` is empty, and move_pages(2) refuses its pid, although its
//! memory still exists. Every live thread gives access to it.

use std::fmt;
use std::fs;

use super::reader::Reader;
use super::stat::ProcessStat;
use crate::error::{LinuxError, Result};
use crate::roots::Roots;

/// A thread of a process. Its display form is its directory below `/proc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    pid: i32,
    tid: i32,
}

impl Task {
    /// Pid of the process.
    pub fn pid(self) -> i32 {
        self.pid
    }

    /// Thread id: move_pages(2) and DAMON accept it in place of the pid.
    pub fn tid(self) -> i32 {
        self.tid
    }

    /// Finds a live thread of the process: the main thread, unless it has ended.
    ///
    /// # Errors
    /// The process does not exist (any more), or its files cannot be read.
    pub(super) fn alive(
        roots: &Roots,
        pid: i32,
        main: ProcessStat,
        reader: &mut Reader,
    ) -> Result<Option<Self>> {
        if !main.is_dead() {
            return Ok(Some(pid.into()));
        }
        let directory = roots.proc.join(format!("{pid}/task"));
        let failed = |e| LinuxError::file(&directory, "list", e);
        // All threads are listed, as all processes are: the tenant pays for their cost.
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(tid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            let task = Self { pid, tid };
            match ProcessStat::read_of(roots, task, reader) {
                Ok(stat) if !stat.is_dead() => return Ok(Some(task)),
                Err(e) if !e.is_gone() => return Err(e),
                // Dead, or removed since.
                _ => {}
            }
        }
        Ok(None)
    }
}

/// The main thread.
impl From<i32> for Task {
    fn from(pid: i32) -> Self {
        Self { pid, tid: pid }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid == self.tid {
            true => write!(f, "{}", self.pid),
            false => write!(f, "{}/task/{}", self.pid, self.tid),
        }
    }
}
