//! One random cycle through every page, one page per access: no page is hotter than another, and
//! none recurs before all the others.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::generator::WorkloadPattern;
use super::permutation::Permutation;
use super::spec::GeneratorSpec;
use super::tally::WindowTally;

/// The pattern `pointer-chase`.
#[derive(Debug, Clone)]
pub(super) struct PointerChase {
    places: u64,
    order: Permutation,
    write_ratio: f64,
    step: u64,
}

impl PointerChase {
    pub(super) fn new(spec: &GeneratorSpec) -> Self {
        Self {
            places: spec.places(),
            order: Permutation::new(spec.places(), spec.seed),
            write_ratio: spec.write_ratio,
            step: 0,
        }
    }
}

impl WorkloadPattern for PointerChase {
    fn places(&self) -> u64 {
        self.places
    }

    fn fill(&mut self, _window: u64, budget: u64, rng: &mut ChaCha8Rng, tally: &mut WindowTally) {
        for _ in 0..budget {
            tally.access(self.order.apply(self.step), rng.random_bool(self.write_ratio));
            self.step = (self.step + 1) % self.places;
        }
    }
}
