//! Arrival times of requests: an open loop, which does not wait for answers.
//!
//! Clients of a service are many and independent, so arrivals are Poisson at a rate that changes
//! with time. Every kind is a sequence of segments of constant rate; an exponential gap that
//! reaches beyond its segment continues in the next segment at that segment's rate. So the process
//! is exact for segments of any length.
//!
//! ```
//! use tierwise_sim::requests::arrival::Arrivals;
//!
//! let ramp = Arrivals::ramp(80_000.0);
//! // 20, 40, 60, 80, 100, 100, 80, 60, 40, 20 % of the maximum, each for 20 s.
//! assert!((ramp.mean_per_second() - 0.6 * 80_000.0).abs() < 1e-6);
//! let steady = Arrivals::Poisson { per_second: 1e6 };
//! let second = steady.stream(7, 0).take_while(|&at_ns| at_ns < 1_000_000_000).count();
//! // The standard deviation of a Poisson count of a million is a thousand.
//! assert!(second.abs_diff(1_000_000) < 4_000);
//! ```

use std::time::Duration;

use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::error::{RequestError, within};

/// Maximum rate in requests per second: no machine serves a billion.
const FASTEST: f64 = 1e9;

/// A stretch of constant load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadStep {
    /// Its length.
    pub length: Duration,
    /// Requests per second.
    pub per_second: f64,
}

/// The process by which requests arrive.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// Independent clients at a constant rate.
    Poisson {
        /// Requests per second.
        per_second: f64,
    },
    /// On/off modulated Poisson: the rate switches between two values after exponentially
    /// distributed times.
    Bursty {
        /// Requests per second on average over all time.
        per_second: f64,
        /// The rate in a burst, in averages. The rate between bursts follows.
        peak: f64,
        /// Mean length of a burst.
        mean_on: Duration,
        /// Mean time between bursts.
        mean_off: Duration,
    },
    /// A rate that follows a curve.
    Curve {
        /// The steps, one after another.
        steps: Vec<LoadStep>,
        /// True if it starts again at its end; otherwise no request comes after it.
        repeat: bool,
    },
}

impl Arrivals {
    /// The load of MTAT, figure 7: from 20 % of the maximum to 100 % in steps of 20 % each 20 s,
    /// and down again the same way. (The times that section 5.1 gives, 100 to 140 s for the full
    /// load, are those of this curve when it starts 20 s into the run.)
    pub fn ramp(max_per_second: f64) -> Self {
        const UP: [f64; 5] = [0.2, 0.4, 0.6, 0.8, 1.0];
        let step = |share: &f64| LoadStep {
            length: Duration::from_secs(20),
            per_second: share * max_per_second,
        };
        Self::Curve { steps: UP.iter().chain(UP.iter().rev()).map(step).collect(), repeat: false }
    }

    /// Checks the figures of the process.
    ///
    /// # Errors
    /// A rate is out of its range, bursts have more requests than the average allows, or a curve
    /// has no length.
    pub fn check(&self) -> Result<(), RequestError> {
        let rate = |per_second| {
            within("requests per second", per_second, 0.0..=FASTEST, "a number from 0 to 1e9")
        };
        match self {
            Self::Poisson { per_second } => rate(*per_second),
            Self::Bursty { per_second, peak, mean_on, mean_off } => {
                rate(*per_second)?;
                let (on, off) = (mean_on.as_secs_f64(), mean_off.as_secs_f64());
                for length in [on, off] {
                    within("mean length of a burst or pause", length, 1e-6..=1e6, "1 us to 1e6 s")?;
                }
                let allowed = "1 to (mean_on + mean_off) / mean_on";
                within("peak of a burst, in averages", *peak, 1.0..=(on + off) / on, allowed)
            }
            Self::Curve { steps, .. } => {
                steps.iter().try_for_each(|step| rate(step.per_second))?;
                let length = steps.iter().map(|s| s.length.as_secs_f64()).sum();
                within("seconds of the load curve", length, 1e-9..=1e9, "more than 0, at most 1e9")
            }
        }
    }

    /// Returns the same process with `factor` times the load.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let mut scaled = self.clone();
        match &mut scaled {
            Self::Poisson { per_second } | Self::Bursty { per_second, .. } => *per_second *= factor,
            Self::Curve { steps, .. } => {
                steps.iter_mut().for_each(|step| step.per_second *= factor);
            }
        }
        scaled
    }

    /// Requests per second over the whole curve, or in the long run.
    pub fn mean_per_second(&self) -> f64 {
        match self {
            Self::Poisson { per_second } | Self::Bursty { per_second, .. } => *per_second,
            Self::Curve { steps, .. } => {
                let requests: f64 =
                    steps.iter().map(|s| s.per_second * s.length.as_secs_f64()).sum();
                requests / steps.iter().map(|s| s.length.as_secs_f64()).sum::<f64>()
            }
        }
    }

    /// Returns the arrivals from `start_ns` on, in nanoseconds. The same seed gives the same
    /// arrivals.
    pub fn stream(&self, seed: u64, start_ns: u64) -> ArrivalStream {
        let mut stream = ArrivalStream {
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            arrivals: self.clone(),
            segment: 0,
            clock_ns: start_ns as f64,
            until_ns: start_ns as f64,
            gap_ns: f64::INFINITY,
            next_ns: None,
            gaps: [0.0; BATCH],
            next_gap: BATCH,
        };
        stream.advance();
        stream
    }
}

/// Arrivals one after another, in nanoseconds; an iterator that can be peeked.
#[derive(Debug, Clone)]
pub struct ArrivalStream {
    rng: Xoshiro256PlusPlus,
    arrivals: Arrivals,
    /// Segments started.
    segment: usize,
    clock_ns: f64,
    /// End of the segment.
    until_ns: f64,
    /// Mean gap in the segment.
    gap_ns: f64,
    next_ns: Option<u64>,
    /// Gaps drawn, in means; those from `next_gap` on are to come.
    gaps: [f64; BATCH],
    next_gap: usize,
}

/// Gaps drawn at a time, which is faster than one by one. Chosen, not measured: 32 take four cache
/// lines. More would displace the data of the requests; fewer would return to the generator more
/// often.
const BATCH: usize = 32;

impl ArrivalStream {
    /// The next arrival; none if no more will come.
    pub fn peek(&self) -> Option<u64> {
        self.next_ns
    }

    /// Goes to the next arrival.
    #[inline]
    pub fn advance(&mut self) {
        self.next_ns = self.draw();
    }

    #[inline]
    fn gap(&mut self) -> f64 {
        if self.next_gap == BATCH {
            self.gaps = std::array::from_fn(|_| Exp1.sample(&mut self.rng));
            self.next_gap = 0;
        }
        self.next_gap += 1;
        self.gaps[self.next_gap - 1]
    }

    #[inline]
    fn draw(&mut self) -> Option<u64> {
        let mut gaps = self.gap();
        loop {
            let at = self.clock_ns + gaps * self.gap_ns;
            if at < self.until_ns {
                self.clock_ns = at;
                return Some(at as u64);
            }
            gaps -= (self.until_ns - self.clock_ns) / self.gap_ns;
            self.clock_ns = self.until_ns;
            if !self.next_segment() {
                return None;
            }
        }
    }

    /// Starts the next segment. Returns false if there is none.
    fn next_segment(&mut self) -> bool {
        let index = self.segment;
        self.segment += 1;
        let (per_second, length_ns) = match &self.arrivals {
            // The segment has no end, and no requests if the rate is zero.
            Arrivals::Poisson { per_second } => {
                if *per_second <= 0.0 {
                    return false;
                }
                (*per_second, f64::INFINITY)
            }
            Arrivals::Bursty { per_second, peak, mean_on, mean_off } => {
                let (per_second, peak) = (*per_second, *peak);
                if per_second <= 0.0 {
                    return false;
                }
                let (on, off) = (mean_on.as_secs_f64(), mean_off.as_secs_f64());
                let drawn = self.gap();
                if index.is_multiple_of(2) {
                    (per_second * (on + off - peak * on).max(0.0) / off, drawn * off * 1e9)
                } else {
                    (per_second * peak, drawn * on * 1e9)
                }
            }
            Arrivals::Curve { steps, repeat } => {
                let silent = steps.iter().all(|s| s.per_second <= 0.0 || s.length.is_zero());
                if silent || (!repeat && index >= steps.len()) {
                    return false;
                }
                let step = steps[index % steps.len()];
                (step.per_second, step.length.as_nanos() as f64)
            }
        };
        self.gap_ns = 1e9 / per_second;
        self.until_ns = self.clock_ns + length_ns;
        true
    }
}

impl Iterator for ArrivalStream {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let next = self.next_ns;
        self.advance();
        next
    }
}
