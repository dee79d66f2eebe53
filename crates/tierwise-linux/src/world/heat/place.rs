//! Places of memory that a restarted program has again, although its addresses differ.
//!
//! The kernel randomises the bases of the heap and of mappings (ASLR). A program that does the same
//! again has the same mappings in the same order, and uses the same parts of each.

use serde::{Deserialize, Serialize};

use crate::process::{Mapping, MappingKind, Maps};

/// Maximum number of mappings of a process whose heat is kept. A program with more has a thousand
/// pieces of memory, none of which is much of it.
const MAX_MAPPINGS: usize = 1024;

/// The mapping of a process that is the same in each of its runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The heap.
    Heap,
    /// A private anonymous mapping, counted from the highest address down. The kernel places new
    /// ones below the others (`arch_get_unmapped_area_topdown`, mm/mmap.c), so this is their order.
    Anonymous(u32),
    /// A mapping of this file of a tmpfs: major and minor number of the device, and inode.
    File(u32, u32, u64),
}

/// A mapping and its place. Addresses and the offset are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedMapping {
    /// Its place.
    pub place: Place,
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Offset of the first address in its file.
    #[serde(default)]
    pub offset: u64,
}

impl PlacedMapping {
    /// The address in this mapping at which another run of the program, with its mapping `other`,
    /// has `address`. `None` if this mapping has no such part.
    ///
    /// The heap grows upwards, and so do files. Anonymous mappings grow downwards: the kernel joins
    /// a new one to the one above it.
    pub fn address_of(&self, other: &Self, address: u64) -> Option<u64> {
        let from_start = address.checked_sub(other.start)?;
        let here = match self.place {
            Place::Heap => self.start.checked_add(from_start)?,
            Place::Anonymous(_) => self.end.checked_sub(other.end.checked_sub(address)?)?,
            Place::File(..) => {
                let in_file = other.offset.checked_add(from_start)?;
                self.start.checked_add(in_file.checked_sub(self.offset)?)?
            }
        };
        (self.start..self.end).contains(&here).then_some(here)
    }
}

/// Replaces `out` by the places of a process's mappings, ascending by address. Mappings smaller
/// than half a block have no block, and are not counted: libraries have any number of them.
pub fn places(maps: &Maps, block: u64, out: &mut Vec<PlacedMapping>) {
    out.clear();
    let mut anonymous = 0;
    let large = |mapping: &&Mapping| mapping.bytes() * 2 >= block;
    for mapping in maps.tierable().filter(large).collect::<Vec<_>>().into_iter().rev() {
        let ((major, minor), inode) = mapping.file;
        let place = match mapping.kind {
            MappingKind::Heap => Place::Heap,
            MappingKind::Shmem => Place::File(major, minor, inode),
            _ => {
                anonymous += 1;
                Place::Anonymous(anonymous - 1)
            }
        };
        if out.len() == MAX_MAPPINGS {
            break;
        }
        out.push(PlacedMapping {
            place,
            start: mapping.start,
            end: mapping.end,
            offset: mapping.offset,
        });
    }
    out.reverse();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Mounts, Reader};
    use crate::roots::Roots;

    const MIB: u64 = 1 << 20;

    fn placed(place: Place, start: u64, end: u64, offset: u64) -> PlacedMapping {
        PlacedMapping { place, start: start * MIB, end: end * MIB, offset: offset * MIB }
    }

    #[test]
    fn order_from_above_names_anonymous_memory() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        std::fs::create_dir_all(roots.proc.join("7")).unwrap();
        let text = "00400000-00500000 r-xp 00000000 08:02 17 /bin/x\n\
                    10000000-10800000 rw-p 00000000 00:00 0 [heap]\n\
                    70000000-70400000 rw-p 00000000 00:00 0\n\
                    71000000-71001000 rw-p 00000000 00:00 0\n\
                    72000000-72800000 rw-s 00100000 00:16 9 /dev/shm/pool\n\
                    73000000-73400000 rw-p 00000000 00:00 0\n";
        std::fs::write(roots.proc.join("7/maps"), text).unwrap();
        let mut maps = Maps::default();
        maps.read(&roots, 7, &Mounts::default(), &mut Reader::default()).unwrap();
        let mut found = Vec::new();
        places(&maps, 2 * MIB, &mut found);
        let names: Vec<Place> = found.iter().map(|placed| placed.place).collect();
        let pool = Place::File(0, 0x16, 9);
        assert_eq!(names, [Place::Heap, Place::Anonymous(1), pool, Place::Anonymous(0)]);
        assert_eq!((found[2].start, found[2].offset), (0x7200_0000, MIB));
    }

    #[test]
    fn addresses_follow_growth_of_each_kind() {
        let at = |old: &PlacedMapping, new: &PlacedMapping, mib: u64| {
            old.address_of(new, mib * MIB).map(|address| address / MIB)
        };
        let (old, new) = (placed(Place::Heap, 10, 20, 0), placed(Place::Heap, 50, 80, 0));
        assert_eq!([at(&old, &new, 50), at(&old, &new, 59)], [Some(10), Some(19)]);
        assert_eq!([at(&old, &new, 60), at(&old, &new, 49)], [None, None]);
        let place = Place::Anonymous(0);
        let (old, new) = (placed(place, 10, 20, 0), placed(place, 50, 80, 0));
        assert_eq!([at(&old, &new, 79), at(&old, &new, 70)], [Some(19), Some(10)]);
        assert_eq!([at(&old, &new, 69), at(&old, &new, 81)], [None, None]);
        let place = Place::File(0, 22, 9);
        let (old, new) = (placed(place, 10, 20, 4), placed(place, 50, 80, 2));
        assert_eq!([at(&old, &new, 52), at(&old, &new, 50)], [Some(10), None]);
    }
}
