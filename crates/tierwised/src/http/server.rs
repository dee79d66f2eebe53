//! The thread that serves HTTP.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
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
use super::places::{ConnectionPlace, Places};
use super::router;
use super::token::TokenFile;
use crate::system::answering::note_cpu;
use crate::system::optional::Feature;
use crate::view::Snapshot;

/// Max time for pending answers after the stop. A local reader receives any of them within
/// milliseconds.
const GRACE: Duration = Duration::from_secs(1);

/// Max bytes of a request's head: a browser's cookies for localhost fit.
const MAX_HEAD: usize = 64 * 1024;

/// Pause of accepting when the kernel has no descriptor left.
const PAUSE: Duration = Duration::from_millis(200);

/// The time limits of a client.
#[derive(Clone, Copy)]
pub(super) struct Deadlines {
    /// For sending the whole head of its request.
    pub(super) head: Duration,
    /// For reading the whole answer. Event streams have no end; they break when they are idle.
    pub(super) answer: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        // A client on the same machine needs milliseconds for either, even if the machine is
        // busy.
        Self { head: Duration::from_secs(10), answer: Duration::from_secs(30) }
    }
}

/// Metrics, API and dashboard. Dropping it ends the pending answers and joins its thread.
pub struct HttpServer {
    address: SocketAddr,
    stop: watch::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Listens, and serves the last of `views`. A request that needs a newer one sends a message to
    /// `waker`, and meanwhile holds a receiver of the views beside the server's own.
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

    /// Listens at any address, and serves the metrics alone, for those who bring the token of the
    /// file.
    ///
    /// # Errors
    /// The address is in use or cannot be listened on, or the file has no token.
    pub fn export(
        listen: SocketAddr,
        token: &Path,
        views: watch::Receiver<Arc<Snapshot>>,
        waker: Sender<()>,
    ) -> anyhow::Result<Self> {
        let token = TokenFile::open(token)?;
        let build = |stopping| Ok(router::exported(token, views, waker, stopping));
        Self::listen("metrics", listen, Deadlines::default(), build)
    }

    pub(super) fn start_with(
        listen: SocketAddr,
        views: watch::Receiver<Arc<Snapshot>>,
        waker: Sender<()>,
        deadlines: Deadlines,
    ) -> anyhow::Result<Self> {
        if !listen.ip().is_loopback() {
            bail!(
                "http.listen: found {listen}; allowed: a loopback address with a port \
                 (127.0.0.1:9470, [::1]:9470); [metrics] serves the metrics to other machines"
            );
        }
        Self::listen("http", listen, deadlines, |stopping| router::build(views, waker, stopping))
    }

    /// Listens for the table `name` of the configuration.
    fn listen(
        name: &'static str,
        listen: SocketAddr,
        deadlines: Deadlines,
        build: impl FnOnce(watch::Receiver<()>) -> anyhow::Result<Router>,
    ) -> anyhow::Result<Self> {
        let mut runtime = runtime::Builder::new_current_thread();
        let runtime = runtime.enable_io().enable_time().on_thread_park(note_cpu).build()?;
        let listener = {
            let _inside = runtime.enter();
            bind(name, listen)?
        };
        let address = listener.local_addr()?;
        let (stop, stopping) = watch::channel(());
        let app = build(stopping.clone())?;
        let thread = thread::Builder::new()
            .name(name.into())
            .spawn(move || run(&runtime, &listener, &app, deadlines, &stopping))?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// The address on which it listens. For port 0 it has the port that the kernel chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Feature for HttpServer {}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop.send_replace(());
        if let Some(thread) = self.thread.take() {
            // A panic of that thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

fn bind(name: &str, listen: SocketAddr) -> anyhow::Result<tokio::net::TcpListener> {
    let listener = TcpListener::bind(listen).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => anyhow!(
            "{name}.listen: {listen} is in use by another program (`ss -ltnp 'sport = :{}'` shows \
             which); stop it, or write another port, or \"off\"",
            listen.port()
        ),
        ErrorKind::PermissionDenied => anyhow!(
            "{name}.listen: listening on {listen} is not permitted ({error}); write a port from \
             1024 on"
        ),
        _ => anyhow!("{name}.listen: cannot listen on {listen}: {error}"),
    })?;
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener).with_context(|| format!("{name}.listen"))
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
            // Under load the thread is never idle.
            note_cpu();
            let (stream, place) = tokio::select! {
                () = &mut stop => break,
                next = accept(listener, &places) => match next {
                    Some(next) => next,
                    None => continue,
                },
            };
            let stream = Connection::new(stream);
            open.spawn(serve(stream, app.clone(), place, deadlines, stopping.clone()));
            // It reads the bytes that have arrived before another connection may take its place.
            tokio::task::yield_now().await;
        }
        // The end of the runtime cuts off the remaining connections.
        let _ =
            tokio::time::timeout(GRACE, async { while open.join_next().await.is_some() {} }).await;
    });
}

/// The next connection and a place for it.
async fn accept(
    listener: &tokio::net::TcpListener,
    places: &Arc<Places>,
) -> Option<(tokio::net::TcpStream, ConnectionPlace)> {
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

/// Serves one request. The next request needs a new connection: on loopback that costs nothing, and
/// no idle client holds a place.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    app: Router,
    place: ConnectionPlace,
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
    // A client that disconnects or is idle is not worth a log line.
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
    // An error means that the sender was dropped, which is a stop as well.
    let _ = stopping.changed().await;
}
