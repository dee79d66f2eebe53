//! The share of a service's accesses that must be fast for its SLO to hold.
//!
//! A service whose servers are busy for a share `u` of the time answers promptly until `u` comes
//! close to one, where a few nanoseconds per miss make its queue grow without limit. The servers'
//! utilisation follows from their own counters. With `b` servers busy on average, `m` misses per
//! second of which a share `r` is fast, tiers whose latencies differ by `d`, and `l` times the
//! load,
//!
//! ```text
//! b(r', l) = l * (b - m * d * (r' - r))
//! ```
//!
//! The share that a load needs is the `r'` at which the utilisation, `b` divided by the servers,
//! reaches the safe one. Two properties of each service are learned:
//!
//! - *Its latency at a utilisation.* In a queue the 99th percentile is about `k * s / (c * (1 -
//!   u))`, with `c` servers and `s` the time of a request (`k` is `ln 100` for Poisson arrivals and
//!   exponential times; Kingman's formula for others). `k` is measured. A utilisation is safe if
//!   the 99th percentile at it is at most half of the SLO. A second's load also differs from the
//!   mean by chance: three standard deviations of a Poisson count stay free.
//! - *The load that may come next.* Memory takes seconds to move and load does not wait. So the
//!   need is that of the present load plus the largest rise within 20 s that was observed in the
//!   last five minutes. At first it is that of a load a third higher, and of a lower one with each
//!   second in which the load did not rise: of the present load after 20 s. No rise leads beyond
//!   the service's highest load, where that is known, nor beyond the load at which the SLO holds
//!   with all memory fast: no share is enough for it.
//!
//! Of the memory that the coming load needs, the service has to hold what cannot be moved in time.
//! Copies begin at most [`DELAY`] after the rise, and the pages of a share `d` of the accesses take
//! a time `t(d)`. With `d` still missing, the servers lack `x = g * d - i` of their time, where `g`
//! is the utilisation that slow misses add at that load, and `i` the part of the time in which the
//! servers idle once all is there, less the chance of [`GROWTH`] seconds. What is missing falls to
//! nothing in `t(d)`, so the queue grows to
//!
//! ```text
//! x * (DELAY + t(d) * x / (2 * g * d))
//! ```
//!
//! `d` may be as large as keeps this within half the SLO, and within what idle servers work off in
//! a [`HORIZON`] with all memory fast, so that no queue is left when the load rises again. A
//! service that the coming load will use to the last cycle never works it off, and has to hold
//! everything.
//!
//! After a violation the guard keeps all memory of the service fast for ten seconds.
//!
//! ```
//! use std::time::Duration;
//! use tierwise_core::partition::{ServiceNeed, ServiceReading};
//! use tierwise_core::units::Timestamp;
//!
//! // Ten servers, 10,000 requests per second of 1 ms, one more server busy if all misses are slow.
//! let at = |busy: f64, access_ratio| ServiceReading {
//!     busy: 10.0 * busy,
//!     servers: 10.0,
//!     misses: 1e7,
//!     access_ratio,
//!     added_ns: 100.0,
//!     requests: 1e4 * busy,
//!     full_load: f64::INFINITY,
//! };
//! let (need, slo) = (ServiceNeed::default(), Duration::from_millis(20));
//! let ratio = |service| need.access_ratio(Timestamp(0), &service, slo);
//! assert_eq!(ratio(at(0.5, 0.0)), 0.0); // two thirds busy at a third more load
//! assert!((0.1..0.2).contains(&ratio(at(0.73, 0.0)))); // nearly all busy: some must be fast
//! assert_eq!(ratio(at(0.9, 1.0)), 1.0); // all memory is fast already
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use crate::units::Timestamp;

/// The rise of the load that the need includes at first: the largest step of MTAT's figure 7 above
/// 60 %. It falls to nothing within a [`HORIZON`].
const UNKNOWN_RISE: f64 = 1.0 / 3.0;

/// The time within which a rise counts: 32 GB take some 18 s to move at the 1.8 GB/s of one core.
const HORIZON: Duration = Duration::from_secs(20);

/// The time for which a rise is remembered. Chosen, not measured: longer than the 200 s of MTAT's
/// figure 7, so that the rise of one round is known in the next. A longer one keeps memory for
/// rises that do not come back; a shorter one forgets those that do.
const MEMORY: Duration = Duration::from_secs(300);

/// `ln 100`, the initial `k`.
const QUEUE: f64 = 4.605;

/// The part of a learned `k` that is forgotten per second: half of an excess in 14 s. Chosen, not
/// measured. A larger part lets a service that is late now and then be late again; with a smaller
/// one a single late second keeps memory from other tenants for minutes.
const FORGETTING: f64 = 0.05;

/// The safe utilisation of a service that does not count its requests, so that neither its queue
/// nor chance can be computed. Chosen, not measured: chance alone leaves the same tenth free at 900
/// requests per second. A larger one lets busier services queue; a smaller one gives calm services
/// memory that they do not need.
const UNCOUNTED: f64 = 0.9;

/// The part of a second's reading in what is known of the servers' time per miss. A second's
/// reading is off by some chance, and near the knee half a per cent of the servers' time is two per
/// cent of the accesses, which are gigabytes of the coldest pages. Chosen, not measured: it leaves
/// a quarter of the chance of a second, and follows other requests within half a minute.
const LEARNING: f64 = 0.1;

/// The minimum of the safe utilisation: a service that misses its SLO with half its servers idle
/// does not lack servers.
const MIN: f64 = 0.5;

/// Seconds between a rise and the first copies for it: the partitioner decides once per second.
const DELAY: f64 = 1.0;

/// Seconds in whose mean the servers must not lack time by chance, while memory comes and a queue
/// grows. Chosen: under a ramp to 99 % of its load the P99 of Silo, which answers 11,000 requests
/// per second, is 1.36 of its SLO with 20 and 0.88 with 5, the worst of three seeds. Fewer keep
/// more memory for a rise (docs/tenants.md).
const GROWTH: f64 = 4.0;

/// Halvings of a share: exact to a thousandth.
const BISECTIONS: u32 = 10;

/// The time for which the guard keeps memory: a queue of seconds needs about as long to drain.
const GUARD: Duration = Duration::from_secs(10);

/// The counters of a service.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServiceReading {
    /// Servers busy, on average.
    pub busy: f64,
    /// Servers in all.
    pub servers: f64,
    /// Misses per second.
    pub misses: f64,
    /// Share of the misses that the fast tier served.
    pub access_ratio: f64,
    /// Nanoseconds that a miss takes longer in the slowest tier than in the fastest.
    pub added_ns: f64,
    /// Requests per second; 0 if it does not count them.
    pub requests: f64,
    /// Misses per second under its highest load; infinite if that is not known.
    pub full_load: f64,
}

impl ServiceReading {
    fn utilisation(&self) -> f64 {
        self.busy / self.servers.max(1e-9)
    }

    /// Servers that slow misses add if all are slow.
    fn span(&self) -> f64 {
        self.misses * self.added_ns * 1e-9
    }

    /// Servers busy with all misses fast.
    fn all_fast(&self) -> f64 {
        self.busy - self.span() * (1.0 - self.access_ratio)
    }

    /// The part of a second's load that varies by chance.
    fn chance(&self) -> f64 {
        3.0 / self.requests.max(1.0).sqrt()
    }

    /// Seconds by which a free server shortens the queue's wait: the time of a request divided by
    /// the number of servers.
    fn pace(&self) -> f64 {
        self.busy / self.requests.max(1.0) / self.servers.max(1e-9)
    }
}

/// The learned properties of one service.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceNeed {
    queue: f64,
    /// Seconds of the servers per miss with all memory fast.
    each: Option<f64>,
    /// The utilisation of the last interval.
    before: f64,
    guarded: Timestamp,
    started: Option<Timestamp>,
    /// Loads (misses per second) of the last horizon.
    loads: VecDeque<(Timestamp, f64)>,
    /// Rises that are larger than every later one.
    rises: VecDeque<(Timestamp, f64)>,
}

impl Default for ServiceNeed {
    fn default() -> Self {
        let (loads, rises) = (VecDeque::new(), VecDeque::new());
        Self {
            queue: QUEUE,
            each: None,
            before: 0.0,
            guarded: Timestamp::ZERO,
            started: None,
            loads,
            rises,
        }
    }
}

impl ServiceNeed {
    /// Returns the share of accesses, 0 to 1, that must be fast for the load that may come next.
    pub fn access_ratio(&self, at: Timestamp, now: &ServiceReading, slo: Duration) -> f64 {
        let usual = self.usual(now);
        self.ratio_at(self.servable(at, &usual, slo), &usual, slo)
    }

    /// Returns the share of accesses, 0 to 1, that must be fast at the present load.
    pub fn present_ratio(&self, now: &ServiceReading, slo: Duration) -> f64 {
        self.ratio_at(1.0, now, slo)
    }

    /// Returns the share of the accesses, 0 to 1, that can be made fast in time after the rise that
    /// may come next, of those that have to be fast then (`access_ratio`). `copying` returns the
    /// seconds in which a missing share is copied.
    pub fn deferrable(
        &self,
        at: Timestamp,
        now: &ServiceReading,
        slo: Duration,
        access_ratio: f64,
        copying: impl Fn(f64) -> f64,
    ) -> f64 {
        let now = &self.usual(now);
        let ahead = self.servable(at, now, slo) / now.servers.max(1e-9);
        let (span, all_fast) = (now.span(), ahead * now.all_fast());
        let provided = all_fast + ahead * span * (1.0 - access_ratio);
        let wait = (slo.as_secs_f64() / 2.0).min((1.0 - all_fast) * HORIZON.as_secs_f64());
        let chance = now.chance() / GROWTH.sqrt();
        let idle = (1.0 - provided - chance).max(0.0);
        let queue = |missing: f64| {
            let (added, seconds) = (ahead * span * missing, copying(missing));
            let lacking = (added - idle).max(0.0);
            if seconds.is_finite() {
                lacking * (DELAY + seconds * lacking / (2.0 * added.max(1e-12)))
            } else {
                f64::INFINITY
            }
        };
        let (mut fits, mut exceeds) = (0.0, 1.0);
        if wait <= 0.0 || span <= 0.0 {
            return 0.0;
        }
        for _ in 0..BISECTIONS {
            let missing = f64::midpoint(fits, exceeds);
            if queue(missing) <= wait { fits = missing } else { exceeds = missing }
        }
        fits
    }

    fn ratio_at(&self, ahead: f64, now: &ServiceReading, slo: Duration) -> f64 {
        let excess = now.busy - self.limit(now, slo) * now.servers / ahead;
        let span = now.span();
        if span <= 0.0 {
            return if excess > 0.0 { 1.0 } else { 0.0 };
        }
        (now.access_ratio + excess / span).clamp(0.0, 1.0)
    }

    /// The highest utilisation that is safe.
    fn limit(&self, now: &ServiceReading, slo: Duration) -> f64 {
        if now.requests <= 0.0 {
            return UNCOUNTED;
        }
        let idle = self.queue * now.pace() / (slo.as_secs_f64() / 2.0).max(1e-9);
        (1.0 - idle.max(now.chance())).max(MIN)
    }

    /// The ratio of the load that may come next to the present load.
    fn ahead(&self, at: Timestamp, now: &ServiceReading) -> f64 {
        let observed = self.started.map_or(Duration::ZERO, |started| at.since(started));
        let min = UNKNOWN_RISE * (1.0 - observed.div_duration_f64(HORIZON)).max(0.0);
        let rise = self.rises.front().map_or(0.0, |&(_, rise)| rise / now.misses.max(1.0));
        let full = (now.full_load / now.misses.max(1.0)).max(1.0);
        (1.0 + rise.max(min)).min(full)
    }

    /// The reading with the servers' usual time per miss.
    fn usual(&self, now: &ServiceReading) -> ServiceReading {
        let usual = self.each.map_or(now.all_fast(), |each| each * now.misses);
        ServiceReading { busy: now.busy + usual - now.all_fast(), ..*now }
    }

    /// The ratio of the load that may come next to the present load, as far as the SLO holds under
    /// it with all memory fast.
    fn servable(&self, at: Timestamp, now: &ServiceReading, slo: Duration) -> f64 {
        let idle = self.queue * now.pace() / slo.as_secs_f64().max(1e-9);
        let most = (1.0 - idle).max(MIN) * now.servers / now.all_fast().max(1e-9);
        self.ahead(at, now).min(most.max(1.0))
    }

    /// True while the guard is active.
    pub fn is_guarded(&self, at: Timestamp) -> bool {
        at < self.guarded
    }

    /// Learns from an interval that ended with this latency. Returns true while the guard is
    /// active.
    pub fn learn(
        &mut self,
        at: Timestamp,
        now: &ServiceReading,
        p99: Duration,
        slo: Duration,
    ) -> bool {
        self.follow(at, now.misses);
        if now.misses > 0.0 {
            let each = now.all_fast() / now.misses;
            self.each = Some(self.each.map_or(each, |known| known + (each - known) * LEARNING));
        }
        // Where the load fell within the interval, its late requests are those from before.
        let utilisation = now.utilisation().max(self.before);
        self.before = now.utilisation();
        // A queue that an overload left behind does not predict the next one.
        if at >= self.guarded && now.requests > 0.0 && utilisation < 1.0 - now.chance() {
            let measured = p99.as_secs_f64() * (1.0 - utilisation) / now.pace().max(1e-12);
            self.queue = measured.max(self.queue + (measured - self.queue) * FORGETTING);
        }
        if p99 > slo {
            self.guarded = at + GUARD;
        }
        self.is_guarded(at)
    }

    /// Records a load. The first load is that of a part of an interval, and no rise is counted from
    /// it.
    fn follow(&mut self, at: Timestamp, load: f64) {
        if self.started.replace(self.started.unwrap_or(at)).is_none() {
            return;
        }
        while self.loads.front().is_some_and(|(then, _)| at.since(*then) > HORIZON) {
            self.loads.pop_front();
        }
        let min = self.loads.iter().map(|&(_, load)| load).fold(load, f64::min);
        self.loads.push_back((at, load));
        while self.rises.back().is_some_and(|&(_, rise)| rise <= load - min) {
            self.rises.pop_back();
        }
        self.rises.push_back((at, load - min));
        while self.rises.front().is_some_and(|(then, _)| at.since(*then) > MEMORY) {
            self.rises.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLO: Duration = Duration::from_millis(20);
    const SECOND: u64 = 1_000_000_000;

    /// One server and requests of 12.5 us. A tenth of this time is misses' if all are slow.
    fn at(load: f64) -> ServiceReading {
        let (busy, requests) = (load, 80_000.0 * load);
        let misses = 10.0 * requests;
        let (access_ratio, full_load) = (0.5, f64::INFINITY);
        let (servers, added_ns) = (1.0, 125.0);
        ServiceReading { busy, servers, misses, access_ratio, added_ns, requests, full_load }
    }

    fn seconds(n: u64) -> Timestamp {
        Timestamp(n * SECOND)
    }

    #[test]
    fn observed_lateness_lowers_safe_load_and_fades() {
        let mut need = ServiceNeed::default();
        let before = need.limit(&at(0.8), SLO);
        assert!(before > 0.98, "{before}: 16 times the time of a request is 2 % of half the SLO");
        need.learn(seconds(1), &at(0.8), Duration::from_millis(9), SLO);
        let after = need.limit(&at(0.8), SLO);
        assert!((after - 0.82).abs() < 0.01, "{after}: at 0.82 the same queue has 10 ms");
        let calm = Duration::from_micros(50);
        assert!((2..200).all(|i| !need.learn(seconds(i), &at(0.8), calm, SLO)));
        assert!(need.limit(&at(0.8), SLO) >= before);
    }

    #[test]
    fn overload_does_not_change_learned_latency() {
        let mut need = ServiceNeed::default();
        assert!(need.learn(seconds(1), &at(1.0), SLO * 100, SLO));
        assert!(need.learn(seconds(2), &at(0.9), SLO * 10, SLO), "its queue drains");
        assert_eq!(need.queue, QUEUE);
    }

    #[test]
    fn largest_recent_rise_is_provided_for() {
        let mut need = ServiceNeed::default();
        let calm = Duration::from_micros(50);
        let mut ahead = |from: u64, to: u64, load: f64| {
            assert!((from..to).all(|i| !need.learn(seconds(i), &at(load), calm, SLO)));
            need.ahead(seconds(to), &at(load))
        };
        assert!((ahead(0, 15, 0.2) - (1.0 + UNKNOWN_RISE / 4.0)).abs() < 1e-9);
        assert_eq!(ahead(15, 30, 0.2), 1.0, "after a horizon only observed rises count");
        assert_eq!(ahead(30, 50, 0.4), 1.5);
        assert_eq!(ahead(50, 70, 0.4), 1.5);
        assert!((ahead(70, 340, 0.5) - 1.4).abs() < 1e-9);
        assert!((ahead(340, 380, 0.5) - 1.2).abs() < 1e-9, "the larger rise is five minutes past");
    }

    /// Of a tenth of the servers' time that slow misses take, 5 % of the memory comes per second.
    #[test]
    fn what_comes_in_time_is_deferred() {
        let mut need = ServiceNeed::default();
        let calm = Duration::from_micros(50);
        assert!(!need.learn(seconds(0), &at(0.4), calm, SLO));
        let deferred = |service: ServiceReading, refill: f64| {
            need.deferrable(seconds(0), &service, SLO, 1.0, |missing| missing / refill)
        };
        // A third more load is 1.027 of the servers with half of the misses fast, 0.975 with all.
        let (later, load) = (deferred(at(0.77), 0.05), 4.0 / 3.0 * 0.77);
        let (added, copying) = (0.1 * load * later, later / 0.05);
        let chance = at(0.77).chance() / GROWTH.sqrt();
        let lacking = added - (1.0 - 0.95 * load - chance);
        let queue = lacking * (DELAY + copying * lacking / added / 2.0);
        assert!((queue - 0.01).abs() < 3e-4, "half the SLO, to a thousandth of the share: {queue}");
        assert!(deferred(at(0.77), 0.5) > later, "faster copies");
        assert_eq!(deferred(at(0.77), 0.0), 0.0, "copies of unknown speed");
        assert!(deferred(at(0.6), 0.05) > 0.99, "the servers suffice with all of it slow");
    }

    #[test]
    fn rises_end_where_no_memory_suffices() {
        let mut need = ServiceNeed::default();
        assert!(!need.learn(seconds(0), &at(0.79), Duration::from_micros(50), SLO));
        let coming = |service: &ServiceReading| need.servable(seconds(0), service, SLO);
        let most = coming(&at(0.79)) * at(0.79).all_fast();
        assert!((0.99..1.0).contains(&most), "{most}: the SLO holds up to there with all fast");
        let full_load = 1.1 * at(0.79).misses;
        assert_eq!(coming(&ServiceReading { full_load, ..at(0.79) }), 1.1, "its highest load");
        assert_eq!(coming(&at(1.1)), 1.0, "the present load");
    }

    /// Three gigabytes of the coldest pages hang on half a per cent of the servers' time.
    #[test]
    fn one_reading_changes_need_by_a_tenth() {
        let mut need = ServiceNeed::default();
        let calm = Duration::from_micros(50);
        assert!((0..30).all(|i| !need.learn(seconds(i), &at(0.9), calm, SLO)));
        let off = ServiceReading { busy: 0.91, ..at(0.9) };
        assert!(!need.learn(seconds(30), &off, calm, SLO));
        let error = need.usual(&off).all_fast() - at(0.9).all_fast();
        assert!((error - 0.001).abs() < 1e-9, "{error}");
    }

    /// The requests of an interval in which the load falls were late under the load before.
    #[test]
    fn falling_load_teaches_no_long_queue() {
        let (mut need, calm) = (ServiceNeed::default(), Duration::from_micros(50));
        assert!(!need.learn(seconds(0), &at(0.98), Duration::from_millis(1), SLO));
        let known = need.queue;
        assert!(!need.learn(seconds(1), &at(0.78), Duration::from_millis(1), SLO));
        assert!(need.queue <= known, "{} after {known}", need.queue);
        assert!(!need.learn(seconds(2), &at(0.78), calm, SLO));
        assert!(need.queue <= known);
    }

    #[test]
    fn the_guard_stays_for_ten_seconds() {
        let mut need = ServiceNeed::default();
        assert!(need.learn(seconds(0), &at(1.0), SLO * 2, SLO));
        assert!(need.learn(seconds(9), &at(0.5), SLO / 4, SLO));
        assert!(!need.learn(seconds(10), &at(0.5), SLO / 4, SLO));
    }
}
