//! Hot set A until a given window, then B, then A again: two disjoint sets, scattered over the
//! footprint. The number of windows for which the hit ratio stays low shows the time that a policy
//! takes to follow.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::GroundTruth;
use super::generator::WorkloadPattern;
use super::permutation::Permutation;
use super::spec::{GenerateError, GeneratorSpec};
use super::tally::WindowTally;
use super::two_level::TwoLevelChoice;

/// The pattern `phase-change`.
#[derive(Debug, Clone)]
pub(super) struct PhaseChange {
    levels: TwoLevelChoice,
    scatter: Permutation,
    change_windows: Vec<u64>,
    write_ratio: f64,
}

impl PhaseChange {
    pub(super) fn new(spec: &GeneratorSpec) -> Result<Self, GenerateError> {
        if !spec.change_windows.is_sorted() {
            let found = format!("{:?}", spec.change_windows);
            return Err(GenerateError::parameter("change_windows", &found, &"ascending windows"));
        }
        Ok(Self {
            levels: TwoLevelChoice::new(spec)?,
            scatter: Permutation::new(spec.places(), spec.seed),
            change_windows: spec.change_windows.clone(),
            write_ratio: spec.write_ratio,
        })
    }

    /// Returns the start of the hot set in the scattered order: A at 0, B right after it.
    fn start(&self, window: u64) -> u64 {
        let changes = self.change_windows.partition_point(|&change| change <= window);
        if changes % 2 == 0 { 0 } else { self.levels.hot }
    }
}

impl WorkloadPattern for PhaseChange {
    fn places(&self) -> u64 {
        self.levels.places
    }

    fn fill(&mut self, window: u64, budget: u64, rng: &mut ChaCha8Rng, tally: &mut WindowTally) {
        let start = self.start(window);
        for _ in 0..budget {
            let index = (start + self.levels.draw(rng)) % self.levels.places;
            tally.access(self.scatter.apply(index), rng.random_bool(self.write_ratio));
        }
    }
}

impl GroundTruth for PhaseChange {
    fn probability(&self, window: u64, place: u64) -> f64 {
        if place >= self.levels.places {
            return 0.0;
        }
        let index = self.scatter.invert(place) + self.levels.places - self.start(window);
        self.levels.probability(index % self.levels.places)
    }

    fn hottest_share(&self, _window: u64, places: u64) -> f64 {
        self.levels.hottest_share(places)
    }
}
