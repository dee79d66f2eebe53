//! Changes the size of a recorded program. Its pages, in the order of their allocation or of their
//! addresses, are mapped to a number of units: page `i` of `n` to unit `i * units / n`.
//!
//! A daemon's blocks are pieces of addresses. In that order two pages that had the same address at
//! different times are one place.
//!
//! Neighbours with the same unit share it: it has the accesses of all of them, exists from the
//! first allocation to the last unmapping, and is of the kind of its first page. With a machine of
//! granules, and a dilation by the memory's growth, a recording of a few hundred megabytes
//! represents a program of tens of gigabytes, each page of which is accessed as often as a recorded
//! page.

use std::collections::BTreeMap;

use tierwise_trace::{PageAccess, Window};

use crate::windows::LoadError;

/// The order in which pages are mapped to units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageOrder {
    /// That of their allocation.
    Allocation,
    /// That of their addresses.
    Address,
}

/// Maps the pages of a program to `units`; without a number there are as many as places. With as
/// many units as pages, in the order of allocation, nothing changes. Returns by window and row how
/// many of a unit's pages the window touched; nothing if nothing changes.
///
/// # Errors
/// The program has fewer pages than units.
pub fn rescale(
    windows: &mut [Window],
    units: Option<u32>,
    order: PageOrder,
) -> Result<Vec<Vec<u16>>, LoadError> {
    let all = windows.iter().flat_map(|w| &w.allocations).map(|b| b.page + 1).max().unwrap_or(0);
    let by_address = if order == PageOrder::Address { places(windows, all) } else { Vec::new() };
    let pages = by_address.iter().max().map_or(all, |last| last + 1);
    let units = units.unwrap_or(pages);
    // The caller refuses a program that never ran.
    if pages == 0 || units == 0 || units == pages && by_address.is_empty() {
        return Ok(Vec::new());
    }
    if units > pages {
        return Err(LoadError::TooFew { units, pages });
    }
    let place = |page: u32| by_address.get(page as usize).copied().unwrap_or(page);
    let unit = |page: u32| (u64::from(place(page)) * u64::from(units) / u64::from(pages)) as u32;
    let mut mapped = vec![0u32; units as usize];
    let mut touched = Vec::with_capacity(windows.len());
    for window in windows {
        window.allocations.retain_mut(|allocation| {
            allocation.page = unit(allocation.page);
            mapped[allocation.page as usize] += 1;
            mapped[allocation.page as usize] == 1
        });
        let of_window;
        (window.accesses, of_window) = merged(&window.accesses, unit);
        touched.push(of_window);
        window.unmaps.retain_mut(|page| {
            *page = unit(*page);
            let left = &mut mapped[*page as usize];
            *left = left.saturating_sub(1);
            *left == 0
        });
    }
    Ok(touched)
}

/// The place of each page among the addresses of all, ascending.
fn places(windows: &[Window], pages: u32) -> Vec<u32> {
    let mut vpns = vec![0; pages as usize];
    for allocation in windows.iter().flat_map(|w| &w.allocations) {
        vpns[allocation.page as usize] = allocation.vpn;
    }
    let mut ascending = vpns.clone();
    ascending.sort_unstable();
    ascending.dedup();
    let place = |vpn: &u64| ascending.partition_point(|one| one < vpn) as u32;
    vpns.iter().map(place).collect()
}

/// Accesses summed up by unit, ascending, and the pages of each of which they are.
fn merged(accesses: &[PageAccess], unit: impl Fn(u32) -> u32) -> (Vec<PageAccess>, Vec<u16>) {
    let mut by_unit: BTreeMap<u32, (PageAccess, u16)> = BTreeMap::new();
    for access in accesses {
        let page = unit(access.page);
        let none = PageAccess {
            page,
            loads: 0,
            stores: 0,
            load_misses: 0,
            store_misses: 0,
            supervised: 0,
            ..*access
        };
        let (sum, pages) = by_unit.entry(page).or_insert((none, 0));
        *pages = pages.saturating_add(1);
        sum.loads = sum.loads.saturating_add(access.loads);
        sum.stores = sum.stores.saturating_add(access.stores);
        sum.load_misses = sum.load_misses.saturating_add(access.load_misses);
        sum.store_misses = sum.store_misses.saturating_add(access.store_misses);
        sum.supervised = sum.supervised.saturating_add(access.supervised);
    }
    by_unit.into_values().unzip()
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
        rescale(&mut windows, Some(5), PageOrder::Allocation).unwrap();
        let message =
            rescale(&mut windows, Some(6), PageOrder::Allocation).unwrap_err().to_string();
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
        let touched = rescale(&mut windows, Some(3), PageOrder::Allocation).unwrap();
        assert_eq!(touched, [vec![2, 1], vec![]]);
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
        let touched = rescale(&mut windows, Some(2), PageOrder::Address).unwrap();
        // Places 50 and 51 are unit 0; 60 and 70 are unit 1, which stays while page 1 is mapped.
        assert_eq!(touched, [vec![2], vec![2, 1]]);
        let loads: Vec<Vec<_>> = windows
            .iter()
            .map(|w| w.accesses.iter().map(|a| (a.page, a.loads)).collect())
            .collect();
        assert_eq!(loads, [vec![(1, 3)], vec![(0, 24), (1, 4)]]);
        let allocated = |w: &Window| w.allocations.iter().map(|b| b.page).collect::<Vec<_>>();
        assert_eq!((allocated(&windows[0]), allocated(&windows[1])), (vec![1], vec![0]));
        assert!(windows[0].unmaps.is_empty());
    }
}
