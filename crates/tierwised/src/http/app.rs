//! What the handlers share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::Sender;
use tokio::sync::watch;

use crate::view::Snapshot;

/// Event streams at a time. Each is a dashboard that is open; the rest of the connections stays
/// free for Prometheus and the API. One more ends the oldest, whose browser connects again.
pub(super) const MAX_STREAMS: usize = 16;

/// How long a reader waits for a new view: a round that looks and moves takes half a second, or
/// twice that.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the handlers share.
pub(super) struct App {
    /// The view that changes once a round.
    pub(super) views: watch::Receiver<Arc<Snapshot>>,
    /// Wakes the daemon.
    waker: Sender<()>,
    /// Changes, or is gone, when the server stops.
    pub(super) stopping: watch::Receiver<()>,
    /// Event streams, the oldest first: each ends when its sender is dropped.
    streams: Mutex<VecDeque<watch::Sender<()>>>,
    /// The OpenAPI document, as JSON.
    pub(super) document: String,
    /// Paths that exist, to suggest the nearest.
    pub(super) paths: Vec<String>,
    /// The last view as JSON: all streams send the same one.
    written: Mutex<Option<(Arc<Snapshot>, Arc<str>)>>,
}

impl App {
    /// With a document and the paths in it.
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

    /// A new event stream, which ends with what this returns.
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

    /// The view now. It is made while somebody holds a receiver of his own, as a stream does; one
    /// that is older is asked for.
    pub(super) async fn snapshot(&self) -> Arc<Snapshot> {
        let mut views = self.views.clone();
        if views.borrow_and_update().is_old() {
            // A daemon that is awake already looks for whoever waits.
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
