//! The course of a run: one point for each interval of virtual time.

use std::time::Duration;

use tierwise_core::units::Pages;

use crate::ledger::Account;

/// What a program had done by the last point.
#[derive(Debug, Clone)]
struct Before {
    instructions: f64,
    operations: f64,
    fast: f64,
    misses: f64,
    promotions: u64,
    demotions: u64,
}

/// One program at one point; rates are over the interval before it.
#[derive(Debug, Clone)]
pub struct ProgramPoint {
    /// Instructions executed.
    pub instructions: f64,
    /// Misses served by the fastest tier.
    pub fast: f64,
    /// All misses.
    pub misses: f64,
    /// Pages promoted.
    pub promotions: u64,
    /// Pages demoted.
    pub demotions: u64,
    /// Base pages by tier.
    pub usage: Vec<Pages>,
    /// Operations.
    pub operations: f64,
    /// The 99th percentile of a service's worst second.
    pub p99: Option<Duration>,
}

/// A point.
#[derive(Debug, Clone)]
pub struct Point {
    /// Virtual time in nanoseconds.
    pub at: u64,
    /// Length of the interval in nanoseconds.
    pub span: u64,
    /// By program.
    pub programs: Vec<ProgramPoint>,
}

/// All points.
#[derive(Debug)]
pub struct Timeline {
    every: u64,
    next: u64,
    last: u64,
    before: Vec<Before>,
    /// In the order of time.
    pub points: Vec<Point>,
}

fn sums(account: &Account) -> Before {
    Before {
        instructions: account.total.instructions,
        operations: account.total.operations,
        fast: account.total.misses[0],
        misses: account.total.misses.iter().sum(),
        promotions: account.promotions,
        demotions: account.demotions,
    }
}

impl Timeline {
    /// A timeline that starts with what the accounts show.
    pub fn new(every: Duration, accounts: &[Account]) -> Self {
        let every = (every.as_nanos() as u64).max(1);
        let before = accounts.iter().map(sums).collect();
        Self { every, next: every, last: 0, before, points: Vec::new() }
    }

    /// Whether the next point's time has come.
    pub fn is_due(&self, now: u64) -> bool {
        now >= self.next
    }

    /// Adds a point.
    pub fn add<'a>(
        &mut self,
        now: u64,
        accounts: &[Account],
        usage: impl Fn(usize) -> &'a [Pages],
        mut p99: impl FnMut(usize) -> Option<Duration>,
    ) {
        let programs =
            accounts.iter().zip(&mut self.before).enumerate().map(|(i, (account, b))| {
                let now = sums(account);
                let point = ProgramPoint {
                    instructions: now.instructions - b.instructions,
                    fast: now.fast - b.fast,
                    misses: now.misses - b.misses,
                    promotions: now.promotions - b.promotions,
                    demotions: now.demotions - b.demotions,
                    usage: usage(i).to_vec(),
                    operations: now.operations - b.operations,
                    p99: p99(i),
                };
                *b = now;
                point
            });
        let programs = programs.collect();
        self.points.push(Point { at: now, span: now - self.last, programs });
        self.last = now;
        self.next = (now / self.every + 1) * self.every;
    }
}
