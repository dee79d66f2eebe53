//! Phases and operations, told by whoever drives the program.
//!
//! A recording has a FIFO; its path is in the environment of the program as `TIERWISE_MARKS`. Each
//! line written to it is one of
//!
//! ```text
//! NAME                  the phase NAME begins now: the window is cut here, the next carries the mark
//! NAME operations=N     the same, and N operations were completed in the window that ends here
//! ops N                 N operations were completed; they count in the window under way
//! ```
//!
//! For instance `echo "run operations=100000" > "$TIERWISE_MARKS"` when a load phase of 100000 inserts
//! is over.
//!
//! ```
//! use tierwise_trace::record::marks::Line;
//! assert_eq!(Line::parse("ops 250"), Ok(Line::Operations(250)));
//! let mark = Line::Mark { name: "run".into(), operations: 1000 };
//! assert_eq!(Line::parse("run operations=1000"), Ok(mark));
//! assert!(Line::parse("run operations=many").is_err());
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::RecordError;
use super::requests::Requests;

/// A line of the marks FIFO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A phase begins.
    Mark {
        /// Its name.
        name: String,
        /// Operations completed since they were last told.
        operations: u64,
    },
    /// Operations completed since they were last told.
    Operations(u64),
}

impl Line {
    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(line: &str) -> Result<Self, String> {
        let line = line.trim();
        let number = |text: &str| {
            text.parse().map_err(|_| format!("mark {line:?}: {text:?} is no number of operations"))
        };
        if let Some(operations) = line.strip_prefix("ops ") {
            return Ok(Self::Operations(number(operations.trim())?));
        }
        match line.split_once(" operations=") {
            Some((name, operations)) => {
                Ok(Self::Mark { name: name.trim().into(), operations: number(operations)? })
            }
            None if line.is_empty() => Err("a mark without a name".into()),
            None => Ok(Self::Mark { name: line.into(), operations: 0 }),
        }
    }
}

/// The FIFO and the thread that reads it.
pub(super) struct Marks {
    path: PathBuf,
    /// Open for writing as well, so that the last writer's leaving is no end of file.
    fifo: File,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<Vec<String>>>,
}

impl Marks {
    /// Creates the FIFO and begins to listen.
    pub fn listen(path: &Path, requests: Arc<Requests>) -> Result<Self, RecordError> {
        let failed = || RecordError::system(format!("marks FIFO {}", path.display()));
        make_fifo(path).map_err(failed())?;
        let fifo = OpenOptions::new().read(true).write(true).open(path).map_err(failed())?;
        let input = fifo.try_clone().map_err(failed())?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let reader = std::thread::spawn(move || read_lines(input, &stopped, &requests));
        Ok(Self { path: path.to_owned(), fifo, stop, reader: Some(reader) })
    }

    /// Stops listening, removes the FIFO and returns the lines that could not be understood.
    pub fn finish(mut self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        // An empty line wakes the reader. It has nothing to say if the FIFO is gone.
        let woken = self.fifo.write_all(b"\n").is_ok();
        let refused = self.reader.take().filter(|_| woken).and_then(|thread| thread.join().ok());
        refused.unwrap_or_default()
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        // Nothing to do about a FIFO that somebody else removed.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn make_fifo(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let made = mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0);
    match made {
        // Left behind by a recording that was killed.
        Err(rustix::io::Errno::EXIST) if path.metadata()?.file_type().is_fifo() => Ok(()),
        other => Ok(other?),
    }
}

fn read_lines(input: File, stop: &AtomicBool, requests: &Requests) -> Vec<String> {
    let mut refused = Vec::new();
    for line in BufReader::new(input).lines() {
        let Ok(line) = line else { break };
        if line.is_empty() && stop.load(Ordering::Relaxed) {
            break;
        }
        match Line::parse(&line) {
            Ok(Line::Operations(count)) => requests.add_operations(count),
            Ok(Line::Mark { name, operations }) => requests.mark(name, operations),
            Err(reason) => refused.push(reason),
        }
    }
    refused
}
