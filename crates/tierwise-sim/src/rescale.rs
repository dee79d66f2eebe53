//! Changes the size of a recorded program. Its pages, in the order of their allocation or of their
//! addresses, are mapped to a number of units: page `i` of `n` to unit `i * units / n`.
//!
//! A daemon's blocks are pieces of addresses. In that order two pages that had the same address at
//! different times are one place.
//!
//! Neighbours with the same unit share it: it has the accesses of all of them, exists from the
//! first allocation to the last unmapping, and is of the kind of its first page. Before the
//! measured part, a piece of addresses is allocated with the page that fills half of it: on a
//! machine its pages are in both tiers, and a daemon takes it to be where most of them are.
//! Accesses before that are left out.
//!
//! With a machine of granules, and a dilation by the memory's growth, a recording of a few hundred
//! megabytes represents a program of tens of gigabytes, each page of which is accessed as often as
//! a recorded page.

use std::collections::{BTreeMap, VecDeque};

use tierwise_trace::{PageAccess, Window};

use crate::places::{LARGE_GAP, RecordedPlaces, WindowPlaces};
use crate::windows::LoadError;

/// The first virtual page number of page cache that only system calls access (recorder/README.md).
const FILES: u64 = 1 << 52;

/// The order in which pages are mapped to units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageOrder {
    /// That of their allocation.
    Allocation,
    /// That of their addresses.
    Address,
}

/// Maps the pages of a program to `units`; without a number there are as many as places. With as
/// many units as pages, in the order of allocation, nothing changes. The measured part starts with
/// the window `measured`. Returns which of its pages each row stands for; nothing if nothing
/// changes.
///
/// # Errors
/// The program has fewer pages than units.
pub fn rescale(
    windows: &mut [Window],
    units: Option<u32>,
    order: PageOrder,
    measured: usize,
) -> Result<RecordedPlaces, LoadError> {
    let pages = windows.iter().flat_map(|w| &w.allocations).map(|b| b.page + 1).max().unwrap_or(0);
    // The caller refuses a program that never ran.
    let is_same = order == PageOrder::Allocation && units.is_none_or(|units| units == pages);
    if pages == 0 || units == Some(0) || is_same {
        return Ok(RecordedPlaces::default());
    }
    let map = match order {
        PageOrder::Allocation => UnitMap::by_allocation(pages, units.unwrap_or(pages))?,
        PageOrder::Address => UnitMap::by_address(windows, pages, units)?,
    };
    let unit = |page: u32| map.pages[page as usize].0;
    let mut state = vec![UnitState::default(); map.units as usize];
    if order == PageOrder::Address {
        let filling = &windows[..measured.min(windows.len())];
        find_halves(filling, unit, &mut state);
    }
    let mut of_windows = Vec::with_capacity(windows.len());
    for window in windows {
        window.allocations.retain_mut(|allocation| {
            allocation.page = unit(allocation.page);
            state[allocation.page as usize].map()
        });
        let of_window;
        let exists = |page: u32| state[unit(page) as usize].exists;
        let split = |page: u32| map.pages[page as usize];
        (window.accesses, of_window) = merged(&window.accesses, exists, split);
        of_windows.push(of_window);
        window.unmaps.retain_mut(|page| {
            *page = unit(*page);
            state[*page as usize].unmap()
        });
    }
    Ok(RecordedPlaces { of_unit: map.of_unit, vpns: map.vpns, windows: of_windows })
}

/// The unit and the place in it of each page.
#[derive(Debug, Default)]
struct UnitMap {
    pages: Vec<(u32, u32)>,
    units: u32,
    /// The most places of a unit.
    of_unit: u32,
    /// As [`RecordedPlaces::vpns`].
    vpns: Vec<Option<u64>>,
}

impl UnitMap {
    fn by_allocation(pages: u32, units: u32) -> Result<Self, LoadError> {
        if units > pages {
            return Err(LoadError::TooFew { units, pages });
        }
        let (all, most) = (u64::from(pages), u64::from(units));
        let split = |page: u32| {
            let unit = u64::from(page) * most / all;
            // The first place of a unit is the least page that is mapped to it.
            (unit as u32, page - (unit * all).div_ceil(most) as u32)
        };
        let of_unit = pages.div_ceil(units);
        Ok(Self { pages: (0..pages).map(split).collect(), units, of_unit, vpns: Vec::new() })
    }

    /// Units of as many successive addresses as `units` of them need; none goes over a large gap,
    /// so that there may be a few more.
    fn by_address(windows: &[Window], pages: u32, units: Option<u32>) -> Result<Self, LoadError> {
        let allocations = windows.iter().flat_map(|w| &w.allocations);
        let mut by_vpn: Vec<(u64, u32)> = allocations.map(|a| (a.vpn, a.page)).collect();
        by_vpn.sort_unstable();
        let places = by_vpn.chunk_by(|a, b| a.0 == b.0).count() as u32;
        let units = units.unwrap_or(places);
        if units > places {
            return Err(LoadError::TooFew { units, pages: places });
        }
        let of_unit = places.div_ceil(units.max(1));
        let mut map = Self { pages: vec![(0, 0); pages as usize], of_unit, ..Self::default() };
        let mut before = None;
        for same in by_vpn.chunk_by(|a, b| a.0 == b.0) {
            let vpn = same[0].0;
            let is_apart = |before: u64| vpn < FILES && vpn - before > LARGE_GAP;
            if before.replace(vpn).is_some_and(is_apart) {
                // A hostile trace may have a gap at every page, and units as large as a program.
                let padded = map.vpns.len().next_multiple_of(of_unit as usize);
                if padded <= 2 * places as usize {
                    map.vpns.resize(padded, None);
                }
            }
            let at = map.vpns.len() as u32;
            map.vpns.push(Some(vpn).filter(|&vpn| vpn < FILES));
            for &(_, page) in same {
                map.pages[page as usize] = (at / of_unit, at % of_unit);
            }
        }
        map.units = (map.vpns.len() as u32).div_ceil(of_unit);
        Ok(map)
    }
}

/// What is mapped of a unit.
#[derive(Debug, Default, Clone)]
struct UnitState {
    mapped: u32,
    exists: bool,
    /// For each time from its first page to its last unmapping that is still to come: the pages
    /// with which it is allocated.
    halves: VecDeque<u32>,
}

impl UnitState {
    /// Maps a page. Returns true if that allocates the unit.
    fn map(&mut self) -> bool {
        self.mapped += 1;
        let existed = self.exists;
        self.exists |= self.mapped >= self.halves.front().copied().unwrap_or(1);
        self.exists && !existed
    }

    /// Unmaps a page. Returns true if that frees the unit.
    fn unmap(&mut self) -> bool {
        self.mapped = self.mapped.saturating_sub(1);
        if self.mapped > 0 {
            return false;
        }
        self.halves.pop_front();
        std::mem::take(&mut self.exists)
    }
}

/// Finds half of the most pages that each unit has in these windows, each time that it has some.
fn find_halves(windows: &[Window], unit: impl Fn(u32) -> u32, state: &mut [UnitState]) {
    // Mapped now, and the most since there were none.
    let mut pages = vec![(0u32, 0u32); state.len()];
    for window in windows {
        for allocation in &window.allocations {
            let (mapped, most) = &mut pages[unit(allocation.page) as usize];
            *mapped += 1;
            *most = (*most).max(*mapped);
        }
        for &page in &window.unmaps {
            let unit = unit(page) as usize;
            let (mapped, most) = &mut pages[unit];
            *mapped = mapped.saturating_sub(1);
            if *mapped == 0 {
                state[unit].halves.push_back(std::mem::take(most).div_ceil(2));
            }
        }
    }
    for ((_, most), state) in pages.into_iter().zip(state).filter(|((_, most), _)| *most > 0) {
        state.halves.push_back(most.div_ceil(2));
    }
}

/// Accesses of pages whose units exist, summed up by unit, ascending, and the places in it of each.
/// `split` gives the unit and the place of a page.
fn merged(
    accesses: &[PageAccess],
    exists: impl Fn(u32) -> bool,
    split: impl Fn(u32) -> (u32, u32),
) -> (Vec<PageAccess>, WindowPlaces) {
    let mut by_unit: BTreeMap<u32, (PageAccess, Vec<u32>)> = BTreeMap::new();
    for access in accesses.iter().filter(|access| exists(access.page)) {
        let (page, place) = split(access.page);
        let none = PageAccess {
            page,
            loads: 0,
            stores: 0,
            load_misses: 0,
            store_misses: 0,
            supervised: 0,
            ..*access
        };
        let (sum, places) = by_unit.entry(page).or_insert_with(|| (none, Vec::new()));
        places.push(place);
        sum.loads = sum.loads.saturating_add(access.loads);
        sum.stores = sum.stores.saturating_add(access.stores);
        sum.load_misses = sum.load_misses.saturating_add(access.load_misses);
        sum.store_misses = sum.store_misses.saturating_add(access.store_misses);
        sum.supervised = sum.supervised.saturating_add(access.supervised);
    }
    let mut places = WindowPlaces::default();
    let row = |(access, touched): (PageAccess, Vec<u32>)| {
        places.push(&touched);
        access
    };
    (by_unit.into_values().map(row).collect(), places)
}

#[cfg(test)]
mod tests {
    use tierwise_trace::{Allocation, PageBacking};

    use super::*;

    fn allocation(page: u32) -> Allocation {
        Allocation { page, vpn: page.into(), kind: PageBacking::Anon, order: 0, thread: 0 }
    }

    fn access(page: u32, loads: u32) -> PageAccess {
        let (stores, load_misses, store_misses, supervised, thread) = (1, loads, 0, 0, 0);
        PageAccess { page, loads, stores, load_misses, store_misses, supervised, thread }
    }

    #[test]
    fn more_units_than_pages_are_refused() {
        let mut windows =
            [Window { allocations: (0..5).map(allocation).collect(), ..Window::default() }];
        rescale(&mut windows, Some(5), PageOrder::Allocation, 0).unwrap();
        let message =
            rescale(&mut windows, Some(6), PageOrder::Allocation, 0).unwrap_err().to_string();
        assert!(
            message.starts_with("footprint: found 6 pages; allowed: up to the 5 pages"),
            "{message}"
        );
    }

    /// Six pages on three units, computed by hand.
    #[test]
    fn rescaled_neighbours_share_units_without_loss() {
        let mut windows = [
            Window {
                allocations: (0..5).map(allocation).collect(),
                accesses: vec![access(0, 1), access(1, 2), access(4, 4)],
                unmaps: vec![0],
                ..Window::default()
            },
            Window { allocations: vec![allocation(5)], unmaps: vec![1, 4], ..Window::default() },
        ];
        let places = rescale(&mut windows, Some(3), PageOrder::Allocation, 0).unwrap();
        assert_eq!(places.of_unit, 2);
        assert_eq!((places.windows[0].row(0), places.windows[0].row(1)), (&[0, 1][..], &[0][..]));
        let allocated: Vec<u32> = windows[0].allocations.iter().map(|b| b.page).collect();
        assert_eq!(allocated, [0, 1, 2]);
        let sums: Vec<_> =
            windows[0].accesses.iter().map(|a| (a.page, a.loads, a.stores)).collect();
        assert_eq!(sums, [(0, 3, 2), (2, 4, 1)]);
        assert!(windows[0].unmaps.is_empty(), "page 1 is still there");
        assert!(windows[1].allocations.is_empty(), "page 5 joins a unit that is there");
        assert_eq!(windows[1].unmaps, [0]);
    }

    #[test]
    fn units_are_pieces_of_addresses() {
        let at = |page, vpn| Allocation { vpn, ..allocation(page) };
        // The kernel maps later memory at lower addresses. Page 2 gets the address of page 0.
        let mut windows = [
            Window {
                allocations: vec![at(0, 70), at(1, 60)],
                accesses: vec![access(0, 1), access(1, 2)],
                unmaps: vec![0],
                ..Window::default()
            },
            Window {
                allocations: vec![at(2, 70), at(3, 50), at(4, 51)],
                accesses: vec![access(2, 4), access(3, 8), access(4, 16)],
                ..Window::default()
            },
        ];
        let places = rescale(&mut windows, Some(2), PageOrder::Address, 0).unwrap();
        // Places 50 and 51 are unit 0; 60 and 70 are unit 1, which stays while page 1 is mapped.
        let row = |window: usize, row| places.windows[window].row(row);
        assert_eq!((row(0, 0), row(1, 0), row(1, 1)), (&[1, 0][..], &[0, 1][..], &[1][..]));
        let loads: Vec<Vec<_>> = windows
            .iter()
            .map(|w| w.accesses.iter().map(|a| (a.page, a.loads)).collect())
            .collect();
        assert_eq!(loads, [vec![(1, 3)], vec![(0, 24), (1, 4)]]);
        let allocated = |w: &Window| w.allocations.iter().map(|b| b.page).collect::<Vec<_>>();
        assert_eq!((allocated(&windows[0]), allocated(&windows[1])), (vec![1], vec![0]));
        assert!(windows[0].unmaps.is_empty());
    }

    #[test]
    fn gaps_at_every_page_add_little() {
        let apart =
            |page: u32| Allocation { vpn: u64::from(page) * (LARGE_GAP + 1), ..allocation(page) };
        let count = |pages: u32, units| {
            let allocations = (0..pages).map(apart).collect();
            let mut windows = [Window { allocations, ..Window::default() }];
            rescale(&mut windows, Some(units), PageOrder::Address, 0).unwrap().vpns.len()
        };
        assert_eq!(count(4, 2), 7, "each page begins a unit of two places");
        assert!(count(1000, 2) <= 3000, "units of 500 places");
    }

    #[test]
    fn unit_is_where_most_pages_are() {
        // One unit of four places, which is filled twice. The measured part starts with the last
        // window.
        let filled = |pages: &[u32], unmaps: &[u32]| Window {
            allocations: pages.iter().map(|&page| allocation(page)).collect(),
            accesses: pages.iter().map(|&page| access(page, 1)).collect(),
            unmaps: unmaps.to_vec(),
            ..Window::default()
        };
        let start = [filled(&[0], &[]), filled(&[1, 2], &[0, 1, 2]), filled(&[3], &[])];
        let exists = |measured| {
            let mut windows = start.to_vec();
            rescale(&mut windows, Some(1), PageOrder::Address, measured).unwrap();
            let counts = |w: &Window| (w.allocations.len(), w.accesses.len(), w.unmaps.len());
            windows.iter().map(counts).collect::<Vec<_>>()
        };
        assert_eq!(exists(2), [(0, 0, 0), (1, 1, 1), (1, 1, 0)], "two of three");
        assert_eq!(exists(0), [(1, 1, 0), (0, 1, 1), (1, 1, 0)], "the first");
    }
}
