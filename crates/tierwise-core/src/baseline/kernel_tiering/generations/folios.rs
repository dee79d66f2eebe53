//! The flags of pages and the lists on which they are, over all `lruvec`s.

use super::super::release::Release;
use crate::lists::PageLists;
use crate::units::PageId;

/// `LRU_REFS_MASK`: the largest number of accesses beyond the first that a page remembers.
const MAX_REFS: u8 = 3;
/// The generation of a page that is on no list.
pub(super) const NONE: u8 = u8::MAX;

/// A page's state in `folio->flags`.
#[derive(Debug, Clone, Copy)]
pub(super) struct FolioState {
    /// Its generation, modulo `MAX_GENERATIONS`.
    pub(super) generation: u8,
    /// The generation whose list it is on. Aging changes the first and leaves the second.
    pub(super) on: u8,
    /// `PG_referenced`.
    pub(super) referenced: bool,
    /// `PG_workingset`.
    pub(super) workingset: bool,
    /// `LRU_REFS_MASK`.
    pub(super) refs: u8,
    /// In the lower zone of the node (`zones.rs`).
    pub(super) lower: bool,
}

impl FolioState {
    const NEW: Self = Self {
        generation: NONE,
        on: NONE,
        referenced: false,
        workingset: false,
        refs: 0,
        lower: false,
    };

    /// `lru_gen_set_refs` of a page found accessed before.
    pub(super) fn count_access(&mut self) {
        let accesses = if self.referenced { self.refs + 1 } else { 0 };
        if accesses > 1 {
            (self.workingset, self.referenced, self.refs) = (true, false, 0);
        } else if !self.referenced {
            // `folio_mark_accessed`
            self.referenced = true;
        } else {
            self.refs = (self.refs + 1).min(MAX_REFS);
        }
    }
}

/// The state of all pages, over all `lruvec`s.
#[derive(Debug, Default)]
pub(in super::super) struct Folios {
    states: Vec<FolioState>,
    pub(super) lists: PageLists,
}

impl Folios {
    /// The state of a page, for changes.
    pub(super) fn state(&mut self, page: PageId) -> &mut FolioState {
        if page.index() >= self.states.len() {
            self.states.resize(page.index() + 1, FolioState::NEW);
        }
        &mut self.states[page.index()]
    }

    /// Puts a page that is on no list into the upper or the lower zone.
    pub(in super::super) fn set_lower(&mut self, page: PageId, lower: bool) {
        self.state(page).lower = lower;
    }

    /// Returns true if a page is in the lower zone.
    pub(in super::super) fn is_lower(&self, page: PageId) -> bool {
        self.states.get(page.index()).is_some_and(|state| state.lower)
    }

    /// Returns true if a page is on a list.
    pub(in super::super) fn is_listed(&self, page: PageId) -> bool {
        self.states.get(page.index()).is_some_and(|state| state.on != NONE)
    }

    /// Returns true if a walk of page tables reads a page's bit: 7.3 leaves out pages that are off
    /// their list, because eviction has them (`get_pfn_folio`).
    pub(super) fn is_walked(&self, page: PageId, release: Release) -> bool {
        release == Release::V6_12 || self.is_listed(page)
    }

    /// Forgets a freed page's flags; it is on no list.
    pub(in super::super) fn forget(&mut self, page: PageId) {
        *self.state(page) = FolioState::NEW;
    }
}
