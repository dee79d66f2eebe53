//! Every page equally likely: the pattern in which no placement beats another.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::GroundTruth;
use super::generator::WorkloadPattern;
use super::spec::GeneratorSpec;
use super::systematic::{WriteSplit, allot, offset};
use super::tally::WindowTally;

/// The pattern `uniform`.
#[derive(Debug, Clone)]
pub(super) struct Uniform {
    places: u64,
    write_ratio: f64,
    exact: bool,
}

impl Uniform {
    pub(super) fn new(spec: &GeneratorSpec) -> Self {
        Self { places: spec.places(), write_ratio: spec.write_ratio, exact: spec.exact }
    }
}

impl WorkloadPattern for Uniform {
    fn places(&self) -> u64 {
        self.places
    }

    fn fill(&mut self, window: u64, budget: u64, rng: &mut ChaCha8Rng, tally: &mut WindowTally) {
        if self.exact {
            let mut split = WriteSplit::new(self.write_ratio);
            let cumulative = |rank: u64| rank as f64 / self.places as f64;
            allot(self.places, budget, offset(window), cumulative, |place, count| {
                let stores = split.stores(count);
                tally.record(place, count - stores, stores);
            });
            return;
        }
        for _ in 0..budget {
            let place = rng.random_range(0..self.places);
            tally.access(place, rng.random_bool(self.write_ratio));
        }
    }
}

impl GroundTruth for Uniform {
    fn probability(&self, _window: u64, place: u64) -> f64 {
        if place < self.places { 1.0 / self.places as f64 } else { 0.0 }
    }

    fn hottest_share(&self, _window: u64, places: u64) -> f64 {
        places.min(self.places) as f64 / self.places as f64
    }
}
