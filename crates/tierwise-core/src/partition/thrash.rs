//! Thrash detection (Equilibria, section IV-F): recently promoted pages in a fixed-size table, sampled; a page
//! that is demoted while it is there and young is a thrash event of its tenant.
//!
//! ```
//! use tierwise_core::partition::ThrashTable;
//! use tierwise_core::units::{PageId, Timestamp};
//! use std::time::Duration;
//!
//! let mut table = ThrashTable::default();
//! let sampled = (0..).map(PageId).find(|&page| ThrashTable::samples(page)).unwrap();
//! table.promoted(sampled, Timestamp(0));
//! let young = Duration::from_secs(2);
//! assert!(table.demoted(sampled, Timestamp(1_000_000_000), young));
//! assert!(!table.demoted(sampled, Timestamp(1_000_000_000), young), "counted once");
//! table.promoted(sampled, Timestamp(0));
//! assert!(!table.demoted(sampled, Timestamp(2_000_000_000), young), "it stayed long enough");
//! ```

use std::time::Duration;

use crate::units::{PageId, Timestamp};

/// Slots: 192 KiB, for 16 Ki sampled promotions. With one page in [`SAMPLE`] sampled, a period of 5 s holds
/// the promotions of 50 000 pages a second, as many as one core migrates.
const SLOTS: usize = 1 << 14;

/// One page in so many is followed.
pub const SAMPLE: u64 = 16;

/// Pages promoted in this period.
#[derive(Debug, Clone)]
pub struct ThrashTable {
    slots: Vec<Option<(PageId, Timestamp)>>,
}

impl Default for ThrashTable {
    fn default() -> Self {
        Self { slots: vec![None; SLOTS] }
    }
}

/// The finaliser of splitmix64: neighbouring pages get unrelated slots.
fn hash(page: PageId) -> u64 {
    let x = u64::from(page.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 31)
}

impl ThrashTable {
    /// Whether a page is among those followed.
    pub fn samples(page: PageId) -> bool {
        hash(page).is_multiple_of(SAMPLE)
    }

    fn slot(&mut self, page: PageId) -> &mut Option<(PageId, Timestamp)> {
        &mut self.slots[(hash(page) / SAMPLE) as usize % SLOTS]
    }

    /// A page was promoted. It takes its slot from whoever is there.
    pub fn promoted(&mut self, page: PageId, now: Timestamp) {
        if Self::samples(page) {
            *self.slot(page) = Some((page, now));
        }
    }

    /// A page was demoted. True if it had been promoted less than `resident` ago: a thrash event, which
    /// stands for [`SAMPLE`] pages.
    pub fn demoted(&mut self, page: PageId, now: Timestamp, resident: Duration) -> bool {
        if !Self::samples(page) {
            return false;
        }
        let slot = self.slot(page);
        let Some((_, at)) = slot.filter(|(known, _)| *known == page) else { return false };
        *slot = None;
        now.since(at) < resident
    }

    /// The period is over.
    pub fn clear(&mut self) {
        self.slots.fill(None);
    }
}
