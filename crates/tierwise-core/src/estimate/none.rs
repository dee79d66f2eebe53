//! No estimate: no page is monitored and none is hotter than another.

use std::time::Duration;

use crate::migrate::MoveOutcome;
use crate::observe::{Observation, Signals};
use crate::page::PageTable;
use crate::policy::PlanContext;
use crate::stage::{Estimator, Scope};
use crate::units::{Hotness, PageId, Pages, Timestamp};

/// The estimator "none": no estimates, at no cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoEstimator;

impl Estimator for NoEstimator {
    fn signals(&self) -> Signals {
        Signals::default()
    }

    fn interval(&self) -> Option<Duration> {
        None
    }

    fn on_observation(&mut self, _: Timestamp, _: &Observation, _: &mut PageTable) {}

    fn on_outcomes(&mut self, _: Timestamp, _: &[MoveOutcome], _: &mut PageTable) {}

    fn update(&mut self, _: Timestamp, _: &mut PlanContext<'_>) {}

    fn promotable(&mut self, _: Scope, _: Pages, _: &mut PageTable, _: &mut Vec<PageId>) {}

    fn demotable(&mut self, _: Scope, _: Pages, _: &mut PageTable, _: &mut Vec<PageId>) {}

    fn hotness(&self, _: PageId, _: &PageTable) -> Hotness {
        Hotness(0)
    }
}
