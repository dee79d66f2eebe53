//! A set of pages as a bitmap. A world reports touched pages in it, at a cost that does not depend
//! on their number.
//!
//! ```
//! use tierwise_core::bits::PageBits;
//! use tierwise_core::units::PageId;
//!
//! let mut bits = PageBits::default();
//! bits.set(PageId(70));
//! bits.set(PageId(3));
//! let mut pages = Vec::new();
//! bits.drain(|page| pages.push(page.0));
//! assert_eq!(pages, [3, 70]);
//! assert!(bits.is_empty());
//! ```

use crate::units::PageId;

/// A growable bitmap over pages. It records the span in use, so that draining a few pages is cheap.
#[derive(Debug, Clone, Default)]
pub struct PageBits {
    words: Vec<u64>,
    first: usize,
    end: usize,
}

impl PageBits {
    /// Adds a page.
    #[inline]
    pub fn set(&mut self, page: PageId) {
        let word = page.index() / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (page.index() % 64);
        if self.end == 0 {
            self.first = word;
        }
        self.first = self.first.min(word);
        self.end = self.end.max(word + 1);
    }

    /// Removes a page.
    pub fn unset(&mut self, page: PageId) {
        if let Some(word) = self.words.get_mut(page.index() / 64) {
            *word &= !(1 << (page.index() % 64));
        }
    }

    /// Returns true if the page is in the set.
    pub fn contains(&self, page: PageId) -> bool {
        self.words.get(page.index() / 64).is_some_and(|w| w & (1 << (page.index() % 64)) != 0)
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// Calls `f` for each page, ascending.
    pub fn for_each(&self, mut f: impl FnMut(PageId)) {
        for (i, &word) in self.words[self.first.min(self.end)..self.end].iter().enumerate() {
            let mut rest = word;
            while rest != 0 {
                f(PageId(((self.first + i) * 64) as u32 + rest.trailing_zeros()));
                rest &= rest - 1;
            }
        }
    }

    /// Calls `f` for each page, ascending, and empties the set.
    pub fn drain(&mut self, f: impl FnMut(PageId)) {
        self.for_each(f);
        self.clear();
    }

    /// Empties the set and keeps its memory.
    pub fn clear(&mut self) {
        self.words[self.first.min(self.end)..self.end].fill(0);
        self.first = 0;
        self.end = 0;
    }
}
