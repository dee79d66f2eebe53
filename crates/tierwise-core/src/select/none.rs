//! No selection: pages stay where they were first touched.

use crate::migrate::MigrationPlan;
use crate::policy::PlanContext;
use crate::share::Shares;
use crate::stage::{Estimator, Selector, Tick};

/// The selector "none". It plans no moves.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSelector;

impl Selector for NoSelector {
    fn select(
        &mut self,
        _: Tick,
        _: &mut PlanContext<'_>,
        _: &mut dyn Estimator,
        _: &Shares,
        _: &mut MigrationPlan,
    ) {
    }
}
