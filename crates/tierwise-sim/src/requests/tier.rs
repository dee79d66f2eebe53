//! The interface to the host: current costs of misses, and the monitor of the touches.

use tierwise_core::topology::Topology;

/// A request's wait for one miss in each tier, in nanoseconds, fastest first: the loaded latency
/// divided by the misses that a thread keeps in flight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TierCosts<'a> {
    /// A load.
    pub load_ns: &'a [f64],
    /// A store.
    pub store_ns: &'a [f64],
}

/// The engine's tiers, and one for units in no tier.
pub(super) const TIERS: usize = Topology::MAX_TIERS + 1;

/// A request's touch of a unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Touch {
    /// The unit.
    pub local: u32,
    /// The unit's tier.
    pub tier: u8,
    /// Start of its request, in nanoseconds.
    pub at_ns: u64,
    /// Load misses.
    pub loads: f64,
    /// Store misses.
    pub stores: f64,
}

impl Touch {
    /// Returns true if the touch has stores.
    pub fn writes(&self) -> bool {
        self.stores > 0.0
    }
}

/// The monitor of the touches: reference bits, hint faults, samples.
pub trait Touches {
    /// Handles a request's touch of a unit. Returns the cost of its monitoring for the request in
    /// nanoseconds. A unit that every request accesses in the caches is touched once per step,
    /// without a miss.
    fn touch(&mut self, touch: &Touch) -> f64;
}

/// A monitor that reports nothing and costs nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Touches for Unwatched {
    #[inline]
    fn touch(&mut self, _: &Touch) -> f64 {
        0.0
    }
}
