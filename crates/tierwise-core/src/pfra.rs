//! The page frame reclaim algorithm (PFRA) over the LRU lists of [`crate::lru`]: how a page climbs
//! and sinks, what the periodic scan does, and how candidates for demotion are found.
//!
//! The states and the numbered transitions are those of MULTI-CLOCK (HPCA 2022), Figure 4, whose
//! white vertices are the kernel's own two lists. `PG_referenced` is [`Flag::Referenced`].
//!
//! | | from | to | when |
//! |---|---|---|---|
//! | 1 | inactive unreferenced | inactive referenced | a scan finds it accessed; and back, if it does not |
//! | 2 | inactive unreferenced | inactive referenced | supervised access |
//! | 3 | inactive unreferenced | the lower tier | demotion |
//! | 4 | inactive unreferenced | freed | the page is no more |
//! | 5 | no list | inactive unreferenced | birth |
//! | 6 | inactive referenced | active unreferenced | accessed again |
//! | 7 | active unreferenced | active referenced | a scan finds it accessed; and back, if it does not |
//! | 8 | active unreferenced | active referenced | supervised access |
//! | 9 | active unreferenced | inactive unreferenced | not accessed, and the inactive list is short |
//! | 10 | active referenced | promote | accessed again |
//! | 11 | promote | active unreferenced | not accessed, or the promotion failed |
//! | 12 | promote | promote | accessed |
//! | 13 | promote | the upper tier | promotion |
//!
//! The figure draws no edge for an active referenced page that is not accessed; it is marked
//! unreferenced by the scan (section III-A) as its inactive sibling is by (1), so here that is (7).
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

/// The kernel's reclaim starts by looking at a list's 4096th part and, pass by pass, doubles it to
/// the whole (`DEF_PRIORITY`, `include/linux/mmzone.h`).
const DEF_PRIORITY: u32 = 12;

/// Fewest pages looked at a time (`SWAP_CLUSTER_MAX`, `include/linux/swap.h`).
const SWAP_CLUSTER_MAX: u64 = 32;

/// What a look at a page found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It belongs at the recent end of this list: it was accessed, or it had been and has its
    /// second chance.
    To(LruList),
    /// Neither accessed nor marked: what becomes of it depends on why it was looked at.
    Cold,
}

/// Which lists a policy keeps, and what an access is worth to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pfra {
    /// Whether tiers other than the fastest have a promote list. Without it this is the kernel's
    /// two-list algorithm.
    pub promote_lists: bool,
    /// Accesses that an interval counts for more if the page was written in it (MULTI-CLOCK,
    /// section VII). Zero: reads and writes are alike and dirty bits are not looked at.
    pub dirty_weight: u32,
}

/// The largest ratio of active to inactive pages in a tier of this size: `sqrt(10 n)` with n in GB
/// (MULTI-CLOCK, section III-C; `inactive_is_low`, `mm/vmscan.c`), rounded down and at least 1, as
/// the kernel does.
pub fn inactive_ratio(tier: Bytes) -> u64 {
    (10 * (tier.0 >> 30)).isqrt().max(1)
}

impl Pfra {
    /// The kernel's inactive and active list.
    pub const TWO_LISTS: Self = Self { promote_lists: false, dirty_weight: 0 };
    /// With the promote list.
    pub const MULTI_CLOCK: Self = Self { promote_lists: true, dirty_weight: 0 };

    /// The page's step upwards for one access that was learned of: `mark_page_accessed()` with
    /// section IV's extension, or a reference bit found by a scan. Sets the flag; returns the list
    /// that the page belongs to now.
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

    /// A supervised access: the page climbs at once (section III-A.1).
    pub fn mark_accessed(self, page: PageId, lru: &mut LruLists, pages: &mut PageTable) {
        if lru.lists().contains(page) {
            let on = LruLists::which(page, pages);
            let to = self.step_up(page, on, pages);
            if to != on {
                lru.shift(page, to, pages);
            }
            // On the promote list too the flag says "accessed since the last scan": (12).
            if to == LruList::Promote {
                pages.set_flag(page, Flag::Referenced, true);
            }
        }
    }

    /// Looks at a page on a list, using up its reference bit (section III-A.2).
    #[inline]
    pub fn update(self, page: PageId, on: LruList, pages: &mut PageTable) -> Verdict {
        let accesses = self.accesses(page, pages);
        if on == LruList::Promote {
            let accessed = accesses > 0 || pages.flag(page, Flag::Referenced);
            pages.set_flag(page, Flag::Referenced, false);
            // (12), (11)
            return Verdict::To(if accessed { LruList::Promote } else { LruList::Active });
        }
        if accesses > 0 {
            let mut at = on;
            for _ in 0..accesses {
                if at != LruList::Promote {
                    at = self.step_up(page, at, pages);
                }
            }
            return Verdict::To(at);
        }
        if pages.flag(page, Flag::Referenced) {
            pages.set_flag(page, Flag::Referenced, false);
            return Verdict::To(on); // (1), (7)
        }
        Verdict::Cold
    }

    /// What the page's bits are worth, in accesses.
    #[inline]
    fn accesses(self, page: PageId, pages: &mut PageTable) -> u32 {
        let referenced = pages.take_referenced(page);
        if self.dirty_weight == 0 {
            return u32::from(referenced);
        }
        let written = pages.take_written(page);
        pages.set_flag(page, Flag::Dirty, written);
        // A store sets both bits in the page table entry; a world may report them apart.
        u32::from(referenced || written) + if written { self.dirty_weight } else { 0 }
    }

    /// The periodic scan of one `lruvec`: up to `count` pages from the old end of each list, once
    /// each. Pages that were accessed climb; active pages that were not are deactivated if the
    /// inactive list is short (section III-C); the others go round. Returns how many pages climbed.
    pub fn scan(
        self,
        lru: &mut LruLists,
        vec: LruVec,
        count: u64,
        ratio: u64,
        pages: &mut PageTable,
    ) -> u64 {
        // What a list gains at its head during the scan lies behind the pages counted here, and
        // from the top down nothing is met a second time further up.
        let counts = LruList::ALL.map(|list| lru.len(vec, list).min(count));
        let mut climbed = 0;
        for list in LruList::ALL.into_iter().rev() {
            let mut hand = lru.tail(vec, list);
            for _ in 0..counts[list as usize] {
                let Some(page) = hand else { break };
                hand = lru.lists().newer(page);
                let to = match self.update(page, list, pages) {
                    Verdict::To(to) => to,
                    Verdict::Cold if inactive_is_low(lru, vec, ratio) => LruList::Inactive, // (9)
                    Verdict::Cold => list,
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

    /// Finds pages to demote, as kswapd does: the active lists are shrunk where the inactive ones
    /// are short, then growing parts of the inactive lists are looked at in turn, until the base
    /// pages named reach `limit`.
    ///
    /// Between two observations each list is gone through once, however often this is called:
    /// kswapd goes on because time passes between its passes and hot pages are referenced again;
    /// here a second look would find every page cold.
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
            if lru.begin_lap(vec) {
                // What is deactivated now joins behind the lap: it has until the next observation
                // to be accessed again, which is what the inactive list is for.
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
                Verdict::To(to) => to,
                Verdict::Cold => LruList::Inactive,
            };
            lru.shift(page, to, pages);
        }
    }

    /// `shrink_inactive_list`: looks at up to `count` more of the oldest inactive pages and names
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
                Verdict::To(to) => to,
                Verdict::Cold => {
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

/// `inactive_is_low`: whether active pages outnumber inactive ones by more than `ratio`, in base
/// pages.
#[inline]
pub fn inactive_is_low(lru: &LruLists, vec: LruVec, ratio: u64) -> bool {
    let inactive = lru.frames(vec, LruList::Inactive).0;
    lru.frames(vec, LruList::Active).0 > inactive.saturating_mul(ratio)
}
