//! The only thread for tenants' services and virtual machines, however many there are.
//!
//! Each conversation is a task of its own with a time limit, so that a slow or silent peer delays
//! no other and holds no thread. The thread's CPU time does not count against the daemon's budget:
//! single tenants cause it, and each conversation has a limit of its own.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::io::{Interest, Ready};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, yield_now};

use super::latency::metered::thread_time;

/// The thread.
pub(super) struct Peers {
    handle: Option<Handle>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Nanoseconds of CPU time, up to the last time that the thread was idle.
    used: Arc<AtomicU64>,
}

impl Peers {
    /// Starts the thread. If that fails, no peer is polled, and the log has the reason.
    pub(super) fn start() -> Self {
        let used = Arc::new(AtomicU64::new(0));
        let none = Self { handle: None, stop: None, thread: None, used: Arc::clone(&used) };
        let (stop, stopped) = oneshot::channel();
        let started = runtime(&used).and_then(|runtime| {
            let handle = runtime.handle().clone();
            // It ends when its other end is dropped; the runtime ends all tasks with it.
            let body = move || drop(runtime.block_on(stopped));
            Ok((handle, thread::Builder::new().name("peers".into()).spawn(body)?))
        });
        match started {
            Ok((handle, thread)) => {
                Self { handle: Some(handle), stop: Some(stop), thread: Some(thread), used }
            }
            Err(e) => {
                tracing::warn!(
                    "no thread can be started to poll tenants' services and guests: {e}; no \
                     latency is read"
                );
                none
            }
        }
    }

    /// Runs a task on the thread; none if there is no thread.
    pub(super) fn spawn(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Option<AbortHandle> {
        self.handle.as_ref().map(|handle| handle.spawn(task).abort_handle())
    }

    /// CPU time of the thread.
    pub(super) fn cpu(&self) -> Duration {
        Duration::from_nanos(self.used.load(Ordering::Relaxed))
    }
}

fn runtime(used: &Arc<AtomicU64>) -> io::Result<Runtime> {
    let used = Arc::clone(used);
    let note = move || {
        let nanos = u64::try_from(thread_time().as_nanos()).unwrap_or(u64::MAX);
        used.store(nanos, Ordering::Relaxed);
    };
    Builder::new_current_thread().enable_io().enable_time().on_thread_park(note).build()
}

impl Drop for Peers {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // One that panicked has ended as well.
            let _ = thread.join();
        }
    }
}

/// A connection to a peer.
pub(super) enum PeerStream {
    /// To a service.
    Tcp(TcpStream),
    /// To a virtual machine.
    Unix(UnixStream),
}

impl PeerStream {
    /// Reads the bytes that have arrived, at most a buffer; zero is the end. Other tasks run before
    /// the caller continues.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.ready(Interest::READABLE).await?;
            let read = match self {
                Self::Tcp(stream) => stream.try_read(buffer),
                Self::Unix(stream) => stream.try_read(buffer),
            };
            if !would_block(&read) {
                yield_now().await;
                return read;
            }
        }
    }

    /// Sends all of it.
    pub(super) async fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.ready(Interest::WRITABLE).await?;
            let sent = match self {
                Self::Tcp(stream) => stream.try_write(bytes),
                Self::Unix(stream) => stream.try_write(bytes),
            };
            if !would_block(&sent) {
                bytes = &bytes[sent?..];
            }
        }
        Ok(())
    }

    async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Self::Tcp(stream) => stream.ready(interest).await,
            Self::Unix(stream) => stream.ready(interest).await,
        }
    }
}

fn would_block(done: &io::Result<usize>) -> bool {
    done.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
}
