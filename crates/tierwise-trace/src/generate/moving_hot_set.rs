//! A hot range of addresses that moves: a policy's knowledge becomes stale at a known window.
//!
//! Motions `stairs` and `zigzag` follow masim, the memory access simulator that DAMON's authors
//! test with; with `jump`, no motion can be extrapolated.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::GroundTruth;
use super::generator::WorkloadPattern;
use super::permutation::mix;
use super::spec::{GenerateError, GeneratorSpec, Motion, at_least_one};
use super::tally::WindowTally;
use super::two_level::TwoLevelChoice;

/// The pattern `moving-hot-set`.
#[derive(Debug, Clone)]
pub(super) struct MovingHotSet {
    levels: TwoLevelChoice,
    motion: Motion,
    dwell_windows: u64,
    seed: u64,
    write_ratio: f64,
}

impl MovingHotSet {
    pub(super) fn new(spec: &GeneratorSpec) -> Result<Self, GenerateError> {
        at_least_one("dwell_windows", spec.dwell_windows)?;
        Ok(Self {
            levels: TwoLevelChoice::new(spec)?,
            motion: spec.motion,
            dwell_windows: spec.dwell_windows,
            seed: spec.seed,
            write_ratio: spec.write_ratio,
        })
    }

    /// The first hot place in `window`.
    fn start(&self, window: u64) -> u64 {
        let ranges = self.levels.places / self.levels.hot;
        let step = window / self.dwell_windows;
        let range = match self.motion {
            Motion::Stairs => step % ranges,
            Motion::Zigzag => {
                let phase = step % (2 * (ranges - 1));
                phase.min(2 * (ranges - 1) - phase)
            }
            Motion::Jump => mix(mix(self.seed) ^ step) % ranges,
        };
        range * self.levels.hot
    }
}

impl WorkloadPattern for MovingHotSet {
    fn places(&self) -> u64 {
        self.levels.places
    }

    fn fill(&mut self, window: u64, budget: u64, rng: &mut ChaCha8Rng, tally: &mut WindowTally) {
        let start = self.start(window);
        for _ in 0..budget {
            let place = (start + self.levels.draw(rng)) % self.levels.places;
            tally.access(place, rng.random_bool(self.write_ratio));
        }
    }
}

impl GroundTruth for MovingHotSet {
    fn probability(&self, window: u64, place: u64) -> f64 {
        if place >= self.levels.places {
            return 0.0;
        }
        let index = (place + self.levels.places - self.start(window)) % self.levels.places;
        self.levels.probability(index)
    }

    fn hottest_share(&self, _window: u64, places: u64) -> f64 {
        self.levels.hottest_share(places)
    }
}
