//! Zipf's law, the same at all times: the page of rank r (from 1) has probability r^-s / H(n, s).

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::Distribution;

use super::GroundTruth;
use super::generator::WorkloadPattern;
use super::harmonic::Harmonic;
use super::permutation::Permutation;
use super::spec::{GenerateError, GeneratorSpec};
use super::systematic::{WriteSplit, allot, offset};
use super::tally::WindowTally;

/// Draws ranks, and has their probabilities. Ranks count from 0 here.
#[derive(Debug, Clone)]
pub(super) struct ZipfRanks {
    ranks: u64,
    exponent: f64,
    harmonic: Harmonic,
    total: f64,
    draws: rand_distr::Zipf<f64>,
}

impl ZipfRanks {
    pub(super) fn new(ranks: u64, exponent: f64) -> Result<Self, GenerateError> {
        let draws = draws(ranks, exponent)?;
        let harmonic = Harmonic::new(exponent);
        let total = harmonic.sum(ranks);
        Ok(Self { ranks, exponent, harmonic, total, draws })
    }

    /// Changes the number of ranks.
    pub(super) fn resize(&mut self, ranks: u64) -> Result<(), GenerateError> {
        self.draws = draws(ranks, self.exponent)?;
        self.total = self.harmonic.sum(ranks);
        self.ranks = ranks;
        Ok(())
    }

    pub(super) fn draw(&self, rng: &mut ChaCha8Rng) -> u64 {
        (self.draws.sample(rng) as u64).clamp(1, self.ranks) - 1
    }

    pub(super) fn probability(&self, rank: u64) -> f64 {
        if rank >= self.ranks {
            return 0.0;
        }
        ((rank + 1) as f64).powf(-self.exponent) / self.total
    }

    /// The probability of the first `ranks` ranks.
    pub(super) fn cumulative(&self, ranks: u64) -> f64 {
        self.harmonic.sum(ranks.min(self.ranks)) / self.total
    }
}

fn draws(ranks: u64, exponent: f64) -> Result<rand_distr::Zipf<f64>, GenerateError> {
    rand_distr::Zipf::new(ranks as f64, exponent)
        .map_err(|why| GenerateError::parameter("zipf_exponent", &exponent, &why))
}

/// The pattern `zipf`.
#[derive(Debug, Clone)]
pub(super) struct Zipf {
    ranks: ZipfRanks,
    scatter: Option<Permutation>,
    write_ratio: f64,
    exact: bool,
}

impl Zipf {
    pub(super) fn new(spec: &GeneratorSpec) -> Result<Self, GenerateError> {
        Ok(Self {
            ranks: ZipfRanks::new(spec.places(), spec.zipf_exponent)?,
            scatter: spec.scrambled.then(|| Permutation::new(spec.places(), spec.seed)),
            write_ratio: spec.write_ratio,
            exact: spec.exact,
        })
    }

    fn place(&self, rank: u64) -> u64 {
        self.scatter.as_ref().map_or(rank, |scatter| scatter.apply(rank))
    }
}

impl WorkloadPattern for Zipf {
    fn places(&self) -> u64 {
        self.ranks.ranks
    }

    fn fill(&mut self, window: u64, budget: u64, rng: &mut ChaCha8Rng, tally: &mut WindowTally) {
        if self.exact {
            let mut split = WriteSplit::new(self.write_ratio);
            let cumulative = |ranks: u64| self.ranks.cumulative(ranks);
            allot(self.ranks.ranks, budget, offset(window), cumulative, |rank, count| {
                let stores = split.stores(count);
                tally.record(self.place(rank), count - stores, stores);
            });
            return;
        }
        for _ in 0..budget {
            let place = self.place(self.ranks.draw(rng));
            tally.access(place, rng.random_bool(self.write_ratio));
        }
    }
}

impl GroundTruth for Zipf {
    fn probability(&self, _window: u64, place: u64) -> f64 {
        if place >= self.ranks.ranks {
            return 0.0;
        }
        let rank = self.scatter.as_ref().map_or(place, |scatter| scatter.invert(place));
        self.ranks.probability(rank)
    }

    fn hottest_share(&self, _window: u64, places: u64) -> f64 {
        self.ranks.cumulative(places)
    }
}
