//! Free memory as a plan in the making will leave it.
//!
//! A policy that plans several moves at once must count the pages that its earlier moves take and
//! free.
//!
//! ```
//! use std::time::Duration;
//! use tierwise_core::room::Room;
//! use tierwise_core::topology::{Tier, Topology, WatermarkLevel, Watermarks};
//! use tierwise_core::units::*;
//!
//! let watermarks = Watermarks { min: Pages(2), low: Pages(4), high: Pages(6), promo: Pages(8) };
//! let tier = |name: &str| Tier {
//!     name: name.into(),
//!     capacity: Pages(100),
//!     watermarks,
//!     load_latency: Duration::from_nanos(100),
//!     store_latency: Duration::from_nanos(100),
//!     bandwidth: Bandwidth(30_000_000_000),
//! };
//! let topology = Topology { page_size: Bytes(4096), tiers: vec![tier("DRAM"), tier("CXL")] };
//!
//! let mut room = Room::new(&[Pages(6), Pages(50)]);
//! assert!(!room.fits(Pages(1), TierId(0), &topology, WatermarkLevel::High));
//! room.record(Pages(1), TierId(0), TierId(1)); // a demotion makes room
//! assert!(room.fits(Pages(1), TierId(0), &topology, WatermarkLevel::High));
//! assert_eq!(room.free(TierId(1)), Pages(49));
//! ```

use crate::topology::{Topology, WatermarkLevel};
use crate::units::{Pages, TierId};

/// Free base pages of each tier, kept up to date while moves are planned.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    free: [Pages; Topology::MAX_TIERS],
}

impl Room {
    /// Starts from what was last reported, fastest tier first. Tiers that were not reported are
    /// full.
    pub fn new(free: &[Pages]) -> Self {
        let mut room = Self { free: [Pages(0); Topology::MAX_TIERS] };
        room.free.iter_mut().zip(free).for_each(|(mine, &reported)| *mine = reported);
        room
    }

    /// Free base pages of a tier.
    pub fn free(&self, tier: TierId) -> Pages {
        self.free[tier.index()]
    }

    /// Whether a tier can take `frames` base pages and keep its watermark.
    pub fn fits(
        &self,
        frames: Pages,
        tier: TierId,
        topology: &Topology,
        level: WatermarkLevel,
    ) -> bool {
        self.free(tier) >= frames + topology.tier(tier).watermarks.at(level)
    }

    /// The fastest of the tiers slower than `from` that can take `frames` base pages and keep its
    /// watermark.
    pub fn slower_with_room(
        &self,
        frames: Pages,
        from: TierId,
        topology: &Topology,
        level: WatermarkLevel,
    ) -> Option<TierId> {
        topology.ids().find(|&to| to > from && self.fits(frames, to, topology, level))
    }

    /// Counts a planned move.
    pub fn record(&mut self, frames: Pages, from: TierId, to: TierId) {
        self.free[to.index()] = self.free(to).saturating_sub(frames);
        self.free[from.index()] += frames;
    }
}
