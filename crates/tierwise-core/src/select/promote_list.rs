//! MULTI-CLOCK's migrations (HPCA 2022, sections III-B and III-C): everything that deserves
//! promotion is promoted in the run that found it, however much it is; an upper tier that is short
//! of memory demotes at once to take it in; and kswapd demotes from a tier under pressure, from
//! below its low watermark up to its high one.
//!
//! Each tier's kswapd also promotes: under pressure the promote list is looked at first (section
//! III-C), so a tier's promotions come with every scan and whenever the tier itself is short.
//!
//! A promotion for which no room can be made, down to the min watermark, is left out of the plan:
//! its page stays on the promote list, and the next scan sends it back to the active list unless it
//! was accessed again (Figure 4, 11 and 12).
//!
//! If a partitioner sets shares, tenants promote one after the other (latency-critical ones first),
//! each at the rate of its share and up to its cap, and room is made by whoever holds more than its
//! floor.
//!
//! Parameter: `pages` (unlimited) base pages promoted of each tenant at a scan.

use super::promotion::{OnNoVictim, Promotion};
use crate::config::{ConfigError, Section};
use crate::migrate::MigrationPlan;
use crate::policy::PlanContext;
use crate::share::Shares;
use crate::stage::{Estimator, Selector, Tick};
use crate::units::Pages;

/// Promotes all that is promotable.
#[derive(Debug, Clone)]
pub struct PromoteList(Promotion);

impl PromoteList {
    /// Reads its parameter.
    ///
    /// # Errors
    /// Not a whole number of at least one.
    pub fn build(section: &Section<'_>) -> Result<Self, ConfigError> {
        let pages = section.whole_or("pages", u64::MAX, 1..=u64::MAX)?;
        Ok(Self(Promotion::new(Pages(pages), OnNoVictim::UseReserve)))
    }
}

impl Selector for PromoteList {
    fn select(
        &mut self,
        tick: Tick,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        shares: &Shares,
        plan: &mut MigrationPlan,
    ) {
        self.0.select(|awake| tick.updated || awake, ctx, estimator, shares, plan);
    }
}
