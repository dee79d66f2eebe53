//! Two classes of pages: `hot` of them share `share` of the accesses evenly, the others the rest.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::spec::{GenerateError, GeneratorSpec, share};

/// Draws an index: below `hot` a hot page, from `hot` up a cold one.
#[derive(Debug, Clone)]
pub(super) struct TwoLevelChoice {
    pub places: u64,
    pub hot: u64,
    share: f64,
}

impl TwoLevelChoice {
    pub(super) fn new(spec: &GeneratorSpec) -> Result<Self, GenerateError> {
        share("hot_access_share", spec.hot_access_share)?;
        let hot = (spec.places() as f64 * spec.hot_fraction).round() as u64;
        if !(spec.hot_fraction > 0.0 && spec.hot_fraction <= 0.5) || hot == 0 {
            let allowed = "above 0, at most 0.5, and at least one page of the footprint";
            return Err(GenerateError::parameter("hot_fraction", &spec.hot_fraction, &allowed));
        }
        if spec.places() < 2 * hot {
            let allowed = "at most half of the footprint's pages";
            return Err(GenerateError::parameter("hot_fraction", &spec.hot_fraction, &allowed));
        }
        Ok(Self { places: spec.places(), hot, share: spec.hot_access_share })
    }

    pub(super) fn draw(&self, rng: &mut ChaCha8Rng) -> u64 {
        if rng.random_bool(self.share) {
            rng.random_range(0..self.hot)
        } else {
            rng.random_range(self.hot..self.places)
        }
    }

    pub(super) fn probability(&self, index: u64) -> f64 {
        if index < self.hot { self.hot_density() } else { self.cold_density() }
    }

    /// The share of the `places` most likely pages, which are the cold ones if `share` is small.
    pub(super) fn hottest_share(&self, places: u64) -> f64 {
        let cold = self.places - self.hot;
        let (first, first_density, second, second_density) =
            if self.hot_density() >= self.cold_density() {
                (self.hot, self.hot_density(), cold, self.cold_density())
            } else {
                (cold, self.cold_density(), self.hot, self.hot_density())
            };
        let beyond = places.saturating_sub(first).min(second);
        places.min(first) as f64 * first_density + beyond as f64 * second_density
    }

    fn hot_density(&self) -> f64 {
        self.share / self.hot as f64
    }

    fn cold_density(&self) -> f64 {
        (1.0 - self.share) / (self.places - self.hot) as f64
    }
}
