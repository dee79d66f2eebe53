//! Monitoring of a service's touches: reference and dirty bits, hint faults, samples of
//! misses.
//!
//! Unlike [`crate::monitor`], it computes nothing later: a request's touch sets the bit at once.

use tierwise_core::bits::PageBits;
use tierwise_core::units::PageId;

use super::tier::{Touch, Touches};
use crate::granule::median_touch;

/// The touch of a poisoned unit at which its median page traps ([`crate::granule::median_touch`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitHintFault {
    /// The unit.
    pub local: u32,
    /// Time in nanoseconds.
    pub at_ns: u64,
    /// True if it wrote.
    pub write: bool,
}

/// A sampled miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledMiss {
    /// The unit.
    pub local: u32,
    /// The tier that served it.
    pub tier: u8,
    /// True if it was a store.
    pub write: bool,
}

/// A monitor of one service. The host takes its reports by draining the lists.
#[derive(Debug, Clone, Default)]
pub struct Watcher {
    /// Units touched.
    pub referenced: PageBits,
    /// Units written.
    pub written: PageBits,
    /// Hint faults, in the order of the requests.
    pub faults: Vec<UnitHintFault>,
    /// Sampled misses.
    pub samples: Vec<SampledMiss>,
    /// Misses per sample; 0 samples none.
    pub sample_period: u32,
    /// Cost of a sample to the request.
    pub sample_ns: f64,
    /// Cost of a hint fault to the request.
    pub hint_fault_ns: f64,
    /// Pages per unit, each of which traps on its own; at least 1.
    pages: f64,
    /// Touches after which a unit is reported as touched.
    reporting_touches: f32,
    /// Touches of each unit since its bit was last set.
    touched: Vec<f32>,
    /// Units whose next touch is reported as a fault.
    poisoned: Vec<bool>,
    /// Pages of each unit whose next touch traps, in expectation.
    trapping: Vec<f32>,
    /// Misses since the last sample.
    missed: f64,
}

impl Watcher {
    /// Creates a watcher of this many units, each of this many pages.
    pub fn new(units: usize, pages: f64) -> Self {
        let reporting_touches = median_touch(pages) as f32;
        Self {
            pages: pages.max(1.0),
            reporting_touches,
            touched: vec![0.0; units],
            ..Self::default()
        }
    }

    /// Makes the next touch of a unit trap.
    pub fn poison(&mut self, local: u32) {
        let index = local as usize;
        self.poisoned.resize(self.poisoned.len().max(index + 1), false);
        self.poisoned[index] = true;
        self.trapping.resize(self.poisoned.len(), 0.0);
        self.trapping[index] = self.pages as f32;
    }

    /// Removes the poison of a unit that migrated or whose fault is no longer needed.
    pub fn unpoison(&mut self, local: u32) {
        if let Some(poisoned) = self.poisoned.get_mut(local as usize) {
            *poisoned = false;
            self.trapping[local as usize] = 0.0;
        }
    }

    fn fault(&mut self, touch: &Touch) -> f64 {
        let Touch { local, at_ns, .. } = *touch;
        let index = local as usize;
        let Some(trapping) = self.trapping.get_mut(index).filter(|pages| **pages > 0.0) else {
            return 0.0;
        };
        // A touch hits every page of the unit with the same probability. It traps if that page has
        // not trapped yet.
        let traps = f64::from(*trapping) / self.pages;
        *trapping = (f64::from(*trapping) - traps) as f32;
        let half = f64::from(*trapping) <= self.pages / 2.0;
        if half && std::mem::take(&mut self.poisoned[index]) {
            self.faults.push(UnitHintFault { local, at_ns, write: touch.writes() });
        }
        traps * self.hint_fault_ns
    }

    /// Counts a touch. Returns true whenever half of the unit's pages were touched since the last
    /// time.
    #[inline]
    fn sees(&mut self, local: u32) -> bool {
        if self.reporting_touches <= 1.0 {
            return true;
        }
        let Some(touched) = self.touched.get_mut(local as usize) else { return true };
        *touched += 1.0;
        let reported = *touched >= self.reporting_touches;
        if reported {
            *touched -= self.reporting_touches;
        }
        reported
    }

    fn sample(&mut self, touch: &Touch) -> f64 {
        if self.sample_period == 0 {
            return 0.0;
        }
        let period = f64::from(self.sample_period);
        self.missed += touch.loads + touch.stores;
        let mut cost = 0.0;
        while self.missed >= period {
            self.missed -= period;
            // A touch's stores come last.
            let write = self.missed < touch.stores;
            self.samples.push(SampledMiss { local: touch.local, tier: touch.tier, write });
            cost += self.sample_ns;
        }
        cost
    }
}

impl Touches for Watcher {
    #[inline]
    fn touch(&mut self, touch: &Touch) -> f64 {
        if self.sees(touch.local) {
            self.referenced.set(PageId(touch.local));
            if touch.writes() {
                self.written.set(PageId(touch.local));
            }
        }
        self.fault(touch) + self.sample(touch)
    }
}
