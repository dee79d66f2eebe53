//! What reading an endpoint costs, and what follows when it is too much.
//!
//! ```
//! use std::time::Duration;
//! use tierwised::run::latency::metered::Allowance;
//!
//! // 1 % of a processor: 100 ms for ten seconds.
//! let mut allowance = Allowance::new(0.01);
//! assert_eq!(allowance.spend(Duration::from_millis(60)), None);
//! allowance.earn(Duration::from_secs(1));
//! assert_eq!(allowance.left(), Duration::from_millis(50));
//! // More than there is: a pause until all of it is there again.
//! assert_eq!(allowance.spend(Duration::from_millis(60)), Some(Duration::from_secs(11)));
//! ```

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Seconds whose allowance may be used at once: the daemon's own average is taken over as many.
const WINDOW_S: f64 = 10.0;

/// Processor time that an endpoint may use: so much a second, which adds up while it uses less.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    /// Part of one processor.
    rate: f64,
    /// Seconds. Below zero it is owed.
    left: f64,
}

impl Allowance {
    /// A part of one processor.
    pub fn new(rate: f64) -> Self {
        Self { rate, left: rate * WINDOW_S }
    }

    /// What may be used now.
    pub fn left(&self) -> Duration {
        Duration::try_from_secs_f64(self.left).unwrap_or_default()
    }

    /// So much time has passed.
    pub fn earn(&mut self, passed: Duration) {
        self.left = (self.left + passed.as_secs_f64() * self.rate).min(self.rate * WINDOW_S);
    }

    /// So much was used. If it was more than there was, how long nothing is to be used until
    /// everything is there again.
    pub fn spend(&mut self, used: Duration) -> Option<Duration> {
        self.left -= used.as_secs_f64();
        let stalled = self.rate * WINDOW_S - self.left;
        // A pause that no number can say is one without an end.
        let pause = || Duration::try_from_secs_f64(stalled / self.rate).unwrap_or(Duration::MAX);
        (self.left <= 0.0).then(pause)
    }
}

/// Processor time that this thread has used.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A future that counts the processor time of its polls and gives up when it was too much.
pub struct Metered<'a, F> {
    future: Pin<Box<F>>,
    limit: Duration,
    used: &'a mut Duration,
}

impl<'a, F: Future> Metered<'a, F> {
    /// Counts into `used`; ends with nothing when that is above the limit.
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
