//! The parameters of a generator, and their allowed values.

use std::fmt::Display;

use super::GENERATORS;

/// Bytes of a base page; generators have base pages of 4 KiB on every machine.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Bytes of a cache line.
pub(super) const LINE_BYTES: u64 = 64;
/// 16 TiB of base pages: a trace numbers its pages in 32 bits.
pub(super) const MAX_FOOTPRINT_PAGES: u64 = u32::MAX as u64 - 1;
/// A page of order 9 is 2 MiB of 4 KiB base pages, the huge page of x86-64 and arm64.
const HUGE_ORDER: u8 = 9;

/// The path of a [moving hot set](super); the first two are masim's `stairs` and `zigzag`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Motion {
    /// One range up at a time, and from the top back to the bottom.
    #[default]
    Stairs,
    /// Up to the top, then down to the bottom, one range at a time.
    Zigzag,
    /// To a range drawn by the seed.
    Jump,
}

/// The parameters of every generator. A pattern ignores the parameters that it does not use.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratorSpec {
    /// Footprint in base pages; a multiple of 2^`order`.
    pub footprint_pages: u64,
    /// log2 of the base pages that one page spans: 0, or 9 for 2 MiB pages.
    pub order: u8,
    /// Accesses in a window, each a miss of the last-level cache.
    pub accesses_per_window: u32,
    /// Instructions between one access and the next.
    pub instructions_per_access: u64,
    /// Windows after the load phase; `None` for a program that never ends.
    pub windows: Option<u64>,
    /// Share of the accesses that are stores, 0 to 1. The YCSB generators take it from their mix.
    pub write_ratio: f64,
    /// Share of the pages that are page cache, 0 to 1, spread evenly over the footprint.
    pub file_fraction: f64,
    /// True if a load phase touches every page once, by address, before the pattern starts.
    pub touch_first: bool,
    /// `uniform` and `zipf`: true if window counts are expectations, rounded by error diffusion,
    /// and not draws.
    pub exact: bool,
    /// The seed of every draw.
    pub seed: u64,
    /// `zipf`, `latest`: the exponent s of probability ∝ rank^-s; 0 or more.
    pub zipf_exponent: f64,
    /// `zipf`: true if the ranks are spread over the pages by a hash; else the hottest page is
    /// first.
    pub scrambled: bool,
    /// `latest`: pages by which the head advances in a window.
    pub head_pages_per_window: u64,
    /// `sequential`: accesses to a page before the next one; `None` for each of its lines once.
    pub accesses_per_page: Option<u32>,
    /// `moving-hot-set`, `phase-change`: share of the pages that are hot, above 0, at most 0.5.
    pub hot_fraction: f64,
    /// `moving-hot-set`, `phase-change`: share of the accesses that go to the hot pages, 0 to 1.
    pub hot_access_share: f64,
    /// `moving-hot-set`: the path of the hot range.
    pub motion: Motion,
    /// `moving-hot-set`: windows for which the hot range stays in one place.
    pub dwell_windows: u64,
    /// `phase-change`: run windows at which the hot set changes, ascending.
    pub change_windows: Vec<u64>,
    /// `ycsb-*`: bytes of a record.
    pub record_bytes: u32,
}

impl Default for GeneratorSpec {
    fn default() -> Self {
        Self {
            // 256 MiB: enough pages for a hot set to be found in, small enough for a test.
            footprint_pages: 65_536,
            order: 0,
            // Ten million instructions per window with the value below.
            accesses_per_window: 100_000,
            // 10 misses per 1000 instructions, a memory-bound program: traces/README.md gives the
            // misses of the recorded ones, some above and some below it.
            instructions_per_access: 100,
            windows: None,
            // About one store to two loads, the usual mix of compiled code (Hennessy and Patterson,
            // "Computer Architecture", the instruction mixes of SPEC's integer programs).
            write_ratio: 1.0 / 3.0,
            file_fraction: 0.0,
            touch_first: true,
            exact: false,
            seed: 0,
            // YCSB's zipfian constant (Cooper et al., SoCC 2010).
            zipf_exponent: 0.99,
            scrambled: true,
            head_pages_per_window: 64,
            accesses_per_page: None,
            // A tenth of the pages has nine tenths of the accesses: a clear difference, but cold
            // pages are accessed too.
            hot_fraction: 0.1,
            hot_access_share: 0.9,
            motion: Motion::Stairs,
            dwell_windows: 10,
            change_windows: Vec::new(),
            // YCSB's default record: ten fields of 100 bytes.
            record_bytes: 1000,
        }
    }
}

/// The reason why a generator could not be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GenerateError {
    /// No generator has this name.
    #[error(
        "no generator is called \"{name}\"; choose one of: {}",
        GENERATORS.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ")
    )]
    UnknownGenerator {
        /// The value found.
        name: String,
    },
    /// A parameter is outside its range.
    #[error("{key} = {found} is not allowed: {allowed}")]
    Parameter {
        /// The field of [`GeneratorSpec`].
        key: &'static str,
        /// Its value.
        found: String,
        /// The values allowed.
        allowed: String,
    },
}

impl GenerateError {
    pub(super) fn parameter(key: &'static str, found: &dyn Display, allowed: &dyn Display) -> Self {
        Self::Parameter { key, found: found.to_string(), allowed: allowed.to_string() }
    }
}

impl GeneratorSpec {
    /// Pages of 2^`order` base pages in the footprint.
    #[must_use]
    pub fn places(&self) -> u64 {
        self.footprint_pages >> self.order
    }

    /// Bytes of one generated page.
    pub(super) fn place_bytes(&self) -> u64 {
        PAGE_BYTES << self.order
    }

    /// Checks what every generator needs; a pattern's own parameters are checked by the pattern.
    pub(super) fn check(&self) -> Result<(), GenerateError> {
        if self.order != 0 && self.order != HUGE_ORDER {
            return Err(GenerateError::parameter("order", &self.order, &"0 or 9"));
        }
        let span = 1_u64 << self.order;
        if self.footprint_pages == 0 || !self.footprint_pages.is_multiple_of(span) {
            let allowed = format!("a multiple of {span} base pages, above 0");
            return Err(GenerateError::parameter(
                "footprint_pages",
                &self.footprint_pages,
                &allowed,
            ));
        }
        if self.footprint_pages > MAX_FOOTPRINT_PAGES {
            let allowed = format!("at most {MAX_FOOTPRINT_PAGES}");
            return Err(GenerateError::parameter(
                "footprint_pages",
                &self.footprint_pages,
                &allowed,
            ));
        }
        at_least_one("accesses_per_window", u64::from(self.accesses_per_window))?;
        at_least_one("instructions_per_access", self.instructions_per_access)?;
        share("write_ratio", self.write_ratio)?;
        share("file_fraction", self.file_fraction)
    }
}

pub(super) fn at_least_one(key: &'static str, value: u64) -> Result<(), GenerateError> {
    if value == 0 {
        return Err(GenerateError::parameter(key, &value, &"1 or more"));
    }
    Ok(())
}

pub(super) fn share(key: &'static str, value: f64) -> Result<(), GenerateError> {
    if !(0.0..=1.0).contains(&value) {
        return Err(GenerateError::parameter(key, &value, &"0 to 1"));
    }
    Ok(())
}
