//! The CPU time of the threads that answer whoever asks: HTTP, and the socket of the tenants.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tierwise_linux::monitor::thread_cpu;

/// CPU time of these threads, in nanoseconds. The clock of the daemon's budget is the process's,
/// too.
static USED: AtomicU64 = AtomicU64::new(0);

/// CPU time so far, up to the last call of [`note_cpu`] of each thread. Any local user can cause
/// it, so that it must not count against the budget of access monitoring.
pub fn cpu() -> Duration {
    Duration::from_nanos(USED.load(Ordering::Relaxed))
}

/// Adds the CPU time of this thread since its last call.
pub fn note_cpu() {
    thread_local! {
        static NOTED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }
    let now = thread_cpu();
    let more = now.saturating_sub(NOTED.replace(now));
    USED.fetch_add(u64::try_from(more.as_nanos()).unwrap_or(0), Ordering::Relaxed);
}
