//! Checks that a trace keeps the rules of a page's life: allocated once, touched only after that,
//! unmapped once.

use crate::Window;

/// The pages of a trace so far; one bit for each.
#[derive(Debug, Default)]
pub(crate) struct Lifetimes {
    allocated: u64,
    ended: Vec<u64>,
}

impl Lifetimes {
    /// Admits the next window, whose pages are known to be below the number of those allocated.
    ///
    /// # Errors
    /// A page is touched or unmapped after its unmap.
    pub(crate) fn admit(&mut self, window: &Window) -> Result<(), String> {
        self.allocated += window.allocations.len() as u64;
        self.ended.resize(self.allocated.div_ceil(64) as usize, 0);
        if let Some(access) = window.accesses.iter().find(|access| self.has_ended(access.page)) {
            return Err(format!("page {} is touched after its unmap", access.page));
        }
        for &page in &window.unmaps {
            if self.has_ended(page) {
                return Err(format!("page {page} is unmapped a second time"));
            }
            self.ended[page as usize / 64] |= 1 << (page % 64);
        }
        Ok(())
    }

    fn has_ended(&self, page: u32) -> bool {
        self.ended[page as usize / 64] >> (page % 64) & 1 == 1
    }
}
