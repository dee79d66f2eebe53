//! Nimble's exchange as MULTI-CLOCK describes it (HPCA 2022, sections II-D and III-A): at each scan
//! a fixed number of the lower tier's most recently used pages against as many of the upper tier's
//! least recently used. As long as the upper tier has free pages above its low watermark they are
//! used first, and then each demotion stands right before the promotion that it makes way for.
//! Tiers under pressure demote by themselves, as in the kernel.
//!
//! Where nothing of the upper tier can go, because all of it was accessed, nothing is promoted into
//! it beyond its low watermark: an exchange has two sides.
//!
//! If a partitioner sets shares, each tenant exchanges by itself: at the rate of its share, up to
//! its cap, against pages of whoever holds more than its floor.
//!
//! Parameter: `pages` (1024) base pages promoted into each tier at a scan. The paper says "a fixed
//! number" without naming it; this is its number of pages in a scan (section V-C).

use super::promotion::{OnNoVictim, Promotion};
use crate::config::{ConfigError, Section};
use crate::migrate::MigrationPlan;
use crate::policy::PlanContext;
use crate::share::Shares;
use crate::stage::{Estimator, Selector, Tick};
use crate::units::Pages;

/// Exchanges a fixed number of pages.
#[derive(Debug, Clone)]
pub struct Exchange(Promotion);

impl Exchange {
    /// The number of pages in a scan, MULTI-CLOCK section V-C.
    const PAGES: u64 = 1024;

    /// Reads its parameter.
    ///
    /// # Errors
    /// Not a whole number of at least one.
    pub fn build(section: &Section<'_>) -> Result<Self, ConfigError> {
        let pages = section.whole_or("pages", Self::PAGES, 1..=u64::MAX)?;
        Ok(Self(Promotion::new(Pages(pages), OnNoVictim::Skip)))
    }
}

impl Selector for Exchange {
    fn select(
        &mut self,
        tick: Tick,
        ctx: &mut PlanContext<'_>,
        estimator: &mut dyn Estimator,
        shares: &Shares,
        plan: &mut MigrationPlan,
    ) {
        self.0.select(|_| tick.updated, ctx, estimator, shares, plan);
    }
}
