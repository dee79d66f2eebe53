//! How much of a service's accesses must be served fast for its SLO to hold.
//!
//! A service whose servers are busy for a share `u` of the time answers promptly until `u` comes close to one, where a few
//! nanoseconds a miss make its queue grow without limit. How busy they would be follows from their own counters: with
//! `b` servers busy on average, `m` misses a second of which a share `r` is fast, and tiers whose latencies differ by `d`,
//!
//! ```text
//! b(r', load') = load' * (b - m * d * (r' - r))
//! ```
//!
//! so the share that a load needs is where `b` comes to the utilisation that is believed safe. That limit is learned: it begins
//! at 90 %, rises while the 99th percentile stays below half of the SLO at it, and sinks when the SLO is violated
//! below it.
//!
//! Memory takes seconds to move and load does not wait, so what is asked for is the need of a load a third above the present
//! one: the largest step of MTAT's figure 7 above 60 %. After a violation the guard has everything fast for ten seconds.
//!
//! ```
//! use std::time::Duration;
//! use tierwise_core::partition::{Need, Service};
//! use tierwise_core::units::Timestamp;
//!
//! // Ten servers. 10 million misses a second, of 70 ns fast and 200 ns slow, keep 1.3 servers more busy all slow
//! // than all fast.
//! let at = |busy, access_ratio| Service { busy, servers: 10.0, misses: 1e7, access_ratio, added_ns: 130.0 };
//! let need = Need::default();
//! assert_eq!(need.access_ratio(&at(4.0, 0.0)), 0.0);           // 5.4 at a third more load, all slow
//! assert_eq!(need.access_ratio(&at(7.0, 0.0)), 0.25 / 1.3);    // 9.3 would be more than 9: 6.75 are allowed now
//! assert_eq!(need.access_ratio(&at(9.0, 1.0)), 1.0);           // nothing more can be done
//! ```

use std::time::Duration;

use crate::units::Timestamp;

/// The load ahead that is provided for.
const AHEAD: f64 = 4.0 / 3.0;

/// The utilisation that is taken for safe before anything was learned, and the highest that is ever aimed at: at 97 % a
/// single server's 99th percentile is some 80 service times.
const LIMITS: (f64, f64) = (0.9, 0.97);

/// The lowest: a service that misses its SLO with half its servers idle does not miss it for want of them.
const LEAST: f64 = 0.5;

/// How far the limit moves in an interval.
const PACE: f64 = 0.01;

/// How long the guard keeps what it took: a queue of seconds needs about as long to drain.
const GUARD: Duration = Duration::from_secs(10);

/// A service as its counters show it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Service {
    /// Servers busy, on average.
    pub busy: f64,
    /// Servers there are.
    pub servers: f64,
    /// Misses a second.
    pub misses: f64,
    /// Share of them that the fast tier served.
    pub access_ratio: f64,
    /// Nanoseconds that a miss takes longer in the slowest tier than in the fastest.
    pub added_ns: f64,
}

/// What was learned of one service.
#[derive(Debug, Clone, PartialEq)]
pub struct Need {
    limit: f64,
    guarded: Timestamp,
}

impl Default for Need {
    fn default() -> Self {
        Self { limit: LIMITS.0, guarded: Timestamp::ZERO }
    }
}

impl Need {
    /// The share of accesses that must be fast for the load that is provided for.
    pub fn access_ratio(&self, now: &Service) -> f64 {
        let excess = now.busy - self.limit * now.servers / AHEAD;
        let span = now.misses * now.added_ns * 1e-9;
        if span <= 0.0 {
            return if excess > 0.0 { 1.0 } else { 0.0 };
        }
        (now.access_ratio + excess / span).clamp(0.0, 1.0)
    }

    /// Learns from an interval that ended with this latency. True while the guard has taken over.
    pub fn saw(&mut self, at: Timestamp, now: &Service, p99: Duration, slo: Duration) -> bool {
        let utilisation = now.busy / now.servers.max(1e-9);
        if p99 > slo {
            // An overload says nothing of the limit.
            if utilisation < self.limit {
                self.limit = (self.limit - PACE).max(LEAST);
            }
            self.guarded = at + GUARD;
        } else if p99 * 2 < slo && utilisation > self.limit - PACE {
            self.limit = (self.limit + PACE).min(LIMITS.1);
        }
        at < self.guarded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLO: Duration = Duration::from_millis(20);

    fn at(busy: f64) -> Service {
        Service { busy, servers: 1.0, misses: 1e6, access_ratio: 0.5, added_ns: 130.0 }
    }

    #[test]
    fn the_limit_rises_where_it_is_tried_and_sinks_where_it_is_violated() {
        let mut need = Need::default();
        let calm = Duration::from_millis(1);
        assert!(!need.saw(Timestamp(0), &at(0.3), calm, SLO));
        assert_eq!(need.limit, 0.9, "far below the limit nothing is learned of it");
        (0..20).for_each(|_| assert!(!need.saw(Timestamp(0), &at(0.97), calm, SLO)));
        assert_eq!(need.limit, 0.97);
        assert!(need.saw(Timestamp(0), &at(0.8), SLO * 2, SLO));
        assert_eq!(need.limit, 0.97 - PACE);
    }

    #[test]
    fn the_guard_stays_for_ten_seconds() {
        let (mut need, second) = (Need::default(), 1_000_000_000);
        assert!(need.saw(Timestamp(0), &at(1.0), SLO * 2, SLO));
        assert!(need.saw(Timestamp(9 * second), &at(0.5), SLO / 4, SLO));
        assert!(!need.saw(Timestamp(10 * second), &at(0.5), SLO / 4, SLO));
    }
}
