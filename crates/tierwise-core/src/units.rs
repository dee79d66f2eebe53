//! The quantities of tiered memory. Each has its own type, so that a page number cannot be mistaken
//! for a count of pages, nor bytes for pages.
//!
//! ```
//! use tierwise_core::units::{Bytes, Pages, Timestamp};
//! use std::time::Duration;
//!
//! let page = Bytes(4096);
//! assert_eq!(Bytes::parse("1GiB").unwrap(), Bytes(1 << 30));
//! assert_eq!(Bytes(1 << 30).in_pages(page), Pages(262_144));
//! assert_eq!(Timestamp::ZERO + Duration::from_secs(1), Timestamp(1_000_000_000));
//! ```

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// A page, the unit of placement: a dense index into every table of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

/// A memory tier; 0 is the fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TierId(pub u8);

/// A tenant: a control group, a list of processes or a virtual machine that shares memory with
/// others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u16);

/// A count of base pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Pages(pub u64);

/// The largest size that is read, 4 PiB: the physical addresses of x86-64 have 52 bits.
const MAX_BYTES: f64 = (1_u64 << 52) as f64;

/// A count of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

/// Bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(pub u64);

/// Nanoseconds since the world started; virtual in the simulator, monotonic on a live host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

/// Hotness of a page. Only the order has a meaning, and only within one estimator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Hotness(pub u32);

impl PageId {
    /// The index as a table index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl TierId {
    /// The fastest tier of every machine.
    pub const FASTEST: Self = Self(0);

    /// The index as a table index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The next slower tier, which may not exist: see [`crate::topology::Topology::slower`].
    pub const fn slower(self) -> Self {
        Self(self.0 + 1)
    }

    /// The next faster tier; `None` for the fastest.
    pub const fn faster(self) -> Option<Self> {
        match self.0 {
            0 => None,
            n => Some(Self(n - 1)),
        }
    }
}

impl TenantId {
    /// The index as a table index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Pages {
    /// The same amount in bytes.
    pub const fn in_bytes(self, page_size: Bytes) -> Bytes {
        Bytes(self.0 * page_size.0)
    }

    /// Subtraction that stops at zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Bytes {
    /// The number of whole pages that fit.
    pub const fn in_pages(self, page_size: Self) -> Pages {
        Pages(self.0 / page_size.0)
    }

    /// Reads "4096", "64KiB", "1.5 GiB", "32GB". Binary units have an i; decimal ones do not.
    ///
    /// # Errors
    /// The text is not a size, or the size is above 4 PiB; the message has the allowed forms.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let factor: u64 = match unit.trim() {
            "" | "B" => 1,
            "KiB" | "K" => 1 << 10,
            "MiB" | "M" => 1 << 20,
            "GiB" | "G" => 1 << 30,
            "TiB" | "T" => 1 << 40,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            _ => {
                return Err(format!(
                    "\"{text}\" is not a size; write for instance 4096, \"64KiB\" or \"1.5GiB\""
                ));
            }
        };
        match number.parse::<f64>() {
            Ok(value) if value * factor as f64 <= MAX_BYTES => {
                Ok(Self((value * factor as f64).round() as u64))
            }
            Ok(value) if value.is_finite() => {
                Err(format!("\"{text}\" is larger than any memory; allowed: up to 4096TiB"))
            }
            _ => Err(format!(
                "\"{text}\" is not a size; write for instance 4096, \"64KiB\" or \"1.5GiB\""
            )),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        if value.fract() == 0.0 {
            write!(f, "{value:.0} {}", UNITS[unit])
        } else {
            write!(f, "{value:.1} {}", UNITS[unit])
        }
    }
}

impl Timestamp {
    /// The start of the world.
    pub const ZERO: Self = Self(0);

    /// Time passed since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Seconds since the world started.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        // 2^64 ns are 584 years: a duration beyond that is "never", not an overflow.
        Self(self.0.saturating_add(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}

macro_rules! arithmetic {
    ($($name:ident),*) => {$(
        impl Add for $name {
            type Output = Self;
            fn add(self, rhs: Self) -> Self {
                Self(self.0 + rhs.0)
            }
        }
        impl Sub for $name {
            type Output = Self;
            fn sub(self, rhs: Self) -> Self {
                Self(self.0 - rhs.0)
            }
        }
        impl AddAssign for $name {
            fn add_assign(&mut self, rhs: Self) {
                self.0 += rhs.0;
            }
        }
        impl SubAssign for $name {
            fn sub_assign(&mut self, rhs: Self) {
                self.0 -= rhs.0;
            }
        }
        impl std::iter::Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self::default(), |a, b| a + b)
            }
        }
    )*};
}
arithmetic!(Pages, Bytes);
