//! Memory tiers that the CPU manages itself, line by line, regardless of the lines' owners.
//!
//! Two machines are modelled. [`FlatMemory`] is Intel Flat Memory Mode (Zhong et al., OSDI 2024,
//! section 3.1): fast and slow memory are one physical address space, each line is in exactly one
//! of them, and a line that is read from slow memory changes places with the one that shares its
//! place in fast memory. [`TwoLevelMemory`] is 2LM, Optane's memory mode: fast memory is an
//! inclusive, direct-mapped cache of the slow memory and adds no capacity.
//!
//! Both are exact, line by line. [`PageModel`] is their page-level approximation for long runs, and
//! [`error`] measures its loss of accuracy. The simulated host runs the approximation to find the
//! part of a tenant's misses that slow memory serves.
//!
//! ```
//! use tierwise_sim::hardware::{FlatMemory, Ratio, ServedBy};
//!
//! // Four fast lines and four slow ones: lines 1 and 5 share a place.
//! let mut memory = FlatMemory::new(4, Ratio::ONE, 1, 1).unwrap();
//! assert_eq!(memory.read(1), ServedBy::Fast);
//! assert_eq!(memory.read(5), ServedBy::Slow); // and 5 takes the place of 1
//! assert_eq!(memory.read(5), ServedBy::Fast);
//! assert_eq!(memory.read(1), ServedBy::Slow);
//! ```

pub mod counters;
pub mod error;
mod flat;
mod page_model;
mod ratio;
pub mod spread;
mod traffic;
mod two_level;

pub use flat::{FlatMemory, Location};
pub(crate) use page_model::LINES_PER_PAGE;
pub use page_model::{Expected, PageModel, expect};
pub use ratio::Ratio;
pub use traffic::{ChannelTraffic, Traffic};
pub use two_level::TwoLevelMemory;

use crate::units::LINE;

/// The memory that answered a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedBy {
    /// Fast memory: its tag matched.
    Fast,
    /// Slow memory, after a read of fast memory that found another line.
    Slow,
}

/// The CPU's management of the last tier of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManagementMode {
    /// Flat Memory Mode, with this ratio of slow to fast memory.
    Flat(Ratio),
    /// 2LM, with this ratio of slow memory to the cache.
    TwoLevel(Ratio),
}

/// Distribution of the pages that share a place in fast memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Colouring {
    /// They always belong to one tenant (Memstrata, section 4.1).
    #[default]
    Isolated,
    /// They belong to different tenants, wherever possible: the worst case of section 3.3.
    Conflicting,
}

/// Description of a hardware-managed machine. Its last tier is the managed one; the tiers before
/// it are dedicated (mixed mode, section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hardware {
    /// Placement of lines.
    pub mode: ManagementMode,
    /// Placement of pages.
    pub colouring: Colouring,
}

/// The reason why a model cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HardwareError {
    /// Too few or too many lines.
    #[error(
        "found {found} fast lines; allowed: 1 to {limit} (a line has {LINE} bytes); change the \
         size of fast memory",
        limit = u32::MAX
    )]
    Lines {
        /// The value found.
        found: u64,
    },
    /// No memory channels, or too many.
    #[error("found {found} memory channels; allowed: 1 to 1024")]
    Channels {
        /// The value found.
        found: u32,
    },
    /// The slow memory is too small to be cached, or too large for the tags.
    #[error(
        "found {slow} slow lines behind {fast} fast ones; allowed: 1 to {limit} times as many",
        limit = TwoLevelMemory::MAX_WAYS
    )]
    Slow {
        /// Lines of slow memory.
        slow: u64,
        /// Lines of fast memory.
        fast: u64,
    },
    /// A ratio that the tags of the hardware cannot have.
    #[error("found a ratio of 1:{found}; allowed: 1 (1:1), 2 (1:2), 4 (1:4)")]
    Ratio {
        /// The value found.
        found: u64,
    },
}

/// Checks a number of fast lines: places are numbered in 32 bits.
fn check_lines(found: u64) -> Result<u32, HardwareError> {
    u32::try_from(found).ok().filter(|&lines| lines > 0).ok_or(HardwareError::Lines { found })
}
