//! Every fuzz target on its seeds and on mutations of them, with the stable toolchain.
//!
//! libFuzzer finds more, because it measures the code that an input reaches (`make fuzz`); this
//! test finds regressions in seconds.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};
use tierwise_fuzz::{FuzzTarget, seeds, targets};

/// Times proptest's own number of cases (256, or `PROPTEST_CASES`): all targets together then take
/// some ten seconds in the development profile.
const CASES_FACTOR: u32 = 8;
/// Enough for two independent faults in one input, and for a third that hides them.
const MAX_MUTATIONS: usize = 6;
/// Long enough to make a parser of quadratic time noticeable.
const MAX_REPETITIONS: usize = 2_000;
/// An input larger than this tests the allocator and not the parser.
const MAX_BYTES: usize = 1 << 18;

/// Replacements of numbers and names: the ends of their types, and text that is no number.
const TOKENS: [&[u8]; 14] = [
    b"",
    b"-1",
    b"0",
    b"18446744073709551615",
    b"18446744073709551616",
    b"9223372036854775808",
    b"1e300",
    b"-1e300",
    b"NaN",
    b"+Inf",
    b"ev\xffil",
    b"a\nb",
    b"\0",
    b"../../..",
];

#[derive(Clone, Debug)]
enum Mutation {
    Cut(Index),
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Repeat(Index, Index, usize),
    Token(Index, &'static [u8]),
    DropLine(Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = any::<Index>;
    prop_oneof![
        at().prop_map(Mutation::Cut),
        (at(), any::<u8>()).prop_map(|(i, b)| Mutation::Flip(i, b)),
        (at(), vec(any::<u8>(), 1..8)).prop_map(|(i, bytes)| Mutation::Insert(i, bytes)),
        (at(), at(), 1..MAX_REPETITIONS).prop_map(|(i, j, n)| Mutation::Repeat(i, j, n)),
        (at(), select(&TOKENS[..])).prop_map(|(i, token)| Mutation::Token(i, token)),
        at().prop_map(Mutation::DropLine),
    ]
}

fn apply(bytes: &mut Vec<u8>, mutation: &Mutation) {
    if bytes.is_empty() {
        bytes.push(b'0');
    }
    let len = bytes.len();
    match mutation {
        Mutation::Cut(at) => bytes.truncate(at.index(len)),
        Mutation::Flip(at, with) => bytes[at.index(len)] ^= with,
        Mutation::Insert(at, what) => {
            let at = at.index(len);
            bytes.splice(at..at, what.iter().copied());
        }
        Mutation::Repeat(from, to, times) => {
            let (from, to) = (from.index(len), to.index(len));
            let part = bytes[from.min(to)..=from.max(to)].to_vec();
            let times = (*times).min(MAX_BYTES.saturating_sub(len) / part.len());
            let at = from.max(to) + 1;
            bytes.splice(at..at, part.repeat(times));
        }
        Mutation::Token(at, with) => {
            let (from, to) = around(bytes, at.index(len), |b| b.is_ascii_alphanumeric());
            bytes.splice(from..to, with.iter().copied());
        }
        Mutation::DropLine(at) => {
            let (from, to) = around(bytes, at.index(len), |b| b != b'\n');
            bytes.drain(from..to);
        }
    }
}

/// The largest range around `at` in which all bytes satisfy `belongs`; empty at a byte that does
/// not.
fn around(bytes: &[u8], at: usize, belongs: impl Fn(u8) -> bool) -> (usize, usize) {
    let before = bytes[..at].iter().rev().take_while(|&&b| belongs(b)).count();
    let after = bytes[at..].iter().take_while(|&&b| belongs(b)).count();
    if after == 0 { (at, at) } else { (at - before, at + after) }
}

fn seeds_of(target: FuzzTarget) -> Vec<Vec<u8>> {
    let directory = seeds().join(target.0);
    let files = fs::read_dir(&directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let mut paths: Vec<_> = files.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} holds no seed", directory.display());
    paths.iter().map(|path| fs::read(path).expect("readable")).collect()
}

fn check(target: FuzzTarget) {
    let seeds = seeds_of(target);
    for seed in &seeds {
        target.1(seed);
    }
    let inputs =
        (any::<Index>(), vec(mutation(), 0..MAX_MUTATIONS)).prop_map(move |(seed, mutations)| {
            let mut bytes = seed.get(&seeds).clone();
            mutations.iter().for_each(|mutation| apply(&mut bytes, mutation));
            bytes
        });
    let default = Config::default();
    let cases = default.cases * CASES_FACTOR;
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..default });
    let result = runner.run(&inputs, |bytes| {
        catch_unwind(AssertUnwindSafe(|| target.1(&bytes)))
            .map_err(|_| TestCaseError::fail(format!("panics on {}", bytes.escape_ascii())))
    });
    if let Err(error) = result {
        panic!("{}: {error}", target.0);
    }
}

#[test]
fn no_target_panics_on_a_mutated_seed() {
    targets().for_each(check);
}

#[test]
fn every_seed_directory_belongs_to_a_target() {
    let directories = fs::read_dir(seeds()).expect("the directory of seeds");
    for directory in directories {
        let name = directory.expect("readable").file_name().into_string().expect("ASCII names");
        assert!(tierwise_fuzz::find(&name).is_some(), "seeds/{name} belongs to no target");
    }
}
