//! The daemon's side of the socket: a thread that accepts connections, reads lines, and passes
//! the commands to the main thread.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use crossbeam_channel::{Sender, bounded};
use tierwise_linux::bytes::shown;
use tierwise_linux::state_file::private_directory;

use super::protocol::{ControlCommand, Reply};
use super::until::Until;

/// Max bytes of a line: many times a tenant with a thousand pids, and the claims of a thousand
/// pods. A kubelet runs 110 pods by default, and providers of clusters permit up to 256.
const MAX_LINE: u64 = 64 * 1024;

/// Connections served at a time; each is a thread.
const MAX_CONNECTIONS: usize = 16;

/// Time limit of a conversation, from the first byte to the last: a client sends one command and
/// leaves.
const CONVERSATION: Duration = Duration::from_secs(60);

/// Pause of accepting when the kernel has no descriptor left. The queued connections keep `accept`
/// ready, and retrying at once takes a whole CPU.
const PAUSE: Duration = Duration::from_millis(200);

/// A command, and the channel for its answer.
pub struct ControlRequest {
    /// The command.
    pub command: ControlCommand,
    /// Takes exactly one answer.
    pub reply: Sender<Reply>,
}

/// The commands that a socket takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// All of them.
    All,
    /// [`ControlCommand::Claims`] alone: the driver of fast memory needs no other.
    Claims,
}

impl Accepted {
    /// Returns true if a socket takes this command.
    fn includes(self, command: &ControlCommand) -> bool {
        self == Self::All || matches!(command, ControlCommand::Claims { .. })
    }
}

/// Passes commands to the main thread.
#[derive(Clone)]
struct Requests {
    accepted: Accepted,
    requests: Sender<ControlRequest>,
    wake: Sender<()>,
}

/// The socket. Its file is removed when this is dropped.
pub struct ControlServer {
    path: PathBuf,
}

impl ControlServer {
    /// Listens. Sends each accepted command to `requests`, and a message to `wake`.
    ///
    /// # Errors
    /// Another daemon listens there, or the path cannot be used.
    pub fn start(
        path: &Path,
        accepted: Accepted,
        requests: Sender<ControlRequest>,
        wake: Sender<()>,
    ) -> anyhow::Result<Self> {
        let requests = Requests { accepted, requests, wake };
        let shown = path.display();
        if let Some(directory) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            private_directory(directory).context("the control socket's directory")?;
        }
        clear_the_way(path)?;
        let listener =
            bind_beside(path, 0o600).with_context(|| format!("{shown}: cannot listen"))?;
        let connections = Arc::new(AtomicUsize::new(0));
        thread::Builder::new().name("control".into()).spawn(move || {
            loop {
                let stream = next(|| listener.accept().map(|(stream, _)| stream), thread::sleep);
                serve_aside(stream, &requests, &connections);
            }
        })?;
        Ok(Self { path: path.to_owned() })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        // A file that was removed already needs nothing more.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the socket of a daemon that was killed; refuses if a daemon listens there.
pub(crate) fn clear_the_way(path: &Path) -> anyhow::Result<()> {
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    let shown = path.display();
    if !meta.file_type().is_socket() {
        bail!("{shown}: exists and is no socket; remove it, or configure another socket");
    }
    if UnixStream::connect(path).is_ok() {
        bail!("{shown}: another tierwised listens there; stop it, or configure another socket");
    }
    fs::remove_file(path).with_context(|| format!("{shown}: cannot remove the old socket"))
}

/// Binds beside and renames, so that no process can connect before the socket has its mode.
pub(crate) fn bind_beside(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    let listener = UnixListener::bind(&beside)?;
    fs::set_permissions(&beside, fs::Permissions::from_mode(mode))?;
    fs::rename(&beside, path)?;
    Ok(listener)
}

/// Accepts the next connection. Retries a failure, after a pause unless only one connection
/// failed.
pub(crate) fn next<T>(
    mut accept: impl FnMut() -> io::Result<T>,
    mut pause: impl FnMut(Duration),
) -> T {
    let mut reported = false;
    loop {
        match accept() {
            Ok(connection) => return connection,
            Err(e) if matches!(e.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {
            }
            Err(e) => {
                if !reported {
                    tracing::warn!("a socket cannot accept: {e}; tries again");
                    reported = true;
                }
                pause(PAUSE);
            }
        }
    }
}

fn serve_aside(stream: UnixStream, requests: &Requests, connections: &Arc<AtomicUsize>) {
    if connections.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
        connections.fetch_sub(1, Ordering::Relaxed);
        let reply = Reply::refused(format!("{MAX_CONNECTIONS} others are connected; try again"));
        let _ = answer(Until::new(&stream, PAUSE), &reply);
        return;
    }
    if !may_command(&stream) {
        connections.fetch_sub(1, Ordering::Relaxed);
        let refused = Reply::refused("only root and the daemon's own user may speak to it");
        let _ = answer(Until::new(&stream, PAUSE), &refused);
        return;
    }
    let (requests, open) = (requests.clone(), Arc::clone(connections));
    let started = thread::Builder::new().name("control-client".into()).spawn(move || {
        // A client that disconnected meanwhile needs no answer.
        let _ = serve(&stream, &requests);
        open.fetch_sub(1, Ordering::Relaxed);
    });
    if started.is_err() {
        connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns true if the peer is root or the daemon's own user. The socket's mode ensures that
/// already; this check also covers a socket that was passed on or whose mode was changed.
fn may_command(stream: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid())
}

fn serve(stream: &UnixStream, requests: &Requests) -> io::Result<()> {
    let mut reader = BufReader::new(Until::new(stream, CONVERSATION));
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        if read as u64 > MAX_LINE {
            let refused = Reply::refused(format!("a line is at most {MAX_LINE} bytes"));
            return answer(reader.get_mut(), &refused);
        }
        answer(reader.get_mut(), &handle(&line, requests))?;
    }
}

fn handle(line: &[u8], requests: &Requests) -> Reply {
    match parse(line) {
        Ok(command) if requests.accepted.includes(&command) => {
            ask(command, &requests.requests, &requests.wake)
        }
        Ok(_) => Reply::refused("this socket takes claims only; the others: control.socket"),
        Err(problem) => Reply::refused(problem),
    }
}

/// Parses a command.
pub(super) fn parse(line: &[u8]) -> Result<ControlCommand, String> {
    // The parser's message may quote the line.
    let unfit =
        |e: serde_json::Error| format!("no such command: {}", shown(e.to_string().as_bytes()));
    serde_json::from_slice(line).map_err(unfit)
}

/// Has a command executed between two rounds, and waits for the answer.
pub(super) fn ask(
    command: ControlCommand,
    requests: &Sender<ControlRequest>,
    wake: &Sender<()>,
) -> Reply {
    let (reply, answered) = bounded(1);
    let stopping = || Reply::refused("the daemon is stopping");
    if requests.send(ControlRequest { command, reply }).is_err() {
        return stopping();
    }
    // A full channel means that another thread woke the daemon already.
    let _ = wake.try_send(());
    answered.recv().unwrap_or_else(|_| stopping())
}

fn answer(mut to: impl Write, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    to.write_all(&line)
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::unbounded;

    use super::super::client::call;
    use super::*;

    fn start(directory: &Path) -> (ControlServer, PathBuf) {
        start_accepting(directory, Accepted::All)
    }

    fn start_accepting(directory: &Path, accepted: Accepted) -> (ControlServer, PathBuf) {
        let (sender, requests) = unbounded::<ControlRequest>();
        let path = directory.join("run/control.sock");
        let server = ControlServer::start(&path, accepted, sender, bounded(1).0).unwrap();
        thread::spawn(move || {
            for request in requests {
                let reply = match request.command {
                    ControlCommand::Pause => Reply::changed(vec!["paused".into()]),
                    ControlCommand::Claims { .. } => Reply::done(),
                    _ => Reply::refused("not here"),
                };
                let _ = request.reply.send(reply);
            }
        });
        (server, path)
    }

    #[test]
    fn commands_are_answered_on_private_socket() {
        let directory = tempfile::tempdir().unwrap();
        let (server, path) = start(directory.path());
        assert_eq!(call(&path, &ControlCommand::Pause).unwrap().changed, ["paused"]);
        let refused = call(&path, &ControlCommand::Reload).unwrap_err().to_string();
        assert_eq!(refused, "not here");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(server);
        assert!(!path.exists());
    }

    #[test]
    fn socket_of_claims_takes_no_other_command() {
        let directory = tempfile::tempdir().unwrap();
        let (_server, path) = start_accepting(directory.path(), Accepted::Claims);
        assert!(call(&path, &ControlCommand::Claims { floors: None }).unwrap().ok);
        let others = [ControlCommand::Pause, ControlCommand::Snapshot, ControlCommand::Reload];
        for command in others {
            let refused = call(&path, &command).unwrap_err().to_string();
            assert!(refused.contains("takes claims only"), "{refused}");
        }
    }

    #[test]
    fn claims_of_full_node_fit_line() {
        // Twice the pods that the largest kubelets run, each with the longest number.
        let floors = (0..500).map(|pod| (format!("00000000-0000-0000-0000-{pod:012}"), u64::MAX));
        let command = ControlCommand::Claims { floors: Some(floors.collect()) };
        assert!((serde_json::to_vec(&command).unwrap().len() as u64) < MAX_LINE);
    }

    #[test]
    fn second_daemon_is_refused_dead_socket_removed() {
        let directory = tempfile::tempdir().unwrap();
        let (server, path) = start(directory.path());
        let (sender, _requests) = unbounded::<ControlRequest>();
        let refused = ControlServer::start(&path, Accepted::All, sender, bounded(1).0).err();
        let message = refused.unwrap().to_string();
        assert!(message.contains("another tierwised listens there"), "{message}");
        drop(server);
        drop(UnixListener::bind(&path).unwrap());
        let (sender, _requests) = unbounded::<ControlRequest>();
        ControlServer::start(&path, Accepted::All, sender, bounded(1).0).unwrap();
        fs::write(directory.path().join("file"), "").unwrap();
        let (sender, _requests) = unbounded::<ControlRequest>();
        let file = directory.path().join("file");
        let refused = ControlServer::start(&file, Accepted::All, sender, bounded(1).0).err();
        let message = refused.unwrap().to_string();
        assert!(message.contains("is no socket"), "{message}");
    }

    #[test]
    fn without_descriptors_it_pauses_and_goes_on() {
        let errors = [libc::EMFILE, libc::ECONNABORTED, libc::ENFILE, libc::EINTR, libc::ENOMEM];
        let mut errors = errors.into_iter();
        let mut pauses = Vec::new();
        let accept = || errors.next().map_or(Ok(()), |e| Err(io::Error::from_raw_os_error(e)));
        next(accept, |pause| pauses.push(pause));
        assert_eq!(pauses, [PAUSE; 3]);
    }

    #[test]
    fn control_directory_is_private_or_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (_server, path) = start(directory.path());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        let open = directory.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let (sender, _requests) = unbounded::<ControlRequest>();
        let path = open.join("s.sock");
        let refused = ControlServer::start(&path, Accepted::All, sender, bounded(1).0).err();
        let refused = refused.unwrap();
        assert!(format!("{refused:#}").contains("others may write to it"), "{refused:#}");
    }

    #[test]
    fn nonsense_and_endless_lines_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (_server, path) = start(directory.path());
        for (sent, message) in [
            (b"what?\n".to_vec(), "no such command"),
            (b"{\"command\":\"polcy\"}\n".to_vec(), "unknown variant `polcy`"),
            (vec![b'x'; 70_000], "a line is at most"),
        ] {
            let mut stream = UnixStream::connect(&path).unwrap();
            // The daemon may refuse, and close, before it has read all of it.
            let _ = stream.write_all(&sent);
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            assert!(line.contains(message), "{line}");
        }
    }
}
