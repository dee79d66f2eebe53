//! Requests to the plugin while it records, from the threads that receive marks and signals.

use std::collections::VecDeque;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::wire::Reason;

/// The time that a signal waits for the current window to arrive. Closing a window takes the guest
/// milliseconds; a guest that takes seconds is stuck, and ends without that window.
const FLUSH_PATIENCE: Duration = Duration::from_secs(2);

/// The requests to the plugin: each is one cut of the current window.
#[derive(Default)]
struct RequestState {
    control: Option<UnixStream>,
    /// Cuts requested and not yet received, the oldest first; each may have the name of a phase.
    cuts: VecDeque<Option<String>>,
    cuts_seen: u64,
    cuts_asked: u64,
    /// Operations reported and not yet given to a window.
    operations: u64,
}

/// Requests to the plugin from the threads that hear of marks and signals.
#[derive(Default)]
pub(super) struct PluginRequests {
    state: Mutex<RequestState>,
    changed: Condvar,
}

impl PluginRequests {
    fn lock(&self) -> MutexGuard<'_, RequestState> {
        // Every critical section below is a few assignments; none leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_operations(&self, count: u64) {
        let mut state = self.lock();
        state.operations = state.operations.saturating_add(count);
    }

    /// Ends the current window; the next one starts a phase.
    pub(super) fn mark(&self, name: String, operations: u64) {
        self.add_operations(operations);
        self.cut(Some(name));
    }

    /// Requests a cut. Returns its number.
    fn cut(&self, mark: Option<String>) -> u64 {
        let mut state = self.lock();
        state.cuts.push_back(mark);
        state.cuts_asked += 1;
        // A plugin that has exited takes no requests; the reader notices the end of its stream.
        if let Some(control) = &mut state.control {
            let _ = control.write_all(b"C");
        }
        state.cuts_asked
    }

    /// Cuts the window and waits until it has arrived, for at most [`FLUSH_PATIENCE`].
    pub(super) fn flush(&self) {
        let number = self.cut(None);
        let state = self.lock();
        let waiting = |state: &mut RequestState| state.cuts_seen < number;
        drop(self.changed.wait_timeout_while(state, FLUSH_PATIENCE, waiting));
    }

    /// Handles a window that arrived. Returns its operations, and the mark that starts after it.
    pub(super) fn on_window(&self, reason: Reason) -> (u64, Option<String>) {
        let mut state = self.lock();
        let operations = std::mem::take(&mut state.operations);
        if reason != Reason::Cut {
            return (operations, None);
        }
        state.cuts_seen += 1;
        self.changed.notify_all();
        (operations, state.cuts.pop_front().flatten())
    }

    /// Connects the plugin, which receives the cuts requested before.
    pub(super) fn connect(&self, mut control: UnixStream) {
        let mut state = self.lock();
        let _ = control.write_all(&b"C".repeat(state.cuts.len()));
        state.control = Some(control);
    }

    pub(super) fn disconnect(&self) {
        self.lock().control = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn early_mark_is_not_lost() {
        let requests = PluginRequests::default();
        requests.mark("load".into(), 0);
        let (here, mut plugin) = UnixStream::pair().unwrap();
        requests.connect(here);
        requests.mark("run".into(), 30);
        requests.disconnect();
        let mut asked = Vec::new();
        plugin.read_to_end(&mut asked).unwrap();
        assert_eq!(asked, b"CC");
        // The window that was current at the first mark takes the reported operations.
        assert_eq!(requests.on_window(Reason::Full), (30, None));
        assert_eq!(requests.on_window(Reason::Cut), (0, Some("load".into())));
        assert_eq!(requests.on_window(Reason::Cut), (0, Some("run".into())));
    }

    #[test]
    fn a_flush_waits_for_its_window() {
        let requests = PluginRequests::default();
        std::thread::scope(|scope| {
            let flush = scope.spawn(|| requests.flush());
            while requests.lock().cuts.is_empty() {
                std::thread::yield_now();
            }
            assert_eq!(requests.on_window(Reason::Cut), (0, None));
            flush.join().unwrap();
        });
        assert!(requests.lock().cuts.is_empty());
    }
}
