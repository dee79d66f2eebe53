//! The zones of the fast node: its lowest one, `ZONE_DMA`, apart from the rest.
//!
//! Checks of free memory are by zone (`zone_watermark_ok`), and one zone that passes is enough. So
//! a small zone of its own decides much on a small node: it passes after a few of its pages were
//! freed. The rules:
//!
//! - The node's watermarks are split by size (`__setup_per_zone_wmarks`).
//! - Of the lower zone a part is kept for requests that need it: a 256th of the zones above
//!   (`setup_per_zone_lowmem_reserve`, `lowmem_reserve_ratio`).
//! - Allocation prefers the upper zone while more than its low watermark is free, then the lower
//!   one while more than its low watermark and the reserve are free (`get_page_from_freelist`).

use crate::config::{ConfigError, Section};
use crate::topology::{Tier, Watermarks};
use crate::units::{Bytes, Pages};

/// `sysctl_lowmem_reserve_ratio` of `ZONE_DMA`.
const RESERVE_RATIO: u64 = 256;

/// The fast node's zones.
#[derive(Debug, Clone)]
pub(super) struct Zones {
    /// Size of the lower zone; zero if there is one zone only.
    dma: Pages,
    /// Size of the node. A tier can be smaller: the part of a node that programs can have.
    node: Pages,
    /// Pages of programs in the lower zone.
    used: Pages,
}

/// Free pages above a watermark of each zone; negative below it.
#[derive(Debug, Clone, Copy)]
struct Room {
    upper: i64,
    lower: Option<i64>,
}

impl Zones {
    /// Reads `dma_zone` (0: the tier is one zone) and `node_memory` (the tier's size).
    ///
    /// # Errors
    /// The zone is larger than the node.
    pub(super) fn read(
        section: &Section<'_>,
        fast: &Tier,
        page_size: Bytes,
    ) -> Result<Self, ConfigError> {
        let dma = section.bytes_or("dma_zone", Bytes(0))?;
        let node = section.bytes_or("node_memory", fast.capacity.in_bytes(page_size))?;
        if dma > node {
            return Err(section.error(
                "dma_zone",
                format!("found {} bytes; allowed: up to node_memory, {} bytes", dma.0, node.0),
            ));
        }
        let pages = |bytes: Bytes| bytes.in_pages(page_size);
        Ok(Self { dma: pages(dma), node: pages(node), used: Pages(0) })
    }

    fn lower_part(&self, mark: Pages) -> i64 {
        (u128::from(mark.0) * u128::from(self.dma.0) / u128::from(self.node.0.max(1))) as i64
    }

    /// Free pages of the lower zone beyond those kept for other requests.
    fn lower_free(&self) -> i64 {
        (self.dma - self.used).0 as i64 - self.reserve()
    }

    fn reserve(&self) -> i64 {
        ((self.node - self.dma).0 / RESERVE_RATIO) as i64
    }

    fn room(&self, free: Pages, mark: Pages) -> Room {
        if self.dma == Pages(0) {
            return Room { upper: free.0 as i64 - mark.0 as i64, lower: None };
        }
        let part = self.lower_part(mark);
        let upper = free.0 as i64 - (self.dma - self.used).0 as i64;
        Room { upper: upper - (mark.0 as i64 - part), lower: Some(self.lower_free() - part) }
    }

    /// Returns true if a zone has more free than a watermark and `more` pages; `free` are the free
    /// pages of the node.
    pub(super) fn any_above(&self, free: Pages, mark: Pages, more: u64) -> bool {
        let room = self.room(free, mark);
        room.upper > more as i64 || room.lower.is_some_and(|lower| lower > more as i64)
    }

    /// Returns true if every zone has.
    pub(super) fn all_above(&self, free: Pages, mark: Pages, more: u64) -> bool {
        let room = self.room(free, mark);
        room.upper > more as i64 && room.lower.is_none_or(|lower| lower > more as i64)
    }

    /// Takes a page of `frames` base pages; returns true if it is in the lower zone. `free` are the
    /// free pages before.
    pub(super) fn allocate(&mut self, free: Pages, marks: &Watermarks, frames: u64) -> bool {
        let room = self.room(free, marks.low);
        let frames = frames as i64;
        let is_lower = room.upper < frames && room.lower.is_some_and(|lower| lower >= frames);
        if is_lower {
            self.used += Pages(frames as u64);
        }
        is_lower
    }

    /// Takes a page of the lower zone.
    pub(super) fn take_lower(&mut self, frames: u64) {
        self.used += Pages(frames);
    }

    /// Frees a page of the lower zone.
    pub(super) fn free_lower(&mut self, frames: u64) {
        self.used = self.used.saturating_sub(Pages(frames));
    }

    /// Base pages that programs hold in the lower zone, if `free` pages of the node are free and
    /// all memory was allocated by the rules.
    pub(super) fn filled(&self, free: Pages, marks: &Watermarks) -> Pages {
        let low = self.lower_part(marks.low);
        let upper_low = marks.low.0 as i64 - low;
        // The upper zone is drained first, then the lower one, each to its low watermark. On a
        // large node the reserve is more than the lower zone, of which nothing is used.
        let most = self.dma.0 as i64;
        let least = (low + self.reserve()).min(most);
        Pages((most - (free.0 as i64 - upper_low).clamp(least, most)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::topology;
    use super::*;
    use crate::config::Document;

    /// A node of 2,816 pages with a lower zone of 256, of which 10 are kept: marks 10 and 100.
    fn zones() -> Zones {
        Zones { dma: Pages(256), node: Pages(2816), used: Pages(0) }
    }

    const MARKS: Watermarks =
        Watermarks { min: Pages(88), low: Pages(110), high: Pages(132), promo: Pages(154) };

    #[test]
    fn one_zone_is_the_whole_tier() {
        let document = Document::parse("t.toml", "").unwrap();
        let tier = &topology(2).tiers[0];
        let zones = Zones::read(&document.root(), tier, Bytes(4096)).unwrap();
        assert!(zones.any_above(Pages(9), Pages(8), 0) && !zones.any_above(Pages(8), Pages(8), 0));
        assert!(zones.all_above(Pages(9), Pages(8), 0));
        assert_eq!(zones.filled(Pages(3), &tier.watermarks), Pages(0));
    }

    #[test]
    fn allocation_drains_the_upper_zone_first() {
        let mut zones = zones();
        // 100 pages are the upper zone's low mark; 256 of the lower zone are free too.
        assert!(!zones.allocate(Pages(256 + 101), &MARKS, 1));
        assert!(zones.allocate(Pages(256 + 100), &MARKS, 1));
        zones.used = Pages(236);
        // 20 free: the low mark of 10 and the reserve of 10.
        assert!(!zones.allocate(Pages(20 + 100), &MARKS, 1), "below both: the upper zone again");
    }

    #[test]
    fn few_free_lower_pages_balance_the_node() {
        let mut zones = zones();
        zones.used = Pages(232);
        // The upper zone is at its low mark; the lower has 24 free: 14 above the promo mark's 10.
        assert!(!zones.any_above(Pages(100 + 24), MARKS.promo, 0));
        zones.free_lower(1);
        assert!(zones.any_above(Pages(100 + 25), MARKS.promo, 0));
        assert!(!zones.all_above(Pages(100 + 25), MARKS.promo, 0));
    }

    #[test]
    fn filled_node_has_both_at_low() {
        let zones = zones();
        assert_eq!(zones.filled(Pages(100 + 20), &MARKS), Pages(236));
        assert_eq!(zones.filled(Pages(90 + 20), &MARKS), Pages(236), "a little below low");
        assert_eq!(zones.filled(Pages(2000), &MARKS), Pages(0));
    }

    #[test]
    fn large_nodes_leave_the_lower_zone() {
        // 1 GiB: the reserve is 1,014 pages, more than the zone has.
        let zones = Zones { dma: Pages(256), node: Pages(1 << 18), used: Pages(0) };
        assert_eq!(zones.filled(Pages(0), &MARKS), Pages(0));
        assert!(!zones.any_above(Pages(256 + 100), MARKS.promo, 0));
        let one = Zones { dma: Pages(0), node: Pages(1 << 18), used: Pages(0) };
        assert_eq!(one.filled(Pages(0), &MARKS), Pages(0));
    }

    #[test]
    fn lower_zone_fits_into_its_node() {
        let text = "dma_zone = \"2MiB\"\nnode_memory = \"1MiB\"";
        let document = Document::parse("t.toml", text).unwrap();
        let error = Zones::read(&document.root(), &topology(2).tiers[0], Bytes(4096)).unwrap_err();
        assert!(error.to_string().contains("up to node_memory"), "{error}");
    }
}
