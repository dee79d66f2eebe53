//! The recorded pages that the units of a rescaled program stand for ([`crate::rescale`]): which of
//! them a window touched.
//!
//! DAMON checks base pages, and a policy that moves units knows no smaller piece. So that a check
//! looks at what the program touched, the pages of each row are kept, by their place in the unit.

/// Base pages of a gap between addresses that no piece of memory goes over: a program's heap is
/// within a gibibyte of it, and mappings are far away from both.
pub const LARGE_GAP: u64 = 1 << 20;

/// The places of one window's rows.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct WindowPlaces {
    /// By row: the end of its places.
    ends: Vec<u32>,
    places: Vec<u32>,
}

impl WindowPlaces {
    /// Adds a row that touched these places.
    pub fn push(&mut self, places: &[u32]) {
        self.places.extend_from_slice(places);
        self.ends.push(self.places.len() as u32);
    }

    /// The places that a row touched; nothing if there is no such row.
    pub fn row(&self, row: usize) -> &[u32] {
        let end = |row: usize| self.ends.get(row).map(|&end| end as usize);
        let start = row.checked_sub(1).map_or(Some(0), end);
        start.zip(end(row)).map_or(&[], |(start, end)| &self.places[start..end])
    }
}

/// The places of a whole program.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct RecordedPlaces {
    /// Places of a unit; zero if they are not known.
    pub of_unit: u32,
    /// By unit and place: the virtual page number; `None` if the unit has no such place, or it is
    /// of a file that only system calls access. Ascending in the order of addresses; empty in
    /// another.
    pub vpns: Vec<Option<u64>>,
    /// By window.
    pub windows: Vec<WindowPlaces>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_own_places() {
        let mut window = WindowPlaces::default();
        window.push(&[3, 5]);
        window.push(&[]);
        window.push(&[0]);
        let rows: Vec<&[u32]> = (0..4).map(|row| window.row(row)).collect();
        assert_eq!(rows, [&[3, 5][..], &[], &[0], &[]]);
    }
}
