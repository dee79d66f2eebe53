//! A connection that breaks when it is idle for long.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// Max time in which a connection neither sends nor receives. Prometheus scrapes every 15 or 30 s
/// and may as well connect again; event streams are kept alive every [`super::api::KEEP_ALIVE`].
const IDLE: Duration = Duration::from_secs(45);

/// A connection that breaks when it is idle for [`IDLE`].
pub(super) struct Connection {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
}

impl Connection {
    /// A connection over a stream.
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, idle: Box::pin(sleep(IDLE)) }
    }

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

    // A TCP stream has nothing to flush, so a flush is not progress.
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

    use tokio::net::TcpListener;

    use super::*;

    fn block_on(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test);
    }

    async fn pair(idle: Duration) -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut connection = Connection::new(listener.accept().await.unwrap().0);
        connection.idle = Box::pin(sleep(idle));
        (connection, client)
    }

    #[test]
    fn idle_connection_is_broken() {
        block_on(async {
            let (mut connection, _client) = pair(Duration::ZERO).await;
            let mut space = [0; 1];
            let mut buffer = ReadBuf::new(&mut space);
            let read = poll_fn(|context| Pin::new(&mut connection).poll_read(context, &mut buffer));
            let error = read.await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }
}
