//! A tenant's accesses as a function of its fast pages, from the estimator's classes of similar
//! hotness.

use crate::stage::Estimator;
use crate::units::{Pages, TenantId};

/// Classes, hottest first: base pages, and accesses of one such page. The value is used again,
/// which keeps its memory.
#[derive(Debug, Clone, Default)]
pub(super) struct HotnessCurve {
    classes: Vec<(Pages, f64)>,
    accesses: f64,
}

impl HotnessCurve {
    /// Reads the estimator's classes.
    pub(super) fn read(&mut self, tenant: TenantId, estimator: &dyn Estimator) {
        self.classes.clear();
        estimator.curve(tenant, &mut self.classes);
        self.sum_up();
    }

    /// Reads the estimator's classes with what their pages have to expect.
    pub(super) fn read_expected(&mut self, tenant: TenantId, estimator: &dyn Estimator) {
        self.classes.clear();
        estimator.expected_curve(tenant, &mut self.classes);
        self.sum_up();
    }

    fn sum_up(&mut self) {
        self.accesses = self.classes.iter().map(|(pages, each)| pages.0 as f64 * each).sum();
    }

    /// The sum of the accesses of all classes.
    pub(super) fn accesses(&self) -> f64 {
        self.accesses
    }

    /// The share of accesses that the hottest `fast` pages serve.
    pub(super) fn served(&self, fast: Pages) -> f64 {
        let mut left = fast.0 as f64;
        let mut served = 0.0;
        for &(pages, each) in &self.classes {
            let taken = left.min(pages.0 as f64);
            served += taken * each;
            left -= taken;
        }
        if self.accesses > 0.0 { served / self.accesses } else { 0.0 }
    }

    /// The minimum number of pages that serve a share of the accesses. Without counts, returns that
    /// share of `all`.
    pub(super) fn pages_for(&self, share: f64, all: Pages) -> Pages {
        if self.accesses <= 0.0 {
            return Pages((all.0 as f64 * share).ceil() as u64);
        }
        let mut left = share * self.accesses;
        let mut needed = 0.0;
        for &(pages, each) in self.classes.iter().filter(|(_, each)| *each > 0.0) {
            let whole = pages.0 as f64 * each;
            if left <= 0.0 {
                break;
            }
            needed += pages.0 as f64 * (left / whole).min(1.0);
            left -= whole;
        }
        // All accesses means all memory: a page without a count may be accessed next.
        if share >= 1.0 { all } else { Pages(needed.ceil() as u64).min(all) }
    }

    /// The next class of pages after `fast`: their number, and the accesses of one.
    pub(super) fn next(&self, fast: Pages) -> Option<(Pages, f64)> {
        let mut before = Pages(0);
        for &(pages, each) in &self.classes {
            if before + pages > fast {
                return (each > 0.0).then(|| (before + pages - fast, each));
            }
            before += pages;
        }
        None
    }
}
