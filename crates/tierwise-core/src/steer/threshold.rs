//! The hot threshold of the next scan.

use std::time::Duration;

use crate::units::Pages;

use super::{MAX_THRESHOLD, MIN_THRESHOLD, SHORT_GAP, Steering};

/// The factor by which a threshold is shorter than a victim's idle time with the short gap. Pages
/// in use are idle for so short by chance, and only pages that are used much more are worth their
/// places: hot pages of a B+ tree are used twenty times as often as its cold ones, those of Redis
/// as often as other hot ones. Chosen, not measured.
const HOTTER: u32 = 4;

/// The part of the victims below which candidates are few.
const FEW: f64 = 1.0 / 8.0;

/// The largest factor by which the threshold grows after one scan. A threshold that is too long for
/// one scan promotes pages that are accessed by chance; each further scan costs a fault per page.
const LONGER: f64 = 8.0;

/// The part of the places that candidates may fill by chance in a scan that follows another: half
/// of them. After the first scan of stairs 1,900 hot pages were slow, and 20,000 others that were
/// accessed twice per second: a threshold of 0.3 s made candidates of 9,000 of them.
const BY_CHANCE: f64 = 0.5;

/// The least of that limit, that of the short gap: hot pages of Redis, of a B+ tree and of stairs
/// were accessed 100 to 600 times per second.
const LEAST_BY_CHANCE: Duration =
    Duration::from_millis(SHORT_GAP.as_millis() as u64 / HOTTER as u64);

impl Steering {
    /// Sets the next pass's threshold by the candidates of a pass.
    pub(super) fn follow_candidates(&mut self, took: Duration, candidates: u64) {
        let (shortest, longest) = self.bounds();
        let (before, found) = (self.threshold, candidates as f64);
        let per_second = found / took.as_secs_f64().max(1.0);
        let victims = self.victims.pages.0 as f64;
        let wanted = match self.limit() {
            Some(rate) if per_second > rate.0 as f64 => before.mul_f64(rate.0 as f64 / per_second),
            _ if found < victims * FEW => {
                before.mul_f64((victims * FEW / found).clamp(2.0, LONGER))
            }
            _ => before.max(shortest),
        };
        self.threshold = wanted.clamp(MIN_THRESHOLD, longest);
    }

    /// The first threshold of a series of passes, and the longest.
    pub(super) fn bounds(&self) -> (Duration, Duration) {
        let divisor = if self.gap.is_short() { HOTTER } else { 1 };
        let bound = |idle: Duration| (idle / divisor).clamp(MIN_THRESHOLD, MAX_THRESHOLD);
        let free = (MAX_THRESHOLD, MAX_THRESHOLD);
        // The second generation of a count may be late, and a count that is repeated takes two
        // gaps. A page idle for three was so before.
        let gap = self.gap.time();
        let of_gap = |idle: Duration| if idle < 3 * gap { idle.min(gap) } else { idle };
        let idle = self.victims.idle;
        let (shortest, longest) =
            idle.map_or(free, |(shortest, longest)| (bound(of_gap(shortest)), bound(longest)));
        let most = self.by_chance.unwrap_or(MAX_THRESHOLD);
        (shortest.min(most), longest.min(most))
    }

    /// Limits the threshold of a pass that follows another, so that pages accessed at random fill
    /// few of its places: of `slow` pages `slow * (1 - exp(-r t))` are candidates. Where victims
    /// may be idle by chance, the threshold is short anyway, and its candidates are judged by their
    /// chance.
    pub(super) fn leave_less_to_chance(&mut self, slow: Pages) {
        let rate = self.scanning.late_rate().filter(|_| !self.gap.is_short());
        let (places, slow) = (self.affordable().0 as f64, slow.0 as f64);
        let most = rate.filter(|_| places < slow).map(|rate| {
            let seconds = -(-BY_CHANCE * places / slow).ln_1p() / rate;
            Duration::from_secs_f64(seconds.min(1.0)).clamp(LEAST_BY_CHANCE, MAX_THRESHOLD)
        });
        self.by_chance = most.filter(|&most| most < self.threshold);
        if let Some(most) = self.by_chance {
            self.threshold = most;
            // Fewer pages are candidates than with the last threshold: as many as there are places.
            self.share = self.share.min(places / slow);
        }
    }
}
