//! The state that the handlers share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::Sender;
use tokio::sync::watch;

use crate::view::Snapshot;

/// Max event streams at a time. Each is an open dashboard; the other connections stay free for
/// Prometheus and the API. One more ends the oldest, whose browser connects again.
pub(super) const MAX_STREAMS: usize = 16;

/// Time limit of a reader that waits for a new view: a round that monitors and moves takes half a
/// second to a second.
const PATIENCE: Duration = Duration::from_secs(2);

/// The state that the handlers share.
pub(super) struct HandlerState {
    /// The view, which changes once per round.
    pub(super) views: watch::Receiver<Arc<Snapshot>>,
    /// Wakes the daemon.
    waker: Sender<()>,
    /// Changes, or closes, when the server stops.
    pub(super) stopping: watch::Receiver<()>,
    /// Event streams, the oldest first: each ends when its sender is dropped.
    streams: Mutex<VecDeque<watch::Sender<()>>>,
    /// The OpenAPI document, as JSON.
    pub(super) document: String,
    /// Known paths, to suggest the nearest.
    pub(super) paths: Vec<String>,
    /// The last view as JSON: all streams send the same one.
    written: Mutex<Option<(Arc<Snapshot>, Arc<str>)>>,
}

impl HandlerState {
    /// The state with a document and the paths in it.
    pub(super) fn new(
        views: watch::Receiver<Arc<Snapshot>>,
        waker: Sender<()>,
        stopping: watch::Receiver<()>,
        document: String,
        paths: Vec<String>,
    ) -> Self {
        let (streams, written) = (Mutex::default(), Mutex::new(None));
        Self { views, waker, stopping, streams, document, paths, written }
    }

    /// Adds an event stream. It ends when the returned receiver closes.
    pub(super) fn add_stream(&self) -> watch::Receiver<()> {
        let (sender, ended) = watch::channel(());
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|stream| !stream.is_closed());
        if streams.len() == MAX_STREAMS {
            streams.pop_front();
        }
        streams.push_back(sender);
        ended
    }

    /// The view now. The daemon makes views while a client holds a receiver of its own, as a stream
    /// does. If the last view is old, asks for a new one.
    pub(super) async fn snapshot(&self) -> Arc<Snapshot> {
        let mut views = self.views.clone();
        if views.borrow_and_update().is_old() {
            // A daemon that is awake already checks for waiting readers.
            let _ = self.waker.try_send(());
            // The last view is better than none.
            let _ = tokio::time::timeout(PATIENCE, views.changed()).await;
        }
        Arc::clone(&views.borrow())
    }

    /// A view as JSON on one line.
    pub(super) fn json(&self, snapshot: &Arc<Snapshot>) -> serde_json::Result<Arc<str>> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, json)) = &*written
            && Arc::ptr_eq(of, snapshot)
        {
            return Ok(Arc::clone(json));
        }
        let json: Arc<str> = serde_json::to_string(&**snapshot)?.into();
        *written = Some((Arc::clone(snapshot), Arc::clone(&json)));
        Ok(json)
    }
}
