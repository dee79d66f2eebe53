//! Parts of a trace, and coarser windows.
//!
//! [`Cut`] and [`Merge`] are sources over sources, so they can be stacked and read without writing
//! a file; [`writer::write_trace`](crate::writer::write_trace) writes any source to a file.

use std::mem;
use std::ops::Range;

use crate::{Allocation, Header, PageAccess, ThreadShare, TraceError, Window, WindowSource};

/// The windows to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WindowSelection {
    /// Windows by number, from 0.
    Windows(Range<u64>),
    /// The phase of this name: from the window with the mark to the next with another.
    Phase(String),
}

/// The windows of a part of a trace.
///
/// Pages that are mapped when the part starts are allocated in its first window, in their order;
/// pages are numbered again.
pub struct Cut<S> {
    source: S,
    selection: WindowSelection,
    position: u64,
    state: State,
    present: PresentPages,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Before,
    Within,
    After,
}

impl<S: WindowSource> Cut<S> {
    /// Selects windows of `source`, which must be at its first.
    pub fn new(source: S, selection: WindowSelection) -> Self {
        Self {
            source,
            selection,
            position: 0,
            state: State::Before,
            present: PresentPages::default(),
        }
    }

    /// Returns true if no later window can belong to the part. A damaged window after the part is
    /// not read.
    fn is_over(&self) -> bool {
        let past = matches!(&self.selection, WindowSelection::Windows(r) if self.position >= r.end);
        past || self.state == State::After
    }

    /// Position of the window just read relative to the selection.
    fn place(&self, window: &Window) -> State {
        match &self.selection {
            WindowSelection::Windows(range) if self.position < range.start => State::Before,
            WindowSelection::Windows(range) if self.position < range.end => State::Within,
            WindowSelection::Windows(_) => State::After,
            WindowSelection::Phase(name) => match self.state {
                _ if self.state != State::After && window.marks.contains(name) => State::Within,
                State::Within if !window.marks.is_empty() => State::After,
                state => state,
            },
        }
    }
}

impl<S: WindowSource> WindowSource for Cut<S> {
    fn header(&self) -> &Header {
        self.source.header()
    }

    fn next_window(&mut self, window: &mut Window) -> Result<bool, TraceError> {
        while !self.is_over() && self.source.next_window(window)? {
            let before = self.state;
            self.state = self.place(window);
            self.position += 1;
            match self.state {
                State::Before => self.present.follow(window),
                State::Within => {
                    self.present.renumber(window, before == State::Before);
                    return Ok(true);
                }
                State::After => {}
            }
        }
        window.clear();
        Ok(false)
    }

    fn rewind(&mut self) -> Result<(), TraceError> {
        self.source.rewind()?;
        self.position = 0;
        self.state = State::Before;
        self.present = PresentPages::default();
        Ok(())
    }
}

/// The pages of the source: those allocated before the part, and their numbers in it.
#[derive(Default)]
struct PresentPages {
    /// Pages allocated before the part starts; `None` once unmapped.
    early: Vec<Option<Allocation>>,
    /// New number of each page of the source.
    numbers: Vec<u32>,
    next: u32,
}

impl PresentPages {
    /// Keeps track of a window before the part.
    fn follow(&mut self, window: &Window) {
        self.early.extend(window.allocations.iter().map(|&allocation| Some(allocation)));
        for &page in &window.unmaps {
            self.early[page as usize] = None;
        }
    }

    /// Gives the pages of a window of the part their new numbers.
    fn renumber(&mut self, window: &mut Window, first: bool) {
        if first {
            let early = mem::take(&mut self.early);
            let inherited = early.iter().flatten().copied().collect::<Vec<_>>();
            self.numbers = vec![u32::MAX; early.len()];
            window.allocations.splice(0..0, inherited);
        }
        for allocation in &mut window.allocations {
            let page = allocation.page as usize;
            if page >= self.numbers.len() {
                self.numbers.resize(page + 1, u32::MAX);
            }
            self.numbers[page] = self.next;
            allocation.page = self.next;
            self.next += 1;
        }
        window.accesses.iter_mut().for_each(|a| a.page = self.numbers[a.page as usize]);
        window.unmaps.iter_mut().for_each(|page| *page = self.numbers[*page as usize]);
        window.object_heat.iter_mut().for_each(|h| h.page = self.numbers[h.page as usize]);
    }
}

/// Source that merges windows, `factor` at a time. A mark starts a new window, so phases keep their
/// starts.
pub struct Merge<S> {
    source: S,
    header: Header,
    factor: u64,
    /// The window that starts with a mark and was therefore not merged into the last one.
    held: Option<Window>,
    part: Window,
}

impl<S: WindowSource> Merge<S> {
    /// Merges windows of `source`; a factor of 0 counts as 1.
    pub fn new(source: S, factor: u64) -> Self {
        let factor = factor.max(1);
        let mut header = source.header().clone();
        header.window_instructions = header.window_instructions.saturating_mul(factor);
        Self { source, header, factor, held: None, part: Window::default() }
    }
}

impl<S: WindowSource> WindowSource for Merge<S> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_window(&mut self, window: &mut Window) -> Result<bool, TraceError> {
        window.clear();
        let mut merged = 0;
        if let Some(held) = self.held.take() {
            *window = held;
            merged = 1;
        }
        while merged < self.factor {
            if !self.source.next_window(&mut self.part)? {
                break;
            }
            if merged > 0 && !self.part.marks.is_empty() {
                self.held = Some(mem::take(&mut self.part));
                break;
            }
            append(window, &mut self.part);
            merged += 1;
        }
        fold(window);
        Ok(merged > 0)
    }

    fn rewind(&mut self) -> Result<(), TraceError> {
        self.held = None;
        self.source.rewind()
    }
}

fn append(window: &mut Window, part: &mut Window) {
    window.instructions = window.instructions.saturating_add(part.instructions);
    window.operations = window.operations.saturating_add(part.operations);
    window.threads.append(&mut part.threads);
    window.allocations.append(&mut part.allocations);
    window.accesses.append(&mut part.accesses);
    window.unmaps.append(&mut part.unmaps);
    window.marks.append(&mut part.marks);
    // Both are of a window's end.
    window.objects = part.objects;
    mem::swap(&mut window.object_heat, &mut part.object_heat);
}

/// Sorts the lists, and adds up the rows of each page and each thread.
fn fold(window: &mut Window) {
    window.threads.sort_by_key(|share| share.thread);
    window.threads.dedup_by(|later, kept| {
        let same = later.thread == kept.thread;
        if same {
            add_share(kept, later);
        }
        same
    });
    // Stable: of one page's rows, the latest stays last and names the last thread.
    window.accesses.sort_by_key(|access| access.page);
    window.accesses.dedup_by(|later, kept| {
        let same = later.page == kept.page;
        if same {
            add_access(kept, later);
        }
        same
    });
    window.unmaps.sort_unstable();
}

fn add_share(kept: &mut ThreadShare, later: &ThreadShare) {
    kept.instructions = kept.instructions.saturating_add(later.instructions);
}

fn add_access(kept: &mut PageAccess, later: &PageAccess) {
    kept.loads = kept.loads.saturating_add(later.loads);
    kept.stores = kept.stores.saturating_add(later.stores);
    kept.load_misses = kept.load_misses.saturating_add(later.load_misses);
    kept.store_misses = kept.store_misses.saturating_add(later.store_misses);
    kept.supervised = kept.supervised.saturating_add(later.supervised);
    kept.thread = later.thread;
}
