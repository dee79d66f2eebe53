//! The kernel's LRU lists: for each tenant, tier and page kind (an `lruvec` and its anon and file
//! halves) an inactive and an active list, and MULTI-CLOCK's promote list.
//!
//! The lists are keyed by tenant because the kernel keeps them by memcg and node: a partitioner can
//! take from one tenant without scanning the others. [`crate::pfra`] has the rules by which a page
//! changes between the lists of its `lruvec`. This file keeps every page on exactly one list, after
//! any observation and any outcome of a move.

use crate::lists::{ListId, PageLists};
use crate::migrate::MoveOutcome;
use crate::observe::Observation;
use crate::page::{Flag, PageKind, PageTable};
use crate::stage::Scope;
use crate::topology::Topology;
use crate::units::{PageId, Pages, TenantId, TierId};

/// One of the lists of an `lruvec`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LruList {
    /// Candidates for demotion.
    Inactive,
    /// Found referenced more than once.
    Active,
    /// MULTI-CLOCK's third list: candidates for promotion.
    Promote,
}

impl LruList {
    /// All three, coldest first.
    pub const ALL: [Self; 3] = [Self::Inactive, Self::Active, Self::Promote];
}

/// A tenant's pages of one kind in one tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LruVec {
    /// The tenant.
    pub tenant: TenantId,
    /// The tier.
    pub tier: TierId,
    /// Anonymous or file-backed.
    pub kind: PageKind,
}

impl LruVec {
    /// The `lruvec` of a page, from its attributes in the table; `None` if there is no such page.
    pub fn of(page: PageId, pages: &PageTable) -> Option<Self> {
        let tier = pages.tier(page)?;
        Some(Self { tenant: pages.tenant(page), tier, kind: pages.kind(page) })
    }

    fn number(self) -> u32 {
        let node = u32::from(self.tenant.0) * Topology::MAX_TIERS as u32 + u32::from(self.tier.0);
        node * PageKind::ALL.len() as u32 + self.kind as u32
    }

    /// Returns the number of one of its lists.
    pub fn list(self, which: LruList) -> ListId {
        ListId(self.number() * LruList::ALL.len() as u32 + which as u32)
    }
}

/// The end of a list that a page joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The recent end: scanned last.
    Head,
    /// The old end: scanned next.
    Tail,
}

/// The pages that the plan being made names already. The next observation puts them back: by then
/// the plan has been applied or dropped.
#[derive(Debug, Clone, Default)]
pub struct Isolation(Vec<PageId>);

impl Isolation {
    /// Names a page. Returns false if it was named already.
    pub fn take(&mut self, page: PageId, pages: &mut PageTable) -> bool {
        let first = !pages.flag(page, Flag::Isolated);
        if first {
            pages.set_flag(page, Flag::Isolated, true);
            self.0.push(page);
        }
        first
    }

    /// Lets the page that was named last be named again: the plan does not name it after all.
    pub fn put_back_last(&mut self, pages: &mut PageTable) {
        if let Some(page) = self.0.pop() {
            pages.set_flag(page, Flag::Isolated, false);
        }
    }

    /// Lets every page be named again.
    pub fn put_back(&mut self, pages: &mut PageTable) {
        self.0.drain(..).for_each(|page| pages.set_flag(page, Flag::Isolated, false));
    }
}

/// All LRU lists of a machine.
#[derive(Debug, Clone, Default)]
pub struct LruLists {
    lists: PageLists,
    /// One more than the largest tenant so far.
    tenants: u32,
    isolated: Isolation,
    /// Inactive pages that reclaim may still scan before the next observation, by `lruvec`.
    laps: Vec<u64>,
}

impl LruLists {
    /// The length of a lap that reclaim has not started.
    const NO_LAP: u64 = u64::MAX;

    /// Bytes of metadata per page, beside the page table's.
    pub const BYTES_PER_PAGE: usize = PageLists::BYTES_PER_PAGE;

    /// The lists themselves, to walk them.
    pub fn lists(&self) -> &PageLists {
        &self.lists
    }

    /// The list of a page, from its flags.
    #[inline]
    pub fn which(page: PageId, pages: &PageTable) -> LruList {
        if pages.flag(page, Flag::Promote) {
            LruList::Promote
        } else if pages.flag(page, Flag::Active) {
            LruList::Active
        } else {
            LruList::Inactive
        }
    }

    /// Adds allocated pages (inactive and unreferenced: MULTI-CLOCK, Figure 4, transition 5),
    /// removes freed ones (transition 4), and puts back the pages that the last plan named. An
    /// allocated page that is on a list, and a freed page that is on none, are stale and ignored.
    pub fn on_observation(&mut self, obs: &Observation, pages: &mut PageTable) {
        self.isolated.put_back(pages);
        if !obs.bits_unread {
            self.laps.clear();
        }
        for page in obs.allocated.iter().flat_map(|allocated| allocated.pages()) {
            self.add(page, LruList::Inactive, pages);
        }
        for &page in &obs.freed {
            if let Some(tier) = pages.tier(page) {
                self.remove_from(page, tier, pages);
            }
        }
    }

    /// Handles an outcome: a page that moved joins a list of its new tier, unreferenced. Returns
    /// true if it moved.
    pub fn on_outcome(
        &mut self,
        outcome: &MoveOutcome,
        which: LruList,
        end: End,
        pages: &mut PageTable,
    ) -> bool {
        let (page, Some(from), Ok(())) = (outcome.page, outcome.from, outcome.result) else {
            return false;
        };
        if from == outcome.to || !self.lists.contains(page) {
            return false;
        }
        self.remove_from(page, from, pages);
        let vec = LruVec { tenant: pages.tenant(page), tier: outcome.to, kind: pages.kind(page) };
        self.join(vec, which, end, page, pages);
        pages.set_flag(page, Flag::Referenced, false);
        true
    }

    /// Adds a page that is on no list at the head of one, and sets its flags to match.
    pub fn add(&mut self, page: PageId, which: LruList, pages: &mut PageTable) {
        if let Some(vec) = LruVec::of(page, pages)
            && !self.lists.contains(page)
        {
            self.tenants = self.tenants.max(u32::from(vec.tenant.0) + 1);
            self.join(vec, which, End::Head, page, pages);
        }
    }

    fn join(&mut self, vec: LruVec, which: LruList, end: End, page: PageId, pages: &mut PageTable) {
        pages.set_flag(page, Flag::Active, which == LruList::Active);
        pages.set_flag(page, Flag::Promote, which == LruList::Promote);
        let (list, frames) = (vec.list(which), pages.frames(page));
        match end {
            End::Head => self.lists.push_head(list, page, frames),
            End::Tail => self.lists.push_tail(list, page, frames),
        }
    }

    /// Takes a page off its list. `tier` is the tier of that list.
    pub fn remove_from(&mut self, page: PageId, tier: TierId, pages: &PageTable) {
        if self.lists.contains(page) {
            let vec = LruVec { tenant: pages.tenant(page), tier, kind: pages.kind(page) };
            self.lists.remove(vec.list(Self::which(page, pages)), page, pages.frames(page));
        }
    }

    /// Moves a page to the head of a list of the same `lruvec`, which may be its own list.
    pub fn shift(&mut self, page: PageId, which: LruList, pages: &mut PageTable) {
        if let Some(vec) = LruVec::of(page, pages)
            && self.lists.contains(page)
        {
            let on = Self::which(page, pages);
            if on == which {
                self.lists.rotate(vec.list(on), page);
            } else {
                self.lists.remove(vec.list(on), page, pages.frames(page));
                self.join(vec, which, End::Head, page, pages);
            }
        }
    }

    /// Makes a page the oldest of its list: the older pages were scanned and go to the head.
    pub(crate) fn make_tail(&mut self, vec: LruVec, which: LruList, page: PageId) {
        self.lists.make_tail(vec.list(which), page);
    }

    /// Returns true if reclaim scans this `lruvec` for the first time since bits were last read.
    pub(crate) fn start_lap(&mut self, vec: LruVec) -> bool {
        *self.lap_mut(vec) == Self::NO_LAP
    }

    /// Inactive pages that reclaim may still scan before bits are read again.
    pub(crate) fn lap_mut(&mut self, vec: LruVec) -> &mut u64 {
        let index = vec.number() as usize;
        if index >= self.laps.len() {
            self.laps.resize(index + 1, Self::NO_LAP);
        }
        &mut self.laps[index]
    }

    /// Names a page as a candidate for the plan being made. Returns false if it was named already.
    pub fn isolate(&mut self, page: PageId, pages: &mut PageTable) -> bool {
        self.isolated.take(page, pages)
    }

    /// Names pages of a list, the newest first, until their base pages reach `limit`. Returns the
    /// base pages named.
    pub fn take_newest(
        &mut self,
        vec: LruVec,
        which: LruList,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) -> Pages {
        let mut taken = Pages(0);
        let mut at = self.lists.newest(vec.list(which));
        while let Some(page) = at.filter(|_| taken < limit) {
            if self.isolated.take(page, pages) {
                taken += Pages(pages.frames(page));
                out.push(page);
            }
            at = self.lists.older(page);
        }
        taken
    }

    /// Names pages of a list, the oldest first, until their base pages reach `limit`. Returns the
    /// base pages named.
    pub fn take_oldest(
        &mut self,
        vec: LruVec,
        which: LruList,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) -> Pages {
        let mut taken = Pages(0);
        let mut at = self.tail(vec, which);
        while let Some(page) = at.filter(|_| taken < limit) {
            if self.isolated.take(page, pages) {
                taken += Pages(pages.frames(page));
                out.push(page);
            }
            at = self.lists.newer(page);
        }
        taken
    }

    /// The `lruvec`s of a tier, tenant by tenant, anonymous before file.
    pub fn vecs(&self, tier: TierId) -> impl Iterator<Item = LruVec> + use<> {
        self.vecs_in(Scope::tier(tier))
    }

    /// The `lruvec`s of a scope, tenant by tenant, anonymous before file.
    pub fn vecs_in(&self, scope: Scope) -> impl Iterator<Item = LruVec> + use<> {
        let tenants = match scope.tenant {
            None => 0..self.tenants,
            Some(TenantId(t)) => u32::from(t)..u32::from(t) + 1,
        };
        tenants.flat_map(move |tenant| {
            PageKind::ALL.map(|kind| LruVec {
                tenant: TenantId(tenant as u16),
                tier: scope.tier,
                kind,
            })
        })
    }

    /// Pages on one list.
    pub fn len(&self, vec: LruVec, which: LruList) -> u64 {
        self.lists.len(vec.list(which))
    }

    /// Base pages on one list.
    pub fn frames(&self, vec: LruVec, which: LruList) -> Pages {
        Pages(self.lists.frames(vec.list(which)))
    }

    /// The oldest page of a list.
    #[inline]
    pub fn tail(&self, vec: LruVec, which: LruList) -> Option<PageId> {
        self.lists.tail(vec.list(which))
    }
}
