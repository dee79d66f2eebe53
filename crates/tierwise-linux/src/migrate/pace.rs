//! How many pages one call moves. While move_pages(2) runs it isolates pages and takes the
//! process's mapping lock, so that a thread that faults waits. Katalyst, which moves pages of
//! Kubernetes pods, aims at a P99 of a call of 20 ms; so does this.
//!
//! The batch doubles while full batches take less than a quarter of the target, grows by a fixed
//! step while they take less than three quarters, holds above that, and is halved by a call beyond
//! the target (slow start, additive increase, multiplicative decrease, as in congestion control). A
//! quarter left over is room for the copy that meets a busy memory bus; halving on each overrun
//! keeps overruns below one call in a hundred unless the machine is so slow that the smallest batch
//! is too large. Large batches matter: each call first drains every CPU's LRU caches, which
//! in an emulated guest takes as long as moving fifty pages.
//!
//! ```
//! use std::time::Duration;
//! use tierwise_linux::migrate::pace::Pace;
//!
//! let mut pace = Pace::new(Duration::from_millis(20));
//! for _ in 0..1000 {
//!     // A machine that moves a page in 50 us.
//!     let pages = pace.pages();
//!     pace.took(pages, Duration::from_micros(50) * pages);
//! }
//! // 15 ms / 50 us = 300 pages, and at most a step more.
//! assert!((290..=310).contains(&pace.pages()));
//! assert!(pace.p99() <= Duration::from_millis(20));
//! ```

use std::time::Duration;

/// The first batch: 64 pages take about 10 ms at the slowest rate seen (6,000 pages a second, in an
/// emulated guest).
const FIRST: u32 = 64;
/// The smallest: below this a call costs more to enter than to do.
const SMALLEST: u32 = 8;
/// The largest, 64 MiB: at the 10 GB/s of a fast machine 7 ms; more would only make buffers larger.
const LARGEST: u32 = 16_384;
/// Growth of a batch: an eighth of the first, so that the target is approached from below in small
/// steps.
const STEP: u32 = 8;
/// Calls that the percentile is taken over: the fewest of which a hundredth is a whole call,
/// rounded up to a power of two.
const WINDOW: usize = 128;

/// The size of batches, in base pages.
#[derive(Debug, Clone)]
pub struct Pace {
    target: Duration,
    pages: u32,
    window: [Duration; WINDOW],
    calls: usize,
}

impl Pace {
    /// Aims at this P99 of a call.
    pub fn new(target: Duration) -> Self {
        Self { target, pages: FIRST, window: [Duration::ZERO; WINDOW], calls: 0 }
    }

    /// How many base pages the next call should move at most.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Learns from a call.
    pub fn took(&mut self, pages: u32, time: Duration) {
        self.window[self.calls % WINDOW] = time;
        self.calls += 1;
        // A batch that was not nearly full says nothing about one that is.
        let full = pages >= self.pages / 4 * 3;
        if time > self.target {
            // What was too much is what was moved, which may be one huge page and more than was
            // asked for.
            self.pages = (self.pages.min(pages.max(SMALLEST)) / 2).max(SMALLEST);
        } else if full && time < self.target / 4 {
            self.pages = (self.pages * 2).min(LARGEST);
        } else if full && time < self.target / 4 * 3 {
            self.pages = (self.pages + STEP).min(LARGEST);
        }
    }

    /// 99th percentile of the last calls; zero before the first.
    pub fn p99(&self) -> Duration {
        let mut times = self.window;
        let known = &mut times[..self.calls.min(WINDOW)];
        known.sort_unstable();
        known.get((known.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever a page costs, and with one call in a few hundred delayed, the P99 keeps to the
        /// target.
        #[test]
        fn p99_keeps_to_the_target(cost_us in 1u32..500, delayed in 200u32..1000) {
            let target = Duration::from_millis(20);
            let mut pace = Pace::new(target);
            let mut over = 0;
            for call in 0..4000 {
                let pages = pace.pages();
                let mut time = Duration::from_micros(cost_us.into()) * pages;
                if call % delayed == 0 {
                    time += target;
                }
                over += u32::from(call >= 1000 && time > target);
                pace.took(pages, time);
            }
            prop_assert!(over * 100 <= 3000, "{over} of 3000 calls beyond the target");
            prop_assert!((SMALLEST..=LARGEST).contains(&pace.pages()));
        }
    }

    #[test]
    fn small_batches_teach_nothing_slow_ones_halve() {
        let mut pace = Pace::new(Duration::from_millis(20));
        pace.took(1, Duration::ZERO);
        assert_eq!(pace.pages(), FIRST);
        pace.took(64, Duration::from_millis(15));
        assert_eq!(pace.pages(), FIRST);
        pace.took(64, Duration::from_millis(14));
        assert_eq!(pace.pages(), FIRST + STEP);
        pace.took(64, Duration::from_millis(1));
        assert_eq!(pace.pages(), (FIRST + STEP) * 2);
        pace.took(64, Duration::from_millis(21));
        assert_eq!(pace.pages(), FIRST / 2);
        (0..10).for_each(|_| pace.took(512, Duration::from_secs(1)));
        assert_eq!(pace.pages(), SMALLEST);
    }
}
