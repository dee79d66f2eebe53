//! A program given access by access: a sequence of pages, as cache simulators read it.
//!
//! ```
//! use tierwise_trace::{Window, WindowSource, sequence::Sequence};
//!
//! // Eight accesses in windows of four. Every access is a load that misses.
//! let mut source = Sequence::new(&[7, 7, 9, 7, 9, 9, 9, 9], 4, 100);
//! let mut window = Window::default();
//! let mut seen = Vec::new();
//! while source.next_window(&mut window).unwrap() {
//!     seen.push(window.accesses.iter().map(|a| (a.page, a.loads)).collect::<Vec<_>>());
//! }
//! assert_eq!(seen, [vec![(7, 3), (9, 1)], vec![(9, 4)]]);
//! ```

use crate::model::{
    Allocation, CacheModel, Header, PageAccess, PageBacking, ThreadShare, TraceError, Window,
    WindowSource,
};

/// Windows of a fixed number of accesses over a borrowed sequence of page numbers.
#[derive(Debug)]
pub struct Sequence<'a> {
    header: Header,
    pages: &'a [u32],
    at: usize,
    window_accesses: usize,
    instructions_per_access: u64,
    allocated: Vec<bool>,
    /// Accesses of the current window, by page.
    counts: Vec<u32>,
    touched: Vec<u32>,
}

impl<'a> Sequence<'a> {
    /// Makes a source over `pages`, in windows of `window_accesses` accesses. Page numbers should
    /// be dense: tables are as long as the largest.
    pub fn new(pages: &'a [u32], window_accesses: usize, instructions_per_access: u64) -> Self {
        // Folded, because this loop is vectorised and that of `max` is not.
        let largest = pages.iter().fold(0, |largest, &page| page.max(largest));
        let len = if pages.is_empty() { 0 } else { largest as usize + 1 };
        let header = Header {
            command: vec!["sequence".to_owned()],
            host: "in memory".to_owned(),
            page_size: 4096,
            window_instructions: window_accesses as u64 * instructions_per_access,
            // Every access of a sequence reaches memory: there is no cache in front.
            cache: CacheModel { size_bytes: 0, ways: 1, line_bytes: 64 },
        };
        Self {
            header,
            pages,
            at: 0,
            window_accesses: window_accesses.max(1),
            instructions_per_access,
            allocated: vec![false; len],
            counts: vec![0; len],
            touched: Vec::new(),
        }
    }

    fn count(&mut self, chunk: &[u32]) {
        // Most pages occur often, in an order that no CPU predicts: there is no branch per access.
        self.touched.resize(self.counts.len().min(chunk.len()) + 1, 0);
        let mut touched = 0;
        for &page in chunk {
            let count = &mut self.counts[page as usize];
            self.touched[touched] = page;
            touched += usize::from(*count == 0);
            *count += 1;
        }
        self.touched.truncate(touched);
        self.touched.sort_unstable();
    }

    fn emit(&mut self, window: &mut Window) {
        for page in self.touched.drain(..) {
            let loads = std::mem::take(&mut self.counts[page as usize]);
            if !std::mem::replace(&mut self.allocated[page as usize], true) {
                let allocation = Allocation {
                    page,
                    vpn: page.into(),
                    kind: PageBacking::Anon,
                    order: 0,
                    thread: 0,
                };
                window.allocations.push(allocation);
            }
            window.accesses.push(PageAccess {
                page,
                loads,
                stores: 0,
                load_misses: loads,
                store_misses: 0,
                supervised: 0,
                thread: 0,
            });
        }
    }
}

impl WindowSource for Sequence<'_> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_window(&mut self, window: &mut Window) -> Result<bool, TraceError> {
        window.clear();
        let pages = self.pages;
        let end = (self.at + self.window_accesses).min(pages.len());
        if self.at == end {
            return Ok(false);
        }
        let chunk = &pages[self.at..end];
        self.at = end;
        window.instructions = chunk.len() as u64 * self.instructions_per_access;
        window.threads.push(ThreadShare { thread: 0, instructions: window.instructions });
        self.count(chunk);
        self.emit(window);
        Ok(true)
    }

    fn rewind(&mut self) -> Result<(), TraceError> {
        self.at = 0;
        self.allocated.fill(false);
        Ok(())
    }
}

/// The place of the k-th of n accesses in a window, in 2^-40ths: `(k + 1/2) / n`.
fn place(k: u64, n: u64) -> u64 {
    // From 2^24 accesses of one page on, the numerator has more than 64 bits.
    ((u128::from(2 * k + 1) << 39) / u128::from(n)) as u64
}

/// Adds a window's accesses to `out` as a sequence: the accesses of each page are spread evenly,
/// which is the order that the simulator assumes within a window.
pub fn interleave(window: &Window, out: &mut Vec<u32>) {
    let mut rounds: Vec<(u64, u32)> = Vec::new();
    for access in &window.accesses {
        let n = u64::from(access.loads) + u64::from(access.stores);
        rounds.extend((0..n).map(|k| (place(k, n), access.page)));
    }
    rounds.sort_unstable();
    out.extend(rounds.into_iter().map(|(_, page)| page));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_accesses_keep_their_places() {
        // Three quarters into a window, in 2^-40ths, for few and for many accesses.
        assert_eq!(place(1, 2), 3 << 38);
        let n = u64::from(u32::MAX) * 2;
        let last = place(n - 1, n);
        assert!(place(n / 2, n) > 1 << 39, "the second half of the window");
        assert!(last < 1 << 40 && last > place(n / 2, n));
    }
}
