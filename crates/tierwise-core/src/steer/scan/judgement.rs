//! The judgement of a pass: what another one would bring, and what this one has brought.

use std::time::Duration;

use super::super::chance::HotShare;
use super::super::{MIN_THRESHOLD, SteeringCosts};
use super::{Conditions, Counts};

/// Last-level misses per access to a page. The true number is between one and 64, the lines of a
/// page, and is not known; this is the geometric mean. A wrong gain costs passes that have no
/// effect, and the next pass shows that.
pub const MISSES_PER_ACCESS: f64 = 8.0;

/// The time for which a promoted page is expected to be used as it is now. Placement cannot help a
/// program that changes faster.
pub const HORIZON: Duration = Duration::from_secs(60);

/// What another pass like the last one would bring, and what that one has brought.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// The part of the candidates that chance does not explain, 0 to 1.
    pub hot: f64,
    /// Accesses per second of the other slow pages.
    pub cold_rate: f64,
    /// The part of the promoted pages that are in use, 0 to 1.
    pub effect: f64,
    /// Seconds that it would save.
    pub gain: f64,
    /// CPU time in seconds that it would take.
    pub cost: f64,
    /// CPU time in seconds that the last pass took.
    pub spent: f64,
    /// Seconds that its pages save.
    pub earned: f64,
}

impl Judgement {
    /// Judges a pass with these counts. `effect` is the part of the series' pages that are in use.
    pub(super) fn new(
        costs: &SteeringCosts,
        pass: &Counts,
        found: HotShare,
        effect: f64,
        of: &Conditions,
    ) -> Self {
        let left = pass.candidates.saturating_sub(pass.promoted) as f64;
        let missed = pass.promoted as f64 / std::f64::consts::E;
        let next = (left + missed).min(of.places.0 as f64);
        let free = next.min(of.free.0 as f64);
        let least = 1.0 / of.threshold.as_secs_f64().max(1e-9);
        let hot = found.hot * (free + effect * (next - free) / 2.0) * least;
        let cold = (1.0 - found.hot) * free * found.cold_rate.min(least);
        // Seconds saved by one miss per second.
        let of_miss = HORIZON.as_secs_f64() * costs.saved.as_secs_f64();
        let scan = pass.faults as f64 * costs.fault.as_secs_f64() + of.counting.as_secs_f64();
        let copies = |pages: f64| pages * costs.copy.as_secs_f64();
        let promoted = pass.promoted as f64;
        Self {
            hot: found.hot,
            cold_rate: found.cold_rate,
            effect,
            gain: (hot + cold) * MISSES_PER_ACCESS * of_miss,
            cost: scan + copies(2.0 * next - free),
            spent: scan + copies(2.0 * promoted),
            earned: found.hot * effect * promoted * misses_of_hot(least) * of_miss,
        }
    }
}

/// True if a scan that fills free pages pays, where `share` of the poisoned pages are candidates: a
/// page that was accessed within the threshold costs its faults and a copy, and displaces none.
pub(in super::super) fn fill_pays(costs: &SteeringCosts, share: f64, threshold: Duration) -> bool {
    let misses = MISSES_PER_ACCESS / threshold.as_secs_f64().max(1e-9);
    let gain = misses * HORIZON.as_secs_f64() * costs.saved.as_secs_f64();
    let faults = costs.fault.as_secs_f64() / share.max(f64::MIN_POSITIVE);
    gain >= faults + costs.copy.as_secs_f64()
}

/// Misses per second of a page of which only is known that it has `least` accesses per second at
/// least: the mean if rates are spread evenly over the orders of magnitude, up to the shortest
/// threshold's rate. Hot pages of Redis, of a B+ tree and of stairs had 100 to 600. A page that is
/// not promoted yet is judged by the least rate, because a scan may find few more.
fn misses_of_hot(least: f64) -> f64 {
    let most = MIN_THRESHOLD.as_secs_f64().recip();
    if least < most { (most - least) / (most / least).ln() } else { least }
}
