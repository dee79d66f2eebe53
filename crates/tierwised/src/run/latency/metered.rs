//! The CPU time of reading an endpoint, and its limit.
//!
//! ```
//! use std::time::Duration;
//! use tierwised::run::latency::metered::CpuAllowance;
//!
//! // 1 % of a CPU: 100 ms in ten seconds.
//! let mut allowance = CpuAllowance::new(0.01);
//! assert_eq!(allowance.spend(Duration::from_millis(60)), None);
//! allowance.earn(Duration::from_secs(1));
//! assert_eq!(allowance.left(), Duration::from_millis(50));
//! // More than is left: a pause until the whole allowance is back.
//! assert_eq!(allowance.spend(Duration::from_millis(60)), Some(Duration::from_secs(11)));
//! ```

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Seconds of allowance that may be used at once: the window of the daemon's own average.
const WINDOW_S: f64 = 10.0;

/// CPU time that an endpoint may use: a token bucket that fills at a constant rate.
#[derive(Debug, Clone, Copy)]
pub struct CpuAllowance {
    /// Part of one CPU.
    rate: f64,
    /// Seconds. Below zero the endpoint has used more than its allowance.
    left: f64,
}

impl CpuAllowance {
    /// A full allowance of a part of one CPU.
    pub fn new(rate: f64) -> Self {
        Self { rate, left: rate * WINDOW_S }
    }

    /// CPU time that may be used now.
    pub fn left(&self) -> Duration {
        Duration::try_from_secs_f64(self.left).unwrap_or_default()
    }

    /// Adds the allowance of the time that passed.
    pub fn earn(&mut self, passed: Duration) {
        self.left = (self.left + passed.as_secs_f64() * self.rate).min(self.rate * WINDOW_S);
    }

    /// Subtracts CPU time that was used. If it was more than the allowance, returns the pause until
    /// the whole allowance is back.
    pub fn spend(&mut self, used: Duration) -> Option<Duration> {
        self.left -= used.as_secs_f64();
        let stalled = self.rate * WINDOW_S - self.left;
        // A pause that a Duration cannot hold never ends.
        let pause = || Duration::try_from_secs_f64(stalled / self.rate).unwrap_or(Duration::MAX);
        (self.left <= 0.0).then(pause)
    }
}

/// CPU time of this thread.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A future that counts the CPU time of its polls and gives up above a limit.
pub struct Metered<'a, F> {
    future: Pin<Box<F>>,
    limit: Duration,
    used: &'a mut Duration,
}

impl<'a, F: Future> Metered<'a, F> {
    /// Counts into `used`; ends with `None` when that exceeds the limit.
    pub fn new(future: F, limit: Duration, used: &'a mut Duration) -> Self {
        Self { future: Box::pin(future), limit, used }
    }
}

impl<F: Future> Future for Metered<'_, F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let started = thread_time();
        let polled = self.future.as_mut().poll(context);
        *self.used += thread_time().saturating_sub(started);
        if *self.used > self.limit { Poll::Ready(None) } else { polled.map(Some) }
    }
}
