//! The thread that serves.

use std::future::IntoFuture;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use axum::Router;
use crossbeam_channel::Sender;
use tokio::runtime::{self, Runtime};
use tokio::sync::watch;

use super::connection::Bounded;
use super::router;
use crate::view::Snapshot;

/// How long answers under way may take after the stop; a local reader has any of them in milliseconds.
const GRACE: Duration = Duration::from_secs(1);

/// Metrics, API and dashboard. Dropping it ends the answers under way and joins its thread.
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens, and shows whatever was put into `views` last. Who wants a newer one says so by a message to `waker`, and holds a receiver
    /// of the views beside the server's own meanwhile.
    ///
    /// # Errors
    /// The address is not loopback, is in use, or cannot be listened on.
    pub fn start(
        listen: SocketAddr,
        views: watch::Receiver<Arc<Snapshot>>,
        waker: Sender<()>,
    ) -> anyhow::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let listener = {
            let _inside = runtime.enter();
            bind(listen)?
        };
        let address = listener.local_addr()?;
        let (stop, stopping) = watch::channel(());
        let app = router::build(views, waker, stopping.clone())?;
        let thread = thread::Builder::new()
            .name("http".into())
            .spawn(move || run(&runtime, listener, app, stopping))?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it listens: the port that was found if port 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_replace(());
        if let Some(thread) = self.thread.take() {
            // A panic of that thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

fn bind(listen: SocketAddr) -> anyhow::Result<tokio::net::TcpListener> {
    if !listen.ip().is_loopback() {
        bail!(
            "http.listen: found {listen}; allowed: a loopback address with a port (127.0.0.1:9470, [::1]:9470); to read \
             it from elsewhere put a proxy that authenticates before it"
        );
    }
    let listener = TcpListener::bind(listen).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => anyhow!(
            "http.listen: {listen} is in use by another program (`ss -ltnp 'sport = :{}'` shows which); stop it, or write \
             another port, or \"off\"",
            listen.port()
        ),
        ErrorKind::PermissionDenied => anyhow!(
            "http.listen: {listen} may not be listened on ({error}); write a port from 1024 on"
        ),
        _ => anyhow!("http.listen: {listen} cannot be listened on: {error}"),
    })?;
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener).context("http.listen")
}

fn run(
    runtime: &Runtime,
    listener: tokio::net::TcpListener,
    app: Router,
    stopping: watch::Receiver<()>,
) {
    let serve = axum::serve(Bounded::new(listener), app)
        .with_graceful_shutdown(stopped(stopping.clone()))
        .into_future();
    runtime.block_on(async {
        let serving = tokio::spawn(serve);
        stopped(stopping).await;
        // Whoever is still not done is cut off together with the runtime.
        let _ = tokio::time::timeout(GRACE, serving).await;
    });
}

async fn stopped(mut stopping: watch::Receiver<()>) {
    // An error means that the sender is gone, which is a stop as well.
    let _ = stopping.changed().await;
}
