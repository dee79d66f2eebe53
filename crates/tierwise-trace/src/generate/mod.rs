//! Generators: programs whose hot pages are known by construction.
//!
//! A recorded program shows what a policy does with real memory use, but not which pages it
//! *should* have kept in the fast tier. A generator is the opposite: a few lines of arithmetic with
//! a [`GroundTruth`], the probability that each page is accessed in each window. A test can compute
//! from it the hit ratio that a perfect policy reaches.
//!
//! # Terms
//! - A *place* is a page of the generated footprint, numbered from 0 by address. With
//!   [`GeneratorSpec::touch_first`] a place is also the page's index in the trace; without it, the
//!   trace numbers pages by first touch, and [`place_of`] recovers the place from an
//!   [`Allocation`](crate::Allocation).
//! - Every generated access misses the last-level cache: generators describe memory traffic, not
//!   instructions, so [`GeneratorSpec::instructions_per_access`] sets the program's misses per
//!   instruction.
//! - The *load phase* touches each place once, by address, and has the mark `load`; the following
//!   windows have the pattern, and the first of them the mark `run`.
//!
//! # Example
//! The hottest tenth of 1000 pages takes H(100) / H(1000) of a Zipf pattern's accesses, where H(k)
//! = 1 + 2^-s + ... + k^-s. With `exact`, every window has that share to within one access.
//! ```
//! use tierwise_trace::{Window, generate::{self, GeneratorSpec}};
//!
//! let spec = GeneratorSpec {
//!     footprint_pages: 1000,
//!     accesses_per_window: 10_000,
//!     windows: Some(3),
//!     zipf_exponent: 0.9,
//!     scrambled: false,
//!     exact: true,
//!     ..GeneratorSpec::default()
//! };
//! let truth = generate::ground_truth("zipf", &spec)?.ok_or("zipf has a ground truth")?;
//! let expected = truth.hottest_share(0, 100);
//!
//! let mut source = generate::build("zipf", &spec)?;
//! let mut window = Window::default();
//! while source.next_window(&mut window)? {
//!     if window.marks == ["load"] {
//!         continue;
//!     }
//!     let count = |a: &tierwise_trace::PageAccess| f64::from(a.loads + a.stores);
//!     let hot: f64 = window.accesses.iter().filter(|a| a.page < 100).map(count).sum();
//!     assert!((hot / 10_000.0 - expected).abs() <= 1.0 / 10_000.0);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod generator;
mod harmonic;
mod key_value;
mod latest;
mod moving_hot_set;
mod permutation;
mod phase_change;
mod pointer_chase;
mod sequential;
mod spec;
mod systematic;
mod tally;
#[cfg(test)]
mod tests;
mod two_level;
mod uniform;
pub mod ycsb;
mod zipf;

pub use generator::Generator;
pub use spec::{GenerateError, GeneratorSpec, Motion};
pub use tally::place_of;

use crate::model::WindowSource;
use key_value::YcsbPattern;
use latest::Latest;
use moving_hot_set::MovingHotSet;
use phase_change::PhaseChange;
use pointer_chase::PointerChase;
use sequential::Sequential;
use uniform::Uniform;
use ycsb::OperationMix;
use zipf::Zipf;

/// The access probability of each place of a generator.
pub trait GroundTruth: Send {
    /// The probability that one access of run window `window` (the first after the load phase is 0)
    /// goes to `place`. Sums to 1 over all places.
    fn probability(&self, window: u64, place: u64) -> f64;

    /// The share of the accesses of run window `window` that go to its `places` hottest places: the
    /// hit ratio of a fast tier of that size under a policy that makes no mistake.
    fn hottest_share(&self, window: u64, places: u64) -> f64;
}

/// Builds a generator from its parameters.
pub type Constructor = fn(&GeneratorSpec) -> Result<Box<dyn WindowSource>, GenerateError>;

/// Builds a generator's ground truth from the same parameters.
pub type TruthConstructor = fn(&GeneratorSpec) -> Result<Box<dyn GroundTruth>, GenerateError>;

/// One generator, as a scenario names it.
pub struct Entry {
    /// The name in a scenario file.
    pub name: &'static str,
    /// Its behaviour, in one line.
    pub summary: &'static str,
    /// Makes the generator.
    pub build: Constructor,
    /// Makes its ground truth, where one is defined.
    pub truth: Option<TruthConstructor>,
}

/// Every generator.
pub const GENERATORS: &[Entry] = &[
    Entry {
        name: "uniform",
        summary: "every page equally likely",
        build: |spec| Ok(Box::new(Generator::new(spec, "uniform", Uniform::new(spec))?)),
        truth: Some(|spec| Ok(Box::new(Uniform::new(spec)))),
    },
    Entry {
        name: "zipf",
        summary: "page of rank r with probability proportional to r^-s, at all times",
        build: |spec| Ok(Box::new(Generator::new(spec, "zipf", Zipf::new(spec)?)?)),
        truth: Some(|spec| Ok(Box::new(Zipf::new(spec)?))),
    },
    Entry {
        name: "latest",
        summary: "Zipf over the distance behind a head that moves through the footprint",
        build: |spec| Ok(Box::new(Generator::new(spec, "latest", Latest::new(spec)?)?)),
        truth: Some(|spec| Ok(Box::new(Latest::new(spec)?))),
    },
    Entry {
        name: "sequential",
        summary: "reads or writes the footprint from end to end, repeatedly",
        build: |spec| Ok(Box::new(Generator::new(spec, "sequential", Sequential::new(spec))?)),
        truth: None,
    },
    Entry {
        name: "moving-hot-set",
        summary: "a hot range that climbs, goes up and down, or jumps",
        build: |spec| {
            Ok(Box::new(Generator::new(spec, "moving-hot-set", MovingHotSet::new(spec)?)?))
        },
        truth: Some(|spec| Ok(Box::new(MovingHotSet::new(spec)?))),
    },
    Entry {
        name: "phase-change",
        summary: "hot set A, then B, then A again, at given windows",
        build: |spec| Ok(Box::new(Generator::new(spec, "phase-change", PhaseChange::new(spec)?)?)),
        truth: Some(|spec| Ok(Box::new(PhaseChange::new(spec)?))),
    },
    Entry {
        name: "pointer-chase",
        summary: "follows one random cycle through every page",
        build: |spec| Ok(Box::new(Generator::new(spec, "pointer-chase", PointerChase::new(spec))?)),
        truth: None,
    },
    Entry {
        name: "ycsb-a",
        summary: "key-value store: 50 % reads, 50 % updates, zipfian",
        build: |spec| key_value(spec, "ycsb-a", OperationMix::A),
        truth: None,
    },
    Entry {
        name: "ycsb-b",
        summary: "key-value store: 95 % reads, 5 % updates, zipfian",
        build: |spec| key_value(spec, "ycsb-b", OperationMix::B),
        truth: None,
    },
    Entry {
        name: "ycsb-c",
        summary: "key-value store: reads only, zipfian",
        build: |spec| key_value(spec, "ycsb-c", OperationMix::C),
        truth: None,
    },
    Entry {
        name: "ycsb-d",
        summary: "key-value store: 95 % reads of the latest records, 5 % inserts",
        build: |spec| key_value(spec, "ycsb-d", OperationMix::D),
        truth: None,
    },
    Entry {
        name: "ycsb-f",
        summary: "key-value store: 50 % reads, 50 % read-modify-writes, zipfian",
        build: |spec| key_value(spec, "ycsb-f", OperationMix::F),
        truth: None,
    },
    Entry {
        name: "ycsb-w",
        summary: "key-value store: updates only, zipfian",
        build: |spec| key_value(spec, "ycsb-w", OperationMix::W),
        truth: None,
    },
];

fn key_value(
    spec: &GeneratorSpec,
    name: &'static str,
    mix: OperationMix,
) -> Result<Box<dyn WindowSource>, GenerateError> {
    Ok(Box::new(Generator::new(spec, name, YcsbPattern::new(spec, mix)?)?))
}

fn entry(name: &str) -> Result<&'static Entry, GenerateError> {
    GENERATORS
        .iter()
        .find(|entry| entry.name == name)
        .ok_or_else(|| GenerateError::UnknownGenerator { name: name.to_owned() })
}

/// Builds the generator that a scenario calls `name`.
///
/// # Errors
/// The name is unknown, or a parameter is outside the generator's range.
pub fn build(name: &str, spec: &GeneratorSpec) -> Result<Box<dyn WindowSource>, GenerateError> {
    let entry = entry(name)?;
    spec.check()?;
    (entry.build)(spec)
}

/// The ground truth of the generator that a scenario calls `name`; `None` where it has none.
///
/// # Errors
/// Those of [`build`].
pub fn ground_truth(
    name: &str,
    spec: &GeneratorSpec,
) -> Result<Option<Box<dyn GroundTruth>>, GenerateError> {
    let entry = entry(name)?;
    spec.check()?;
    entry.truth.map(|truth| truth(spec)).transpose()
}
