//! The accesses that more fast memory would serve, from the engine's classes of similar hotness.

use tierwise_core::units::Pages;

/// The part of a tenant's accesses that `more` fast pages beyond the `fast` ones would serve, if it
/// had its hottest pages there. The classes are the base pages, hottest first, and the accesses of
/// one such page. `None` without accesses.
pub(super) fn gain(classes: &[(Pages, f64)], fast: Pages, more: Pages) -> Option<f64> {
    let all: f64 = classes.iter().map(|(pages, each)| pages.0 as f64 * each).sum();
    let served = |pages: Pages| {
        let mut left = pages.0;
        let of_class = |&(pages, each): &(Pages, f64)| {
            let taken = left.min(pages.0);
            left -= taken;
            taken as f64 * each
        };
        classes.iter().map(of_class).sum::<f64>()
    };
    let after = Pages(fast.0.saturating_add(more.0));
    (all > 0.0).then(|| (served(after) - served(fast)) / all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn next_pages_serve_their_accesses() {
        // 40 accesses, then 50, then none.
        let classes = [(Pages(10), 4.0), (Pages(50), 1.0), (Pages(100), 0.0)];
        let part = |fast, more| gain(&classes, Pages(fast), Pages(more));
        assert_eq!(part(0, 10), Some(40.0 / 90.0));
        assert_eq!(part(5, 10), Some(25.0 / 90.0));
        assert_eq!(part(60, 50), Some(0.0), "the rest is not accessed");
        assert_eq!(part(0, u64::MAX), Some(1.0));
        assert_eq!(gain(&classes[2..], Pages(0), Pages(1)), None);
    }

    proptest! {
        #[test]
        fn more_memory_never_serves_less(
            classes in prop::collection::vec((0_u64..1 << 40, 0.0..1e6), 0..20),
            fast in any::<u64>(),
            more in any::<u64>(),
        ) {
            let classes: Vec<_> = classes.into_iter().map(|(p, each)| (Pages(p), each)).collect();
            if let Some(part) = gain(&classes, Pages(fast), Pages(more)) {
                prop_assert!((0.0..=1.0 + 1e-9).contains(&part), "{part}");
            }
        }
    }
}
