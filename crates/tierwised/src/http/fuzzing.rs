//! Any bytes through the server's own code, without a socket.

use std::sync::Arc;

use crossbeam_channel::bounded;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::sync::watch;

use super::places::Places;
use super::router;
use super::server::{Deadlines, serve};
use crate::view::Snapshot;

/// Bytes of the pipe: any answer fits, so that neither side waits for the other.
const PIPE_BYTES: usize = 1 << 22;

/// The server answers any bytes in HTTP, or closes the connection.
pub(crate) fn request(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let (_views, seen) = watch::channel(Arc::new(Snapshot::default()));
        let (waker, _asked) = bounded(1);
        // The other end is dropped, which is a stop: event streams end after their first event.
        let stopping = watch::channel(()).1;
        let Ok(app) = router::build(seen, waker, stopping.clone()) else { return };
        let Some(place) = Places::new().take().await else { return };
        let (mut client, server) = duplex(PIPE_BYTES);
        let sent = async move {
            let _ = client.write_all(bytes).await;
            let _ = client.shutdown().await;
            let mut answer = Vec::new();
            let _ = client.read_to_end(&mut answer).await;
            answer
        };
        let served = serve(server, app, place, Deadlines::default(), stopping);
        let (answer, ()) = tokio::join!(sent, served);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."));
    });
}
