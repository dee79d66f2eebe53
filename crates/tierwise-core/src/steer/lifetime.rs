//! How long the pages that a series of scans promoted stay in use, and what the series gained.
//!
//! A series leaves fewer victims than it found: its *placement* is as many pages. One that falls
//! idle becomes a victim again. So the idle pages are counted some time after a series: after
//! [`FIRST_CHECK`], then after twice that time, and so on, while all these counts cost less than
//! [`CHECKING`] of the series. The placement has lapsed when half of it has fallen idle. Whether
//! the series has paid by then follows from the time for which it held:
//!
//! ```text
//! gain = pages * held * m * saved / threshold
//! loss = faults * fault + (promoted + demoted) * copy - gain
//! ```
//!
//! `faults`, `promoted` and `demoted` are counted from the start of the series until then. A
//! promoted page is accessed at least once per threshold, and an access misses at most all its `m`
//! lines ([`LINES`]): one error lowers the gain, the other raises it.
//!
//! A workload that changes its pages faster than a series pays would lose with every series. By its
//! loss the next one is delayed ([`super::scan`]). A program that works in rounds may use its pages
//! at other times than those of the counts. So a loss counts only if the next count, after
//! [`FIRST_CHECK`], finds the pages idle too.

use std::time::Duration;

use super::scan::Counts;
use super::{PromotionVictims, SteeringCosts};
use crate::units::{Pages, Timestamp};

/// The time after a series at which the idle pages are first counted: a series takes as long.
pub(super) const FIRST_CHECK: Duration = Duration::from_secs(1);

/// The last time at which a count is asked for; later ones come by themselves.
const LAST_CHECK: Duration = Duration::from_secs(8);

/// The part of what a series cost that counts of its placement may cost.
const CHECKING: f64 = 0.1;

/// Cache lines of a base page.
pub(super) const LINES: f64 = 64.0;

/// What a series of scans has placed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Placement {
    /// The counts at the start of the series.
    first: Counts,
    /// Base pages by which the victims became fewer.
    pages: Pages,
    /// The shortest threshold of the series.
    threshold: Duration,
    /// The count that found the fewest victims, and their number.
    since: Timestamp,
    victims: Pages,
    /// The time from then to the next check.
    check: Duration,
    /// Checks that may still be asked for.
    checks: f64,
    /// The time for which it held, if the last count found it lapsed before it had paid.
    lapsed: Option<Duration>,
    last: Timestamp,
}

/// What a count shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Finding {
    /// The promoted pages are in use.
    Holds,
    /// They seem to be idle, and the series has not paid. Another count has to confirm it.
    Doubt,
    /// They were in use for long enough.
    Paid,
    /// They were not, by so many seconds.
    Lost(f64),
}

impl Placement {
    /// The placement of a series that started with `first` and has these counts now. Its counts of
    /// the victims found `fewer` than at its start, at the time `since`. A count takes `count`.
    pub(super) fn new(
        first: Counts,
        counts: &Counts,
        threshold: Duration,
        (since, victims, fewer): (Timestamp, Pages, Pages),
        costs: &SteeringCosts,
        count: Duration,
    ) -> Self {
        let spent = CHECKING * cost(&counts.since(&first), costs);
        let checks = spent / count.as_secs_f64().max(1e-9);
        let (pages, check) = (fewer, FIRST_CHECK);
        Self { first, pages, threshold, since, victims, check, checks, lapsed: None, last: since }
    }

    /// True if the idle pages are to be counted now.
    pub(super) fn wants_count(&self, now: Timestamp) -> bool {
        let is_asked = self.checks >= 1.0 && self.check <= LAST_CHECK || self.lapsed.is_some();
        is_asked && now.since(self.since) >= self.check
    }

    /// True if a count found the promoted pages idle, and no second one has confirmed it yet.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.lapsed.is_some()
    }

    /// Handles a count of the idle pages.
    pub(super) fn follow_count(
        &mut self,
        now: Timestamp,
        counts: &Counts,
        victims: PromotionVictims,
        costs: &SteeringCosts,
    ) -> Finding {
        let (age, before) = (now.since(self.since), self.last.since(self.since));
        self.last = now;
        if age >= self.check {
            self.checks -= 1.0;
        }
        let grown = victims.pages.saturating_sub(self.victims).0;
        if grown.saturating_mul(2) < self.pages.0.max(1) {
            self.lapsed = None;
            while age >= self.check {
                self.check *= 2;
            }
            return Finding::Holds;
        }
        // Between the count before it and the first that found it lapsed: half of the time is the
        // best guess.
        let held = self.lapsed.unwrap_or((before + age) / 2);
        let loss = self.loss(held, &counts.since(&self.first), costs);
        if loss <= 0.0 {
            Finding::Paid
        } else if self.lapsed.is_some() {
            Finding::Lost(loss)
        } else {
            self.lapsed = Some(held);
            self.check = age + FIRST_CHECK;
            Finding::Doubt
        }
    }

    fn loss(&self, held: Duration, series: &Counts, costs: &SteeringCosts) -> f64 {
        let misses = LINES / self.threshold.as_secs_f64().max(1e-9);
        let saved = costs.saved.as_secs_f64();
        cost(series, costs) - self.pages.0 as f64 * held.as_secs_f64() * misses * saved
    }
}

/// The seconds that a series cost.
fn cost(series: &Counts, costs: &SteeringCosts) -> f64 {
    let copies = series.promoted.saturating_add(series.demoted) as f64;
    series.faults as f64 * costs.fault.as_secs_f64() + copies * costs.copy.as_secs_f64()
}
