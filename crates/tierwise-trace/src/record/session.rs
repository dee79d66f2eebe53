//! One recording: starts the program, reads its windows, writes the trace.

use std::ffi::OsString;
use std::io::{BufReader, IsTerminal};
use std::iter::repeat_n;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use super::command::Resolved;
use super::marks::MarkReader;
use super::requests::PluginRequests;
use super::wire::{self, WireMessage};
use super::{RecordError, RecordOptions, RecordSummary, RecordingProgress, command, host, tools};
use crate::cache::Cache;
use crate::format::Totals;
use crate::new_trace::NewTrace;
use crate::writer::{TraceWriter, WriterOptions};
use crate::{Header, Window};

/// Interval between checks that the emulator has connected or ended, while it starts (in some 10
/// ms).
const START_POLL: Duration = Duration::from_millis(5);

/// The time that a program may take to end itself after SIGTERM before SIGKILL: as long as Docker's
/// default.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Exit code with which the recorder ends the program when it cannot continue
/// (recorder/plugin/grow.h). A program that exits with this code itself leaves a complete
/// recording.
const RECORDER_FAILED: i32 = 125;

/// The signals that a recording passes on.
const ENDING_SIGNALS: [i32; 3] = [SIGTERM, SIGINT, SIGHUP];

/// Maximum of a window's instructions. An instruction that copies memory loads and stores, so a
/// window may have twice as many accesses, and their counts have 32 bits.
const MAX_WINDOW: u64 = (u32::MAX / 2) as u64;

/// Records a program; `progress` is called after each window. SIGTERM, SIGINT and SIGHUP to this
/// process end the program and leave a complete trace.
///
/// # Errors
/// The program, the emulator or the plugin is missing or refuses to work, or the trace cannot be
/// written. A program that fails is no error: see [`RecordSummary::status`].
pub fn record(
    options: &RecordOptions,
    progress: impl FnMut(&RecordingProgress),
) -> Result<RecordSummary, RecordError> {
    if !(1..=MAX_WINDOW).contains(&options.window_instructions) {
        return Err(RecordError::Option {
            option: "window",
            reason: format!(
                "{} instructions; allowed are 1 to {MAX_WINDOW}, so that a page's counts fit 32 \
                 bits",
                options.window_instructions
            ),
        });
    }
    Cache::new(options.llc)?;
    // From here on a signal ends no more than the program: nothing half-made is left.
    let signals = Signals::new(ENDING_SIGNALS).map_err(RecordError::system("handling signals"))?;
    let resolved = command::resolve(&options.command)?;
    let qemu = tools::qemu(options.qemu.as_deref())?;
    let plugin = tools::plugin(options.plugin.as_deref())?;
    let header = Header {
        command: options.command.iter().map(|part| part.display().to_string()).collect(),
        host: host::describe(&qemu),
        page_size: 4096,
        window_instructions: options.window_instructions,
        cache: options.llc,
    };
    let settings = WriterOptions { level: options.level, overwrite: options.overwrite };
    let new = NewTrace::create(&options.out, options.overwrite)?;
    let mut writer = TraceWriter::of(&new, &options.out, &header, settings)?;
    let run = Run { options, qemu: &qemu, plugin: &plugin };
    let ended = run.record(&resolved, signals, &mut writer, progress);
    conclude(new, writer, ended)
}

/// Moves a trace to its place, if it has a window; keeps the part of a failed recording.
fn conclude(
    new: NewTrace,
    writer: Writer,
    ended: Result<Ended, RecordError>,
) -> Result<RecordSummary, RecordError> {
    let windows = writer.totals().windows;
    let closed = writer.close();
    let error = match (ended, closed) {
        (Ok(ended), Ok((totals, bytes))) => {
            if windows == 0 {
                // What was there before is worth more.
                new.discard();
            } else {
                new.finish()?;
            }
            return Ok(ended.summary(totals, bytes));
        }
        (Err(error), _) => error,
        (Ok(_), Err(error)) => error.into(),
    };
    if windows == 0 {
        // An empty trace would block the next attempt.
        new.discard();
        return Err(error);
    }
    let out = new.keep()?;
    Err(RecordError::Kept { error: Box::new(error), out, windows })
}

type Writer = TraceWriter<std::io::BufWriter<std::fs::File>>;

struct Run<'a> {
    options: &'a RecordOptions,
    qemu: &'a Path,
    plugin: &'a Path,
}

impl Run<'_> {
    fn record(
        &self,
        resolved: &Resolved,
        signals: Signals,
        writer: &mut Writer,
        progress: impl FnMut(&RecordingProgress),
    ) -> Result<Ended, RecordError> {
        let directory = tempfile::Builder::new()
            .prefix("tierwise-")
            .tempdir()
            .map_err(RecordError::system("a temporary directory"))?;
        let socket = directory.path().join("socket");
        let listener = UnixListener::bind(&socket).map_err(RecordError::system("socket"))?;
        let requests = Arc::new(PluginRequests::default());
        let fifo = self.options.marks.clone().unwrap_or_else(|| directory.path().join("marks"));
        let marks = MarkReader::listen(&fifo, Arc::clone(&requests))?;

        let mut child = self.spawn(resolved, &socket, &fifo)?;
        let signals = SignalForwarder::start(signals, &child, Arc::clone(&requests));
        let stream = accept(&listener, &mut child, self.qemu)?;
        let control = stream.try_clone().map_err(RecordError::system("socket"))?;
        requests.connect(control);
        let next = |child: &mut Child| accept(&listener, child, self.qemu);
        let copied = self.copy_windows(stream, writer, &requests, &mut child, next, progress);
        requests.disconnect();
        if copied.is_err() || copied.as_ref().is_ok_and(|c| c.stop) {
            stop(&mut child)?;
        }
        let status = child.wait().map_err(RecordError::system("waiting for the program"))?;
        signals.finish();
        let refused_marks = marks.finish();
        let Copied { complete, stop: stopped, followed, children } = copied?;
        if !complete && status.code() == Some(RECORDER_FAILED) {
            return Err(RecordError::GaveUp);
        }
        Ok(Ended { status, complete, stopped, followed, children, refused_marks })
    }

    fn spawn(
        &self,
        resolved: &Resolved,
        socket: &Path,
        marks: &Path,
    ) -> Result<Child, RecordError> {
        let options = self.options;
        // QEMU reads a doubled comma as one comma of a value.
        let path = |path: &Path| {
            let bytes = path.as_os_str().as_bytes().iter();
            let doubled = bytes.flat_map(|&byte| repeat_n(byte, 1 + usize::from(byte == b',')));
            OsString::from_vec(doubled.collect())
        };
        let mut plugin = path(self.plugin);
        plugin.push(",socket=");
        plugin.push(path(socket));
        plugin.push(format!(
            ",window={},llc_bytes={},llc_ways={}",
            options.window_instructions, options.llc.size_bytes, options.llc.ways
        ));
        if options.objects {
            plugin.push(",objects=on");
        }
        if options.kernel_layout {
            plugin.push(",layout=kernel");
        }
        let marks = std::path::absolute(marks).map_err(RecordError::system("marks FIFO"))?;
        Command::new(self.qemu)
            .args(["-plugin".as_ref(), plugin.as_os_str(), "-0".as_ref(), &resolved.argv0])
            .arg(&resolved.program)
            .args(&resolved.arguments)
            .env("TIERWISE_MARKS", marks)
            .spawn()
            .map_err(RecordError::system(self.qemu.display().to_string()))
    }

    /// Writes window after window until the stream ends or the instruction limit is reached.
    fn copy_windows(
        &self,
        stream: UnixStream,
        writer: &mut Writer,
        requests: &PluginRequests,
        child: &mut Child,
        next: impl Fn(&mut Child) -> Result<UnixStream, RecordError>,
        mut progress: impl FnMut(&RecordingProgress),
    ) -> Result<Copied, RecordError> {
        // 1 MiB: a window of 40 thousand rows in one read.
        let mut input = BufReader::with_capacity(1 << 20, stream);
        wire::read_hello(&mut input)?;
        let mut window = Window::default();
        let mut marks = Vec::new();
        let (mut complete, mut stop) = (false, false);
        let (mut followed, mut children) = (Vec::new(), 0u64);
        // Each program numbers its pages from 0.
        let mut first_page = 0;
        while !stop {
            match wire::read(&mut input, &mut window)? {
                WireMessage::Window(reason) => {
                    let (operations, mark) = requests.on_window(reason);
                    window.operations = operations;
                    renumber(&mut window, first_page)?;
                    if is_empty(&window) {
                        requests.add_operations(operations);
                    } else {
                        window.marks.append(&mut marks);
                        writer.push(&window)?;
                        progress(&RecordingProgress {
                            totals: writer.totals(),
                            bytes: writer.bytes(),
                        });
                    }
                    marks.extend(mark);
                }
                WireMessage::Exec { program, children: forked } => {
                    children = children.saturating_add(forked);
                    requests.disconnect();
                    let stream = match next(child) {
                        Ok(stream) => stream,
                        Err(error) => return Err(not_followed(error, &program)),
                    };
                    let control = stream.try_clone().map_err(RecordError::system("socket"))?;
                    input = BufReader::with_capacity(1 << 20, stream);
                    wire::read_hello(&mut input)?;
                    requests.connect(control);
                    followed.push(program);
                    first_page = writer.totals().pages;
                }
                WireMessage::End { children: forked } => {
                    children = children.saturating_add(forked);
                    complete = true;
                }
                WireMessage::Gone => break,
            }
            let limit = self.options.max_instructions.unwrap_or(u64::MAX);
            stop = writer.totals().instructions >= limit;
        }
        Ok(Copied { complete, stop, followed, children })
    }
}

/// A recording whose program has ended.
struct Ended {
    status: ExitStatus,
    complete: bool,
    stopped: bool,
    followed: Vec<PathBuf>,
    children: u64,
    refused_marks: Vec<String>,
}

impl Ended {
    fn summary(self, totals: Totals, bytes: u64) -> RecordSummary {
        let Self { status, complete, stopped, followed, children, refused_marks } = self;
        RecordSummary {
            totals,
            bytes,
            status,
            complete,
            stopped,
            followed,
            children,
            refused_marks,
        }
    }
}

struct Copied {
    complete: bool,
    /// True if the program still runs and must be stopped.
    stop: bool,
    followed: Vec<PathBuf>,
    children: u64,
}

/// Converts the error of an emulator that ended before its plugin started: after an exec it has
/// another meaning than at the start.
fn not_followed(error: RecordError, program: &Path) -> RecordError {
    match error {
        RecordError::NotStarted { status, .. } => {
            RecordError::NotFollowed { program: program.display().to_string(), status }
        }
        other => other,
    }
}

/// Gives the pages of a later program the numbers after those of the programs before it.
fn renumber(window: &mut Window, first: u64) -> Result<(), RecordError> {
    let moved = |page: &mut u32| {
        let number = u32::try_from(u64::from(*page) + first);
        *page = number.map_err(|_| RecordError::Wire {
            found: format!("page {page} after {first} pages of the programs before"),
            expected: "fewer than 2^32 pages in a recording",
        })?;
        Ok(())
    };
    window.allocations.iter_mut().try_for_each(|allocation| moved(&mut allocation.page))?;
    window.accesses.iter_mut().try_for_each(|access| moved(&mut access.page))?;
    window.object_heat.iter_mut().try_for_each(|heat| moved(&mut heat.page))?;
    window.unmaps.iter_mut().try_for_each(moved)
}

/// Returns true for a window without any event, which a cut between two windows leaves.
fn is_empty(window: &Window) -> bool {
    window.instructions == 0
        && window.accesses.is_empty()
        && window.allocations.is_empty()
        && window.unmaps.is_empty()
}

fn accept(
    listener: &UnixListener,
    child: &mut Child,
    qemu: &Path,
) -> Result<UnixStream, RecordError> {
    listener.set_nonblocking(true).map_err(RecordError::system("socket"))?;
    loop {
        match listener.accept() {
            Ok((stream, _)) => return Ok(stream),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(RecordError::system("socket")(e)),
        }
        let ended = child.try_wait().map_err(RecordError::system("waiting for the program"))?;
        if let Some(status) = ended {
            return Err(RecordError::NotStarted { qemu: qemu.display().to_string(), status });
        }
        std::thread::sleep(START_POLL);
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Ends the program: first with SIGTERM, then with SIGKILL.
fn stop(child: &mut Child) -> Result<(), RecordError> {
    let failed = || RecordError::system("stopping the program");
    if let Some(pid) = pid_of(child) {
        // The program may have ended meanwhile; its status shows it.
        let _ = kill_process(pid, Signal::TERM);
    }
    let deadline = Instant::now() + STOP_PATIENCE;
    while Instant::now() < deadline {
        if child.try_wait().map_err(failed())?.is_some() {
            return Ok(());
        }
        std::thread::sleep(START_POLL);
    }
    child.kill().map_err(failed())
}

/// Passes signals on to the program, after its current window has arrived.
struct SignalForwarder {
    handle: Handle,
    thread: std::thread::JoinHandle<()>,
}

impl SignalForwarder {
    fn start(mut signals: Signals, child: &Child, requests: Arc<PluginRequests>) -> Self {
        let handle = signals.handle();
        let pid = pid_of(child);
        // A terminal's signal that came before the program did has not reached it.
        let mut early: Vec<i32> = signals.pending().collect();
        let thread = std::thread::spawn(move || {
            let later = signals.forever().map(|number| (number, number == SIGINT));
            for (number, from_keyboard) in early.drain(..).map(|n| (n, false)).chain(later) {
                requests.flush();
                // Ctrl-C reaches the program directly, because it shares this terminal.
                let received = from_keyboard && std::io::stdin().is_terminal();
                let signal = Signal::from_named_raw(number);
                if let (Some(pid), Some(signal), false) = (pid, signal, received) {
                    let _ = kill_process(pid, signal);
                }
            }
        });
        Self { handle, thread }
    }

    fn finish(self) {
        self.handle.close();
        // The thread has nothing to return; a panic in it has been printed.
        let _ = self.thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_window_is_named_in_refusal() {
        let mut options = RecordOptions::new(vec!["true".into()], "never.twt");
        options.window_instructions = 1 << 31;
        let error = record(&options, |_| {}).unwrap_err().to_string();
        assert!(error.contains("allowed are 1 to 2147483647"), "{error}");
    }
}
