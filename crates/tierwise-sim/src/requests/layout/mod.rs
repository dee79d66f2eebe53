//! The memory that a request touches, from the data structures of programs that were not recorded.
//!
//! Each layout divides the units among the program's structures in proportion to their bytes, and
//! gives the missed lines of each step of a request, with the reason. CPU time is added by
//! [`super::calibrate`].

mod document;
mod key_value;
mod transaction;

pub use document::document;
pub use key_value::{KeyValueStore, key_value};
pub use transaction::transaction;

/// Divides units among structures in proportion to their bytes, each at least one; units after the
/// last structure belong to none. There must be more units than structures. Returns the first unit
/// and the number of units of each.
fn divide<const N: usize>(units: u32, all_bytes: f64, bytes: [f64; N]) -> [(u32, u32); N] {
    let (mut first, mut to_come) = (0, N as u32);
    bytes.map(|bytes| {
        to_come -= 1;
        let free = units - first - to_come;
        let count = ((bytes / all_bytes * f64::from(units)).round() as u32).clamp(1, free);
        let start = first;
        first += count;
        (start, count)
    })
}

/// Cache lines that hold a number of bytes which start anywhere in a line, as allocators place them
/// at multiples of 8 or 16: half a line more than they fill.
fn lines(bytes: f64) -> f64 {
    (bytes / crate::units::LINE + 0.5).ceil()
}

#[cfg(test)]
mod tests {
    use super::super::skew::Skew;
    use super::*;

    #[test]
    fn layouts_stay_sound_at_every_size() {
        let store =
            KeyValueStore { items: 1_000_000, item_bytes: 1_050.0, skew: Skew::Zipfian(0.99) };
        for units in [8, 9, 100, 1_000, 31_000] {
            for mix in [key_value(store, units), document(units), transaction(units)] {
                assert!(mix.is_sound() && mix.units == units, "{units}");
                let (loads, stores) = mix.misses();
                let by_unit: f64 = mix.misses_by_unit().iter().sum();
                assert!((by_unit - loads - stores).abs() < 1e-3, "{units}");
            }
        }
        // A bucket's line and the item's 17: 1,050 bytes fill 16.4, and half a line more by their
        // place.
        assert_eq!(key_value(store, 100).misses(), (18.0, 0.0));
    }

    #[test]
    fn structures_get_units_by_bytes() {
        assert_eq!(divide(100, 1000.0, [10.0, 490.0, 300.0]), [(0, 1), (1, 49), (50, 30)]);
        assert_eq!(divide(8, 1e9, [1.0, 1.0, 1e9]), [(0, 1), (1, 1), (2, 6)]);
        assert_eq!(divide(4, 1e9, [1e9, 1.0, 1.0]), [(0, 2), (2, 1), (3, 1)]);
    }
}
