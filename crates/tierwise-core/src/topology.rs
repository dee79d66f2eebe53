//! The machine: memory tiers, fastest first, with the kernel's watermarks.
//!
//! Watermarks follow the kernel's own derivation (`mm/page_alloc.c`: `calculate_min_free_kbytes`,
//! `__setup_per_zone_wmarks`). The machine reserves `min_free_kbytes = 4 * sqrt(memory in KiB)`,
//! clamped to 128 KiB and 256 MiB, and spreads it over the tiers by their size. Then, with
//! `watermark_scale_factor` (10, in ten-thousandths of the tier),
//! `gap = max(min / 4, size * factor / 10000)`, `low = min + gap`, `high = low + gap` and, for
//! promotion under memory tiering (`WMARK_PROMO`), `promo = high + gap`.
//!
//! ```
//! use tierwise_core::topology::Watermarks;
//! use tierwise_core::units::{Bytes, Pages};
//!
//! // A 16 GiB tier of a 16 GiB machine: min_free_kbytes = 4 * sqrt(16777216) = 16384 KiB.
//! let size = Pages(4 << 20);
//! let marks = Watermarks::kernel(size, size, Bytes(4096), 10);
//! assert_eq!(marks.min, Pages(4096));
//! assert_eq!(marks.low, Pages(4096 + 4194)); // the scale factor wins: 4194304 * 10 / 10000
//! assert_eq!(marks.high, Pages(4096 + 2 * 4194));
//! assert_eq!(marks.promo, Pages(4096 + 3 * 4194));
//! ```

use std::time::Duration;

use crate::units::{Bandwidth, Bytes, Pages, TierId};

/// Free-page thresholds of one tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermarks {
    /// Below this only reclaim may allocate.
    pub min: Pages,
    /// Below this kswapd wakes and, with demotion enabled, demotes.
    pub low: Pages,
    /// kswapd stops here.
    pub high: Pages,
    /// kswapd stops here on a tier into which pages are promoted.
    pub promo: Pages,
}

impl Watermarks {
    /// No reserve, for bounds and for examples that are computed by hand.
    pub const NONE: Self = Self { min: Pages(0), low: Pages(0), high: Pages(0), promo: Pages(0) };

    /// The kernel's watermarks of a tier of `size` base pages in a machine of `machine` base pages.
    /// `scale_factor` is `vm.watermark_scale_factor` (kernel default 10).
    pub fn kernel(size: Pages, machine: Pages, page_size: Bytes, scale_factor: u64) -> Self {
        let machine_kib = machine.0 * page_size.0 / 1024;
        // calculate_min_free_kbytes(): int_sqrt(lowmem_kbytes * 16), clamped.
        let min_free_kib =
            ((machine_kib * 16) as f64).sqrt().floor().clamp(128.0, 262_144.0) as u64;
        let min_free_pages = min_free_kib * 1024 / page_size.0;
        let min = min_free_pages * size.0 / machine.0.max(1);
        let gap = (min / 4).max(size.0 * scale_factor / 10_000);
        // A tier smaller than its own reserve could hold no pages: never reserve more than a
        // quarter.
        let fit = |pages: u64| Pages(pages.min(size.0 / 4));
        Self {
            min: fit(min),
            low: fit(min + gap),
            high: fit(min + 2 * gap),
            promo: fit(min + 3 * gap),
        }
    }

    /// The threshold at a level.
    pub const fn at(&self, level: WatermarkLevel) -> Pages {
        match level {
            WatermarkLevel::None => Pages(0),
            WatermarkLevel::Min => self.min,
            WatermarkLevel::Low => self.low,
            WatermarkLevel::High => self.high,
            WatermarkLevel::Promo => self.promo,
        }
    }
}

/// Names one of the [`Watermarks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatermarkLevel {
    /// Zero free pages.
    None,
    /// [`Watermarks::min`].
    Min,
    /// [`Watermarks::low`].
    Low,
    /// [`Watermarks::high`].
    High,
    /// [`Watermarks::promo`].
    Promo,
}

/// One memory tier.
#[derive(Debug, Clone, PartialEq)]
pub struct Tier {
    /// Name in reports: "DRAM", "CXL".
    pub name: String,
    /// Size in base pages.
    pub capacity: Pages,
    /// Free-page thresholds.
    pub watermarks: Watermarks,
    /// Latency of a load on an idle machine.
    pub load_latency: Duration,
    /// Latency of a store on an idle machine.
    pub store_latency: Duration,
    /// Peak bandwidth.
    pub bandwidth: Bandwidth,
}

/// The tiers of a machine, fastest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// Size of a base page in bytes.
    pub page_size: Bytes,
    /// The tiers; [`TierId`] is the index.
    pub tiers: Vec<Tier>,
}

impl Topology {
    /// The maximum number of tiers: a page keeps its tier in three bits, and one value means
    /// "absent".
    pub const MAX_TIERS: usize = 7;

    /// The tier's description.
    pub fn tier(&self, tier: TierId) -> &Tier {
        &self.tiers[tier.index()]
    }

    /// All tiers, fastest first.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = TierId> + use<> {
        (0..self.tiers.len() as u8).map(TierId)
    }

    /// The slowest tier.
    pub fn slowest(&self) -> TierId {
        TierId(self.tiers.len() as u8 - 1)
    }

    /// The next slower tier, if there is one.
    pub fn slower(&self, tier: TierId) -> Option<TierId> {
        (tier.index() + 1 < self.tiers.len()).then(|| tier.slower())
    }

    /// Capacity of all tiers.
    pub fn capacity(&self) -> Pages {
        self.tiers.iter().map(|t| t.capacity).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tiny_tier_keeps_most_of_itself() {
        let marks = Watermarks::kernel(Pages(8), Pages(8), Bytes(4096), 10);
        assert_eq!(marks.promo, Pages(2));
    }

    #[test]
    fn min_free_is_shared_by_size() {
        let page = Bytes(4096);
        let (fast, slow) = (Pages(1 << 20), Pages(3 << 20));
        let machine = fast + slow;
        let a = Watermarks::kernel(fast, machine, page, 10).min;
        let b = Watermarks::kernel(slow, machine, page, 10).min;
        // 16 GiB: 16384 KiB in all, a quarter of it in the fast tier.
        assert_eq!((a, b), (Pages(1024), Pages(3072)));
    }
}
