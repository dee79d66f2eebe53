//! QEMU's machine protocol (`docs/interop/qmp-spec.rst`): one JSON object a line over a Unix socket.
//!
//! QEMU greets, the client negotiates (`qmp_capabilities`), then each command has one answer, a `return` or an `error`.
//! Events come at any time between; they are passed over.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

/// How long QEMU may take for an answer: its main loop answers within milliseconds unless it hangs.
const PATIENCE: Duration = Duration::from_secs(5);

/// Most bytes of a line: QEMU's largest answers (hundreds of processors or memory devices) have some hundred kilobytes.
const LONGEST: u64 = 4 << 20;

/// Events that are passed over while an answer is awaited: more than any guest brings about in that time.
const MOST_EVENTS: usize = 10_000;

/// The talk with a guest's QEMU failed.
#[derive(Debug, thiserror::Error)]
pub enum QmpError {
    /// The socket.
    #[error("{}: cannot {what}: {source}; is QEMU running with -qmp unix:{},server=on,wait=off?", path.display(), path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// What came is not what the protocol says.
    #[error("{}: found {found}; expected {expected}; is this a QMP socket?", path.display())]
    Protocol {
        /// The socket.
        path: PathBuf,
        /// What came, cut to a line's length.
        found: String,
        /// What should have.
        expected: &'static str,
    },
    /// QEMU refused a command.
    #[error("{}: QEMU refused {command}: {reason}", path.display())]
    Refused {
        /// The socket.
        path: PathBuf,
        /// Which.
        command: String,
        /// QEMU's words.
        reason: String,
    },
}

/// A connection to one guest's QEMU.
#[derive(Debug)]
pub struct Qmp {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Qmp {
    /// Connects and negotiates.
    ///
    /// # Errors
    /// Nobody listens there, or it is no QEMU.
    pub fn connect(path: &Path) -> Result<Self, QmpError> {
        let failed = |what| move |source| QmpError::Socket { path: path.to_owned(), what, source };
        let stream = UnixStream::connect(path).map_err(failed("connect"))?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed("set a timeout"))?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed("set a timeout"))?;
        let mut qmp = Self { path: path.to_owned(), stream: BufReader::new(stream) };
        let greeting = qmp.read()?;
        if greeting.get("QMP").is_none() {
            return Err(qmp.unexpected(&greeting, "QEMU's greeting"));
        }
        qmp.execute("qmp_capabilities")?;
        Ok(qmp)
    }

    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs a command without arguments and gives what it returns.
    ///
    /// # Errors
    /// QEMU refused, or has gone away.
    pub fn execute(&mut self, command: &str) -> Result<Value, QmpError> {
        let mut line = json!({ "execute": command }).to_string();
        line.push('\n');
        let written = self.stream.get_mut().write_all(line.as_bytes());
        written.map_err(|source| QmpError::Socket {
            path: self.path.clone(),
            what: "write",
            source,
        })?;
        for _ in 0..MOST_EVENTS {
            let mut answer = self.read()?;
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
            if let Some(error) = answer.get("error") {
                let reason = error.get("desc").and_then(Value::as_str).unwrap_or("no reason given");
                return Err(QmpError::Refused {
                    path: self.path.clone(),
                    command: command.to_owned(),
                    reason: reason.to_owned(),
                });
            }
            if answer.get("event").is_none() {
                return Err(self.unexpected(&answer, "a return, an error or an event"));
            }
        }
        Err(self.unexpected(&Value::from("events without end"), "an answer"))
    }

    fn read(&mut self) -> Result<Value, QmpError> {
        let mut line = String::new();
        let read = self.stream.by_ref().take(LONGEST).read_line(&mut line);
        let read = read.map_err(|source| QmpError::Socket {
            path: self.path.clone(),
            what: "read",
            source,
        })?;
        if read == 0 {
            return Err(self.unexpected(&Value::from("the end of the connection"), "a line"));
        }
        serde_json::from_str(&line)
            .map_err(|_| self.unexpected(&Value::from(line.trim_end()), "a JSON object on a line"))
    }

    pub(super) fn unexpected(&self, found: &Value, expected: &'static str) -> QmpError {
        // A line's length is enough to see what it is.
        let found: String = found.to_string().chars().take(120).collect();
        QmpError::Protocol { path: self.path.clone(), found, expected }
    }
}
