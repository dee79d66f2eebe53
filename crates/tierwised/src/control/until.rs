//! A connection with a deadline for the whole conversation.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A stream on which every call fails with `TimedOut` after the deadline. A time limit per read
/// would never end a conversation with a peer that sends a byte now and then.
pub(crate) struct Until<'a> {
    stream: &'a UnixStream,
    end: Instant,
}

impl<'a> Until<'a> {
    /// A deadline after `patience`, from now.
    pub(crate) fn new(stream: &'a UnixStream, patience: Duration) -> Self {
        Self { stream, end: Instant::now() + patience }
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn slow_peer_is_cut_off() {
        let (mut peer, stream) = UnixStream::pair().unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                // Each byte arrives well within any limit of a single read.
                while !done.load(Ordering::Relaxed) && peer.write_all(b"x").is_ok() {
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let until = Until::new(&stream, Duration::from_millis(50));
            let ended = io::BufReader::new(until).read_until(b'\n', &mut Vec::new());
            done.store(true, Ordering::Relaxed);
            let kind = ended.unwrap_err().kind();
            assert!(matches!(kind, io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{kind}");
        });
    }
}
