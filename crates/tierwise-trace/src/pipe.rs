//! Opens files that may be pipes.
//!
//! `open(2)` of a FIFO waits until another process opens its other end. That process may never
//! come: a FIFO may lie where a file was meant.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Time for the other end of a FIFO to be opened: a program that is started beside this one opens
/// it within a second, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Opens a file or a pipe for reading.
///
/// # Errors
/// The file cannot be opened, or it is a FIFO to which no process writes.
pub fn open(path: &Path) -> io::Result<File> {
    open_within(path, PATIENCE)
}

/// Opens an existing file, device or pipe for writing.
///
/// # Errors
/// The file cannot be opened, or it is a FIFO from which no process reads.
pub fn open_to_write(path: &Path) -> io::Result<File> {
    open_to_write_within(path, PATIENCE)
}

fn open_within(path: &Path, patience: Duration) -> io::Result<File> {
    if !is_fifo(path) {
        return File::open(path);
    }
    let own = path.to_owned();
    bounded(move || File::open(own), patience, "no process writes to it")
}

fn open_to_write_within(path: &Path, patience: Duration) -> io::Result<File> {
    if !is_fifo(path) {
        return File::options().write(true).open(path);
    }
    let own = path.to_owned();
    bounded(move || File::options().write(true).open(own), patience, "no process reads from it")
}

fn is_fifo(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo())
}

/// Opens a FIFO on a thread of its own: `O_NONBLOCK` would refuse a writer's late reader, and could
/// not tell a reader's slow writer from none.
fn bounded(
    open: impl FnOnce() -> io::Result<File> + Send + 'static,
    patience: Duration,
    absent: &str,
) -> io::Result<File> {
    let (sender, receiver) = mpsc::channel();
    // After a refusal the thread waits on, and ends with the process. It holds nothing.
    thread::Builder::new().name("pipe".into()).spawn(move || sender.send(open()))?;
    receiver.recv_timeout(patience).unwrap_or_else(|_| {
        let problem = format!(
            "is a pipe, and {absent} after {} seconds; start the other program first, or name a \
             file",
            patience.as_secs()
        );
        Err(io::Error::new(io::ErrorKind::TimedOut, problem))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::io::{Read, Write};
    use std::path::PathBuf;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn fifo() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        (directory, path)
    }

    #[test]
    fn pipe_without_other_end_is_refused() {
        let (_directory, path) = fifo();
        let unread = open_within(&path, Duration::ZERO).unwrap_err().to_string();
        assert!(unread.starts_with("is a pipe, and no process writes to it"), "{unread}");
        let (_directory, path) = fifo();
        let unwritten = open_to_write_within(&path, Duration::ZERO).unwrap_err().to_string();
        assert!(unwritten.starts_with("is a pipe, and no process reads from it"), "{unwritten}");
    }

    #[test]
    fn pipe_with_both_ends_carries_text() {
        let (_directory, path) = fifo();
        thread::scope(|scope| {
            scope.spawn(|| open_to_write(&path).unwrap().write_all(b"text").unwrap());
            let mut text = String::new();
            open(&path).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "text");
        });
    }
}
