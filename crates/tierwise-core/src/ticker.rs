//! A periodic timer on the engine's time.

use std::time::Duration;

use crate::units::Timestamp;

/// Ticks at a fixed interval, without drift and without a burst after a late wake.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticker {
    interval: Option<Duration>,
    next: Timestamp,
}

impl Ticker {
    /// Makes a timer that is due one interval after time zero.
    pub(crate) fn new(interval: Option<Duration>) -> Self {
        Self { interval, next: Timestamp::ZERO + interval.unwrap_or(Duration::MAX) }
    }

    /// The interval; `None` if it never ticks.
    pub(crate) fn interval(&self) -> Option<Duration> {
        self.interval
    }

    /// The time of the next tick; `None` if it never ticks.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.interval.map(|_| self.next)
    }

    /// Returns true if the timer is due, and sets it to the next interval after `now`.
    pub(crate) fn take(&mut self, now: Timestamp) -> bool {
        let Some(interval) = self.interval else { return false };
        if now < self.next {
            return false;
        }
        let step = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
        let missed = now.since(self.next).as_nanos() as u64 / step;
        self.next = Timestamp(self.next.0.saturating_add(step.saturating_mul(missed + 1)));
        true
    }

    /// Changes the interval; the next tick is one new interval after `now`.
    pub(crate) fn set_interval(&mut self, now: Timestamp, interval: Duration) {
        self.interval = Some(interval);
        self.next = now + interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_wake_ticks_once_and_keeps_rhythm() {
        let mut ticker = Ticker::new(Some(Duration::from_nanos(10)));
        assert!(!ticker.take(Timestamp(9)));
        assert!(ticker.take(Timestamp(37)));
        assert!(!ticker.take(Timestamp(39)));
        assert_eq!(ticker.next(), Some(Timestamp(40)));
        assert!(ticker.take(Timestamp(40)));
    }
}
