//! A connection that has to be done by a moment, however slowly its bytes come.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A stream on which everything fails with `TimedOut` after a moment: a limit of each read alone is
/// for ever to a peer that sends a byte now and then.
pub(super) struct Until<'a> {
    stream: &'a UnixStream,
    end: Instant,
}

impl<'a> Until<'a> {
    /// From now on for so long.
    pub(super) fn new(stream: &'a UnixStream, patience: Duration) -> Self {
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
                // Each byte comes well within any limit of a single read.
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
