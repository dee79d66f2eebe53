//! The page frame reclaim algorithm (PFRA) over the LRU lists of [`crate::lru`]: the rules by which
//! pages climb and sink, the periodic scan, and the search for candidates for demotion.
//!
//! The states and the numbered transitions are those of MULTI-CLOCK (HPCA 2022), Figure 4, whose
//! white vertices are the kernel's own two lists. `PG_referenced` is [`Flag::Referenced`].
//!
//! | | from | to | when |
//! |---|---|---|---|
//! | 1 | inactive unreferenced | inactive referenced | accessed at a scan; and back, if not |
//! | 2 | inactive unreferenced | inactive referenced | supervised access |
//! | 3 | inactive unreferenced | the lower tier | demotion |
//! | 4 | inactive unreferenced | freed | the page is freed |
//! | 5 | no list | inactive unreferenced | the page is allocated |
//! | 6 | inactive referenced | active unreferenced | accessed again |
//! | 7 | active unreferenced | active referenced | accessed at a scan; and back, if not |
//! | 8 | active unreferenced | active referenced | supervised access |
//! | 9 | active unreferenced | inactive unreferenced | not accessed, inactive list short |
//! | 10 | active referenced | promote | accessed again |
//! | 11 | promote | active unreferenced | not accessed, or the promotion failed |
//! | 12 | promote | promote | accessed |
//! | 13 | promote | the upper tier | promotion |
//!
//! The figure draws no edge for an active referenced page that is not accessed. The scan marks it
//! unreferenced (section III-A) as (1) does for its inactive sibling, so here that is (7).
//!
//! ```
//! use tierwise_core::pfra::inactive_ratio;
//! use tierwise_core::units::Bytes;
//!
//! // sqrt(10 n) : 1 for n GB, as the kernel's integer root; one to one below a GB.
//! assert_eq!(inactive_ratio(Bytes(512 << 20)), 1);
//! assert_eq!(inactive_ratio(Bytes(1 << 30)), 3);
//! assert_eq!(inactive_ratio(Bytes(192 << 30)), 43);
//! ```

use crate::lru::{LruList, LruLists, LruVec};
use crate::page::{Flag, PageTable};
use crate::stage::Scope;
use crate::units::{Bytes, PageId, Pages, TierId};

/// The kernel's reclaim first scans a list's 4096th part and doubles it from round to round up to
/// the whole list (`DEF_PRIORITY`, `include/linux/mmzone.h`).
const DEF_PRIORITY: u32 = 12;

/// The minimum number of pages per scan (`SWAP_CLUSTER_MAX`, `include/linux/swap.h`).
const SWAP_CLUSTER_MAX: u64 = 32;

/// The result of a page's scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanResult {
    /// The page belongs at the recent end of this list: it was accessed, or it was marked and has
    /// its second chance.
    To(LruList),
    /// The page is neither accessed nor marked: the caller decides, by the reason for its scan.
    Cold,
}

/// The lists that a policy keeps, and the weight of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pfra {
    /// True if tiers other than the fastest have a promote list. Without it the algorithm is the
    /// kernel's, with two lists.
    pub promote_lists: bool,
    /// Accesses that are added for an interval in which the page was written (MULTI-CLOCK, section
    /// VII). With zero, reads and writes are alike and dirty bits are not read.
    pub dirty_weight: u32,
}

/// The largest ratio of active to inactive pages in a tier of this size: `sqrt(10 n)` with n in GB
/// (MULTI-CLOCK, section III-C; `inactive_is_low`, `mm/vmscan.c`), rounded down and at least 1, as
/// the kernel does.
pub fn inactive_ratio(tier: Bytes) -> u64 {
    (10 * (tier.0 >> 30)).isqrt().max(1)
}

impl Pfra {
    /// The kernel's rules: an inactive and an active list.
    pub const TWO_LISTS: Self = Self { promote_lists: false, dirty_weight: 0 };
    /// MULTI-CLOCK's rules: an inactive, an active and a promote list.
    pub const MULTI_CLOCK: Self = Self { promote_lists: true, dirty_weight: 0 };

    /// The page's step upwards for one access: `mark_page_accessed()` with section IV's extension,
    /// or a reference bit that a scan found. Sets the flag and returns the page's new list.
    #[inline]
    pub fn step_up(self, page: PageId, on: LruList, pages: &mut PageTable) -> LruList {
        let promotes = self.promote_lists && pages.tier(page) != Some(TierId::FASTEST);
        match (on, pages.flag(page, Flag::Referenced)) {
            (LruList::Inactive, true) => {
                pages.set_flag(page, Flag::Referenced, false);
                LruList::Active // (6)
            }
            (LruList::Active, true) if promotes => {
                pages.set_flag(page, Flag::Referenced, false);
                LruList::Promote // (10)
            }
            _ => {
                pages.set_flag(page, Flag::Referenced, true);
                on // (1), (2), (7), (8), (12)
            }
        }
    }

    /// Handles a supervised access: the page climbs at once (section III-A.1).
    pub fn mark_accessed(self, page: PageId, lru: &mut LruLists, pages: &mut PageTable) {
        if lru.lists().contains(page) {
            let on = LruLists::which(page, pages);
            let to = self.step_up(page, on, pages);
            if to != on {
                lru.shift(page, to, pages);
            }
            // On the promote list too the flag means "accessed since the last scan": (12).
            if to == LruList::Promote {
                pages.set_flag(page, Flag::Referenced, true);
            }
        }
    }

    /// Scans a page on a list and clears its reference bit (section III-A.2).
    #[inline]
    pub fn update(self, page: PageId, on: LruList, pages: &mut PageTable) -> ScanResult {
        let accesses = self.accesses(page, pages);
        if on == LruList::Promote {
            let accessed = accesses > 0 || pages.flag(page, Flag::Referenced);
            pages.set_flag(page, Flag::Referenced, false);
            // (12), (11)
            return ScanResult::To(if accessed { LruList::Promote } else { LruList::Active });
        }
        if accesses > 0 {
            let mut at = on;
            for _ in 0..accesses {
                if at != LruList::Promote {
                    at = self.step_up(page, at, pages);
                }
            }
            return ScanResult::To(at);
        }
        if pages.flag(page, Flag::Referenced) {
            pages.set_flag(page, Flag::Referenced, false);
            return ScanResult::To(on); // (1), (7)
        }
        ScanResult::Cold
    }

    /// The weight of the page's bits, in accesses.
    #[inline]
    fn accesses(self, page: PageId, pages: &mut PageTable) -> u32 {
        let referenced = pages.take_referenced_on_list(page);
        if self.dirty_weight == 0 {
            return u32::from(referenced);
        }
        let written = pages.take_written(page);
        pages.set_flag(page, Flag::Dirty, written);
        // A store sets both bits in the page table entry; a world may report them apart.
        u32::from(referenced || written) + if written { self.dirty_weight } else { 0 }
    }

    /// The periodic scan of one `lruvec`: up to `count` pages from the old end of each list, once
    /// each. Pages that were accessed climb. Active pages that were not are deactivated if the
    /// inactive list is short (section III-C). The others are rotated. Returns the number of pages
    /// that climbed.
    pub fn scan(
        self,
        lru: &mut LruLists,
        vec: LruVec,
        count: u64,
        ratio: u64,
        pages: &mut PageTable,
    ) -> u64 {
        // Pages that join a list's head during the scan are behind the pages counted here. The top
        // list comes first, so no page that climbs is scanned twice.
        let counts = LruList::ALL.map(|list| lru.len(vec, list).min(count));
        let mut climbed = 0;
        for list in LruList::ALL.into_iter().rev() {
            let mut hand = lru.tail(vec, list);
            for _ in 0..counts[list as usize] {
                let Some(page) = hand else { break };
                hand = lru.lists().newer(page);
                let to = match self.update(page, list, pages) {
                    ScanResult::To(to) => to,
                    // (9)
                    ScanResult::Cold if inactive_is_low(lru, vec, ratio) => LruList::Inactive,
                    ScanResult::Cold => list,
                };
                if to != list {
                    climbed += u64::from(to as usize > list as usize);
                    lru.shift(page, to, pages);
                }
            }
            if let Some(next) = hand {
                lru.make_tail(vec, list, next);
            }
        }
        climbed
    }

    /// Finds pages to demote, as kswapd does: it shrinks active lists whose inactive lists are
    /// short, then scans growing parts of the inactive lists one after the other, until the base
    /// pages named reach `limit`.
    ///
    /// Between two observations each list is scanned once, even if `reclaim` is called several
    /// times. kswapd repeats because time passes between its scans and hot pages are referenced
    /// again; here a second scan would find every page cold.
    ///
    /// `ratio` is the tier's [`inactive_ratio`].
    pub fn reclaim(
        self,
        lru: &mut LruLists,
        scope: Scope,
        limit: Pages,
        ratio: u64,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        let mut left = limit;
        for vec in lru.vecs_in(scope) {
            if lru.start_lap(vec) {
                // Pages deactivated now join behind the lap: they have until the next observation
                // to be accessed again, which is the purpose of the inactive list.
                *lru.lap_mut(vec) = lru.len(vec, LruList::Inactive);
                self.shrink_active(lru, vec, lru.len(vec, LruList::Active), ratio, pages);
            }
        }
        for priority in (0..=DEF_PRIORITY).rev() {
            for vec in lru.vecs_in(scope) {
                let part = (lru.len(vec, LruList::Inactive) >> priority).max(SWAP_CLUSTER_MAX);
                left = left.saturating_sub(self.shrink_inactive(lru, vec, part, left, pages, out));
                if left == Pages(0) {
                    return;
                }
            }
        }
    }

    /// `shrink_active_list`: deactivates up to `count` of the oldest active pages that were not
    /// accessed, as long as the inactive list is short (9).
    fn shrink_active(
        self,
        lru: &mut LruLists,
        vec: LruVec,
        count: u64,
        ratio: u64,
        pages: &mut PageTable,
    ) {
        for _ in 0..count {
            if !inactive_is_low(lru, vec, ratio) {
                return;
            }
            let Some(page) = lru.tail(vec, LruList::Active) else { return };
            let to = match self.update(page, LruList::Active, pages) {
                ScanResult::To(to) => to,
                ScanResult::Cold => LruList::Inactive,
            };
            lru.shift(page, to, pages);
        }
    }

    /// `shrink_inactive_list`: scans up to `count` more of the oldest inactive pages and names
    /// those that were not accessed (3), until their base pages reach `limit`. Returns the base
    /// pages named.
    fn shrink_inactive(
        self,
        lru: &mut LruLists,
        vec: LruVec,
        count: u64,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) -> Pages {
        let mut named = Pages(0);
        for _ in 0..count.min(*lru.lap_mut(vec)) {
            let Some(page) = lru.tail(vec, LruList::Inactive).filter(|_| named < limit) else {
                break;
            };
            *lru.lap_mut(vec) -= 1;
            let to = match self.update(page, LruList::Inactive, pages) {
                ScanResult::To(to) => to,
                ScanResult::Cold => {
                    if lru.isolate(page, pages) {
                        named += Pages(pages.frames(page));
                        out.push(page);
                    }
                    LruList::Inactive
                }
            };
            lru.shift(page, to, pages);
        }
        named
    }
}

/// `inactive_is_low`: returns true if active pages outnumber inactive ones by more than `ratio`, in
/// base pages.
#[inline]
pub fn inactive_is_low(lru: &LruLists, vec: LruVec, ratio: u64) -> bool {
    let inactive = lru.frames(vec, LruList::Inactive).0;
    lru.frames(vec, LruList::Active).0 > inactive.saturating_mul(ratio)
}
