//! Connections: no more than a few, none that does nothing for long.

use std::future::{Future, pending};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Connections at a time; others wait in the kernel's queue. A browser opens up to six, Prometheus one, and hyper keeps up to
/// 400 KiB of headers for each, so that strangers cost 25 MiB at the worst.
const MOST_CONNECTIONS: usize = 64;

/// How long a connection may neither send nor receive. Prometheus scrapes once in 15 or 30 s and may as well connect anew;
/// event streams are kept alive every [`super::events::KEEP_ALIVE`].
const IDLE: Duration = Duration::from_secs(45);

/// Accepts connections up to a number.
pub(super) struct Bounded {
    listener: TcpListener,
    free: Arc<Semaphore>,
}

impl Bounded {
    /// Over a listener.
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, free: Arc::new(Semaphore::new(MOST_CONNECTIONS)) }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // Nobody closes the semaphore; if it were closed, nothing more would be accepted.
        let Ok(place) = Arc::clone(&self.free).acquire_owned().await else {
            return pending().await;
        };
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let idle = Box::pin(sleep(IDLE));
        (Connection { stream, idle, _place: place }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that breaks when nothing moves for [`IDLE`].
pub(super) struct Connection {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    fn watched<T>(
        &mut self,
        context: &mut Context<'_>,
        progress: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.idle.as_mut().reset(Instant::now() + IDLE);
            return progress;
        }
        self.idle.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.watched(context, progress)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write(context, data);
        self.watched(context, progress)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write_vectored(context, data);
        self.watched(context, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    // A TCP stream has nothing to flush, so this says nothing of progress.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    fn block_on(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test);
    }

    async fn pair(idle: Duration) -> (Connection, TcpStream) {
        let mut listener = Bounded::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut connection, _) = listener.accept().await;
        connection.idle = Box::pin(sleep(idle));
        (connection, client)
    }

    #[test]
    fn a_connection_that_does_nothing_is_broken() {
        block_on(async {
            let (mut connection, _client) = pair(Duration::ZERO).await;
            let mut space = [0; 1];
            let mut buffer = ReadBuf::new(&mut space);
            let read = poll_fn(|context| Pin::new(&mut connection).poll_read(context, &mut buffer));
            let error = read.await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn no_more_than_the_most_are_accepted_until_one_goes() {
        block_on(async {
            let mut listener = Bounded::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
            let address = listener.local_addr().unwrap();
            let mut open = Vec::new();
            for _ in 0..MOST_CONNECTIONS {
                let client = TcpStream::connect(address).await.unwrap();
                open.push((listener.accept().await.0, client));
            }
            let _waiting = TcpStream::connect(address).await.unwrap();
            assert_eq!(listener.free.available_permits(), 0);
            open.pop();
            listener.accept().await;
        });
    }
}
