//! No partition: tenants compete for the tiers page by page.

use std::time::Duration;

use crate::observe::Observation;
use crate::page::PageTable;
use crate::policy::PlanContext;
use crate::share::Shares;
use crate::stage::{Estimator, Partitioner};
use crate::units::Timestamp;

/// The partitioner "none". It writes no shares.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPartitioner;

impl Partitioner for NoPartitioner {
    fn interval(&self) -> Option<Duration> {
        None
    }

    fn on_observation(&mut self, _: Timestamp, _: &Observation, _: &PageTable) {}

    fn partition(&mut self, _: Timestamp, _: &PlanContext<'_>, _: &dyn Estimator, _: &mut Shares) {}
}
