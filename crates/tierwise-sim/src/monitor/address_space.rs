//! The address space of a workload as DAMON covers it: three ranges, from which the two largest
//! gaps between mappings are left out (`__damon_va_three_regions` in `mm/damon/vaddr.c`). Smaller
//! gaps are covered, although nothing is ever accessed there.
//!
//! The lowest range has the program and its heap. Between them the kernel leaves a random gap of up
//! to a gibibyte (`arch_randomize_brk` in `arch/x86/kernel/process.c`), which the emulator of a
//! recording does not have: the seed chooses it here.

use std::ops::Range;

use crate::hash::mix;
use crate::places::LARGE_GAP;

/// Base pages of the largest gap between program and heap: `SZ_1G` in `arch_randomize_brk`.
const HEAP_GAP: u64 = 1 << 18;

/// Where the places of a workload are. Offsets count base pages from the start of the lowest range,
/// without the large gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AddressSpace {
    /// By place, ascending; `None` where a unit has no such place, or it is page cache.
    offsets: Vec<Option<u32>>,
    /// The first offset of each range after the lowest.
    ranges: Vec<u32>,
}

impl AddressSpace {
    /// The address space of places with these virtual page numbers, ascending.
    pub(super) fn new(places: &[Option<u64>], seed: u64) -> Self {
        let heap_gap = mix(seed) % HEAP_GAP;
        let (mut offset, mut before) = (heap_gap, None);
        let mut ranges = Vec::new();
        let mut place = |vpn: u64| {
            let gap = before.replace(vpn).map_or(0, |before| vpn - before);
            // One page keeps the ranges apart.
            offset += if gap > LARGE_GAP { 2 } else { gap };
            let at = u32::try_from(offset).ok();
            ranges.extend(at.filter(|_| gap > LARGE_GAP));
            at
        };
        let offsets = places.iter().map(|vpn| vpn.and_then(&mut place)).collect();
        Self { offsets, ranges }
    }

    /// The offset of a place.
    pub(super) fn offset(&self, place: u32) -> Option<u32> {
        self.offsets.get(place as usize).copied().flatten()
    }

    /// All places and their offsets, ascending.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(&self.offsets).filter_map(|(place, offset)| Some((place, (*offset)?)))
    }

    /// The ranges that cover the places which are mapped now.
    pub(super) fn ranges(&self, is_mapped: impl Fn(u32) -> bool) -> Vec<Range<u32>> {
        let mut ranges: Vec<(usize, Range<u32>)> = Vec::new();
        for (_, offset) in self.all().filter(|&(place, _)| is_mapped(place)) {
            let number = self.ranges.partition_point(|&first| first <= offset);
            match ranges.last_mut().filter(|(last, _)| *last == number) {
                Some((_, range)) => range.end = offset + 1,
                // The heap's gap is a part of the lowest range.
                None => {
                    let start = if number == 0 { 0 } else { offset };
                    ranges.push((number, start..offset + 1));
                }
            }
        }
        ranges.into_iter().map(|(_, range)| range).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_gaps_end_ranges() {
        let high = 1 << 35;
        let places = [Some(16), Some(17), None, Some(high), Some(high + 100), Some(high + 101)];
        let space = AddressSpace::new(&places, 7);
        let heap_gap = (mix(7) % HEAP_GAP) as u32;
        let offsets: Vec<_> = (0..6).map(|place| space.offset(place)).collect();
        let after = |pages| Some(heap_gap + pages);
        assert_eq!(offsets, [after(0), after(1), None, after(3), after(103), after(104)]);
        let all = space.ranges(|_| true);
        assert_eq!(all, [0..heap_gap + 2, heap_gap + 3..heap_gap + 105]);
        let fewer = space.ranges(|place| place != 5);
        assert_eq!(fewer[1], heap_gap + 3..heap_gap + 104, "unmapped at an end");
        let upper = space.ranges(|place| place > 3);
        assert_eq!((upper.len(), &upper[0]), (1, &(heap_gap + 103..heap_gap + 105)));
    }
}
