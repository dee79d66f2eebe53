//! The engine's table of pages: four bytes per page.
//!
//! A page's word holds its tenant, tier, kind, size and the flags that the kernel keeps in `struct
//! page` and in the page table entry. With the eight bytes of its list links ([`crate::lists`]) a
//! page costs the engine twelve bytes, 0.3 % of the 4 KiB for which it stands.
//!
//! ```
//! use tierwise_core::page::{Attributes, PageKind, PageTable};
//! use tierwise_core::units::{PageId, TenantId, TierId};
//!
//! let mut pages = PageTable::default();
//! let (tenant, tier) = (TenantId(1), TierId(1));
//! pages.insert(PageId(3), Attributes { tenant, tier, kind: PageKind::Anon, order: 9 });
//! assert_eq!(pages.tier(PageId(3)), Some(TierId(1)));
//! assert_eq!(pages.frames(PageId(3)), 512);
//! assert_eq!(pages.tier(PageId(0)), None);
//!
//! pages.mark_referenced(PageId(3));
//! assert!(pages.take_referenced(PageId(3)));  // test and clear
//! assert!(!pages.take_referenced(PageId(3)));
//! assert_eq!(pages.take_scan_cost().scanned, 2); // every read is counted, because it costs time
//! ```

use crate::units::{PageId, Pages, TenantId, TierId};

/// The kind of memory behind a page, which decides its LRU list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PageKind {
    /// Anonymous memory.
    Anon,
    /// Page cache.
    File,
}

impl PageKind {
    /// Both kinds, in index order.
    pub const ALL: [Self; 2] = [Self::Anon, Self::File];
}

impl std::fmt::Display for PageKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Anon => "anon",
            Self::File => "file",
        })
    }
}

/// The attributes of a page at its allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// The tenant that owns it.
    pub tenant: TenantId,
    /// The tier that holds it.
    pub tier: TierId,
    /// The kind of memory behind it.
    pub kind: PageKind,
    /// log2 of the base pages that it spans (0 to 15); 9 is a 2 MiB page of 4 KiB base pages.
    pub order: u8,
}

/// A flag that a policy keeps on a page, as the kernel does in `struct page`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Flag {
    /// Found referenced by the last scan (`PG_referenced`).
    Referenced = 1 << 25,
    /// Found written by the last scan; MULTI-CLOCK's dirtiness extension.
    Dirty = 1 << 26,
    /// On an active list (`PG_active`).
    Active = 1 << 27,
    /// On a promote list (MULTI-CLOCK's `PagePromote`, section IV).
    Promote = 1 << 28,
    /// Demoted at least once since its allocation (TPP's `PG_demoted`, section 5.5).
    Demoted = 1 << 29,
    /// A candidate in the plan being made, which no search adds again (the kernel isolates such
    /// pages from their list).
    Isolated = 1 << 31,
}

/// The cost of a policy's scans of reference bits; the world charges it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScanCost {
    /// Page table entries read.
    pub scanned: u64,
    /// Of these, entries that were found by their pages' places on LRU lists: each page is taken
    /// from a list and put on one.
    pub listed: u64,
    /// Entries whose bit was set and had to be cleared: each costs a TLB shootdown.
    pub cleared: u64,
}

/// The engine's state of every page. Indexed by [`PageId`].
#[derive(Debug, Clone, Default)]
pub struct PageTable {
    words: Vec<u32>,
    /// The colour of each page's frame; empty if the CPU manages no tier.
    colours: Vec<u32>,
    scan: ScanCost,
    present: Pages,
}

/// The value of a page without a colour. No machine has so many colours.
const UNCOLOURED: u32 = u32::MAX;

// The fields of a page's word: the tenant in bits 0 to 15, the tier in bits 16 to 18 (seven: no
// page), the kind in bit 19 and the order in bits 20 to 23. Flags take the others.
const TENANT_MASK: u32 = 0xffff;
const TIER_SHIFT: u32 = 16;
const TIER_MASK: u32 = 0b111 << TIER_SHIFT;
const ABSENT: u32 = TIER_MASK;
const KIND_FILE: u32 = 1 << 19;
const ORDER_SHIFT: u32 = 20;
const ORDER_MASK: u32 = 0b1111 << ORDER_SHIFT;
/// The page table entry's accessed bit, as last reported.
const ACCESSED: u32 = 1 << 24;
/// The page table entry's dirty bit.
const WRITTEN: u32 = 1 << 30;

impl PageTable {
    /// Bytes of metadata per page.
    pub const BYTES_PER_PAGE: usize = size_of::<u32>();

    /// The largest order of a page. A page of a larger order counts as one of this order.
    pub const MAX_ORDER: u8 = (ORDER_MASK >> ORDER_SHIFT) as u8;

    /// One more than the largest page inserted so far.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns true before the first insert.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Base pages of all pages present.
    pub fn present(&self) -> Pages {
        self.present
    }

    /// Adds a page, or replaces its state.
    pub fn insert(&mut self, page: PageId, attributes: Attributes) {
        if page.index() >= self.words.len() {
            self.words.resize(page.index() + 1, ABSENT);
        }
        if self.tier(page).is_some() {
            self.remove(page);
        }
        self.words[page.index()] = u32::from(attributes.tenant.0)
            | u32::from(attributes.tier.0) << TIER_SHIFT
            | if attributes.kind == PageKind::File { KIND_FILE } else { 0 }
            | u32::from(attributes.order.min(Self::MAX_ORDER)) << ORDER_SHIFT;
        self.present += Pages(self.frames(page));
    }

    /// Removes a page. Ignores a page that is absent.
    pub fn remove(&mut self, page: PageId) {
        if self.tier(page).is_some() {
            self.present -= Pages(self.frames(page));
            self.words[page.index()] = ABSENT;
        }
    }

    #[inline]
    fn word(&self, page: PageId) -> u32 {
        self.words.get(page.index()).copied().unwrap_or(ABSENT)
    }

    /// The tier of a page; `None` if there is no such page.
    pub fn tier(&self, page: PageId) -> Option<TierId> {
        let word = self.word(page);
        (word & TIER_MASK != ABSENT).then_some(TierId(((word & TIER_MASK) >> TIER_SHIFT) as u8))
    }

    /// The tenant of a page. Meaningless for an absent page.
    pub fn tenant(&self, page: PageId) -> TenantId {
        TenantId((self.word(page) & TENANT_MASK) as u16)
    }

    /// The kind of memory behind a page.
    pub fn kind(&self, page: PageId) -> PageKind {
        if self.word(page) & KIND_FILE != 0 { PageKind::File } else { PageKind::Anon }
    }

    /// log2 of the base pages that a page spans.
    pub fn order(&self, page: PageId) -> u8 {
        ((self.word(page) & ORDER_MASK) >> ORDER_SHIFT) as u8
    }

    /// Base pages that a page spans.
    pub fn frames(&self, page: PageId) -> u64 {
        1 << self.order(page)
    }

    /// The colour of a page's frame. It is valid only in a tier that the CPU manages. `None` if the
    /// world has reported none.
    pub fn colour(&self, page: PageId) -> Option<u32> {
        self.colours.get(page.index()).copied().filter(|&colour| colour != UNCOLOURED)
    }

    /// Records the colour of a page's frame.
    pub(crate) fn set_colour(&mut self, page: PageId, colour: u32) {
        if self.tier(page).is_some() {
            if page.index() >= self.colours.len() {
                self.colours.resize(page.index() + 1, UNCOLOURED);
            }
            self.colours[page.index()] = colour;
        }
    }

    /// Records a successful move. Ignores a page that is absent.
    pub(crate) fn set_tier(&mut self, page: PageId, tier: TierId) {
        if self.tier(page).is_some() {
            let word = &mut self.words[page.index()];
            *word = *word & !TIER_MASK | u32::from(tier.0) << TIER_SHIFT;
        }
    }

    /// Records an access that the world observed. Ignores absent pages: the report is stale.
    pub fn mark_referenced(&mut self, page: PageId) {
        if let Some(word) = self.words.get_mut(page.index()) {
            *word |= ACCESSED;
        }
    }

    /// Records a store that the world observed.
    pub fn mark_written(&mut self, page: PageId) {
        if let Some(word) = self.words.get_mut(page.index()) {
            *word |= WRITTEN;
        }
    }

    /// Reads and clears the reference bit, as the kernel's `ptep_test_and_clear_young` does. The
    /// read adds to the scan cost.
    #[inline]
    pub fn take_referenced(&mut self, page: PageId) -> bool {
        self.scan.scanned += 1;
        let Some(word) = self.words.get_mut(page.index()) else { return false };
        let set = *word & ACCESSED != 0;
        *word &= !ACCESSED;
        self.scan.cleared += u64::from(set);
        set
    }

    /// Reads and clears the reference bit of a page that a scan takes from an LRU list.
    #[inline]
    pub fn take_referenced_on_list(&mut self, page: PageId) -> bool {
        self.scan.listed += 1;
        self.take_referenced(page)
    }

    /// Counts the read of an entry that is of no interest, as a walk of a page table makes it.
    pub(crate) fn pass_over(&mut self) {
        self.scan.scanned += 1;
    }

    /// Runs CLOCK's hand over a run of entries: [`Flag::Referenced`] becomes "accessed since the
    /// hand last passed", and the reference bits are cleared. The reads add to the scan cost, as
    /// those of [`PageTable::take_referenced`] do.
    pub fn sweep(&mut self, entries: std::ops::Range<usize>) {
        const REFERENCED: u32 = Flag::Referenced as u32;
        let end = entries.end.min(self.words.len());
        // The counters are as wide as an entry and there is no branch, so that the compiler can
        // handle several entries at once. A round handles one page of memory, so that no counter
        // can overflow.
        for part in self.words[entries.start.min(end)..end].chunks_mut(1024) {
            let (mut scanned, mut cleared) = (0u32, 0u32);
            for word in part {
                let present = u32::from(*word & TIER_MASK != ABSENT);
                let accessed = (*word & ACCESSED) / ACCESSED;
                scanned += present;
                cleared += present & accessed;
                *word = *word & !(ACCESSED | REFERENCED) | (accessed * REFERENCED);
            }
            self.scan.scanned += u64::from(scanned);
            self.scan.cleared += u64::from(cleared);
        }
    }

    /// Reads and clears the dirty bit. It is in the entry that [`PageTable::take_referenced`]
    /// reads, so it is not counted again.
    pub fn take_written(&mut self, page: PageId) -> bool {
        let Some(word) = self.words.get_mut(page.index()) else { return false };
        let set = *word & WRITTEN != 0;
        *word &= !WRITTEN;
        set
    }

    /// Reads a policy's flag.
    #[inline]
    pub fn flag(&self, page: PageId, flag: Flag) -> bool {
        self.word(page) & flag as u32 != 0
    }

    /// Sets or clears a policy's flag.
    #[inline]
    pub fn set_flag(&mut self, page: PageId, flag: Flag, on: bool) {
        if let Some(word) = self.words.get_mut(page.index()) {
            *word = if on { *word | flag as u32 } else { *word & !(flag as u32) };
        }
    }

    /// The cost of the scans since the last [`PageTable::take_scan_cost`].
    pub(crate) fn scan_cost(&self) -> ScanCost {
        self.scan
    }

    /// Returns the cost of the scans since the last call.
    pub fn take_scan_cost(&mut self) -> ScanCost {
        std::mem::take(&mut self.scan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(tier: u8) -> Attributes {
        Attributes { tenant: TenantId(65_535), tier: TierId(tier), kind: PageKind::File, order: 15 }
    }

    #[test]
    fn every_field_survives_its_neighbours() {
        let mut pages = PageTable::default();
        pages.insert(PageId(0), attributes(6));
        for flag in [Flag::Referenced, Flag::Dirty, Flag::Active, Flag::Promote, Flag::Demoted] {
            assert!(!pages.flag(PageId(0), flag));
            pages.set_flag(PageId(0), flag, true);
        }
        pages.mark_referenced(PageId(0));
        pages.mark_written(PageId(0));
        pages.set_tier(PageId(0), TierId(2));
        assert_eq!(pages.tenant(PageId(0)), TenantId(65_535));
        assert_eq!(pages.tier(PageId(0)), Some(TierId(2)));
        assert_eq!(pages.kind(PageId(0)), PageKind::File);
        assert_eq!(pages.frames(PageId(0)), 32_768);
        assert!(pages.take_written(PageId(0)) && !pages.take_written(PageId(0)));
        for flag in [Flag::Referenced, Flag::Dirty, Flag::Active, Flag::Promote, Flag::Demoted] {
            assert!(pages.flag(PageId(0), flag));
        }
    }

    #[test]
    fn clock_hand_moves_bit_into_flag() {
        let mut pages = PageTable::default();
        pages.insert(PageId(1), attributes(1));
        pages.mark_referenced(PageId(0)); // absent: not scanned, not counted
        pages.mark_referenced(PageId(1));
        pages.sweep(0..100);
        assert!(pages.flag(PageId(1), Flag::Referenced));
        assert_eq!(pages.take_scan_cost(), ScanCost { scanned: 1, listed: 0, cleared: 1 });
        pages.sweep(1..2);
        assert!(!pages.flag(PageId(1), Flag::Referenced));
        assert_eq!(pages.take_scan_cost(), ScanCost { scanned: 1, listed: 0, cleared: 0 });
        pages.sweep(5..9);
        assert_eq!(pages.take_scan_cost(), ScanCost::default());
    }

    #[test]
    fn stale_reports_of_absent_pages_are_ignored() {
        let mut pages = PageTable::default();
        pages.mark_referenced(PageId(9));
        assert!(!pages.take_referenced(PageId(9)));
        pages.insert(PageId(1), attributes(0));
        pages.remove(PageId(1));
        pages.remove(PageId(1));
        assert_eq!(pages.tier(PageId(1)), None);
        assert_eq!(pages.present(), Pages(0));
    }
}
