//! Output of results: stdout, and files that are written whole or not at all.

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tierwise_trace::pipe;
use tierwise_trace::unnamed::UnnamedFile;

use crate::failure::{CommandResult, Failure};

/// An unfinished file, beside its final place.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    target: Target,
}

#[derive(Debug)]
enum Target {
    Beside(UnnamedFile),
    /// A device or a pipe, which a rename would replace.
    Direct(File),
}

impl NewFile {
    /// Opens the file, so that a wrong path is reported before the work starts.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        let refuse = |error: io::Error| {
            Failure::User(format!("{}: cannot be written: {error}", path.display()))
        };
        // A link stays a link, and its target is replaced.
        let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let there = path.metadata().ok();
        let special = there.as_ref().is_some_and(|there| !there.is_file());
        let target = if special {
            Target::Direct(pipe::open_to_write(path).map_err(refuse)?)
        } else {
            let directory = match path.parent() {
                Some(directory) if !directory.as_os_str().is_empty() => directory,
                _ => Path::new("."),
            };
            if !directory.is_dir() {
                let (file, directory) = (path.display(), directory.display());
                let problem =
                    format!("{file}: cannot be written: there is no directory {directory}");
                return Err(Failure::User(problem));
            }
            // The usual mode of a new file, which the umask reduces.
            let file = UnnamedFile::create(directory, 0o666).map_err(refuse)?;
            if let Some(there) = there {
                file.file().set_permissions(there.permissions()).map_err(refuse)?;
            }
            Target::Beside(file)
        };
        Ok(Self { path: path.to_owned(), target })
    }

    /// Moves the finished file to its place.
    pub fn finish(self) -> CommandResult {
        let fail = |error: io::Error| Failure::Internal(not_written(&self.path, &error));
        match self.target {
            Target::Direct(mut file) => file.flush().map_err(fail),
            Target::Beside(file) => {
                file.file().sync_all().map_err(fail)?;
                file.replace(&self.path).map_err(fail)
            }
        }
    }
}

/// Adds the file's name to errors, so that they keep it through any number of writers.
impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.target {
            Target::Beside(file) => file.file().write(bytes),
            Target::Direct(file) => file.write(bytes),
        };
        // A writer that repeats an interrupted call only checks the kind.
        written.map_err(|error| io::Error::new(error.kind(), not_written(&self.path, &error)))
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.target {
            Target::Beside(file) => file.file().flush(),
            Target::Direct(file) => file.flush(),
        }
    }
}

fn not_written(path: &Path, error: &io::Error) -> String {
    format!("{}: cannot be written: {error}", path.display())
}

/// Writes a whole file: beside its place first, then renamed.
pub fn whole_file(path: &Path, bytes: &[u8]) -> CommandResult {
    let mut file = NewFile::create(path)?;
    file.write_all(bytes)?;
    file.finish()
}

/// Prints a line on stderr. A failed write changes no result.
pub fn print_error_line(line: fmt::Arguments<'_>) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// Prints a value as JSON on stdout.
pub fn json(value: &impl Serialize) -> CommandResult {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

/// Columns where stdout is no terminal and nothing sets its width: the width of a log or a review,
/// and of the widest shipped table of figures.
const PLAIN_WIDTH: u16 = 120;

/// Returns the columns for tables: the terminal's; elsewhere `COLUMNS`, as shells set it.
pub fn width() -> u16 {
    if io::stdout().is_terminal()
        && let Some((width, _)) = terminal_size::terminal_size_of(io::stdout())
    {
        return width.0;
    }
    let message = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    message.filter(|&columns| columns > 0).unwrap_or(PLAIN_WIDTH)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn kill_leaves_nothing_beside_the_file() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut file = NewFile::create(&directory.path().join("t.html")).unwrap();
        file.write_all(b"half").unwrap();
        // Like a signal that ends the process: no destructor runs.
        std::mem::forget(file);
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    }
}
