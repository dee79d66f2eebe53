//! CPU budget: the CPU time of access monitoring, decisions and migration, and the throttle factor
//! that follows from it.
//!
//! CPU time is averaged over ten seconds, and over three where it is above the cap. Surveys and
//! decisions keep to their parts of the budget ([`crate::pace`]); monitoring has the rest. Above it
//! the intervals of monitoring become as much longer as monitoring is above it, at least half as
//! long again and up to 64 times as long as configured; well below it they become shorter again. If
//! the longest intervals do not bring the average below the cap, monitoring is suspended until it
//! is below the budget. Migration has limits of its own,
//! in bytes: it is Tierwise's purpose, and its CPU time is reported separately. So is that of
//! polling tenants' services, each of which has a budget of its own. That of answering HTTP does
//! not count either: any local user can ask without end, and must not end monitoring by it. A
//! survey counts over the time that pays for it, so that the first one, which finds every process,
//! suspends nothing.
//!
//! ```
//! use std::time::Duration;
//! use tierwise_core::units::Timestamp;
//! use tierwise_linux::world::cpu_budget::CpuBudget;
//!
//! // A budget of 1 % of a CPU and a cap of 3 %. A second costs 20 ms: 2 %.
//! let mut cpu_budget = CpuBudget::new(0.01, 0.03);
//! let second = |n: u64| Timestamp(n * 1_000_000_000);
//! (0..=10).for_each(|n| cpu_budget.spent(second(n), Duration::from_millis(20 * n)));
//! assert!(cpu_budget.throttle() > 1.0 && !cpu_budget.suspended());
//! // Then 50 ms, whatever the intervals are: above the cap.
//! (11..=30).for_each(|n| cpu_budget.spent(second(n), Duration::from_millis(200 + 50 * (n - 10))));
//! assert!(cpu_budget.suspended());
//! ```

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tierwise_core::units::Timestamp;

use crate::error::Result;
use crate::pace::{DECISIONS, SURVEYS, pause};

/// Seconds over which the average is taken: long enough for the survey of a large process to be
/// only one part of it.
const WINDOW: usize = 10;

/// The time after which an average counts, and one above the cap. A round that waits until its
/// decision is paid for may be seconds late, so it is time that counts, and not readings. DAMON on
/// eight programs of 20 MiB took 15 % of a slow CPU for eight seconds before an average of ten
/// showed it.
const ENOUGH: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_secs(3);

/// The time until a new throttle has an effect: a round may take two seconds ([`super::apply`]),
/// and the monitoring source changes its intervals between two reports.
const SETTLING: Duration = Duration::from_secs(3);

/// The least and the largest factor by which the throttle rises. The CPU time of monitoring falls
/// as intervals grow, so the throttle rises by as much as the average is above the budget. The
/// largest is for time that does not depend on intervals: a second of it must not slow monitoring
/// for minutes.
const SLOWER: f64 = 1.5;
const MUCH_SLOWER: f64 = 8.0;

/// The same factors by which the throttle falls, smaller ones: it is to stay below the budget.
const FASTER: f64 = 1.2;
const MUCH_FASTER: f64 = 2.0;

/// The part of the budget that monitoring has in any case.
const MONITORING: f64 = 1.0 - SURVEYS - DECISIONS;

/// Largest throttle factor: an interval of one second becomes about one minute.
const MAX_THROTTLE: f64 = 64.0;

/// Part of the budget below which the throttle falls.
const LOW_USE: f64 = 0.7;

/// CPU time of this process so far.
fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// CPU time of surveys that is not yet paid for.
#[derive(Debug, Clone, Copy, Default)]
struct Owed {
    cost: Duration,
    since: Timestamp,
    pause: Duration,
}

impl Owed {
    /// The rest at a time: it falls evenly during the pause.
    fn at(&self, now: Timestamp) -> Duration {
        let left = self.pause.saturating_sub(now.since(self.since));
        if left.is_zero() {
            return Duration::ZERO;
        }
        self.cost.mul_f64(left.as_secs_f64() / self.pause.as_secs_f64())
    }
}

/// CPU time until a time.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Timestamp,
    total: Duration,
    /// That of surveys and decisions.
    paced: Duration,
}

/// The CPU time of a part of a second, in parts of one CPU.
#[derive(Debug, Clone, Copy, Default)]
struct Average {
    total: f64,
    paced: f64,
}

/// Measures CPU time and derives the throttle factor.
#[derive(Debug)]
pub struct CpuBudget {
    budget: f64,
    cap: f64,
    /// At the end of each of the last seconds, the oldest first.
    seconds: [Reading; WINDOW + 1],
    filled: usize,
    /// The time from which the last change of the throttle has its effect.
    settled: Timestamp,
    monitoring: Duration,
    /// CPU time of the kernel's threads that promote page cache.
    caching: Duration,
    moving: Duration,
    /// CPU time of polling tenants, each of which has a budget of its own for it.
    polling: Duration,
    /// The clock of the CPU time for answering whoever asks. It is read with the process's: a
    /// second of many answers that is subtracted a second later would suspend monitoring.
    answering: fn() -> Duration,
    owed: Owed,
    surveys: Duration,
    /// CPU time of rounds that decide, without surveys and moves. It includes what they observe.
    decisions: Duration,
    /// CPU time of the policy alone.
    deciding: Duration,
    total: Duration,
    throttle: f64,
    suspended: bool,
    /// Average at the last update of the throttle.
    last: Average,
}

impl CpuBudget {
    /// An empty account with a budget and a cap, in parts of one CPU.
    pub fn new(budget: f64, cap: f64) -> Self {
        let none = Reading { at: Timestamp::ZERO, total: Duration::ZERO, paced: Duration::ZERO };
        Self {
            budget,
            cap,
            seconds: [none; WINDOW + 1],
            filled: 0,
            settled: Timestamp::ZERO,
            monitoring: Duration::ZERO,
            caching: Duration::ZERO,
            moving: Duration::ZERO,
            polling: Duration::ZERO,
            answering: || Duration::ZERO,
            owed: Owed::default(),
            surveys: Duration::ZERO,
            decisions: Duration::ZERO,
            deciding: Duration::ZERO,
            total: Duration::ZERO,
            throttle: 1.0,
            suspended: false,
            last: Average::default(),
        }
    }

    /// Records the CPU time of the kernel's monitoring threads, in all since they started.
    pub fn monitoring(&mut self, total: Duration) {
        self.monitoring = self.monitoring.max(total);
    }

    /// Records the CPU time of the kernel's threads that promote page cache, in all since they
    /// started.
    pub fn caching(&mut self, total: Duration) {
        self.caching = self.caching.max(total);
    }

    /// Adds CPU time spent on migration.
    pub fn moving(&mut self, more: Duration) {
        self.moving += more;
    }

    /// Sets the clock of this process's CPU time for answering HTTP.
    pub fn answering(&mut self, clock: fn() -> Duration) {
        self.answering = clock;
    }

    /// Records the CPU time of polling tenants' services and guests, in all since it started.
    pub fn polling(&mut self, total: Duration) {
        self.polling = self.polling.max(total);
    }

    /// Reads this process's clock.
    ///
    /// # Errors
    /// None today; a clock may fail elsewhere.
    pub fn read(&mut self, now: Timestamp) -> Result<()> {
        self.total = process_cpu() + self.kernel();
        let apart = self.moving + self.polling + (self.answering)() + self.owed.at(now);
        self.spent(now, self.total.saturating_sub(apart));
        Ok(())
    }

    /// Records the total CPU time until now, without migration and polling. The throttle is updated
    /// at most once per second.
    pub fn spent(&mut self, now: Timestamp, total: Duration) {
        let last = self.seconds[..self.filled].last();
        let is_early = last.is_some_and(|last| now.since(last.at) < Duration::from_secs(1));
        if now < self.settled || is_early {
            return;
        }
        if self.filled == self.seconds.len() {
            self.seconds.rotate_left(1);
            self.filled -= 1;
        }
        let paced = self.decisions + self.surveys.saturating_sub(self.owed.at(now));
        self.seconds[self.filled] = Reading { at: now, total, paced };
        self.filled += 1;
        let span = now.since(self.seconds[0].at);
        let is_much = span >= SOON && !self.suspended && self.used() > self.cap;
        if span >= ENOUGH || is_much {
            self.update(now);
        }
    }

    /// True while too little is known of the CPU time under the present throttle.
    pub fn is_learning(&self) -> bool {
        let (first, last) = (self.seconds[0], self.seconds[..self.filled].last());
        last.is_none_or(|last| last.at.since(first.at) < ENOUGH)
    }

    fn update(&mut self, now: Timestamp) {
        let average = self.average();
        self.last = average;
        let (used, monitoring) = (average.total, (average.total - average.paced).max(0.0));
        let its_part = (self.budget - average.paced).max(self.budget * MONITORING);
        let has_slowed = self.suspended || self.throttle >= MAX_THROTTLE;
        self.suspended = has_slowed && used > if self.suspended { self.budget } else { self.cap };
        let factor = if monitoring > its_part {
            (monitoring / its_part).clamp(SLOWER, MUCH_SLOWER)
        } else if monitoring < its_part * LOW_USE && self.throttle > 1.0 {
            1.0 / (its_part * LOW_USE / monitoring).clamp(FASTER, MUCH_FASTER)
        } else {
            return;
        };
        self.throttle = (self.throttle * factor).clamp(1.0, MAX_THROTTLE);
        // The next average covers only the time under the new throttle.
        self.filled = 0;
        self.settled = now + SETTLING;
    }

    /// Recent average as a part of one CPU, without migration and polling.
    pub fn used(&self) -> f64 {
        self.average().total
    }

    fn average(&self) -> Average {
        let (first, Some(&last)) = (self.seconds[0], self.seconds[..self.filled].last()) else {
            return self.last;
        };
        let seconds = last.at.since(first.at).as_secs_f64();
        if seconds <= 0.0 {
            return self.last;
        }
        let part = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64() / seconds;
        Average { total: part(last.total, first.total), paced: part(last.paced, first.paced) }
    }

    /// Adds CPU time of a round that decided, without surveys and moves.
    pub fn decided(&mut self, more: Duration) {
        self.decisions += more;
    }

    /// Adds CPU time of the policy.
    pub fn deciding(&mut self, more: Duration) {
        self.deciding += more;
    }

    /// All CPU time so far, including migration and the kernel's threads.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// CPU time of migration so far, verification included.
    pub fn moving_so_far(&self) -> Duration {
        self.moving
    }

    /// CPU time of the policy so far.
    pub fn deciding_so_far(&self) -> Duration {
        self.deciding
    }

    /// CPU time so far of finding processes, their memory and its accesses, by the kernel's threads
    /// too: all that is not spent on deciding, moving, polling or answering. It includes the start.
    pub fn looking_so_far(&self) -> Duration {
        let apart = self.deciding + self.moving + self.polling + (self.answering)();
        self.total.saturating_sub(apart)
    }

    /// CPU time of the kernel's threads so far.
    pub fn kernel(&self) -> Duration {
        self.monitoring + self.caching
    }

    /// Factor by which intervals are longer than configured.
    pub fn throttle(&self) -> f64 {
        self.throttle
    }

    /// Records a survey that started at `now` and took this CPU time. Returns the time until the
    /// next one: surveys of many tenants keep to their part of the budget from the first one on,
    /// before the average shows what they cost. The first one comes before anything could pay for
    /// it, and the second waits until both are paid: it is as expensive, and the daemon's start
    /// falls into the same minute.
    pub fn surveyed(&mut self, now: Timestamp, cost: Duration) -> Duration {
        let is_first = self.surveys.is_zero();
        self.surveys += cost;
        let cost = self.owed.at(now) + cost;
        let paid_first = if is_first { cost } else { Duration::ZERO };
        let pause = pause(cost + paid_first, self.budget * SURVEYS);
        self.owed = Owed { cost, since: now, pause };
        pause
    }

    /// True while access monitoring is suspended.
    pub fn suspended(&self) -> bool {
        self.suspended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_for_looking() {
        let (mut budget, ms) = (CpuBudget::new(0.01, 1.0), Duration::from_millis);
        budget.total = ms(100);
        budget.deciding(ms(10));
        budget.moving(ms(20));
        budget.polling(ms(5));
        budget.answering(|| Duration::from_millis(3));
        assert_eq!((budget.looking_so_far(), budget.deciding_so_far()), (ms(62), ms(10)));
    }

    #[test]
    fn surveys_wait_until_they_are_paid() {
        let (mut budget, ms) = (CpuBudget::new(0.01, 1.0), Duration::from_millis);
        let at = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
        // 35 % of 1 % of a CPU: 3.5 ms per second.
        // The first one and the second.
        assert_eq!(budget.surveyed(at(0), ms(7)), Duration::from_secs(4));
        assert_eq!(budget.surveyed(at(9), ms(35)), Duration::from_secs(10));
        // One that does not wait pays for the last one, too.
        assert_eq!(budget.surveyed(at(14), ms(35)), Duration::from_secs(15));
    }

    #[test]
    fn first_survey_suspends_nothing() {
        let (mut budget, cost) = (CpuBudget::new(0.01, 0.03), Duration::from_millis(210));
        let at = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
        budget.spent(at(0), Duration::ZERO);
        assert_eq!(budget.surveyed(at(0), cost), Duration::from_secs(60));
        // Within ten seconds the survey would be 2.1 % of a CPU.
        for second in 1..=10 {
            let owed = budget.owed.at(at(second));
            budget.spent(at(second), cost - owed);
        }
        assert!((budget.used() - 0.0035).abs() < 1e-6, "{}", budget.used());
        assert_eq!((budget.throttle(), budget.suspended()), (1.0, false));
        assert_eq!(budget.owed.at(at(60)), Duration::ZERO);
    }

    /// The throttle each second, of monitoring that takes so much of a CPU with the configured
    /// intervals, and less with longer ones.
    fn throttles(part: f64, seconds: u64) -> Vec<f64> {
        let mut budget = CpuBudget::new(0.01, 0.03);
        let (mut total, mut found) = (Duration::ZERO, Vec::new());
        for second in 0..seconds {
            budget.spent(Timestamp::ZERO + Duration::from_secs(second), total);
            assert!(!budget.suspended(), "longer intervals are enough");
            total += Duration::from_secs_f64(part / budget.throttle());
            found.push(budget.throttle());
        }
        found
    }

    #[test]
    fn throttle_rises_as_far_as_needed() {
        let found = throttles(0.15, 120);
        assert_eq!((found[2], found[3]), (1.0, 8.0), "the cap counts after three seconds");
        assert_eq!((found[6], found[11]), (8.0, 15.0), "and again once that has an effect");
        assert!(found[60..].iter().all(|&throttle| (13.0..32.0).contains(&throttle)), "{found:?}");
    }

    #[test]
    fn decisions_do_not_slow_monitoring() {
        let mut budget = CpuBudget::new(0.01, 0.03);
        let mut total = Duration::ZERO;
        for second in 0..60 {
            budget.spent(Timestamp::ZERO + Duration::from_secs(second), total);
            // 2 % of a CPU, of which monitoring takes 0.4.
            total += Duration::from_millis(20);
            budget.decided(Duration::from_millis(16));
        }
        assert_eq!((budget.throttle(), budget.suspended()), (1.0, false));
    }

    #[test]
    fn cheap_monitoring_is_never_throttled() {
        assert!(throttles(0.009, 60).iter().all(|&throttle| throttle == 1.0));
    }

    #[test]
    fn polling_tenants_is_not_budgeted() {
        let mut cpu_budget = CpuBudget::new(1e-9, 1e-9);
        cpu_budget.read(Timestamp::ZERO).unwrap();
        for second in 1..=10 {
            cpu_budget.polling(Duration::from_secs(1000 * second));
            cpu_budget.read(Timestamp::ZERO + Duration::from_secs(second)).unwrap();
        }
        let mut answering = CpuBudget::new(1e-9, 1e-9);
        answering.answering(|| Duration::from_secs(1000));
        (0..=10).for_each(|n| answering.read(Timestamp(n * 1_000_000_000)).unwrap());
        assert_eq!((answering.used(), answering.suspended()), (0.0, false));
        assert!(cpu_budget.total() > Duration::ZERO);
        assert_eq!(
            (cpu_budget.used(), cpu_budget.throttle(), cpu_budget.suspended()),
            (0.0, 1.0, false)
        );
    }
}
