//! Collects a window's accesses: numbers pages by first touch, and merges accesses to one page.

use super::spec::GeneratorSpec;
use crate::model::{Allocation, PageAccess, PageBacking, Window};

/// First page of generated anonymous memory: the 1 GiB-aligned address 0x7000_0000_0000, in the
/// part of the x86-64 address space that Linux gives to mmap.
const ANON_VPN: u64 = 0x7000_0000_0000 >> 12;
/// First page of generated page cache, 32 TiB below: beyond the largest footprint (2^32 base pages
/// of 4 KiB are 16 TiB), so that the two never overlap.
const FILE_VPN: u64 = 0x5000_0000_0000 >> 12;
/// A place that no access has touched yet. Because of this number a trace has at most `u32::MAX`
/// pages.
const UNALLOCATED: u32 = u32::MAX;

/// The place that a generated page has in its footprint.
#[must_use]
pub fn place_of(allocation: &Allocation) -> u64 {
    let base = if allocation.vpn >= ANON_VPN { ANON_VPN } else { FILE_VPN };
    (allocation.vpn - base) >> allocation.order
}

/// Trace page by place.
enum Numbers {
    /// Pages are allocated by address, so a place is its own number; no table.
    InOrder,
    /// Pages are allocated in any order: four bytes per place.
    ByPlace(Vec<u32>),
}

struct Draw {
    page: u32,
    loads: u32,
    stores: u32,
}

/// The accesses of the current window.
pub struct WindowTally {
    numbers: Numbers,
    allocated: u32,
    order: u8,
    file_fraction: f64,
    recorded: u64,
    operations: u64,
    draws: Vec<Draw>,
    allocations: Vec<Allocation>,
}

impl WindowTally {
    pub fn new(spec: &GeneratorSpec) -> Self {
        let numbers = if spec.touch_first {
            Numbers::InOrder
        } else {
            Numbers::ByPlace(vec![
                UNALLOCATED;
                usize::try_from(spec.places()).unwrap_or(usize::MAX)
            ])
        };
        Self {
            numbers,
            allocated: 0,
            order: spec.order,
            file_fraction: spec.file_fraction,
            recorded: 0,
            operations: 0,
            draws: Vec::new(),
            allocations: Vec::new(),
        }
    }

    /// Records one access, a store or a load.
    pub fn access(&mut self, place: u64, is_store: bool) {
        self.record(place, u32::from(!is_store), u32::from(is_store));
    }

    /// Records accesses to one place.
    pub fn record(&mut self, place: u64, loads: u32, stores: u32) {
        let page = self.page_at(place);
        self.recorded += u64::from(loads) + u64::from(stores);
        self.draws.push(Draw { page, loads, stores });
    }

    /// Counts one application operation.
    pub fn finish_operation(&mut self) {
        self.operations += 1;
    }

    /// Accesses since the last window was drained.
    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    /// Moves the window's accesses, allocations and operations into `window`.
    pub fn drain_into(&mut self, window: &mut Window) {
        self.draws.sort_unstable_by_key(|draw| draw.page);
        for draw in self.draws.drain(..) {
            match window.accesses.last_mut() {
                Some(last) if last.page == draw.page => {
                    last.loads = last.loads.saturating_add(draw.loads);
                    last.stores = last.stores.saturating_add(draw.stores);
                }
                _ => window.accesses.push(access(&draw)),
            }
        }
        for access in &mut window.accesses {
            access.load_misses = access.loads;
            access.store_misses = access.stores;
        }
        window.allocations.append(&mut self.allocations);
        window.operations = std::mem::take(&mut self.operations);
        self.recorded = 0;
    }

    fn page_at(&mut self, place: u64) -> u32 {
        let known = match &self.numbers {
            Numbers::InOrder => (place < u64::from(self.allocated)).then_some(place as u32),
            Numbers::ByPlace(pages) => {
                pages.get(place as usize).copied().filter(|&p| p != UNALLOCATED)
            }
        };
        known.unwrap_or_else(|| self.first_touch(place))
    }

    fn first_touch(&mut self, place: u64) -> u32 {
        match &mut self.numbers {
            Numbers::InOrder => {
                while u64::from(self.allocated) <= place {
                    self.allocate(u64::from(self.allocated));
                }
            }
            Numbers::ByPlace(pages) => {
                let index = place as usize;
                if index >= pages.len() {
                    pages.resize(index + 1, UNALLOCATED);
                }
                pages[index] = self.allocated;
                self.allocate(place);
            }
        }
        self.allocated - 1
    }

    fn allocate(&mut self, place: u64) {
        let kind = if self.is_file(place) { PageBacking::File } else { PageBacking::Anon };
        let base = if kind == PageBacking::File { FILE_VPN } else { ANON_VPN };
        let vpn = base + (place << self.order);
        self.allocations.push(Allocation {
            page: self.allocated,
            vpn,
            kind,
            order: self.order,
            thread: 0,
        });
        self.allocated += 1;
    }

    /// Spreads the file pages evenly: a page is a file page where the running total passes a whole
    /// number.
    fn is_file(&self, place: u64) -> bool {
        let total = |places: u64| (places as f64 * self.file_fraction).floor();
        total(place + 1) > total(place)
    }
}

fn access(draw: &Draw) -> PageAccess {
    PageAccess {
        page: draw.page,
        loads: draw.loads,
        stores: draw.stores,
        load_misses: 0,
        store_misses: 0,
        supervised: 0,
        thread: 0,
    }
}
