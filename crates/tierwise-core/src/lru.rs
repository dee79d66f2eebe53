//! The kernel's LRU lists: for each tenant, tier and page kind (an `lruvec` and its anon and file
//! halves) an inactive and an active list, and MULTI-CLOCK's promote list.
//!
//! The lists are keyed by tenant because the kernel keeps them by memcg and node: a partitioner can
//! take from one tenant without looking at the others.

use crate::lists::{ListId, PageLists};
use crate::page::{Flag, PageKind, PageTable};
use crate::topology::Topology;
use crate::units::{PageId, TenantId, TierId};

/// Which of an `lruvec`'s lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LruList {
    /// Candidates for demotion.
    Inactive,
    /// Seen referenced more than once.
    Active,
    /// MULTI-CLOCK's third list: candidates for promotion.
    Promote,
}

/// A tenant's pages of one kind in one tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LruVec {
    /// Whose.
    pub tenant: TenantId,
    /// Where.
    pub tier: TierId,
    /// Anonymous or file-backed.
    pub kind: PageKind,
}

/// All LRU lists of a machine.
#[derive(Debug, Clone, Default)]
pub struct LruLists {
    lists: PageLists,
    tenants: u16,
}

impl LruVec {
    /// The `lruvec` that a page belongs to by what the table says of it; `None` if there is no such page.
    pub fn of(page: PageId, pages: &PageTable) -> Option<Self> {
        let tier = pages.tier(page)?;
        Some(Self { tenant: pages.tenant(page), tier, kind: pages.kind(page) })
    }

    /// One of its lists.
    pub fn list(self, which: LruList) -> ListId {
        let vec = u32::from(self.tenant.0) * Topology::MAX_TIERS as u32 + u32::from(self.tier.0);
        ListId((vec * PageKind::ALL.len() as u32 + self.kind as u32) * 3 + which as u32)
    }
}

impl LruLists {
    /// Bytes of metadata a page, beside the page table's.
    pub const BYTES_PER_PAGE: usize = PageLists::BYTES_PER_PAGE;

    /// The lists themselves, to walk them.
    pub fn lists(&self) -> &PageLists {
        &self.lists
    }

    /// Which list a page's flags say it is on.
    pub fn which(page: PageId, pages: &PageTable) -> LruList {
        if pages.flag(page, Flag::Promote) {
            LruList::Promote
        } else if pages.flag(page, Flag::Active) {
            LruList::Active
        } else {
            LruList::Inactive
        }
    }

    /// Adds a page that is on no list at the head of one, and sets its flags to match.
    pub fn add(&mut self, page: PageId, which: LruList, pages: &mut PageTable) {
        let Some(vec) = LruVec::of(page, pages) else { return };
        self.tenants = self.tenants.max(vec.tenant.0 + 1);
        pages.set_flag(page, Flag::Active, which == LruList::Active);
        pages.set_flag(page, Flag::Promote, which == LruList::Promote);
        self.lists.push_head(vec.list(which), page, pages.frames(page));
    }

    /// Takes a page off its list. `tier` is where it lay when it was put there.
    pub fn remove_from(&mut self, page: PageId, tier: TierId, pages: &PageTable) {
        let vec = LruVec { tenant: pages.tenant(page), tier, kind: pages.kind(page) };
        self.lists.remove(vec.list(Self::which(page, pages)), page, pages.frames(page));
    }

    /// Moves a page to the head of another list of the same `lruvec`.
    pub fn shift(&mut self, page: PageId, which: LruList, pages: &mut PageTable) {
        if let Some(vec) = LruVec::of(page, pages) {
            self.lists.remove(vec.list(Self::which(page, pages)), page, pages.frames(page));
            self.add(page, which, pages);
        }
    }

    /// Moves a page to the head of the list it is on.
    pub fn rotate(&mut self, page: PageId, pages: &PageTable) {
        if let Some(vec) = LruVec::of(page, pages) {
            self.lists.rotate(vec.list(Self::which(page, pages)), page);
        }
    }

    /// After a successful move from `from`: takes the page off the old tier's list and puts it at the
    /// head of one of the new tier's.
    pub fn moved(&mut self, page: PageId, from: TierId, which: LruList, pages: &mut PageTable) {
        self.remove_from(page, from, pages);
        self.add(page, which, pages);
    }

    /// The `lruvec`s of a tier, tenant by tenant, anonymous before file.
    pub fn vecs(&self, tier: TierId) -> impl Iterator<Item = LruVec> + use<> {
        (0..self.tenants).flat_map(move |tenant| {
            PageKind::ALL.map(|kind| LruVec { tenant: TenantId(tenant), tier, kind })
        })
    }

    /// Pages on one list.
    pub fn len(&self, vec: LruVec, which: LruList) -> u64 {
        self.lists.len(vec.list(which))
    }

    /// The oldest page of a list.
    pub fn tail(&self, vec: LruVec, which: LruList) -> Option<PageId> {
        self.lists.tail(vec.list(which))
    }
}
