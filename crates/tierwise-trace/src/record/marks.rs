//! Phases and operations, reported by the driver of the program.
//!
//! A recording has a FIFO; its path is in the environment of the program as `TIERWISE_MARKS`. Each
//! line written to the FIFO is one of
//!
//! ```text
//! NAME                  the phase NAME starts now: the window is cut here, the next has the mark
//! NAME operations=N     the same, and N operations were completed in the window that ends here
//! ops N                 N operations were completed; they count in the current window
//! ```
//!
//! For instance `echo "run operations=100000" > "$TIERWISE_MARKS"` when a load phase of 100000
//! inserts is over. A line is UTF-8 text of less than 4096 bytes; other lines are refused, and the
//! next line is read.
//!
//! ```
//! use tierwise_trace::record::marks::Line;
//! assert_eq!(Line::parse("ops 250"), Ok(Line::Operations(250)));
//! let mark = Line::Mark { name: "run".into(), operations: 1000 };
//! assert_eq!(Line::parse("run operations=1000"), Ok(mark));
//! assert!(Line::parse("run operations=many").is_err());
//! ```

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use super::RecordError;
use super::requests::PluginRequests;

/// A line of the marks FIFO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A phase starts.
    Mark {
        /// Its name.
        name: String,
        /// Operations completed since the last report.
        operations: u64,
    },
    /// Operations completed since the last report.
    Operations(u64),
}

impl Line {
    /// Parses a line.
    ///
    /// # Errors
    /// The line has a defect, which the message names.
    pub fn parse(line: &str) -> Result<Self, String> {
        let line = line.trim();
        let number = |text: &str| {
            text.parse()
                .map_err(|_| format!("mark {line:?}: {text:?} is not a number of operations"))
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

/// Limit of a line in bytes with its end. A FIFO takes this many from one writer in one piece
/// (`PIPE_BUF` of Linux); another writer's line can interrupt a longer one.
const MAX_LINE: usize = rustix::pipe::PIPE_BUF;

/// Bytes shown of a line that is too long: enough to identify its writer.
const SHOWN: usize = 40;

/// Maximum of refused lines that are kept with their reason: more than a user reads.
const MAX_REFUSED: usize = 100;

/// The FIFO and the thread that reads it.
pub(super) struct MarkReader {
    path: PathBuf,
    /// Open for writing as well, so that the file does not end when the last writer closes it.
    fifo: File,
    /// True if this recording made the FIFO, and so removes it.
    made: bool,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<Vec<String>>>,
}

impl MarkReader {
    /// Creates the FIFO and starts to listen. A FIFO that exists already is used, and stays.
    pub(super) fn listen(path: &Path, requests: Arc<PluginRequests>) -> Result<Self, RecordError> {
        let failed = || RecordError::system(format!("marks FIFO {}", path.display()));
        let made = make_fifo(path).map_err(failed())?;
        let fifo = open_fifo(path).map_err(failed())?;
        let input = fifo.try_clone().map_err(failed())?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let reader = std::thread::spawn(move || read_lines(input, &stopped, &requests));
        Ok(Self { path: path.to_owned(), fifo, made, stop, reader: Some(reader) })
    }

    /// Stops listening, removes the FIFO and returns the refused lines.
    pub(super) fn finish(mut self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        // The first end of line is that of an unfinished line; the empty line after it
        // wakes the reader. A FIFO that was removed is no error.
        let woken = self.fifo.write_all(b"\n\n").is_ok();
        let refused = self.reader.take().filter(|_| woken).and_then(|thread| thread.join().ok());
        refused.unwrap_or_default()
    }

    /// Returns true if the path holds the FIFO that this recording made.
    fn is_own(&self) -> bool {
        let identity = |file: &Metadata| (file.dev(), file.ino());
        let there = std::fs::symlink_metadata(&self.path);
        let own = self.fifo.metadata();
        self.made
            && there.is_ok_and(|there| own.is_ok_and(|own| identity(&own) == identity(&there)))
    }
}

impl Drop for MarkReader {
    fn drop(&mut self) {
        if self.is_own() {
            // Another process may remove the FIFO at the same time.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Makes the FIFO. Returns false if one exists already, for instance from a recording that was
/// killed.
fn make_fifo(path: &Path) -> io::Result<bool> {
    match mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0) {
        Ok(()) => Ok(true),
        // The next step, opening it, checks its kind.
        Err(rustix::io::Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens the path, if it is a FIFO and no link.
fn open_fifo(path: &Path) -> io::Result<File> {
    let refuse = |problem| io::Error::new(io::ErrorKind::AlreadyExists, problem);
    let there = std::fs::symlink_metadata(path)?;
    if !there.file_type().is_fifo() {
        return Err(refuse("it exists and is not a FIFO; name another path"));
    }
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let fifo = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
    // The file may have been replaced since the check.
    if !fifo.metadata()?.file_type().is_fifo() {
        return Err(refuse("another file replaced the FIFO; name another path"));
    }
    Ok(fifo)
}

/// Reads a line into `line`, without its end; `None` at the end of the input. Skips the bytes
/// beyond the limit.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<Length>> {
    line.clear();
    if input.by_ref().take(MAX_LINE as u64).read_until(b'\n', line)? == 0 {
        return Ok(None);
    }
    if line.pop_if(|last| *last == b'\n').is_some() {
        return Ok(Some(Length::Fits));
    }
    input.skip_until(b'\n')?;
    Ok(Some(if line.len() < MAX_LINE { Length::Fits } else { Length::TooLong }))
}

/// The completeness of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Fits,
    TooLong,
}

/// Parses a line's bytes.
fn understand(line: &[u8], length: Length) -> Result<Line, String> {
    if length == Length::TooLong {
        let start = line[..SHOWN].escape_ascii();
        return Err(format!("mark \"{start}...\": the line is longer than {MAX_LINE} bytes"));
    }
    let text = std::str::from_utf8(line)
        .map_err(|_| format!("mark \"{}\": it is not UTF-8 text", line.escape_ascii()))?;
    Line::parse(text)
}

fn read_lines(input: File, stop: &AtomicBool, requests: &PluginRequests) -> Vec<String> {
    let mut input = BufReader::new(input);
    let mut refused = Vec::new();
    let mut more = 0_u64;
    let mut line = Vec::new();
    while let Ok(Some(length)) = next_line(&mut input, &mut line) {
        if line.is_empty() && stop.load(Ordering::Relaxed) {
            break;
        }
        match understand(&line, length) {
            Ok(Line::Operations(count)) => requests.add_operations(count),
            Ok(Line::Mark { name, operations }) => requests.mark(name, operations),
            Err(reason) if refused.len() < MAX_REFUSED => refused.push(reason),
            Err(_) => more += 1,
        }
    }
    if more > 0 {
        refused.push(format!("{more} more lines"));
    }
    refused
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::record::wire::Reason;

    /// Writes lines to the FIFO. Returns the operations counted and the lines refused.
    fn parsed(lines: &[u8]) -> (u64, Vec<String>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("marks");
        let requests = Arc::new(PluginRequests::default());
        let marks = MarkReader::listen(&path, Arc::clone(&requests)).unwrap();
        OpenOptions::new().write(true).open(&path).unwrap().write_all(lines).unwrap();
        let refused = marks.finish();
        assert!(!path.exists());
        (requests.on_window(Reason::Full).0, refused)
    }

    #[test]
    fn line_of_other_bytes_is_refused() {
        let (operations, refused) = parsed(b"ops 1\n\xff\xfe\x1b[2J\nops 2\n");
        assert_eq!(operations, 3);
        assert_eq!(refused, ["mark \"\\xff\\xfe\\x1b[2J\": it is not UTF-8 text"]);
    }

    #[test]
    fn endless_line_keeps_to_the_limit() {
        let long = [&b"a".repeat(40 * MAX_LINE)[..], b"\nops 5\n"].concat();
        let (operations, refused) = parsed(&long);
        assert_eq!(operations, 5);
        assert_eq!(refused.len(), 1);
        assert!(refused[0].contains("longer than 4096 bytes"), "{refused:?}");
        let fits = [&b"a".repeat(MAX_LINE - 1)[..], b"\n"].concat();
        assert_eq!(parsed(&fits).1, [""; 0]);
    }

    #[test]
    fn refused_lines_are_kept_then_counted() {
        let (_, refused) = parsed(&b"ops many\n".repeat(MAX_REFUSED + 7));
        assert_eq!(refused.len(), MAX_REFUSED + 1);
        assert_eq!(refused[MAX_REFUSED], "7 more lines");
    }

    #[test]
    fn unfinished_line_blocks_no_reader() {
        assert_eq!(parsed(b"ops 3\nops 4"), (7, Vec::new()));
    }

    #[test]
    fn existing_fifo_is_used_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("marks");
        make_fifo(&path).unwrap();
        MarkReader::listen(&path, Arc::default()).unwrap().finish();
        assert!(path.exists());
    }

    #[test]
    fn file_in_the_fifos_place_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("marks");
        let marks = MarkReader::listen(&path, Arc::default()).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another's").unwrap();
        marks.finish();
        assert_eq!(fs::read_to_string(&path).unwrap(), "another's");
    }

    #[test]
    fn link_to_a_fifo_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("marks"), directory.path().join("other"));
        make_fifo(&other).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(MarkReader::listen(&path, Arc::default()).is_err());
        assert!(path.is_symlink() && other.exists());
    }
}
