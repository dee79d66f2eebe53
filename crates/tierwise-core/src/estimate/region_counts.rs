//! DAMON's counts, unchanged: a page's hotness is the number of accesses to its region in the last
//! aggregation interval (Memstrata, section 4.3, "Assigning dedicated memory").
//!
//! Parameters: `sampling_ms` (5, the kernel's default) and `aggregation_ms` (10,000, the interval
//! of Memstrata's allocator). The estimator adds no candidates; selectors read the hotness of
//! pages.

use std::time::Duration;

use crate::config::{ConfigError, Section};
use crate::migrate::MoveOutcome;
use crate::observe::{DamonAttrs, Observation, Signals};
use crate::page::PageTable;
use crate::policy::PlanContext;
use crate::stage::{Estimator, Scope};
use crate::units::{Hotness, PageId, Pages, Timestamp};

/// Estimator that returns DAMON's counts as hotness.
#[derive(Debug, Clone)]
pub struct RegionCounts {
    signals: DamonAttrs,
    /// By page: the samples that found its region accessed.
    counts: Vec<u32>,
}

impl RegionCounts {
    /// Reads its parameters.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub fn build(section: &Section<'_>) -> Result<Self, ConfigError> {
        let sampling = section.millis_or("sampling_ms", Duration::from_millis(5), 1..=10_000)?;
        let aggregation =
            section.millis_or("aggregation_ms", Duration::from_secs(10), 1..=3_600_000)?;
        let signals = DamonAttrs { sampling, aggregation, ..DamonAttrs::default() };
        Ok(Self { signals, counts: Vec::new() })
    }
}

impl Estimator for RegionCounts {
    fn signals(&self) -> Signals {
        Signals { regions: Some(self.signals), ..Signals::default() }
    }

    fn interval(&self) -> Option<Duration> {
        None
    }

    fn on_observation(&mut self, _: Timestamp, obs: &Observation, pages: &mut PageTable) {
        if obs.regions.is_empty() {
            return;
        }
        self.counts.clear();
        self.counts.resize(pages.len(), 0);
        for region in &obs.regions {
            let (first, last) =
                (region.first.index(), region.first.index() + region.pages as usize);
            let known = self.counts.len();
            self.counts[first.min(known)..last.min(known)].fill(region.nr_accesses);
        }
    }

    fn on_outcomes(&mut self, _: Timestamp, _: &[MoveOutcome], _: &mut PageTable) {}

    fn update(&mut self, _: Timestamp, _: &mut PlanContext<'_>) {}

    fn promotable(&mut self, _: Scope, _: Pages, _: &mut PageTable, _: &mut Vec<PageId>) {}

    fn demotable(&mut self, _: Scope, _: Pages, _: &mut PageTable, _: &mut Vec<PageId>) {}

    fn hotness(&self, page: PageId, _: &PageTable) -> Hotness {
        Hotness(self.counts.get(page.index()).copied().unwrap_or(0))
    }
}
