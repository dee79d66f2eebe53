//! The windows of a workload in the order in which they run: read once, scaled, mapped to huge
//! pages, looped over the measured part.

use std::collections::HashSet;
use std::sync::Arc;

use tierwise_core::page::PageTable;
use tierwise_trace::{
    Allocation, Header, ObjectHeat, PageAccess, PageBacking, ThreadShare, TraceError, Window,
    WindowSource,
};

use crate::bound::{Bounds, WindowBound};
use crate::places::{RecordedPlaces, WindowPlaces};
use crate::rescale::PageOrder;

/// Changes to the pages of a recorded program when it is read: larger, fewer or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Units to which all its pages are mapped ([`crate::rescale`]).
    pub units: Option<u32>,
    /// The order in which they are mapped.
    pub order: PageOrder,
    /// Pages per recorded page.
    pub scale: u32,
    /// True if its address space is in huge pages.
    pub huge_pages: bool,
    /// log2 of the base pages per page, on top of its own order.
    pub granule_order: u8,
}

impl Default for Shape {
    /// As recorded.
    fn default() -> Self {
        let order = PageOrder::Allocation;
        Self { units: None, order, scale: 1, huge_pages: false, granule_order: 0 }
    }
}

/// The marks of the measured part; without them it is the whole program.
#[derive(Debug, Default, Clone, Copy)]
pub struct MeasuredMarks<'a> {
    /// Its start.
    pub from: Option<&'a str>,
    /// Its end, which is read no further.
    pub until: Option<&'a str>,
}

/// Maximum number of rows (allocations and accesses) of a scaled program in memory: some 2 GiB.
const MAX_ROWS: u64 = 1 << 26;

/// The reason why a program cannot be loaded in a shape.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The source is damaged.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The scaled program would not fit in memory.
    #[error(
        "scale: found {scale}; allowed: from 1 to {most}: the recording has {rows} allocations and \
         accesses, and a scaled one may have {MAX_ROWS}; a larger granule in [machine] makes a \
         program larger at no cost"
    )]
    TooMany {
        /// Pages per recorded page.
        scale: u32,
        /// Allocations and accesses before.
        rows: u64,
        /// The largest scale that is allowed.
        most: u64,
    },
    /// The program has fewer pages than the footprint has units.
    #[error(
        "footprint: found {units} pages; allowed: up to the {pages} pages of the recording; a \
         larger granule in [machine] makes pages larger"
    )]
    TooFew {
        /// Units of the footprint.
        units: u32,
        /// Pages of the recording.
        pages: u32,
    },
    /// A page is larger than the page table can say.
    #[error(
        "found a page of order {order} with a granule of order {granule_order}; allowed: together \
         at most {}; choose a smaller granule in [machine], or record smaller pages",
        PageTable::MAX_ORDER
    )]
    TooLarge {
        /// The page's order in the recording.
        order: u8,
        /// log2 of the base pages of a granule.
        granule_order: u8,
    },
}

/// A whole program in memory, shared by all runs of it.
#[derive(Debug)]
pub struct LoadedTrace {
    /// The source's header.
    pub header: Header,
    /// Every window.
    pub windows: Vec<Window>,
    /// Greatest number of base pages mapped at one time.
    pub peak_resident: u64,
    /// True if it was read up to a mark rather than to its end.
    pub ends_at_mark: bool,
    /// log2 of the base pages of each page.
    orders: Vec<u8>,
    /// The recorded pages that the rows stand for. Empty where a row stands for one, or where they
    /// are not known.
    places: RecordedPlaces,
}

impl LoadedTrace {
    /// Reads a source in a shape, up to the end of its measured part.
    ///
    /// # Errors
    /// The source is damaged, or cannot have that shape.
    pub fn read(
        source: &mut dyn WindowSource,
        measured: MeasuredMarks<'_>,
        shape: Shape,
    ) -> Result<Self, LoadError> {
        let has = |window: &Window, mark: Option<&str>| {
            mark.is_some_and(|mark| window.marks.iter().any(|m| m == mark))
        };
        let mut windows = Vec::new();
        let mut window = Window::default();
        let mut ends_at_mark = false;
        while source.next_window(&mut window)? {
            ends_at_mark = has(&window, measured.until);
            if ends_at_mark {
                break;
            }
            windows.push(std::mem::take(&mut window));
        }
        let rescales = shape.units.is_some() || shape.order == PageOrder::Address;
        let mut places = match rescales {
            true => {
                let from = windows.iter().position(|window| has(window, measured.from));
                crate::rescale::rescale(&mut windows, shape.units, shape.order, from.unwrap_or(0))?
            }
            false => RecordedPlaces::default(),
        };
        if shape.huge_pages || shape.scale > 1 {
            places = RecordedPlaces::default();
        }
        if shape.huge_pages {
            crate::huge::coalesce(&mut windows);
        }
        if rescales || shape.huge_pages {
            // Objects have no place in pages of another size.
            windows.iter_mut().for_each(|w| {
                w.objects = 0;
                w.object_heat.clear();
            });
        }
        if shape.scale > 1 {
            check_scale(&windows, shape.scale)?;
            windows.iter_mut().for_each(|w| replicate(w, shape.scale));
        }
        enlarge(&mut windows, shape.granule_order)?;
        let (orders, peak_resident) = survey(&windows);
        let header = source.header().clone();
        Ok(Self { header, windows, peak_resident, ends_at_mark, orders, places })
    }

    /// The bounds of every window.
    pub fn bounds(&self, bounds: &Bounds) -> Vec<WindowBound> {
        let frames = |page: u32| 1 << self.orders.get(page as usize).copied().unwrap_or(0);
        self.windows.iter().map(|window| bounds.window(window, frames)).collect()
    }

    /// Index of the window where a phase starts.
    pub fn mark(&self, name: &str) -> Option<usize> {
        self.windows.iter().position(|w| w.marks.iter().any(|m| m == name))
    }

    /// Replaces the windows before a mark by one that allocates the pages that were mapped there,
    /// in the order of their first touch, each touched once. Returns false if there is no such
    /// mark.
    pub fn run_from(&mut self, mark: &str) -> bool {
        let Some(first) = self.mark(mark) else { return false };
        let before: Vec<Window> = self.windows.drain(..first).collect();
        if !before.is_empty() {
            self.windows.insert(0, populated(&before));
            if !self.places.windows.is_empty() {
                self.places.windows.splice(..first, [WindowPlaces::default()]);
            }
        }
        (self.orders, self.peak_resident) = survey(&self.windows);
        true
    }

    /// The names of all phases.
    pub fn marks(&self) -> impl Iterator<Item = &str> {
        self.windows.iter().flat_map(|w| &w.marks).map(String::as_str)
    }
}

/// One window that leaves the pages that these leave. A store per page is the least that a page's
/// allocation takes.
fn populated(windows: &[Window]) -> Window {
    let unmapped: HashSet<u32> = windows.iter().flat_map(|w| &w.unmaps).copied().collect();
    let allocations = windows.iter().flat_map(|w| &w.allocations);
    let allocations: Vec<Allocation> =
        allocations.filter(|a| !unmapped.contains(&a.page)).copied().collect();
    let touch = |a: &Allocation| PageAccess {
        page: a.page,
        loads: 0,
        stores: 1,
        load_misses: 0,
        store_misses: 0,
        supervised: 0,
        thread: a.thread,
    };
    let mut accesses: Vec<PageAccess> = allocations.iter().map(touch).collect();
    accesses.sort_unstable_by_key(|access| access.page);
    let instructions = accesses.len().max(1) as u64;
    // The threads of the time before may be others than those that run.
    let threads = vec![ThreadShare { thread: 0, instructions }];
    Window { instructions, threads, allocations, accesses, ..Window::default() }
}

/// Adds the granule's order to every page's.
fn enlarge(windows: &mut [Window], granule_order: u8) -> Result<(), LoadError> {
    for allocation in windows.iter_mut().flat_map(|w| &mut w.allocations) {
        let order = allocation.order;
        allocation.order = order.saturating_add(granule_order);
        if allocation.order > PageTable::MAX_ORDER {
            return Err(LoadError::TooLarge { order, granule_order });
        }
    }
    Ok(())
}

fn check_scale(windows: &[Window], scale: u32) -> Result<(), LoadError> {
    let rows = windows.iter().map(|w| (w.allocations.len() + w.accesses.len()) as u64).sum::<u64>();
    let most = (MAX_ROWS / rows.max(1)).max(1);
    if u64::from(scale) > most {
        return Err(LoadError::TooMany { scale, rows, most });
    }
    Ok(())
}

/// The `copy`-th share of `count`, such that the shares add up.
fn share(count: u32, scale: u32, copy: u32) -> u32 {
    count / scale + u32::from(copy < count % scale)
}

fn replicate(window: &mut Window, scale: u32) {
    let allocations = window.allocations.iter().flat_map(|b| {
        (0..scale).map(move |i| Allocation {
            page: b.page * scale + i,
            // A damaged trace may have any address.
            vpn: b.vpn.wrapping_mul(u64::from(scale)).wrapping_add(u64::from(i)),
            ..*b
        })
    });
    window.allocations = allocations.collect();
    let accesses = window.accesses.iter().flat_map(|a| {
        (0..scale).map(move |i| PageAccess {
            page: a.page * scale + i,
            loads: share(a.loads, scale, i),
            stores: share(a.stores, scale, i),
            load_misses: share(a.load_misses, scale, i),
            store_misses: share(a.store_misses, scale, i),
            ..*a
        })
    });
    window.accesses = accesses.collect();
    window.objects *= u64::from(scale);
    let heat = window.object_heat.iter().flat_map(|heat| {
        (0..scale).map(move |i| ObjectHeat { page: heat.page * scale + i, ..*heat })
    });
    window.object_heat = heat.collect();
    window.unmaps =
        window.unmaps.iter().flat_map(|&p| (0..scale).map(move |i| p * scale + i)).collect();
}

/// Every page's order, and the greatest number of base pages mapped at one time.
fn survey(windows: &[Window]) -> (Vec<u8>, u64) {
    let (mut orders, mut now, mut peak) = (Vec::new(), 0u64, 0u64);
    for window in windows {
        for allocation in &window.allocations {
            let index = allocation.page as usize;
            if index >= orders.len() {
                orders.resize(index + 1, 0u8);
            }
            orders[index] = allocation.order;
            now += 1 << allocation.order;
        }
        peak = peak.max(now);
        for &page in &window.unmaps {
            now -= orders.get(page as usize).map_or(0, |&order| 1 << order);
        }
    }
    (orders, peak)
}

/// A loaded program as it runs in one scenario: its measured part, its loops and its bounds.
#[derive(Debug)]
pub struct Part {
    /// The program.
    pub program: Arc<LoadedTrace>,
    /// First window of the measured part.
    pub measure_from: usize,
    /// Runs of the measured part; at least 1.
    pub loops: u32,
    /// The bounds of every window on the scenario's machine.
    pub bounds: Vec<WindowBound>,
}

impl Part {
    /// Windows that a whole run takes.
    pub fn windows(&self) -> u64 {
        let all = self.program.windows.len();
        all as u64 + u64::from(self.loops - 1) * all.saturating_sub(self.measure_from) as u64
    }

    /// Nanoseconds that a whole run takes with all memory in the fastest tier, before dilation.
    pub fn all_fast_ns(&self) -> f64 {
        let sum = |bounds: &[WindowBound]| bounds.iter().map(|b| b.all_fast_ns).sum::<f64>();
        let looped = self.bounds.get(self.measure_from..).unwrap_or_default();
        sum(&self.bounds) + f64::from(self.loops - 1) * sum(looped)
    }
}

/// The origin of a workload's windows, one at a time.
enum Origin {
    /// All in memory.
    Loaded { part: Arc<Part>, next: usize, loops_left: u32 },
    /// Generated as they are needed: a generator without end, or one too large to keep.
    Stream {
        source: Box<dyn WindowSource>,
        measure_from: String,
        measuring: bool,
        bounds: Bounds,
        orders: u8,
    },
    /// A service: its units are allocated, and nothing else happens by windows.
    Service { units: u32, order: u8 },
}

/// The windows of one run of a workload.
pub struct Windows {
    origin: Origin,
    dilation: u32,
    taken: u64,
    bound: WindowBound,
    measured: bool,
}

impl std::fmt::Debug for Windows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Windows").field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl Windows {
    fn new(origin: Origin, dilation: u32) -> Self {
        Self { origin, dilation, taken: 0, bound: WindowBound::default(), measured: false }
    }

    /// Windows of a loaded program.
    pub fn of(part: Arc<Part>, dilation: u32) -> Self {
        let loops_left = part.loops - 1;
        Self::new(Origin::Loaded { part, next: 0, loops_left }, dilation)
    }

    /// Windows of a source that is read as it runs, measured from a mark on (from the start, if
    /// empty). All its pages are of one order.
    pub fn stream(
        source: Box<dyn WindowSource>,
        measure_from: &str,
        dilation: u32,
        bounds: Bounds,
        order: u8,
    ) -> Self {
        let measuring = measure_from.is_empty();
        let measure_from = measure_from.to_owned();
        Self::new(
            Origin::Stream { source, measure_from, measuring, bounds, orders: order },
            dilation,
        )
    }

    /// The only window of a service, in which its units are allocated.
    pub fn service(units: u32, order: u8) -> Self {
        Self::new(Origin::Service { units, order }, 1)
    }

    /// Returns the number of identical windows per window.
    pub fn dilation(&self) -> u32 {
        self.dilation
    }

    /// Returns true if the window taken last belongs to the measured part.
    pub fn is_measured(&self) -> bool {
        self.measured
    }

    /// The recorded pages that the rows of the window taken last stand for, if they are known.
    pub fn places(&self) -> Option<&WindowPlaces> {
        let Origin::Loaded { part, next, .. } = &self.origin else { return None };
        next.checked_sub(1).and_then(|last| part.program.places.windows.get(last))
    }

    /// The recorded pages that units stand for, if they are known.
    pub fn all_places(&self) -> Option<&RecordedPlaces> {
        let Origin::Loaded { part, .. } = &self.origin else { return None };
        Some(&part.program.places).filter(|places| places.of_unit > 0)
    }

    /// The bounds of the window taken last.
    pub fn bound(&self) -> &WindowBound {
        &self.bound
    }

    /// Windows taken so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Takes the next window into `window`. Returns false at the end.
    ///
    /// # Errors
    /// A streamed source is damaged.
    pub fn next(&mut self, window: &mut Window) -> Result<bool, TraceError> {
        match &mut self.origin {
            Origin::Stream { source, measure_from, measuring, bounds, orders } => {
                if !source.next_window(window)? {
                    return Ok(false);
                }
                *measuring |= window.marks.contains(measure_from);
                self.measured = *measuring;
                self.bound = bounds.window(window, |_| 1 << *orders);
            }
            Origin::Service { units, order } => {
                if self.taken > 0 {
                    return Ok(false);
                }
                let (kind, order) = (PageBacking::Anon, *order);
                let allocation =
                    |page| Allocation { page, vpn: u64::from(page), kind, order, thread: 0 };
                *window = Window {
                    allocations: (0..*units).map(allocation).collect(),
                    ..Window::default()
                };
                self.measured = true;
            }
            Origin::Loaded { part, next, loops_left } => {
                if *next == part.program.windows.len() && *loops_left > 0 {
                    *loops_left -= 1;
                    *next = part.measure_from;
                }
                let Some(from) = part.program.windows.get(*next) else { return Ok(false) };
                window.clone_from(from);
                self.bound = part.bounds[*next];
                self.measured = *next >= part.measure_from;
                *next += 1;
            }
        }
        self.taken += 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use tierwise_trace::CacheModel;

    use super::*;

    /// One window that allocates a page of this order.
    struct OnePage(Header, Option<u8>);

    impl WindowSource for OnePage {
        fn header(&self) -> &Header {
            &self.0
        }

        fn next_window(&mut self, window: &mut Window) -> Result<bool, TraceError> {
            window.clear();
            let Some(order) = self.1.take() else { return Ok(false) };
            let kind = PageBacking::Anon;
            window.allocations.push(Allocation { page: 0, vpn: 0, kind, order, thread: 0 });
            Ok(true)
        }

        fn rewind(&mut self) -> Result<(), TraceError> {
            Ok(())
        }
    }

    fn read(order: u8, granule_order: u8) -> Result<LoadedTrace, LoadError> {
        let header = Header {
            command: vec!["one page".to_owned()],
            host: "a test".to_owned(),
            page_size: 4096,
            window_instructions: 1,
            cache: CacheModel { size_bytes: 0, ways: 1, line_bytes: 64 },
        };
        let shape = Shape { granule_order, ..Shape::default() };
        LoadedTrace::read(&mut OnePage(header, Some(order)), MeasuredMarks::default(), shape)
    }

    #[test]
    fn skipped_load_phase_leaves_its_pages() {
        let page = |page, order| Allocation {
            page,
            vpn: page.into(),
            kind: PageBacking::Anon,
            order,
            thread: 0,
        };
        let load = Window {
            instructions: 1000,
            allocations: vec![page(2, 0), page(0, 9), page(1, 0)],
            unmaps: vec![1],
            operations: 7,
            ..Window::default()
        };
        let run = Window {
            instructions: 50,
            allocations: vec![page(3, 0)],
            marks: vec!["run".to_owned()],
            ..Window::default()
        };
        let mut program = read(0, 0).unwrap();
        program.windows = vec![load, run.clone()];
        assert!(!program.run_from("end"));
        assert!(program.run_from("run"));
        assert_eq!(program.peak_resident, 514);
        let [first, second] = &program.windows[..] else { panic!("two windows") };
        assert_eq!(second, &run);
        let pages = |window: &Window| window.allocations.iter().map(|a| a.page).collect::<Vec<_>>();
        assert_eq!(pages(first), [2, 0], "by first touch, without what was unmapped");
        let touched: Vec<_> = first.accesses.iter().map(|a| (a.page, a.stores)).collect();
        assert_eq!(touched, [(0, 1), (2, 1)]);
        assert_eq!((first.instructions, first.operations), (2, 0));
        assert!(program.run_from("run"), "a second time it changes nothing");
        assert_eq!(program.windows.len(), 2);
    }

    #[test]
    fn pages_beyond_largest_order_are_refused() {
        assert_eq!(read(9, 6).unwrap().peak_resident, 1 << 15);
        let error = read(9, 7).unwrap_err().to_string();
        assert!(error.contains("order 9 with a granule of order 7"), "{error}");
        assert!(error.contains("allowed: together at most 15"), "{error}");
        let error = read(18, 0).unwrap_err().to_string();
        assert!(error.contains("order 18 with a granule of order 0"), "{error}");
    }
}
