//! When a node that was full is asked again: each failure doubles the wait, a success ends it.

use std::time::Duration;

use tierwise_core::units::Timestamp;

/// After the first failure. kswapd, which would make room, is woken by the failure and needs about
/// this long for a batch (its own waits are `HZ/10`, mm/vmscan.c).
const FIRST: Duration = Duration::from_millis(100);
/// The longest wait. Free memory is read more often than this by the engine, but its plan may be
/// older than the room.
const MAX_LEN: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
struct Full {
    node: i32,
    wait: Duration,
    until: Timestamp,
}

/// The nodes that were full.
#[derive(Debug, Clone, Default)]
pub struct Backoff {
    nodes: Vec<Full>,
}

impl Backoff {
    /// Whether the node should not be asked now.
    pub fn is_waiting(&self, node: i32, now: Timestamp) -> bool {
        self.nodes.iter().any(|f| f.node == node && now < f.until)
    }

    /// The node had no room.
    pub fn failed(&mut self, node: i32, now: Timestamp) {
        match self.nodes.iter_mut().find(|f| f.node == node) {
            Some(full) => {
                full.wait = (full.wait * 2).min(MAX_LEN);
                full.until = now + full.wait;
            }
            None => self.nodes.push(Full { node, wait: FIRST, until: now + FIRST }),
        }
    }

    /// The node had room.
    pub fn succeeded(&mut self, node: i32) {
        self.nodes.retain(|f| f.node != node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_to_limit_and_resets() {
        let mut backoff = Backoff::default();
        let mut now = Timestamp::ZERO;
        let mut waits = Vec::new();
        for _ in 0..9 {
            backoff.failed(1, now);
            let started = now;
            while backoff.is_waiting(1, now) {
                now = now + Duration::from_millis(100);
            }
            waits.push(now.since(started).as_millis());
        }
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        backoff.failed(1, now);
        assert!(!backoff.is_waiting(0, now));
        backoff.succeeded(1);
        assert!(!backoff.is_waiting(1, now));
    }
}
