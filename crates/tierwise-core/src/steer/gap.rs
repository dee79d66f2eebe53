//! The time between the two generations that show idle pages, and whether a count is repeated.

use std::time::Duration;

use super::KernelReading;
use super::victims::{
    MIN_IDLE, MIN_VICTIMS, MOST, PromotionVictims, idle_for, total, victims_idle_for,
};
use crate::units::Pages;

/// The time between the two generations that show idle pages. A page that is accessed more often is
/// in use, however hot others are. A scan for pages that are idle by chance costs more than waiting
/// for a better answer: with the short gap alone Redis took 17.1 and 18.0 s instead of 16.9
/// (docs/steering.md).
pub const LONG_GAP: Duration = Duration::from_millis(300);

/// The same time where few pages are idle for longer. The cold pages of a B+ tree were used ten
/// times per second, hot ones two hundred times.
pub const SHORT_GAP: Duration = Duration::from_millis(100);

/// The part of the fast tier's pages below which the victims are few for the long gap: an eighth.
/// Of the B+ tree's pages 4 to 13 % were idle. Twice the least for a scan.
pub const FEW_IDLE: f64 = 1.0 / 8.0;

/// The times in a row after which the short gap is not tried less often any more: one count in
/// eight, which is once in some minutes where counts are a minute apart at most.
const MOST_IN_VAIN: u32 = 3;

/// The gap of the next count. A series of scans is judged by counts with one gap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Gap {
    is_short: bool,
    /// The times in a row that the short gap showed no victim, or its series gained nothing.
    in_vain: u32,
    /// The counts until the short gap is tried again.
    until_short: u32,
    /// The idle pages are counted once more, because the last count left it in doubt whether there
    /// are victims, or had too long a gap.
    in_doubt: bool,
    /// Pages that seemed idle, and of which a second count has shown that they are so by chance.
    chance: Pages,
}

impl Gap {
    /// After so many tries of the short gap in vain, before a try in its turn.
    #[cfg(test)]
    pub(super) fn after_tries(is_short: bool, in_vain: u32) -> Self {
        Self { is_short, in_vain, ..Self::default() }
    }

    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    pub(super) fn time(&self) -> Duration {
        if self.is_short { SHORT_GAP } else { LONG_GAP }
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// Handles a count that shows these victims, before a series of scans (`may_start`) or after
    /// one of its scans (`is_judged`). Returns true if the pages are to be counted once more before
    /// anything follows from it.
    pub(super) fn follow_count(
        &mut self,
        reading: &KernelReading,
        victims: PromotionVictims,
        may_start: bool,
        is_judged: bool,
    ) -> bool {
        let matters = may_start || is_judged;
        if self.is_short && matters && are_most_idle(reading) {
            // The long gap shows as much, and finds hot pages with a longer threshold.
            self.leave_short();
            self.until_short = self.until_short.max(1);
            self.in_doubt = true;
            return true;
        }
        let all = victims_idle_for(reading, MIN_IDLE);
        let few = Pages((total(reading) as f64 * MIN_VICTIMS) as u64);
        let is_none = victims.pages == Pages(0);
        let is_doubtful = is_none && all.pages > Pages(self.chance.0.saturating_add(few.0));
        if self.in_doubt && is_none {
            self.chance = all.pages;
        }
        // Where few pages are idle at all, the same gap would show no more.
        let needs_short = may_start && self.has_few(reading, &all);
        self.in_doubt = !self.in_doubt && matters && is_doubtful && !needs_short;
        if may_start && !self.in_doubt {
            self.choose(reading, victims);
        }
        self.in_doubt
    }

    /// True if so many victims are few for the long gap.
    fn has_few(&self, reading: &KernelReading, victims: &PromotionVictims) -> bool {
        !self.is_short && (victims.pages.0 as f64) < total(reading) as f64 * FEW_IDLE
    }

    fn choose(&mut self, reading: &KernelReading, victims: PromotionVictims) {
        if self.has_few(reading, &victims) && self.until_short == 0 {
            (self.is_short, self.in_doubt, self.chance) = (true, true, Pages(0));
        } else if !self.is_short {
            self.until_short = self.until_short.saturating_sub(1);
        } else if victims.pages == Pages(0) {
            self.leave_short();
        }
    }

    /// Handles the end of a series of scans with the short gap.
    pub(super) fn follow_series(&mut self, has_gained: bool) {
        if has_gained {
            self.in_vain = 0;
        } else {
            self.leave_short();
        }
    }

    /// Returns to the long gap, and tries the short one half as often from now on.
    fn leave_short(&mut self) {
        (self.is_short, self.chance) = (false, Pages(0));
        self.until_short = (1 << self.in_vain) - 1;
        self.in_vain = (self.in_vain + 1).min(MOST_IN_VAIN);
    }
}

/// True if half of the fast tier's pages are idle.
fn are_most_idle(reading: &KernelReading) -> bool {
    idle_for(reading, MIN_IDLE) as f64 >= total(reading) as f64 * MOST
}
