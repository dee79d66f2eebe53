//! What looking, deciding and moving cost, and what follows when it is too much.
//!
//! Averaged over ten seconds. Above the budget everything is done half as often again, down to a
//! sixty-fourth; well below it, more often again. Above the cap nothing is looked at until the
//! average is below the budget. Moving is paid for from an allowance of its own, by bytes: it is
//! what Tierwise is there for, and is reported beside. So is what polling tenants' services costs:
//! each of these has a budget of its own.
//!
//! ```
//! use std::time::Duration;
//! use tierwise_core::units::Timestamp;
//! use tierwise_linux::world::cpu_budget::CpuBudget;
//!
//! // 1 % of a CPU, and 3 % at most. A second costs 20 ms: 2 %.
//! let mut cpu_budget = CpuBudget::new(0.01, 0.03);
//! let second = |n: u64| Timestamp(n * 1_000_000_000);
//! (0..=10).for_each(|n| cpu_budget.spent(second(n), Duration::from_millis(20 * n)));
//! assert!(cpu_budget.throttle() > 1.0 && !cpu_budget.suspended());
//! // Then 50 ms: above the cap.
//! (11..=20).for_each(|n| cpu_budget.spent(second(n), Duration::from_millis(200 + 50 * (n - 10))));
//! assert!(cpu_budget.suspended());
//! ```

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tierwise_core::units::Timestamp;

use crate::error::Result;

/// Seconds over which the average is taken: long enough for a survey of a large process to be one
/// of several things in it.
const WINDOW: usize = 10;

/// A step towards looking less often, and the smaller one back.
const SLOWER: f64 = 1.5;
const FASTER: f64 = 1.2;

/// Least often: with intervals of a second, once a minute.
const MAX_LEN: f64 = 64.0;

/// Below this part of the budget there is room to look more often.
const ROOM: f64 = 0.7;

/// The meter.
#[derive(Debug)]
pub struct CpuBudget {
    budget: f64,
    cap: f64,
    /// CPU time at the end of each of the last seconds, oldest first.
    seconds: [(Timestamp, Duration); WINDOW + 1],
    filled: usize,
    looking: Duration,
    /// Of the kernel's threads that look for page cache.
    caching: Duration,
    moving: Duration,
    /// With tenants, each of which has a budget of its own for that.
    polling: Duration,
    total: Duration,
    throttle: f64,
    suspended: bool,
    /// At the last judgement.
    judged: f64,
}

impl CpuBudget {
    /// With a budget and a cap in parts of one CPU.
    pub fn new(budget: f64, cap: f64) -> Self {
        Self {
            budget,
            cap,
            seconds: [(Timestamp::ZERO, Duration::ZERO); WINDOW + 1],
            filled: 0,
            looking: Duration::ZERO,
            caching: Duration::ZERO,
            moving: Duration::ZERO,
            polling: Duration::ZERO,
            total: Duration::ZERO,
            throttle: 1.0,
            suspended: false,
            judged: 0.0,
        }
    }

    /// The kernel's threads that look have used so much since they started.
    pub fn looking(&mut self, total: Duration) {
        self.looking = self.looking.max(total);
    }

    /// The kernel's threads that look for page cache have used so much since they started.
    pub fn caching(&mut self, total: Duration) {
        self.caching = self.caching.max(total);
    }

    /// So much more was spent on moving.
    pub fn moving(&mut self, more: Duration) {
        self.moving += more;
    }

    /// Talking to tenants' services and guests has used so much since it started.
    pub fn polling(&mut self, total: Duration) {
        self.polling = self.polling.max(total);
    }

    /// Reads this process's clock.
    ///
    /// # Errors
    /// None today; a world's clock may fail elsewhere.
    pub fn read(&mut self, now: Timestamp) -> Result<()> {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
        self.total = Duration::new(time.tv_sec.unsigned_abs(), nanos) + self.kernel();
        self.spent(now, self.total.saturating_sub(self.moving + self.polling));
        Ok(())
    }

    /// So much CPU time was used until now, moving and polling left out. Judged once a
    /// second.
    pub fn spent(&mut self, now: Timestamp, total: Duration) {
        if self.filled > 0 && now.since(self.seconds[self.filled - 1].0) < Duration::from_secs(1) {
            return;
        }
        if self.filled == self.seconds.len() {
            self.seconds.rotate_left(1);
            self.filled -= 1;
        }
        self.seconds[self.filled] = (now, total);
        self.filled += 1;
        if self.filled > WINDOW / 2 {
            self.judge();
        }
    }

    fn judge(&mut self) {
        let used = self.used();
        self.judged = used;
        self.suspended = used > if self.suspended { self.budget } else { self.cap };
        if used > self.budget {
            self.throttle = (self.throttle * SLOWER).min(MAX_LEN);
            // What is done from now on is judged by itself.
            self.filled = 0;
        } else if used < self.budget * ROOM && self.throttle > 1.0 {
            self.throttle = (self.throttle / FASTER).max(1.0);
            self.filled = 0;
        }
    }

    /// Part of one CPU used of late, moving and polling left out.
    pub fn used(&self) -> f64 {
        let Some(&(last, total)) = self.seconds[..self.filled].last() else { return self.judged };
        let (first, before) = self.seconds[0];
        let seconds = last.since(first).as_secs_f64();
        if seconds > 0.0 {
            total.saturating_sub(before).as_secs_f64() / seconds
        } else {
            self.judged
        }
    }

    /// Everything used so far, moving and the kernel's threads included.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// What of it went into moving pages, their verification included.
    pub fn moving_so_far(&self) -> Duration {
        self.moving
    }

    /// CPU time of polling tenants.
    pub fn polling_so_far(&self) -> Duration {
        self.polling
    }

    /// What of it the kernel's threads used.
    pub fn kernel(&self) -> Duration {
        self.looking + self.caching
    }

    /// Intervals are to be so many times as long as configured.
    pub fn throttle(&self) -> f64 {
        self.throttle
    }

    /// Whether nothing is to be looked at for the moment.
    pub fn suspended(&self) -> bool {
        self.suspended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_tenants_is_not_budgeted() {
        let mut cpu_budget = CpuBudget::new(1e-9, 1e-9);
        cpu_budget.read(Timestamp::ZERO).unwrap();
        for second in 1..=10 {
            cpu_budget.polling(Duration::from_secs(1000 * second));
            cpu_budget.read(Timestamp::ZERO + Duration::from_secs(second)).unwrap();
        }
        assert!(cpu_budget.total() > Duration::ZERO);
        assert_eq!(
            (cpu_budget.used(), cpu_budget.throttle(), cpu_budget.suspended()),
            (0.0, 1.0, false)
        );
    }
}
