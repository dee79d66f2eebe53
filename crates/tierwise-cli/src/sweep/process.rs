//! One worker process.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};

use tierwise_sweep::{Unit, UnitRecord};

/// The running worker processes of all threads, to end them at once.
#[derive(Debug, Default)]
pub struct Children(Mutex<ChildTable>);

#[derive(Debug, Default)]
struct ChildTable {
    children: Vec<Option<Child>>,
    ended: bool,
}

impl Children {
    /// Ends all workers, and those that would start later.
    pub fn end(&self) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.ended = true;
        for child in table.children.iter_mut().flatten() {
            // One that has ended needs no signal.
            let _ = child.kill();
        }
    }

    fn enter(&self, mut child: Child) -> usize {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if table.ended {
            let _ = child.kill();
        }
        table.children.push(Some(child));
        table.children.len() - 1
    }

    /// Waits for a worker that has closed its output.
    fn wait(&self, place: usize) -> Option<ExitStatus> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let child = table.children.get_mut(place)?.take();
        drop(table);
        child?.wait().ok()
    }
}

/// A worker, and the pipes to it. Dropping it ends it.
pub struct WorkerProcess<'a> {
    children: &'a Children,
    place: usize,
    /// Its number, for messages.
    pub pid: u32,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl<'a> WorkerProcess<'a> {
    /// Starts a worker. It has a process group of its own: Ctrl-C asks the sweep, which ends its
    /// workers.
    pub fn start(children: &'a Children) -> Result<Self, String> {
        // The program that runs, also if its file was replaced by a new build.
        let mut command = Command::new("/proc/self/exe");
        command.arg("sweep-worker").stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let failed = |why: &dyn std::fmt::Display| format!("a worker cannot be started: {why}");
        let mut child = command.spawn().map_err(|error| failed(&error))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let stdout = stdout.ok_or_else(|| failed(&"it has no output"))?;
        let pid = child.id();
        let place = children.enter(child);
        Ok(Self { children, place, pid, stdin, stdout: BufReader::new(stdout) })
    }

    /// Runs a unit on the worker; `None` if the worker died.
    pub fn run(&mut self, unit: &Unit) -> Option<UnitRecord> {
        let mut line = serde_json::to_string(unit).ok()?;
        line.push('\n');
        self.stdin.as_mut()?.write_all(line.as_bytes()).ok()?;
        line.clear();
        self.stdout.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    /// How a worker that died has died.
    pub fn death(mut self) -> String {
        self.stdin = None;
        let status = self.children.wait(self.place);
        match status.map(|status| (status.signal(), status.code())) {
            Some((Some(signal), _)) => {
                let name = signal_hook::low_level::signal_name(signal).unwrap_or("unknown");
                format!("killed by signal {signal} ({name})")
            }
            Some((None, Some(code))) => format!("ended with code {code}"),
            _ => "ended".to_owned(),
        }
    }
}

impl Drop for WorkerProcess<'_> {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.stdin = None;
        self.children.wait(self.place);
    }
}
