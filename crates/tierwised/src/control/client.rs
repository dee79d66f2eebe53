//! The client's side of the socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tierwise_linux::bytes::shown;

use super::protocol::{ControlCommand, Reply};
use super::until::Until;

/// Time limit of an answer. A daemon answers between two rounds; a reload may check many tenants.
const PATIENCE: Duration = Duration::from_secs(30);

/// Max bytes of an answer: many times a snapshot of thousands of tenants.
const MAX_ANSWER: u64 = 64 << 20;

/// The reason why there is no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon listens.
    #[error("{}: no tierwised listens there ({source}); start it, or name its socket with \
             --socket", path.display())]
    NotListening {
        /// The socket.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The connection broke, or the answer is malformed.
    #[error("{}: {problem}", path.display())]
    Broken {
        /// The socket.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The daemon refused.
    #[error("{0}")]
    Refused(String),
}

/// Sends a command and waits for its answer.
///
/// # Errors
/// No daemon answers, or it refuses.
pub fn call(socket: &Path, command: &ControlCommand) -> Result<Reply, ClientError> {
    let stream = UnixStream::connect(socket)
        .map_err(|source| ClientError::NotListening { path: socket.to_owned(), source })?;
    let broken = |problem: String| ClientError::Broken { path: socket.to_owned(), problem };
    let line = exchange(&stream, command).map_err(|e| broken(format!("no answer: {e}")))?;
    let reply = parse(&line).map_err(broken)?;
    match reply.error {
        Some(error) if !reply.ok => Err(ClientError::Refused(error)),
        _ => Ok(reply),
    }
}

/// Parses an answer.
pub(super) fn parse(line: &[u8]) -> Result<Reply, String> {
    // The parser's message may quote the line.
    let unfit = |e: serde_json::Error| {
        format!("not an answer of tierwised: {}", shown(e.to_string().as_bytes()))
    };
    serde_json::from_slice(line).map_err(unfit)
}

fn exchange(stream: &UnixStream, command: &ControlCommand) -> io::Result<Vec<u8>> {
    let mut until = Until::new(stream, PATIENCE);
    let mut line = serde_json::to_vec(command)?;
    line.push(b'\n');
    // A daemon may refuse and close before it reads: then its answer is there all the same.
    match until.write_all(&line) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => return Err(e),
        _ => line.clear(),
    }
    BufReader::new(until.take(MAX_ANSWER)).read_until(b'\n', &mut line)?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_before_the_command_is_read() {
        let (stream, mut daemon) = UnixStream::pair().unwrap();
        daemon.write_all(b"{\"ok\":false,\"error\":\"try again\"}\n").unwrap();
        drop(daemon);
        let line = exchange(&stream, &ControlCommand::Snapshot).unwrap();
        assert_eq!(parse(&line).unwrap().error.as_deref(), Some("try again"));
    }
}
