//! The queue, without storing it: requests that have arrived and not started are the arrivals
//! between the next one to start and now. They can be drawn again from the stream's earlier state.

use super::arrival::ArrivalStream;

/// Requests that have arrived and not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waiting {
    /// All of them.
    pub requests: u64,
    /// Those that have waited for longer than the objective: violations, whenever they are served.
    pub overdue: u64,
}

impl Waiting {
    /// Counts them, in time proportional to their number.
    pub(super) fn count(next: &ArrivalStream, now_ns: u64, slo_ns: u64) -> Self {
        let mut waiting = Self::default();
        for arrival in next.clone().take_while(|&at| at < now_ns) {
            waiting.requests += 1;
            waiting.overdue += u64::from(now_ns - arrival > slo_ns);
        }
        waiting
    }
}

/// A copy of the stream that has run ahead to the present while requests wait, so that arrivals can
/// be counted as they come.
#[derive(Debug, Clone)]
pub(super) struct Ahead {
    stream: ArrivalStream,
    /// Arrivals counted that have not started.
    waiting: u64,
}

impl Ahead {
    /// Requests that arrived in a step that ends at `to_ns` and in which `started` requests
    /// started. `next` is the stream at the next request to start.
    pub(super) fn arrived(
        ahead: &mut Option<Self>,
        next: &ArrivalStream,
        started: u64,
        to_ns: u64,
    ) -> u64 {
        let before = ahead.as_ref().map_or(0, |a| a.waiting);
        let queued = next.peek().is_some_and(|at| at < to_ns);
        if !queued {
            *ahead = None;
            return started - before;
        }
        // The queue outlived the step: continue from the last count, or from the queue's head.
        let mut this = match ahead.take() {
            Some(this) if this.waiting > started => {
                Self { waiting: this.waiting - started, stream: this.stream }
            }
            _ => Self { waiting: 0, stream: next.clone() },
        };
        while this.stream.peek().is_some_and(|at| at < to_ns) {
            this.stream.advance();
            this.waiting += 1;
        }
        let after = this.waiting;
        *ahead = Some(this);
        started + after - before
    }
}
