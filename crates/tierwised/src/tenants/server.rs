//! The socket: a thread that accepts connections, and one for each that a tenant may have.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use tierwise_linux::state_file::public_directory;

use super::board::{Conversation, TenantBoard};
use super::protocol::{TenantReply, parse};
use crate::control::{Until, bind_beside, clear_the_way, next};
use crate::system::answering::note_cpu;
use crate::system::optional::Feature;

/// Max bytes of a message: the largest report, whose ranges have two addresses of fifteen digits.
const MAX_LINE: u64 = 16 * 1024;

/// Max connections at a time, of all tenants: each is a thread, of which the daemon's unit permits
/// 512.
const MAX_CONNECTIONS: usize = 64;

/// Time limit of a conversation, from its start to its last byte: a process sends one line.
const CONVERSATION: Duration = Duration::from_secs(2);

/// Time limit of a refusal, which the accepting thread writes: it fits into any socket's buffer.
const REFUSAL: Duration = Duration::from_millis(10);

/// The socket. Its file is removed when this is dropped.
#[derive(Debug)]
pub struct TenantSocket {
    path: PathBuf,
}

impl TenantSocket {
    /// Listens; any local process may connect.
    ///
    /// # Errors
    /// Another daemon listens there, or the path cannot be used.
    pub fn start(path: &Path, board: TenantBoard) -> anyhow::Result<Self> {
        let shown = path.display();
        if let Some(directory) = path.parent() {
            public_directory(directory).context("the directory of the tenants' socket")?;
        }
        clear_the_way(path)?;
        let listener =
            bind_beside(path, 0o666).with_context(|| format!("{shown}: cannot listen"))?;
        thread::Builder::new().name("tenants".into()).spawn(move || accept(&listener, &board))?;
        Ok(Self { path: path.to_owned() })
    }
}

impl Feature for TenantSocket {}

impl Drop for TenantSocket {
    fn drop(&mut self) {
        // A file that was removed already needs nothing more.
        let _ = fs::remove_file(&self.path);
    }
}

fn accept(listener: &UnixListener, board: &TenantBoard) {
    let connections = Arc::new(AtomicUsize::new(0));
    loop {
        let stream = next(|| listener.accept().map(|(stream, _)| stream), thread::sleep);
        serve_aside(stream, board, &connections);
        note_cpu();
    }
}

fn serve_aside(stream: UnixStream, board: &TenantBoard, connections: &Arc<AtomicUsize>) {
    let refuse = |stream: &UnixStream, why: String| {
        // A peer that does not read needs no answer.
        let _ = answer(Until::new(stream, REFUSAL), &TenantReply::refused(why));
    };
    if connections.load(Ordering::Relaxed) >= MAX_CONNECTIONS {
        return refuse(&stream, format!("{MAX_CONNECTIONS} others are connected; try again"));
    }
    let conversation = peer(&stream).and_then(|pid| board.start(pid, Instant::now()));
    let conversation = match conversation {
        Ok(conversation) => conversation,
        Err(why) => return refuse(&stream, why),
    };
    connections.fetch_add(1, Ordering::Relaxed);
    let open = Arc::clone(connections);
    let started = thread::Builder::new().name("tenant".into()).spawn(move || {
        // A process that disconnected meanwhile needs no answer.
        let _ = serve(&stream, conversation);
        open.fetch_sub(1, Ordering::Relaxed);
        note_cpu();
    });
    if started.is_err() {
        connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The process that connected. One whose number another process has got since reports for that
/// one: the daemon then leaves slow memory of it where it is.
fn peer(stream: &UnixStream) -> Result<i32, String> {
    rustix::net::sockopt::socket_peercred(stream)
        .map(|peer| peer.pid.as_raw_nonzero().get())
        .map_err(|e| format!("the kernel does not tell which process this is: {e}"))
}

/// Answers one line.
fn serve(stream: &UnixStream, conversation: Conversation) -> io::Result<()> {
    let mut reader = BufReader::new(Until::new(stream, CONVERSATION));
    let mut line = Vec::new();
    let read = reader.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(());
    }
    let reply = if read as u64 > MAX_LINE {
        TenantReply::refused(format!("a line is at most {MAX_LINE} bytes"))
    } else {
        match parse(&line) {
            Ok(report) => conversation.answer(report),
            Err(problem) => TenantReply::refused(problem),
        }
    };
    // The answer fits into any socket's buffer.
    drop(conversation);
    answer(reader.get_mut(), &reply)
}

fn answer(mut to: impl Write, reply: &TenantReply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    to.write_all(&line)
}
