//! Granules: pages that stand for a power of two of base pages, and the signals that software gets
//! of them.

/// Returns the touches of a granule of `pages` pages after which half of its pages were touched, if
/// each touch hits every page with the same probability: `n` touches leave `(1 - 1 / pages)^n` of
/// them untouched. Software samples a granule (reference bits, hint faults) as its median page: its
/// first touch would make all of it look accessed, and policies that move such pages would move as
/// many times more than they move of single pages.
pub fn median_touch(pages: f64) -> f64 {
    if pages <= 1.0 { 1.0 } else { (0.5f64.ln() / (1.0 - 1.0 / pages).ln()).max(1.0) }
}
