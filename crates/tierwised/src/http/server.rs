//! The thread that serves.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use crossbeam_channel::Sender;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{self, Runtime};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::connection::Connection;
use super::places::{Place, Places};
use super::router;
use crate::system::optional::Feature;
use crate::view::Snapshot;

/// How long answers under way may take after the stop; a local reader has any of them in
/// milliseconds.
const GRACE: Duration = Duration::from_secs(1);

/// Longest head of a request: a browser's cookies for localhost fit.
const MAX_HEAD: usize = 64 * 1024;

/// How long nobody is accepted when the kernel has no descriptor left.
const PAUSE: Duration = Duration::from_millis(200);

/// How long a client may take.
#[derive(Clone, Copy)]
pub(super) struct Deadlines {
    /// For the whole head of its request.
    pub(super) head: Duration,
    /// To take the whole answer. Event streams have no end; they break when they do not move.
    pub(super) answer: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        // A client on the same machine needs milliseconds for either, also when the machine is
        // busy.
        Self { head: Duration::from_secs(10), answer: Duration::from_secs(30) }
    }
}

/// Metrics, API and dashboard. Dropping it ends the answers under way and joins its thread.
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens, and shows whatever was put into `views` last. Who wants a newer one says so by a
    /// message to `waker`, and holds a receiver of the views beside the server's own meanwhile.
    ///
    /// # Errors
    /// The address is not loopback, is in use, or cannot be listened on.
    pub fn start(
        listen: SocketAddr,
        views: watch::Receiver<Arc<Snapshot>>,
        waker: Sender<()>,
    ) -> anyhow::Result<Self> {
        Self::start_with(listen, views, waker, Deadlines::default())
    }

    pub(super) fn start_with(
        listen: SocketAddr,
        views: watch::Receiver<Arc<Snapshot>>,
        waker: Sender<()>,
        deadlines: Deadlines,
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
            .spawn(move || run(&runtime, &listener, &app, deadlines, &stopping))?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it listens: the port that was found if port 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Feature for Server {}

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
            "http.listen: found {listen}; allowed: a loopback address with a port \
             (127.0.0.1:9470, [::1]:9470); to read it from elsewhere put a proxy that \
             authenticates before it"
        );
    }
    let listener = TcpListener::bind(listen).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => anyhow!(
            "http.listen: {listen} is in use by another program (`ss -ltnp 'sport = :{}'` shows \
             which); stop it, or write another port, or \"off\"",
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
    listener: &tokio::net::TcpListener,
    app: &Router,
    deadlines: Deadlines,
    stopping: &watch::Receiver<()>,
) {
    runtime.block_on(async {
        let places = Places::new();
        let mut open = JoinSet::new();
        let mut stop = pin!(stopped(stopping.clone()));
        loop {
            while open.try_join_next().is_some() {}
            let (stream, place) = tokio::select! {
                () = &mut stop => break,
                next = accept(listener, &places) => match next {
                    Some(next) => next,
                    None => continue,
                },
            };
            let stream = Connection::new(stream);
            open.spawn(serve(stream, app.clone(), place, deadlines, stopping.clone()));
            // It reads what it was sent before another may take its place.
            tokio::task::yield_now().await;
        }
        // Whoever is still not done is cut off together with the runtime.
        let _ =
            tokio::time::timeout(GRACE, async { while open.join_next().await.is_some() {} }).await;
    });
}

/// The next connection and a place for it.
async fn accept(
    listener: &tokio::net::TcpListener,
    places: &Arc<Places>,
) -> Option<(tokio::net::TcpStream, Place)> {
    match listener.accept().await {
        Ok((stream, _)) => places.take().await.map(|place| (stream, place)),
        Err(error) => {
            if !is_of_one_connection(&error) {
                tokio::time::sleep(PAUSE).await;
            }
            None
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset)
}

/// One request and its answer. Who asks again connects again: on loopback that costs nothing, and
/// nobody holds a place idly.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    app: Router,
    place: Place,
    deadlines: Deadlines,
    stopping: watch::Receiver<()>,
) {
    let answering = Notify::new();
    let app = TowerToHyperService::new(app);
    let service = service_fn(|request| {
        place.answer();
        let answer = app.call(request);
        async {
            let answer = answer.await;
            match answer.as_ref().is_ok_and(is_stream) {
                true => place.keep(),
                false => answering.notify_one(),
            }
            answer
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(deadlines.head)
        .keep_alive(false)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let late = async {
        answering.notified().await;
        tokio::time::sleep(deadlines.answer).await;
    };
    // Whatever ends it, a client that is gone or does nothing is no news.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = place.needed() => return,
        () = late => return,
        () = stopped(stopping) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

fn is_stream(answer: &Response) -> bool {
    answer.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream")
}

async fn stopped(mut stopping: watch::Receiver<()>) {
    // An error means that the sender is gone, which is a stop as well.
    let _ = stopping.changed().await;
}
