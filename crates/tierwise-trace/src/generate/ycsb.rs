//! The operation streams of the Yahoo! Cloud Serving Benchmark (Cooper et al., SoCC 2010).
//!
//! Workloads A, B, C, D and F are YCSB's; W, updates only, was added by MULTI-CLOCK, section V-B,
//! which leaves out E because its range scans do not exist in memcached. Requests follow a
//! scrambled zipfian (constant 0.99) over all records, except in D, where the most recently
//! inserted records are the most popular.
//!
//! ```
//! use tierwise_trace::generate::ycsb::{OperationKind, OperationMix, Operations};
//!
//! let operations = Operations::new(OperationMix::B, 10_000, 42)?;
//! let reads = operations.take(10_000).filter(|op| op.kind == OperationKind::Read).count();
//! assert!((9400..9600).contains(&reads), "95 % of 10 000, give or take: {reads}");
//! # Ok::<(), tierwise_trace::generate::GenerateError>(())
//! ```

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::spec::{GenerateError, at_least_one};
use super::zipf::ZipfRanks;

/// YCSB's zipfian constant.
const ZIPFIAN_CONSTANT: f64 = 0.99;
/// YCSB's scrambled zipfian ranks this many items, for any number of records, and hashes the rank
/// onto the records: so the popularity of a record does not depend on their number.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;

/// The distribution by which requests choose their record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordChoice {
    /// Popularity by Zipf's law, popular records scattered.
    ScrambledZipfian,
    /// The last inserted record is the most popular, by Zipf's law over age.
    Latest,
    /// All records are equally popular, as in YCSB's `requestdistribution=uniform` and in Mutilate.
    Uniform,
}

/// A workload: the share of each kind of operation, in percent. They add up to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationMix {
    /// Reads of one record.
    pub read: u32,
    /// Overwrites of one record.
    pub update: u32,
    /// New records.
    pub insert: u32,
    /// A read of a record followed by its overwrite.
    pub read_modify_write: u32,
    /// The records that requests choose.
    pub requests: RecordChoice,
}

impl OperationMix {
    /// Update-heavy.
    pub const A: Self = Self::zipfian(50, 50, 0);
    /// Read-mostly.
    pub const B: Self = Self::zipfian(95, 5, 0);
    /// Read-only.
    pub const C: Self = Self::zipfian(100, 0, 0);
    /// Read-latest.
    pub const D: Self = Self {
        read: 95,
        update: 0,
        insert: 5,
        read_modify_write: 0,
        requests: RecordChoice::Latest,
    };
    /// Read-modify-write.
    pub const F: Self = Self::zipfian(50, 0, 50);
    /// Updates only (MULTI-CLOCK, section V-B).
    pub const W: Self = Self::zipfian(0, 100, 0);

    /// The workload with this letter, in either case.
    #[must_use]
    pub fn named(letter: &str) -> Option<Self> {
        match letter.to_ascii_lowercase().as_str() {
            "a" => Some(Self::A),
            "b" => Some(Self::B),
            "c" => Some(Self::C),
            "d" => Some(Self::D),
            "f" => Some(Self::F),
            "w" => Some(Self::W),
            _ => None,
        }
    }

    const fn zipfian(read: u32, update: u32, read_modify_write: u32) -> Self {
        Self {
            read,
            update,
            insert: 0,
            read_modify_write,
            requests: RecordChoice::ScrambledZipfian,
        }
    }

    /// The kind of operation for `percentile`, 0 to 99.
    fn kind_at(&self, percentile: u32) -> OperationKind {
        if percentile < self.read {
            OperationKind::Read
        } else if percentile < self.read + self.update {
            OperationKind::Update
        } else if percentile < self.read + self.update + self.insert {
            OperationKind::Insert
        } else {
            OperationKind::ReadModifyWrite
        }
    }
}

/// The effect of an operation on its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// Returns it.
    Read,
    /// Overwrites it.
    Update,
    /// Adds it.
    Insert,
    /// Reads it, then overwrites it.
    ReadModifyWrite,
}

/// One request to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// The operation.
    pub kind: OperationKind,
    /// The record, numbered by insertion from 0.
    pub key: u64,
}

/// An endless stream of operations over records `0..records`, which inserts extend.
#[derive(Debug, Clone)]
pub struct Operations {
    mix: OperationMix,
    records: u64,
    ranks: ZipfRanks,
    rng: ChaCha8Rng,
}

impl Operations {
    /// The stream that `seed` decides, over a store that holds `records` records.
    ///
    /// # Errors
    /// There are no records.
    pub fn new(mix: OperationMix, records: u64, seed: u64) -> Result<Self, GenerateError> {
        at_least_one("records", records)?;
        let ranks = match mix.requests {
            RecordChoice::ScrambledZipfian => SCRAMBLED_ITEMS,
            RecordChoice::Latest | RecordChoice::Uniform => records,
        };
        Ok(Self {
            mix,
            records,
            ranks: ZipfRanks::new(ranks, ZIPFIAN_CONSTANT)?,
            rng: ChaCha8Rng::seed_from_u64(seed),
        })
    }

    /// Records in the store after the operations so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    fn requested_key(&mut self) -> u64 {
        match self.mix.requests {
            RecordChoice::ScrambledZipfian => hash(self.ranks.draw(&mut self.rng)) % self.records,
            RecordChoice::Latest => self.records - 1 - self.ranks.draw(&mut self.rng),
            RecordChoice::Uniform => self.rng.random_range(0..self.records),
        }
    }

    fn inserted_key(&mut self) -> Option<u64> {
        let key = self.records;
        self.records += 1;
        if self.mix.requests == RecordChoice::Latest {
            self.ranks.resize(self.records).ok()?;
        }
        Some(key)
    }
}

impl Iterator for Operations {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        let kind = self.mix.kind_at(self.rng.random_range(0..100));
        let key = match kind {
            OperationKind::Insert => self.inserted_key()?,
            _ => self.requested_key(),
        };
        Some(Operation { kind, key })
    }
}

/// FNV-1a over the eight bytes, lowest first, as YCSB scrambles ranks and builds key names.
#[must_use]
pub fn hash(value: u64) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x100_0000_01b3;
    value
        .to_le_bytes()
        .iter()
        .fold(OFFSET_BASIS, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}
