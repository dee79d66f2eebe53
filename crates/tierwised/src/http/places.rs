//! Places for connections. When they run out, the oldest connection that has not said yet what it wants makes room.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Connections at a time. A browser opens up to six, Prometheus one.
pub(super) const MOST_CONNECTIONS: usize = 64;

/// All places.
pub(super) struct Places {
    free: Arc<Semaphore>,
    /// Connections without a complete head, the oldest first.
    headless: Mutex<VecDeque<Arc<Notify>>>,
}

impl Places {
    /// All free.
    pub(super) fn new() -> Arc<Self> {
        let free = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        Arc::new(Self { free, headless: Mutex::default() })
    }

    /// A place for a connection that was accepted. Any local user may open as many as he likes, and all have one address: who
    /// has sent a whole request goes before who has not.
    pub(super) async fn take(self: &Arc<Self>) -> Option<Place> {
        if self.free.available_permits() == 0
            && let Some(oldest) = self.headless().pop_front()
        {
            oldest.notify_one();
        }
        // Nobody closes the semaphore.
        let permit = Arc::clone(&self.free).acquire_owned().await.ok()?;
        let leave = Arc::new(Notify::new());
        self.headless().push_back(Arc::clone(&leave));
        Some(Place { places: Arc::clone(self), leave, _permit: permit })
    }

    fn headless(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        self.headless.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's place; free again when it is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    leave: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    /// Its request has come: it keeps its place until it is answered.
    pub(super) fn keep(&self) {
        self.places.headless().retain(|other| !Arc::ptr_eq(other, &self.leave));
    }

    /// Ends when another connection needs the place.
    pub(super) async fn needed(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.keep();
    }
}
