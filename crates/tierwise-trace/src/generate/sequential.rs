//! Accesses from end to end, repeatedly: the scan that flushes an LRU list, and of which no page
//! should be promoted.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::generator::WorkloadPattern;
use super::spec::{GeneratorSpec, LINE_BYTES};
use super::tally::WindowTally;

/// The pattern `sequential`.
#[derive(Debug, Clone)]
pub(super) struct Sequential {
    places: u64,
    accesses_per_page: u64,
    write_ratio: f64,
    page: u64,
    done_in_page: u64,
}

impl Sequential {
    pub(super) fn new(spec: &GeneratorSpec) -> Self {
        let lines = spec.place_bytes() / LINE_BYTES;
        Self {
            places: spec.places(),
            accesses_per_page: spec.accesses_per_page.map_or(lines, u64::from).max(1),
            write_ratio: spec.write_ratio,
            page: 0,
            done_in_page: 0,
        }
    }
}

impl WorkloadPattern for Sequential {
    fn places(&self) -> u64 {
        self.places
    }

    fn fill(&mut self, _window: u64, budget: u64, rng: &mut ChaCha8Rng, tally: &mut WindowTally) {
        for _ in 0..budget {
            tally.access(self.page, rng.random_bool(self.write_ratio));
            self.done_in_page += 1;
            if self.done_in_page == self.accesses_per_page {
                self.done_in_page = 0;
                self.page = (self.page + 1) % self.places;
            }
        }
    }
}
