//! The socket of the container runtime, and two threads: one answers, and the other does the work
//! that the answers leave. So no answer waits for the daemon.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::frame::Assembler;
use super::session::{NriWork, Session};
use crate::pods::{RuntimeState, SharedPods};
use crate::system::optional::Feature;

/// Time limit of the registration, and of sending an answer. The runtime waits five seconds for the
/// one and two for the other.
const PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of one read: the events of a container fit.
const PIECE: usize = 64 << 10;

/// Most messages whose work is not done. A node starts a few containers in a second.
const MAX_WAITING: usize = 4096;

/// Most bytes of these messages: a list of all pods in several parts.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// A message's work, its bytes, and the delay of its answer.
type Left = (NriWork, usize, Duration);

/// A connection to the container runtime. Dropping it ends the connection; the runtime goes on
/// without this plugin.
pub struct NriLink {
    stream: UnixStream,
    threads: Vec<JoinHandle<()>>,
    failures: Receiver<String>,
}

impl NriLink {
    /// Connects to a runtime and registers. A thread answers it from then on.
    ///
    /// # Errors
    /// There is no runtime at the socket, or it does not accept the plugin.
    pub fn start(path: &Path, pods: SharedPods) -> anyhow::Result<Self> {
        let shown = path.display();
        let stream = connected(path).with_context(|| {
            format!("kubernetes.nri: {shown}: cannot connect; is NRI switched on in the runtime?")
        })?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (left, work) = bounded(MAX_WAITING);
        let waiting = Arc::new(AtomicUsize::new(0));
        let mut talk = Talk {
            stream: stream.try_clone()?,
            assembler: Assembler::default(),
            left,
            waiting: Arc::clone(&waiting),
        };
        talk.register().with_context(|| format!("kubernetes.nri: {shown}"))?;
        stream.set_read_timeout(None)?;
        let (broken, failures) = bounded(1);
        let name = shown.to_string();
        let answer = move || {
            let reason = talk.answer_all();
            // Without a receiver the daemon is ending.
            let _ = broken.send(format!("kubernetes.nri: {name}: {reason:#}"));
        };
        let threads = vec![
            thread::Builder::new().name("nri".into()).spawn(answer)?,
            // It ends after the work of the last answer.
            thread::Builder::new().name("nri-work".into()).spawn(move || {
                do_all(&work, &waiting, &pods);
            })?,
        ];
        Ok(Self { stream, threads, failures })
    }
}

impl Feature for NriLink {
    fn failures(&self) -> Receiver<String> {
        self.failures.clone()
    }
}

impl Drop for NriLink {
    fn drop(&mut self) {
        // It fails if the runtime has closed the connection already.
        let _ = self.stream.shutdown(Shutdown::Both);
        for thread in self.threads.drain(..) {
            // A panic of that thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// Does the work of a conversation, to its end.
fn do_all(work: &Receiver<Left>, waiting: &AtomicUsize, pods: &SharedPods) {
    let session = Session::new(pods.clone());
    for (work, bytes, delay) in work {
        session.work(work);
        waiting.fetch_sub(bytes, Ordering::Relaxed);
        pods.lock().answered(delay);
    }
    pods.lock().set_state(RuntimeState::Apart);
}

/// Connects without waiting: a runtime that hangs leaves connections in its queue, and a full queue
/// keeps `connect` waiting.
fn connected(path: &Path) -> anyhow::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// A conversation over a socket.
struct Talk {
    stream: UnixStream,
    assembler: Assembler,
    /// Takes the work that the answers leave.
    left: Sender<Left>,
    /// Bytes of the messages in it.
    waiting: Arc<AtomicUsize>,
}

impl Talk {
    /// Registers, and answers what the runtime asks meanwhile.
    fn register(&mut self) -> anyhow::Result<()> {
        self.stream.write_all(&Session::hello()).context("cannot register")?;
        let deadline = Instant::now() + PATIENCE;
        while !self.answer_some()? {
            if Instant::now() > deadline {
                bail!("the runtime does not answer the registration within {PATIENCE:?}");
            }
        }
        Ok(())
    }

    /// Answers until the conversation ends. Returns the reason.
    fn answer_all(&mut self) -> anyhow::Error {
        loop {
            if let Err(e) = self.answer_some() {
                return e;
            }
        }
    }

    /// Reads once and answers all messages that are complete. Returns true if the runtime has
    /// accepted the registration.
    fn answer_some(&mut self) -> anyhow::Result<bool> {
        let mut piece = [0; PIECE];
        let length = match self.stream.read(&mut piece) {
            Ok(0) => bail!("the runtime has closed the connection"),
            Ok(length) => length,
            Err(e) if e.kind() == ErrorKind::Interrupted => return Ok(false),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                bail!("the runtime does not answer the registration within {PATIENCE:?}")
            }
            Err(e) => return Err(e).context("cannot read"),
        };
        let arrived = Instant::now();
        self.assembler.push(&piece[..length]);
        let mut registered = false;
        while let Some(message) = self.assembler.next()? {
            let bytes = message.payload.len();
            let (answer, work) = Session::answer(&message)?;
            match answer {
                Some(answer) => {
                    self.stream.write_all(&answer).context("cannot answer")?;
                    self.leave((work, bytes, arrived.elapsed()))?;
                }
                None => registered |= work == NriWork::Registered,
            }
        }
        Ok(registered)
    }

    /// Leaves work to the other thread, without waiting for it.
    fn leave(&self, left: Left) -> anyhow::Result<()> {
        let bytes = self.waiting.fetch_add(left.1, Ordering::Relaxed) + left.1;
        if bytes > MAX_WAITING_BYTES || self.left.try_send(left).is_err() {
            // A new connection starts with a list of all pods.
            bail!("the daemon is too far behind the runtime's events; it connects again");
        }
        Ok(())
    }
}
