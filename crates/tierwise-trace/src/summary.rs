//! The content of a trace in numbers.
//!
//! ```
//! use tierwise_trace::summary::{WindowSummary, summarize};
//! # use tierwise_trace::*;
//! # struct One(Header, bool);
//! # impl WindowSource for One {
//! #     fn header(&self) -> &Header { &self.0 }
//! #     fn rewind(&mut self) -> Result<(), TraceError> { self.1 = false; Ok(()) }
//! #     fn next_window(&mut self, window: &mut Window) -> Result<bool, TraceError> {
//! #         window.clear();
//! #         window.instructions = 1000;
//! #         window.allocations.push(Allocation { page: 0, vpn: 7, kind: PageBacking::Anon,
//! #             order: 0, thread: 0 });
//! #         window.accesses.push(PageAccess { page: 0, loads: 3, stores: 1, load_misses: 1,
//! #             store_misses: 0, supervised: 0, thread: 0 });
//! #         Ok(!std::mem::replace(&mut self.1, true))
//! #     }
//! # }
//! # let cache = tierwise_trace::cache::DEFAULT;
//! # let header = Header { command: vec![], host: String::new(), page_size: 4096,
//! #     window_instructions: 1000, cache };
//! # let mut source = One(header, false);
//! // A source of one window in which one page was allocated, read three times and written once:
//! let summary = summarize(&mut source, 10)?;
//! assert_eq!((summary.peak_resident_pages, summary.addressed_pages), (1, 1));
//! assert_eq!(summary.loads + summary.stores, 4);
//! assert_eq!(summary.top_pages[0].vpn, 7);
//! # Ok::<(), TraceError>(())
//! ```

use std::collections::BTreeMap;

use crate::format::Totals;
use crate::{Header, PageBacking, TraceError, Window, WindowSource};

/// A trace in numbers. Pages are base pages: a page of order 9 counts as 512.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceSummary {
    /// The trace's description.
    pub header: Header,
    /// Windows, instructions, pages and rows.
    pub totals: Totals,
    /// Operations that the program reported.
    pub operations: u64,
    /// Anonymous base pages allocated.
    pub anon_pages: u64,
    /// File base pages allocated.
    pub file_pages: u64,
    /// The maximum of base pages resident at the end of a window.
    pub peak_resident_pages: u64,
    /// Base pages of addresses at which memory was allocated, each counted once.
    pub addressed_pages: u64,
    /// Loads executed.
    pub loads: u64,
    /// Stores executed.
    pub stores: u64,
    /// Loads that missed the modelled cache.
    pub load_misses: u64,
    /// Stores that missed the modelled cache.
    pub store_misses: u64,
    /// Accesses through system calls.
    pub supervised: u64,
    /// Instructions of each thread, by its index.
    pub threads: BTreeMap<u16, u64>,
    /// The windows at which phases start, with their names.
    pub marks: Vec<(u64, String)>,
    /// Each window.
    pub windows: Vec<WindowSummary>,
    /// The pages with the most misses, in descending order.
    pub top_pages: Vec<TopPage>,
}

/// A window in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowSummary {
    /// Guest instructions.
    pub instructions: u64,
    /// Operations completed.
    pub operations: u64,
    /// Base pages touched: the working set at the scale of a window.
    pub touched_pages: u64,
    /// Base pages resident at the end of the window.
    pub resident_pages: u64,
    /// Pages allocated.
    pub allocations: u64,
    /// Pages unmapped.
    pub unmaps: u64,
    /// Loads executed.
    pub loads: u64,
    /// Stores executed.
    pub stores: u64,
    /// Loads and stores that missed the modelled cache.
    pub misses: u64,
}

/// A page in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopPage {
    /// Index in the trace.
    pub page: u32,
    /// Virtual page number at its allocation.
    pub vpn: u64,
    /// Its backing.
    pub kind: PageBacking,
    /// Loads and stores.
    pub accesses: u64,
    /// Loads and stores that missed the modelled cache.
    pub misses: u64,
    /// Windows in which it was touched.
    pub windows: u64,
}

struct Page {
    top: TopPage,
    base_pages: u64,
}

/// Reads a whole source; `top` pages are listed. The source is left at its end.
///
/// # Errors
/// The source is damaged.
pub fn summarize(source: &mut dyn WindowSource, top: usize) -> Result<TraceSummary, TraceError> {
    let mut summary = empty(source.header().clone());
    let mut pages = Vec::new();
    let mut resident = 0;
    let mut window = Window::default();
    while source.next_window(&mut window)? {
        add_window(&mut summary, &mut pages, &mut resident, &window);
    }
    summary.addressed_pages = addressed(&pages);
    let mut pages: Vec<TopPage> = pages.into_iter().map(|page: Page| page.top).collect();
    pages.sort_by_key(|page| (u64::MAX - page.misses, u64::MAX - page.accesses, page.page));
    pages.truncate(top);
    summary.top_pages = pages;
    Ok(summary)
}

/// Base pages of the places where pages start.
fn addressed(pages: &[Page]) -> u64 {
    let places: BTreeMap<u64, u64> = pages.iter().map(|p| (p.top.vpn, p.base_pages)).collect();
    places.values().sum()
}

fn empty(header: Header) -> TraceSummary {
    TraceSummary {
        header,
        totals: Totals::default(),
        operations: 0,
        anon_pages: 0,
        file_pages: 0,
        peak_resident_pages: 0,
        addressed_pages: 0,
        loads: 0,
        stores: 0,
        load_misses: 0,
        store_misses: 0,
        supervised: 0,
        threads: BTreeMap::new(),
        marks: Vec::new(),
        windows: Vec::new(),
        top_pages: Vec::new(),
    }
}

fn add_window(
    summary: &mut TraceSummary,
    pages: &mut Vec<Page>,
    resident: &mut u64,
    window: &Window,
) {
    let number = summary.totals.windows;
    summary.marks.extend(window.marks.iter().map(|mark| (number, mark.clone())));
    for share in &window.threads {
        let sum = summary.threads.entry(share.thread).or_default();
        *sum = sum.saturating_add(share.instructions);
    }
    *resident += allocate(summary, pages, window);
    let mut line = add_accesses(summary, pages, window);
    *resident -= window.unmaps.iter().map(|&page| pages[page as usize].base_pages).sum::<u64>();
    line.resident_pages = *resident;
    summary.peak_resident_pages = summary.peak_resident_pages.max(*resident);
    summary.operations = summary.operations.saturating_add(window.operations);
    summary.totals.add(window);
    summary.windows.push(line);
}

fn allocate(summary: &mut TraceSummary, pages: &mut Vec<Page>, window: &Window) -> u64 {
    let mut allocated = 0;
    for allocation in &window.allocations {
        let base_pages = 1 << allocation.order;
        let top = TopPage {
            page: allocation.page,
            vpn: allocation.vpn,
            kind: allocation.kind,
            accesses: 0,
            misses: 0,
            windows: 0,
        };
        pages.push(Page { top, base_pages });
        allocated += base_pages;
        match allocation.kind {
            PageBacking::Anon => summary.anon_pages += base_pages,
            PageBacking::File => summary.file_pages += base_pages,
        }
    }
    allocated
}

fn add_accesses(summary: &mut TraceSummary, pages: &mut [Page], window: &Window) -> WindowSummary {
    let mut line = WindowSummary {
        instructions: window.instructions,
        operations: window.operations,
        allocations: window.allocations.len() as u64,
        unmaps: window.unmaps.len() as u64,
        ..WindowSummary::default()
    };
    for access in &window.accesses {
        let (loads, stores) = (u64::from(access.loads), u64::from(access.stores));
        let misses = u64::from(access.load_misses) + u64::from(access.store_misses);
        line.loads += loads;
        line.stores += stores;
        line.misses += misses;
        summary.load_misses += u64::from(access.load_misses);
        summary.store_misses += u64::from(access.store_misses);
        summary.supervised += u64::from(access.supervised);
        let page = &mut pages[access.page as usize];
        page.top.accesses += loads + stores;
        page.top.misses += misses;
        page.top.windows += 1;
        line.touched_pages += page.base_pages;
    }
    summary.loads += line.loads;
    summary.stores += line.stores;
    line
}
