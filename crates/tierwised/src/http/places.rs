//! Places for connections. When they run out, the oldest connection gives up its place: first among
//! those that have not sent a whole request, then among those that are being answered. Any local
//! user may open any number of connections, and all have one address; this way no client locks
//! another out for longer than it takes to connect.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Max connections at a time. A browser opens up to six, Prometheus one. Event streams, which keep
/// their places, take at most a quarter.
pub(super) const MAX_CONNECTIONS: usize = 64;

/// The places of a server.
pub(super) struct Places {
    free: Arc<Semaphore>,
    held: Mutex<Held>,
}

/// Connections that may lose their places, the oldest first.
#[derive(Default)]
struct Held {
    headless: VecDeque<Arc<Notify>>,
    answering: VecDeque<Arc<Notify>>,
}

impl Held {
    fn forget(&mut self, leave: &Arc<Notify>) {
        self.headless.retain(|other| !Arc::ptr_eq(other, leave));
        self.answering.retain(|other| !Arc::ptr_eq(other, leave));
    }
}

impl Places {
    /// Free places only.
    pub(super) fn new() -> Arc<Self> {
        let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        Arc::new(Self { free, held: Mutex::default() })
    }

    /// A place for a connection that was accepted.
    pub(super) async fn take(self: &Arc<Self>) -> Option<ConnectionPlace> {
        if self.free.available_permits() == 0 {
            let mut held = self.held();
            let oldest = held.headless.pop_front().or_else(|| held.answering.pop_front());
            oldest.inspect(|oldest| oldest.notify_one());
        }
        // The semaphore is never closed.
        let permit = Arc::clone(&self.free).acquire_owned().await.ok()?;
        let leave = Arc::new(Notify::new());
        self.held().headless.push_back(Arc::clone(&leave));
        Some(ConnectionPlace { places: Arc::clone(self), leave, _permit: permit })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's place. Dropping it frees the place.
pub(super) struct ConnectionPlace {
    places: Arc<Places>,
    leave: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionPlace {
    /// The whole request has arrived: connections without one lose their places first.
    pub(super) fn answer(&self) {
        let mut held = self.places.held();
        held.forget(&self.leave);
        held.answering.push_back(Arc::clone(&self.leave));
    }

    /// The answer is an event stream: it keeps its place, because streams are few.
    pub(super) fn keep(&self) {
        self.places.held().forget(&self.leave);
    }

    /// Ends when another connection needs the place.
    pub(super) async fn needed(&self) {
        self.leave.notified().await;
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.keep();
    }
}
