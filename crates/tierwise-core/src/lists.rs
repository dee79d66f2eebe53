//! Intrusive page lists: eight bytes per page, no allocation when a page changes its list.
//!
//! A page is on at most one list. As in the kernel, the head is the recent end and the tail the old
//! end: pages are added at the head, and scans take them from the tail.
//!
//! ```
//! use tierwise_core::lists::{ListId, PageLists};
//! use tierwise_core::units::PageId;
//!
//! let mut lists = PageLists::default();
//! for page in 0..3 {
//!     lists.push_head(ListId(0), PageId(page), 1);
//! }
//! assert_eq!(lists.tail(ListId(0)), Some(PageId(0)));
//! lists.rotate(ListId(0), PageId(0));                  // tail to head
//! assert_eq!(lists.tail(ListId(0)), Some(PageId(1)));
//! assert_eq!(lists.len(ListId(0)), 3);
//! ```

use crate::units::PageId;

/// The number of a list. Its owner gives it a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListId(pub u32);

#[derive(Debug, Clone, Copy)]
struct Head {
    head: u32,
    tail: u32,
    pages: u64,
    frames: u64,
}

impl Head {
    const EMPTY: Self = Self { head: NONE, tail: NONE, pages: 0, frames: 0 };
}

/// The link beyond the end of a list.
const NONE: u32 = u32::MAX;
/// The value of both links of a page that is on no list.
const OFF: u32 = u32::MAX - 1;

#[derive(Debug, Clone, Copy)]
struct Links {
    /// Towards the head.
    newer: u32,
    /// Towards the tail.
    older: u32,
}

/// Any number of lists over one set of pages, each page on at most one.
#[derive(Debug, Clone, Default)]
pub struct PageLists {
    links: Vec<Links>,
    heads: Vec<Head>,
}

impl PageLists {
    /// Bytes of metadata per page.
    pub const BYTES_PER_PAGE: usize = size_of::<Links>();

    fn head_mut(&mut self, list: ListId) -> &mut Head {
        let index = list.0 as usize;
        if index >= self.heads.len() {
            self.heads.resize(index + 1, Head::EMPTY);
        }
        &mut self.heads[index]
    }

    fn head(&self, list: ListId) -> &Head {
        self.heads.get(list.0 as usize).unwrap_or(&Head::EMPTY)
    }

    /// Pages on the list.
    pub fn len(&self, list: ListId) -> u64 {
        self.head(list).pages
    }

    /// Base pages on the list.
    pub fn frames(&self, list: ListId) -> u64 {
        self.head(list).frames
    }

    /// Returns true if the list is empty.
    pub fn is_empty(&self, list: ListId) -> bool {
        self.len(list) == 0
    }

    /// The oldest page.
    #[inline]
    pub fn tail(&self, list: ListId) -> Option<PageId> {
        Some(self.head(list).tail).filter(|&p| p != NONE).map(PageId)
    }

    /// The newest page.
    pub fn newest(&self, list: ListId) -> Option<PageId> {
        Some(self.head(list).head).filter(|&p| p != NONE).map(PageId)
    }

    /// The next newer page on the same list.
    #[inline]
    pub fn newer(&self, page: PageId) -> Option<PageId> {
        Some(self.links[page.index()].newer).filter(|&p| p != NONE).map(PageId)
    }

    /// The next older page on the same list.
    #[inline]
    pub fn older(&self, page: PageId) -> Option<PageId> {
        Some(self.links[page.index()].older).filter(|&p| p != NONE).map(PageId)
    }

    /// Returns true if the page is on a list.
    #[inline]
    pub fn contains(&self, page: PageId) -> bool {
        self.links.get(page.index()).is_some_and(|links| links.newer != OFF)
    }

    fn reach(&mut self, page: PageId) {
        if page.index() >= self.links.len() {
            self.links.resize(page.index() + 1, Links { newer: OFF, older: OFF });
        }
    }

    /// Adds a page, which is on no list, at the recent end.
    #[inline]
    pub fn push_head(&mut self, list: ListId, page: PageId, frames: u64) {
        self.reach(page);
        let head = self.head_mut(list);
        let before = std::mem::replace(&mut head.head, page.0);
        head.pages += 1;
        head.frames += frames;
        if before == NONE {
            head.tail = page.0;
        } else {
            self.links[before as usize].newer = page.0;
        }
        self.links[page.index()] = Links { newer: NONE, older: before };
    }

    /// Adds a page, which is on no list, at the old end.
    pub fn push_tail(&mut self, list: ListId, page: PageId, frames: u64) {
        self.reach(page);
        let head = self.head_mut(list);
        let before = std::mem::replace(&mut head.tail, page.0);
        head.pages += 1;
        head.frames += frames;
        if before == NONE {
            head.head = page.0;
        } else {
            self.links[before as usize].older = page.0;
        }
        self.links[page.index()] = Links { newer: before, older: NONE };
    }

    /// Takes a page off `list`. The page must be on that list, added with the same `frames`.
    #[inline]
    pub fn remove(&mut self, list: ListId, page: PageId, frames: u64) {
        let Links { newer, older } = self.links[page.index()];
        let head = &mut self.heads[list.0 as usize];
        head.pages -= 1;
        head.frames -= frames;
        if newer == NONE {
            head.head = older;
        } else {
            self.links[newer as usize].older = older;
        }
        if older == NONE {
            head.tail = newer;
        } else {
            self.links[older as usize].newer = newer;
        }
        self.links[page.index()] = Links { newer: OFF, older: OFF };
    }

    /// Moves a page to the recent end of its list.
    #[inline]
    pub fn rotate(&mut self, list: ListId, page: PageId) {
        self.remove(list, page, 0);
        self.push_head(list, page, 0);
    }

    /// Moves all pages of the list that are older than this one to the recent end, in their order,
    /// so that this page becomes the oldest. The result is that of rotating each, at the cost of
    /// one rotation.
    pub fn make_tail(&mut self, list: ListId, page: PageId) {
        let newest_moved = self.links[page.index()].older;
        if newest_moved == NONE {
            return;
        }
        let head = &mut self.heads[list.0 as usize];
        let (old_head, old_tail) = (head.head, head.tail);
        (head.head, head.tail) = (newest_moved, page.0);
        self.links[newest_moved as usize].newer = NONE;
        self.links[old_tail as usize].older = old_head;
        self.links[old_head as usize].newer = old_tail;
        self.links[page.index()].older = NONE;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with two VecDeques after every step.
        #[test]
        fn lists_agree_with_a_model(steps in prop::collection::vec((0u8..5, 0u32..20), 1..200)) {
            let mut lists = PageLists::default();
            let mut model = [VecDeque::new(), VecDeque::new()];
            for (what, page) in steps {
                let on = model.iter().position(|l| l.contains(&page));
                prop_assert_eq!(lists.contains(PageId(page)), on.is_some());
                match (what, on) {
                    (0 | 1, None) => {
                        lists.push_head(ListId(u32::from(what)), PageId(page), 2);
                        model[usize::from(what)].push_front(page);
                    }
                    (2, Some(l)) => {
                        lists.remove(ListId(l as u32), PageId(page), 2);
                        model[l].retain(|&p| p != page);
                    }
                    (3, Some(l)) => {
                        lists.rotate(ListId(l as u32), PageId(page));
                        model[l].retain(|&p| p != page);
                        model[l].push_front(page);
                    }
                    (4, Some(l)) => {
                        lists.make_tail(ListId(l as u32), PageId(page));
                        let older = model[l].iter().rev().take_while(|&&p| p != page).count();
                        model[l].rotate_right(older);
                    }
                    (3, None) => {
                        lists.push_tail(ListId(1), PageId(page), 2);
                        model[1].push_back(page);
                    }
                    _ => {}
                }
                for (l, expected) in model.iter().enumerate() {
                    let list = ListId(l as u32);
                    let mut found = Vec::new();
                    let mut at = lists.newest(list);
                    while let Some(page) = at {
                        found.push(page.0);
                        at = lists.older(page);
                    }
                    prop_assert_eq!(&found, &Vec::from(expected.clone()));
                    prop_assert!(expected.iter().all(|&p| lists.contains(PageId(p))));
                    prop_assert_eq!(lists.len(list), expected.len() as u64);
                    prop_assert_eq!(lists.frames(list), 2 * expected.len() as u64);
                    prop_assert_eq!(lists.tail(list).map(|p| p.0), expected.back().copied());
                }
            }
        }
    }
}
