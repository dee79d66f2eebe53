//! The limits of a mover: bytes and CPU time ([`TokenBucket`]), the length of a call
//! ([`BatchSize`]), and the wait after a full node ([`Backoff`]).

use std::time::Duration;

use tierwise_core::units::{Bandwidth, Timestamp};

/// Limits of a mover.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Bytes per second.
    pub bandwidth: Option<Bandwidth>,
    /// Fraction of one CPU.
    pub cpu: Option<f64>,
    /// Target for the P99 of one call's duration.
    pub call: Duration,
    /// Also move pages that other processes map (`MPOL_MF_MOVE_ALL`). This needs `CAP_SYS_NICE`,
    /// and moves the pages for all of these processes.
    pub shared: bool,
}

impl Default for Limits {
    /// No limits except katalyst's 20 ms per call.
    fn default() -> Self {
        Self { bandwidth: None, cpu: None, call: Duration::from_millis(20), shared: false }
    }
}

/// Tokens accumulate for at most this long, as in the engine's own budget: after an idle period no
/// burst takes the memory bandwidth for longer than an application notices.
const BURST: Duration = Duration::from_secs(1);

/// Tokens that accumulate at a rate; unlimited without a rate. An overdraft is repaid first.
///
/// ```
/// use tierwise_core::units::Timestamp;
/// use tierwise_linux::migrate::limits::TokenBucket;
///
/// let mut bytes = TokenBucket::new(Some(1000), 0);
/// assert_eq!(bytes.left(Timestamp(0)), 1000);
/// bytes.spend(1500);
/// assert_eq!(bytes.left(Timestamp(250_000_000)), -250);
/// assert_eq!(bytes.left(Timestamp(5_000_000_000)), 1000);
/// ```
#[derive(Debug, Clone)]
pub struct TokenBucket {
    per_second: Option<u64>,
    most: i64,
    tokens: i64,
    refilled: Option<Timestamp>,
}

impl TokenBucket {
    /// Creates a bucket with a rate of `per_second` that holds at least `least` (the largest single
    /// amount ever spent).
    pub fn new(per_second: Option<u64>, least: u64) -> Self {
        let burst = u128::from(per_second.unwrap_or(0)) * BURST.as_nanos() / 1_000_000_000;
        let burst = u64::try_from(burst).unwrap_or(u64::MAX).max(least);
        let most = i64::try_from(burst).unwrap_or(i64::MAX);
        Self { per_second, most, tokens: most, refilled: None }
    }

    /// Returns the tokens left, negative if overdrawn. Time that runs backwards earns nothing.
    pub fn left(&mut self, now: Timestamp) -> i64 {
        let Some(per_second) = self.per_second else { return i64::MAX };
        let since = now.since(*self.refilled.get_or_insert(now));
        let earned = u128::from(per_second) * since.as_nanos() / 1_000_000_000;
        // Time that earns less than one token is not lost: the clock only advances with a token.
        if earned > 0 {
            let earned = i64::try_from(earned).unwrap_or(i64::MAX);
            self.tokens = self.tokens.saturating_add(earned).min(self.most);
            self.refilled = Some(now);
        }
        self.tokens
    }

    /// Takes tokens, even more than there are.
    pub fn spend(&mut self, tokens: u64) {
        self.tokens = self.tokens.saturating_sub(i64::try_from(tokens).unwrap_or(i64::MAX));
    }
}

/// The first batch: 64 pages take about 10 ms at the slowest rate measured (6,000 pages per second,
/// in an emulated guest).
const FIRST_BATCH: u32 = 64;
/// The smallest batch: below this size the call's fixed cost dominates.
const MIN_BATCH: u32 = 8;
/// The largest batch, 64 MiB: 7 ms at the 10 GB/s of a fast machine. A larger one would only
/// enlarge buffers.
const MAX_BATCH: u32 = 16_384;
/// Growth of a batch: an eighth of the first, so that it approaches the target from below in small
/// steps.
const STEP: u32 = 8;
/// The multiple of a call's CPU time up to which its time counts. Chosen, not measured. A larger
/// one makes batches small on a busy machine, where each call waits for its turn; a smaller one
/// lets a thread that faults wait longer there.
const WAITING: u32 = 4;
/// The number of calls of which the percentile is taken: the smallest of which a hundredth is a
/// whole call, rounded up to a power of two.
const WINDOW: usize = 128;

/// The size of batches, in base pages: the pages that one call moves. move_pages(2) isolates pages
/// and takes the process's mapping lock, so that a thread that faults waits. The target is a P99 of
/// 20 ms per call, as in katalyst, which moves pages of Kubernetes pods.
///
/// The batch doubles while full batches take less than a quarter of the target, grows by a fixed
/// step while they take less than three quarters, and stays above that. A call beyond the target
/// halves it (slow start, additive increase, multiplicative decrease, as in congestion control).
/// The quarter left over absorbs a copy that meets a busy memory bus. Halving on each overrun keeps
/// overruns below one call in a hundred, unless the machine is so slow that the smallest batch is
/// too large. Large batches matter: each call first drains every CPU's LRU caches, which in an
/// emulated guest takes as long as moving fifty pages.
///
/// Where other programs use all CPUs, a call mostly waits for one, and so does each drain. A
/// smaller batch waits as long. So a call's time counts up to [`WAITING`] times its CPU time.
///
/// ```
/// use std::time::Duration;
/// use tierwise_linux::migrate::limits::BatchSize;
///
/// let mut size = BatchSize::new(Duration::from_millis(20));
/// for _ in 0..1000 {
///     // A machine that moves a page in 50 us.
///     let pages = size.pages();
///     let time = Duration::from_micros(50) * pages;
///     size.took(pages, time, time);
/// }
/// // 15 ms / 50 us = 300 pages, and at most a step more.
/// assert!((290..=310).contains(&size.pages()));
/// assert!(size.p99() <= Duration::from_millis(20));
/// ```
#[derive(Debug, Clone)]
pub struct BatchSize {
    target: Duration,
    pages: u32,
    window: [Duration; WINDOW],
    calls: usize,
}

impl BatchSize {
    /// Creates a size with this target for the P99 of a call.
    pub fn new(target: Duration) -> Self {
        Self { target, pages: FIRST_BATCH, window: [Duration::ZERO; WINDOW], calls: 0 }
    }

    /// Returns the target for the P99 of a call.
    pub fn target(&self) -> Duration {
        self.target
    }

    /// Returns the limit of base pages for the next call.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Adapts the batch to a call's duration, and its CPU time.
    pub fn took(&mut self, pages: u32, time: Duration, work: Duration) {
        self.window[self.calls % WINDOW] = time;
        self.calls += 1;
        let time = time.min(work * WAITING);
        // A small batch does not predict the duration of a full one.
        let full = pages >= self.pages / 4 * 3;
        if time > self.target {
            // The pages moved were too many. They may exceed the limit by one huge page.
            self.pages = (self.pages.min(pages.max(MIN_BATCH)) / 2).max(MIN_BATCH);
        } else if full && time < self.target / 4 {
            self.pages = (self.pages * 2).min(MAX_BATCH);
        } else if full && time < self.target / 4 * 3 {
            self.pages = (self.pages + STEP).min(MAX_BATCH);
        }
    }

    /// Returns the 99th percentile of the last calls; zero before the first.
    pub fn p99(&self) -> Duration {
        let mut times = self.window;
        let known = &mut times[..self.calls.min(WINDOW)];
        known.sort_unstable();
        known.get((known.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
    }
}

/// The wait after the first failure. The failure wakes kswapd, which needs about this long to free
/// a batch (its own waits are `HZ/10`, mm/vmscan.c).
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest wait. The engine reads free memory more often, but its plan may be older than the
/// free memory.
const MAX_WAIT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
struct Full {
    node: i32,
    wait: Duration,
    until: Timestamp,
}

/// The full nodes, and the end of each one's wait. Each failure doubles the wait; a success ends
/// it.
#[derive(Debug, Clone, Default)]
pub struct Backoff {
    nodes: Vec<Full>,
}

impl Backoff {
    /// True while the node must not be tried.
    pub fn is_waiting(&self, node: i32, now: Timestamp) -> bool {
        self.nodes.iter().any(|f| f.node == node && now < f.until)
    }

    /// Records that the node had no free memory.
    pub fn failed(&mut self, node: i32, now: Timestamp) {
        match self.nodes.iter_mut().find(|f| f.node == node) {
            Some(full) => {
                full.wait = (full.wait * 2).min(MAX_WAIT);
                full.until = now + full.wait;
            }
            None => self.nodes.push(Full { node, wait: FIRST_WAIT, until: now + FIRST_WAIT }),
        }
    }

    /// Records that the node had free memory.
    pub fn succeeded(&mut self, node: i32) {
        self.nodes.retain(|f| f.node != node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The P99 stays within the target at any cost per page, with one delayed call in a few
        /// hundred.
        #[test]
        fn p99_keeps_to_the_target(cost_us in 1u32..500, delayed in 200u32..1000) {
            let target = Duration::from_millis(20);
            let mut size = BatchSize::new(target);
            let mut over = 0;
            for call in 0..4000 {
                let pages = size.pages();
                let mut time = Duration::from_micros(cost_us.into()) * pages;
                if call % delayed == 0 {
                    time += target;
                }
                over += u32::from(call >= 1000 && time > target);
                size.took(pages, time, time);
            }
            prop_assert!(over * 100 <= 3000, "{over} of 3000 calls beyond the target");
            prop_assert!((MIN_BATCH..=MAX_BATCH).contains(&size.pages()));
        }
    }

    #[test]
    fn small_batches_teach_nothing_slow_ones_halve() {
        let mut size = BatchSize::new(Duration::from_millis(20));
        let mut took = |pages, ms| {
            let time = Duration::from_millis(ms);
            size.took(pages, time, time);
            size.pages()
        };
        assert_eq!(took(1, 0), FIRST_BATCH);
        assert_eq!(took(64, 15), FIRST_BATCH);
        assert_eq!(took(64, 14), FIRST_BATCH + STEP);
        assert_eq!(took(64, 1), (FIRST_BATCH + STEP) * 2);
        assert_eq!(took(64, 21), FIRST_BATCH / 2);
        for _ in 0..10 {
            took(512, 1000);
        }
        assert_eq!(took(1, 0), MIN_BATCH);
    }

    #[test]
    fn waiting_for_a_cpu_shrinks_nothing() {
        let mut size = BatchSize::new(Duration::from_millis(20));
        // 20 us per page, and eight other programs that take their turns.
        for _ in 0..100 {
            let work = Duration::from_micros(20) * size.pages();
            size.took(size.pages(), Duration::from_millis(25) + work * 9, work);
        }
        // 15 ms are four times the CPU time of 187 pages.
        assert!((180..=200).contains(&size.pages()), "{}", size.pages());
    }

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
