//! A set-associative cache with least-recently-used replacement.
//!
//! It decides whether an access reaches memory. A set keeps its `ways` most recently used lines. 64
//! successive lines, a page of 4 KiB, are in successive sets. The page's place among the sets, its
//! colour, is hashed by the address above, as server CPUs hash it, so that arrays whose sizes are
//! powers of two do not collide.
//!
//! ```
//! use tierwise_trace::cache::{Cache, parse_geometry};
//! // 256 bytes, 2 ways of 64-byte lines: two sets, even lines in one and odd lines in the other.
//! let mut cache = Cache::new(parse_geometry("256/2").unwrap()).unwrap();
//! assert!(cache.access(0)); // a miss: empty
//! assert!(cache.access(2));
//! assert!(!cache.access(0)); // a hit; now 2 is the set's oldest line
//! assert!(cache.access(4)); // takes the place of 2
//! assert!(!cache.access(0));
//! assert!(cache.access(2));
//! ```
//!
//! The recorder's own model (recorder/common/cache_model.h) behaves the same; a test compares both
//! on one sequence of accesses.

use crate::CacheModel;

/// Line size when a geometry does not name one: that of x86-64 and AArch64 servers.
pub const LINE_BYTES: u32 = 64;

/// The cache that a recording models by default: 32 MiB, 16 ways, about the part of a server CPU's
/// shared cache that one tenant of a socket gets.
pub const DEFAULT: CacheModel =
    CacheModel { size_bytes: 32 << 20, ways: 16, line_bytes: LINE_BYTES };

/// Lines of a page: 2^6.
const PAGE_BITS: u32 = 6;
/// The golden ratio in 64 bits (Knuth, The Art of Computer Programming, volume 3, 6.4).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The reason why a cache geometry is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// The text is not of the form SIZE/WAYS.
    #[error("cache {text:?}: allowed: SIZE/WAYS, for instance 32MiB/16")]
    Form {
        /// The text found.
        text: String,
    },
    /// The number of sets is no power of two.
    #[error(
        "cache of {size_bytes} bytes, {ways} ways, {line_bytes}-byte lines: the size divided by \
         ways times line must be a power of two, from 1 to 2^31"
    )]
    Sets {
        /// Capacity.
        size_bytes: u64,
        /// Associativity.
        ways: u32,
        /// Line size.
        line_bytes: u32,
    },
}

/// Reads SIZE/WAYS, the size in bytes or with KiB, MiB or GiB.
///
/// # Errors
/// The text has another form, or the number of sets is no power of two.
pub fn parse_geometry(text: &str) -> Result<CacheModel, GeometryError> {
    let form = || GeometryError::Form { text: text.to_owned() };
    let (size, ways) = text.split_once('/').ok_or_else(form)?;
    let digits = size.find(|c: char| !c.is_ascii_digit()).unwrap_or(size.len());
    let (number, unit) = size.split_at(digits);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        _ => return Err(form()),
    };
    let number: u64 = number.parse().map_err(|_| form())?;
    let size_bytes = number.checked_mul(1 << shift).ok_or_else(form)?;
    let ways = ways.trim().parse().map_err(|_| form())?;
    let model = CacheModel { size_bytes, ways, line_bytes: LINE_BYTES };
    sets(model)?;
    Ok(model)
}

/// The number of sets, which must be a power of two.
fn sets(model: CacheModel) -> Result<u64, GeometryError> {
    let CacheModel { size_bytes, ways, line_bytes } = model;
    let per_set = u64::from(ways) * u64::from(line_bytes);
    let sets = size_bytes.checked_div(per_set).unwrap_or(0);
    if sets.is_power_of_two() && sets <= 1 << 31 && sets * per_set == size_bytes {
        Ok(sets)
    } else {
        Err(GeometryError::Sets { size_bytes, ways, line_bytes })
    }
}

/// A cache: the tags of its sets.
#[derive(Debug)]
pub struct Cache {
    /// Sets one after the other; within a set, the most recently used line first. 0 is an empty
    /// way, a line's tag is stored plus one.
    tags: Vec<u32>,
    ways: usize,
    set_mask: u64,
    set_bits: u32,
}

impl Cache {
    /// Makes an empty cache.
    ///
    /// # Errors
    /// The number of sets is no power of two.
    pub fn new(model: CacheModel) -> Result<Self, GeometryError> {
        let sets = sets(model)?;
        let ways = model.ways as usize;
        Ok(Self {
            tags: vec![0; sets as usize * ways],
            ways,
            set_mask: sets - 1,
            set_bits: sets.trailing_zeros(),
        })
    }

    /// The set of a line. The bits of its number above those of the set select its page's colour.
    fn set_of(&self, line: u64) -> usize {
        let colour_bits = self.set_bits.saturating_sub(PAGE_BITS);
        let hash = (line >> self.set_bits).wrapping_mul(GOLDEN);
        let colour = hash.checked_shr(u64::BITS - colour_bits).unwrap_or(0) << PAGE_BITS;
        ((line ^ colour) & self.set_mask) as usize
    }

    /// Accesses a line (an address divided by the line size). Returns true if it missed.
    pub fn access(&mut self, line: u64) -> bool {
        let start = self.set_of(line) * self.ways;
        let set = &mut self.tags[start..start + self.ways];
        let tag = ((line >> self.set_bits) as u32).wrapping_add(1);
        let found = set.iter().position(|&t| t == tag);
        set[..=found.unwrap_or(self.ways - 1)].rotate_right(1);
        set[0] = tag;
        found.is_none()
    }
}
