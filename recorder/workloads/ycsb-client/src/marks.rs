//! Reports the starts of phases and the numbers of operations to the recorder, through its FIFO.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The writing end of the recorder's FIFO, or nothing if the server is not recorded.
pub struct Marks(Option<(PathBuf, File)>);

impl Marks {
    /// Opens the FIFO, and waits until the recorder has opened its end.
    ///
    /// # Errors
    /// No such FIFO.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self(None)) };
        let file = OpenOptions::new().append(true).open(path).with_context(|| {
            format!("{}: cannot open the marks FIFO; is the recorder running?", path.display())
        })?;
        Ok(Self(Some((path.to_owned(), file))))
    }

    /// Reports the start of the phase `name`.
    ///
    /// # Errors
    /// The recorder has gone.
    pub fn phase(&mut self, name: &str) -> Result<()> {
        self.send(&format!("{name}\n"))
    }

    /// Reports `count` more operations.
    ///
    /// # Errors
    /// The recorder has gone.
    pub fn operations(&mut self, count: u64) -> Result<()> {
        self.send(&format!("ops {count}\n"))
    }

    fn send(&mut self, line: &str) -> Result<()> {
        let Some((path, file)) = &mut self.0 else { return Ok(()) };
        file.write_all(line.as_bytes())
            .with_context(|| format!("{}: the recorder has exited", path.display()))
    }
}
