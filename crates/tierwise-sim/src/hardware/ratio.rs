//! The slow memory behind the fast memory of Flat Memory Mode, as a ratio.

use super::HardwareError;

/// Bytes of slow memory per byte of fast memory: 1 is the built hardware (Memstrata, section 3.1);
/// 2 and 4 are possible according to the paper (section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio(u8);

impl Ratio {
    /// As much slow memory as fast memory: the default.
    pub const ONE: Self = Self(1);

    /// Twice as much slow memory as fast memory.
    pub const TWO: Self = Self(2);

    /// Makes a ratio of one to `slow`.
    ///
    /// # Errors
    /// `slow` is none of 1, 2 and 4.
    pub fn new(slow: u64) -> Result<Self, HardwareError> {
        match slow {
            1 | 2 | 4 => Ok(Self(slow as u8)),
            found => Err(HardwareError::Ratio { found }),
        }
    }

    /// Bytes of slow memory to each byte of fast memory.
    pub const fn slow(self) -> u32 {
        self.0 as u32
    }

    /// Lines of the address space that share one place in Flat Memory Mode's fast memory.
    pub const fn ways(self) -> u32 {
        self.0 as u32 + 1
    }
}
