//! The rule by which a trace's window of page accesses becomes line accesses.
//!
//! A trace records how many of a page's accesses missed in a window, not which of its lines they
//! went to nor when. The rule: a hash of page, window and `k` gives the line and the time of the
//! `k`-th miss of a page. Each line and each time is as likely as any other. The rule is the same
//! on every machine and in every run.

use tierwise_trace::Window;

use crate::hash::mix;

/// One line access: the page's lines are numbered `64 * page` and up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineAccess {
    /// The line's number.
    pub line: u64,
    /// True if the miss was a store's.
    pub is_store: bool,
}

/// Lines of a page: 4 KiB of 64 bytes.
pub const LINES: u64 = 64;

/// Adds a window's misses to `out`, in the order of their times. `number` is the number of the
/// window, from zero.
pub fn lines(window: &Window, number: u64, out: &mut Vec<LineAccess>) {
    let mut timed = Vec::new();
    for access in &window.accesses {
        let misses = access.load_misses + access.store_misses;
        for k in 0..misses {
            let hash = mix(mix(u64::from(access.page) << 32 | u64::from(k)) ^ number);
            let line = u64::from(access.page) * LINES + hash % LINES;
            // Bits above those that chose the line choose the time.
            timed.push((hash >> 6, LineAccess { line, is_store: k >= access.load_misses }));
        }
    }
    timed.sort_unstable_by_key(|&(time, access)| (time, access.line));
    out.extend(timed.into_iter().map(|(_, access)| access));
}

#[cfg(test)]
mod tests {
    use tierwise_trace::PageAccess;

    use super::*;

    #[test]
    fn every_miss_is_one_line_access() {
        let access = |page, load_misses, store_misses| PageAccess {
            page,
            loads: 1000,
            stores: 1000,
            load_misses,
            store_misses,
            supervised: 0,
            thread: 0,
        };
        let window =
            Window { accesses: vec![access(3, 200, 50), access(4, 0, 7)], ..Window::default() };
        let (mut out, mut again) = (Vec::new(), Vec::new());
        lines(&window, 1, &mut out);
        lines(&window, 1, &mut again);
        assert_eq!(out, again);
        let of = |page: u64| out.iter().filter(move |a| a.line / LINES == page);
        assert_eq!((of(3).count(), of(4).count(), out.len()), (250, 7, 257));
        assert_eq!((of(3).filter(|a| a.is_store).count(), of(4).all(|a| a.is_store)), (50, true));
        again.clear();
        lines(&window, 2, &mut again);
        assert_ne!(out, again);
    }
}
