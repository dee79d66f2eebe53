//! A tenant's speed: its time with all memory fast over its time.
//!
//! It follows from the tenant's own counters. With `m` misses per instruction of which a share `f`
//! is fast, an instruction takes `c + m * (f * fast + (1 - f) * slow)`, where `c` is the time of an
//! instruction that does not miss. For the past the counters say `f`. For other memory a prediction
//! does, as far as such predictions came true for that tenant ([`TenantSpeed::trust`]).
//!
//! A tenant is judged by its mean speed and the present one ([`TenantSpeed::judged`]).

use crate::observe::TenantReading;

/// The part of the difference that is learned per interval: half of it in a second. A larger part
/// follows the chance of one second's counters; at 0.2 a program that arrives waits longer for
/// memory, and one whose load phase is over gives memory back later (docs/tenants.md).
const LEARNING: f64 = 0.5;

/// The part of a lost trust in predictions that returns per interval: half of it in half a minute.
/// Chosen, not measured: a twenty-fifth of [`LEARNING`]. A larger part gives a scan memory again
/// and again; with a smaller one a tenant whose scan is over waits longer for memory.
const TRUST_RECOVERY: f64 = 0.02;

/// The minimum predicted share of the accesses that is compared with the counters, as the
/// comparison divides by it. Chosen, not measured. With a smaller one a few accesses decide about
/// the trust; a larger one judges tenants with little memory late.
const MIN_PREDICTED: f64 = 0.05;

/// Misses per instruction of a tenant whose instructions the world does not count: the median of
/// the thirty programs in traces/ (`tierwise trace stat`: 2.1 to 32.3 per thousand). Such tenants
/// differ only in their histograms.
const USUAL_MISSES: f64 = 0.00375;

/// The part of the past in the mean speed that one interval replaces: two minutes are averaged.
/// MTAT's programs have phases of some 25 s, and a shorter mean holds a phase for the program. In a
/// longer one what a tenant lacked long ago counts. Chosen of 30, 60 and 120 s (docs/tenants.md).
const PAST: f64 = 1.0 / 120.0;

/// The part of the present second in the speed by which a tenant is judged. By the past alone each
/// second's memory would go to one tenant after the other; by the present alone phases decide.
/// Chosen of 0.3, 0.4, 0.5, 0.7 and 1 on programs that arrive and on MTAT's (docs/tenants.md).
const PRESENT: f64 = 0.5;

/// Nanoseconds of an instruction that does not miss: one per cycle at 2.3 GHz. It decides only the
/// order of tenants and predicts no latency.
const INSTRUCTION_NS: f64 = 1.0 / 2.3;

/// The latency of the fastest and of the slowest tier, in nanoseconds.
type Latencies = (f64, f64);

/// One tenant's speed. Counts are sums since the last [`TenantSpeed::restart`].
#[derive(Debug, Clone, Default)]
pub(super) struct TenantSpeed {
    instructions: f64,
    fast_misses: f64,
    misses: f64,
    /// Misses per instruction, averaged over decisions; `None` while the world counts no
    /// instructions. Those of one second depend on what the program did in it.
    misses_each: Option<f64>,
    /// The part of the predicted fast accesses that came true, 0 to 1; `None` before the first
    /// comparison.
    trust: Option<f64>,
    /// The mean since the last tenant arrived ([`PAST`]); `None` before the first misses.
    mean: Option<f64>,
    /// The decisions of which the mean is.
    judged: u32,
    /// True after its first misses.
    arrived: bool,
}

impl TenantSpeed {
    /// Adds a reading.
    pub(super) fn add(&mut self, reading: &TenantReading) {
        self.instructions += reading.instructions as f64;
        self.fast_misses += reading.misses.first().map_or(0.0, |&m| m as f64);
        self.misses += reading.misses.iter().sum::<u64>() as f64;
    }

    /// Misses since the last decision.
    pub(super) fn misses(&self) -> f64 {
        self.misses
    }

    /// The share of them that the fastest tier served, 0 to 1; `None` if there were none.
    pub(super) fn access_ratio(&self) -> Option<f64> {
        (self.misses > 0.0).then(|| self.fast_misses / self.misses)
    }

    /// The part of predicted fast accesses that comes true, 0 to 1.
    pub(super) fn trust(&self) -> f64 {
        self.trust.unwrap_or(1.0)
    }

    /// Returns true at its first misses.
    pub(super) fn arrives(&mut self) -> bool {
        self.misses > 0.0 && !std::mem::replace(&mut self.arrived, true)
    }

    /// Starts a new mean.
    pub(super) fn forget_mean(&mut self) {
        (self.mean, self.judged) = (None, 0);
    }

    /// Learns from the counts. `predicted` is the share of the accesses that its fast memory was to
    /// serve, 0 to 1; `latency` is in nanoseconds.
    pub(super) fn learn(&mut self, predicted: f64, latency: Latencies) {
        if self.instructions > 0.0 {
            let now = self.misses / self.instructions;
            let each = self.misses_each.map_or(now, |each| each + (now - each) * LEARNING);
            self.misses_each = Some(each);
        }
        self.learn_mean(latency);
        self.check(predicted);
    }

    /// Starts new counts.
    pub(super) fn restart(&mut self) {
        (self.instructions, self.fast_misses, self.misses) = (0.0, 0.0, 0.0);
    }

    fn learn_mean(&mut self, latency: Latencies) {
        let Some(served) = self.access_ratio() else { return };
        let counted = self.instructions > 0.0;
        let each = if counted { self.misses / self.instructions } else { USUAL_MISSES };
        let speed = 1.0 / slowdown(each, served, latency);
        // The first second alone is no mean: at first each counts as much as the next.
        self.judged = self.judged.saturating_add(1);
        let part = PAST.max(1.0 / f64::from(self.judged));
        self.mean = Some(self.mean.map_or(speed, |mean| mean + (speed - mean) * part));
    }

    /// Compares a prediction for the held memory with the counts. A scan's pages are sampled as it
    /// passes and are not accessed again until it returns: formerly hot pages will not be hot. A
    /// tenant that holds almost no memory cannot show the use of more: its prediction regains trust
    /// in small steps.
    fn check(&mut self, predicted: f64) {
        let served = self.access_ratio().filter(|_| predicted >= MIN_PREDICTED);
        let checked = match served {
            None => self.trust.map(|trust| trust + (1.0 - trust) * TRUST_RECOVERY),
            Some(served) => {
                let now = (served / predicted).min(1.0);
                Some(self.trust.map_or(now, |trust| trust + (now - trust) * LEARNING))
            }
        };
        self.trust = checked.or(self.trust);
    }

    /// The slowdown if the fastest tier serves the share `served` of its misses.
    pub(super) fn slowdown(&self, served: f64, latency: Latencies) -> f64 {
        slowdown(self.misses_each.unwrap_or(USUAL_MISSES), served, latency)
    }

    /// The slowdown by which the tenant is judged, with a present one.
    pub(super) fn judged(&self, present: f64) -> f64 {
        let mean = |mean| 1.0 / ((1.0 - PRESENT) * mean + PRESENT / present);
        self.mean.map_or(present, mean)
    }
}

/// The time of an instruction over that with all memory fast.
fn slowdown(misses_each: f64, served: f64, (fast, slow): Latencies) -> f64 {
    let ns = |served| INSTRUCTION_NS + misses_each * (served * fast + (1.0 - served) * slow);
    ns(served) / ns(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(instructions: u64, fast: u64, slow: u64) -> TenantReading {
        TenantReading { instructions, misses: vec![fast, slow], ..TenantReading::default() }
    }

    /// 73 ns and 202 ns; an instruction takes 1 / 2.3 ns, so one miss in a hundred takes 0.73 ns
    /// or 2.02 ns per instruction.
    const LATENCY: Latencies = (73.0, 202.0);

    fn after(readings: &[TenantReading]) -> TenantSpeed {
        let mut speed = TenantSpeed::default();
        for reading in readings {
            speed.add(reading);
            speed.learn(1.0, LATENCY);
            speed.restart();
        }
        speed
    }

    #[test]
    fn slowdown_follows_from_misses() {
        let speed = after(&[reading(10_000, 50, 50)]);
        let [all, none] = [1.0, 0.0].map(|served| speed.slowdown(served, LATENCY));
        assert!((all - 1.0).abs() < 1e-12);
        let c = 1.0 / 2.3;
        assert!((none - (c + 2.02) / (c + 0.73)).abs() < 1e-9, "{none}");
    }

    #[test]
    fn early_seconds_of_a_mean_count_alike() {
        let speed = after(&[reading(10_000, 100, 0), reading(10_000, 0, 100)]);
        let slow = 1.0 / speed.slowdown(0.0, LATENCY);
        let mean = (1.0 + slow) / 2.0;
        assert!((1.0 / speed.judged(1.0) - (mean + 1.0) / 2.0).abs() < 1e-9);
    }

    #[test]
    fn broken_predictions_lose_trust() {
        let trust = |fast, slow| after(&[reading(10_000, fast, slow)]).trust();
        assert_eq!((trust(100, 0), trust(25, 75)), (1.0, 0.25));
        // Half of the difference is learned in a decision.
        let twice = after(&[reading(10_000, 100, 0), reading(10_000, 0, 100)]);
        assert_eq!(twice.trust(), 0.5);
    }
}
