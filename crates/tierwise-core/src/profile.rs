//! Offline profiles: a tenant's throughput as a function of its fast memory (MTAT, sections 3.2.2
//! and 4).
//!
//! ```
//! use tierwise_core::profile::Profile;
//! use tierwise_core::units::Bytes;
//!
//! let gb = |n: u64| Bytes(n << 30);
//! let profile = Profile::new(vec![(gb(0), 50.0), (gb(10), 80.0), (gb(20), 100.0)]).unwrap();
//! assert_eq!(profile.normalised(gb(20)), 1.0);   // equation 3: Perf_alloc / Perf_full
//! assert_eq!(profile.normalised(gb(10)), 0.8);
//! assert_eq!(profile.normalised(gb(5)), 0.65);   // between two points
//! assert_eq!(profile.normalised(gb(99)), 1.0);   // beyond the last
//!
//! let error = Profile::new(vec![(gb(1), 50.0)]).unwrap_err();
//! assert!(error.to_string().starts_with("a profile needs at least two points"));
//! ```

use crate::units::Bytes;

/// Throughput at sizes of fast memory, in ascending order of size.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    points: Vec<(Bytes, f64)>,
}

/// The reason why points do not make a profile.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// Interpolation needs at least two points.
    #[error("a profile needs at least two points, found {0}; profile the program again")]
    TooFew(usize),
    /// The sizes do not rise.
    #[error("point {0}: its size is not above the one before; write points in ascending order")]
    Order(usize),
    /// A throughput is not a number above zero.
    #[error("point {0}: found a throughput of {1}; allowed: a number above zero")]
    Throughput(usize, f64),
}

impl Profile {
    /// Makes a profile from pairs of fast memory and throughput, ascending.
    ///
    /// # Errors
    /// There are fewer than two points, sizes do not rise, or a throughput is not above zero.
    pub fn new(points: Vec<(Bytes, f64)>) -> Result<Self, ProfileError> {
        if points.len() < 2 {
            return Err(ProfileError::TooFew(points.len()));
        }
        for (i, point) in points.iter().enumerate() {
            if !point.1.is_finite() || point.1 <= 0.0 {
                return Err(ProfileError::Throughput(i, point.1));
            }
            if i > 0 && points[i - 1].0 >= point.0 {
                return Err(ProfileError::Order(i));
            }
        }
        Ok(Self { points })
    }

    /// The pairs of fast memory and throughput, ascending.
    pub fn points(&self) -> &[(Bytes, f64)] {
        &self.points
    }

    /// Throughput with `fast` bytes of fast memory, on the line between the two nearest points. It
    /// is constant before the first point and after the last.
    pub fn throughput(&self, fast: Bytes) -> f64 {
        let above = self.points.partition_point(|&(size, _)| size <= fast);
        if above == 0 {
            return self.points[0].1;
        }
        let (from, low) = self.points[above - 1];
        let Some(&(to, high)) = self.points.get(above) else { return low };
        low + (high - low) * (fast.0 - from.0) as f64 / (to.0 - from.0) as f64
    }

    /// The normalised performance (MTAT, equation 3): the throughput divided by that of the last
    /// point.
    pub fn normalised(&self, fast: Bytes) -> f64 {
        let full = self.points.last().map_or(1.0, |&(_, throughput)| throughput);
        self.throughput(fast) / full
    }
}
