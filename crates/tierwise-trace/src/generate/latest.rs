//! The newest pages are the hottest: a head moves through the footprint, as the end of a log does,
//! and the page d behind it has probability proportional to (d + 1)^-s. At the end of the footprint
//! the head starts over, as a circular log does. This is YCSB's "latest" distribution, with a
//! bounded store.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::GroundTruth;
use super::generator::WorkloadPattern;
use super::spec::{GenerateError, GeneratorSpec};
use super::tally::WindowTally;
use super::zipf::ZipfRanks;

/// The pattern `latest`.
#[derive(Debug, Clone)]
pub(super) struct Latest {
    places: u64,
    distances: ZipfRanks,
    head_pages_per_window: u64,
    write_ratio: f64,
}

impl Latest {
    pub(super) fn new(spec: &GeneratorSpec) -> Result<Self, GenerateError> {
        Ok(Self {
            places: spec.places(),
            distances: ZipfRanks::new(spec.places(), spec.zipf_exponent)?,
            head_pages_per_window: spec.head_pages_per_window % spec.places(),
            write_ratio: spec.write_ratio,
        })
    }

    fn head(&self, window: u64) -> u64 {
        // Both factors are reduced first, so that an endless program does not overflow.
        let steps = u128::from(window) * u128::from(self.head_pages_per_window);
        (steps % u128::from(self.places)) as u64
    }

    /// Maps a distance behind the head to its place, and a place to its distance: both are the same
    /// map.
    fn reflect(&self, window: u64, value: u64) -> u64 {
        (self.head(window) + self.places - value) % self.places
    }
}

impl WorkloadPattern for Latest {
    fn places(&self) -> u64 {
        self.places
    }

    fn fill(&mut self, window: u64, budget: u64, rng: &mut ChaCha8Rng, tally: &mut WindowTally) {
        for _ in 0..budget {
            let place = self.reflect(window, self.distances.draw(rng));
            tally.access(place, rng.random_bool(self.write_ratio));
        }
    }
}

impl GroundTruth for Latest {
    fn probability(&self, window: u64, place: u64) -> f64 {
        if place >= self.places {
            return 0.0;
        }
        self.distances.probability(self.reflect(window, place))
    }

    fn hottest_share(&self, _window: u64, places: u64) -> f64 {
        self.distances.cumulative(places)
    }
}
