//! Memstrata's dynamic page allocator (Zhong et al., OSDI 2024, section 4.3, listing 1): dedicated
//! pages go to the tenants that slow memory slows down.
//!
//! Every interval the tenants are ranked: outliers (slowed down by more than the classifier's
//! threshold) above the others, and within both groups those with more local misses per managed
//! page above those with fewer. Then the highest outlier borrows a tenth (`step_ratio`) of its
//! pages from the lowest-ranked tenant, which lends at most a tenth of its own, then from the next.
//! Then the next outlier borrows.
//!
//! ```
//! use tierwise_core::estimate::slowdown::SlowdownEstimate;
//! use tierwise_core::partition::{DedicatedTenant, lend};
//! use tierwise_core::units::TenantId;
//!
//! let member = |tenant, misses_per_page, is_outlier| DedicatedTenant {
//!     tenant: TenantId(tenant),
//!     pages: 1000,
//!     dedicated: 330,
//!     estimate: SlowdownEstimate { misses_per_page, is_outlier, ..SlowdownEstimate::default() },
//! };
//! let mut members = [member(0, 9.0, true), member(1, 0.5, false), member(2, 0.1, false)];
//! lend(&mut members, 0.1);
//! // Tenant 0 borrows a tenth of its 1,000 pages from the tenant with the fewest misses.
//! let dedicated: Vec<(u16, u64)> = members.iter().map(|m| (m.tenant.0, m.dedicated)).collect();
//! assert_eq!(dedicated, [(2, 230), (1, 330), (0, 430)]); // in the order of their ranks
//! ```
//!
//! Two limits hold beyond the listing: no tenant lends a dedicated page that it does not have, and
//! no tenant borrows more than its managed pages.
//!
//! Parameters: `interval_ms` (10,000), `step_ratio` (0.1), `ewma` (0.2), `model`
//! ("memstrata-slowdown-5") and `fallback` ("ratio-only", or "refuse").

use std::time::Duration;

use super::dedicated::{Dedicated, DedicatedTenant};
use crate::config::{ConfigError, Section};
use crate::observe::{Observation, Signals};
use crate::page::PageTable;
use crate::policy::PlanContext;
use crate::registry::BuildContext;
use crate::share::Shares;
use crate::stage::{Estimator, Partitioner};
use crate::units::Timestamp;

/// Listing 1: ranks the members and lets outliers borrow. Leaves them in the order of their ranks,
/// lowest first.
pub fn lend(members: &mut [DedicatedTenant], step_ratio: f64) {
    members.sort_by(|a, b| {
        let outlier = a.estimate.is_outlier.cmp(&b.estimate.is_outlier);
        let misses = a.estimate.misses_per_page.total_cmp(&b.estimate.misses_per_page);
        // Of equals the lower tenant number is first, so that the order depends only on the
        // members.
        outlier.then(misses).then(a.tenant.cmp(&b.tenant))
    });
    let step = |pages: u64| (pages as f64 * step_ratio) as u64;
    let mut donated = vec![0; members.len()];
    let mut donor = 0;
    for borrower in (1..members.len()).rev() {
        if !members[borrower].estimate.is_outlier {
            break;
        }
        let managed = members[borrower].pages - members[borrower].dedicated;
        let mut to_borrow = step(members[borrower].pages).min(managed);
        while donor < borrower && to_borrow > 0 {
            let lender = &members[donor];
            let to_donate = (step(lender.pages) - donated[donor]).min(lender.dedicated);
            let to_migrate = to_borrow.min(to_donate);
            members[donor].dedicated -= to_migrate;
            members[borrower].dedicated += to_migrate;
            to_borrow -= to_migrate;
            donated[donor] += to_migrate;
            if to_donate == to_migrate {
                donor += 1;
            }
        }
    }
}

/// Memstrata's partitioner, which lends dedicated memory to outliers.
pub struct Memstrata(Dedicated);

impl Memstrata {
    /// Reads its parameters.
    ///
    /// # Errors
    /// A parameter is outside its allowed range, or the model cannot run and `fallback` is
    /// "refuse".
    pub fn build(section: &Section<'_>, ctx: &BuildContext<'_>) -> Result<Self, ConfigError> {
        Ok(Self(Dedicated::read(section, ctx)?))
    }
}

impl Partitioner for Memstrata {
    fn signals(&self) -> Signals {
        Dedicated::signals()
    }

    fn interval(&self) -> Option<Duration> {
        Some(self.0.interval)
    }

    fn on_observation(&mut self, _: Timestamp, obs: &Observation, _: &PageTable) {
        self.0.on_observation(obs);
    }

    fn partition(
        &mut self,
        now: Timestamp,
        ctx: &PlanContext<'_>,
        _: &dyn Estimator,
        shares: &mut Shares,
    ) {
        self.0.start(ctx);
        lend(&mut self.0.members, self.0.step_ratio);
        self.0.end(now, shares, |member| self.0.lent(member));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;
    use crate::estimate::slowdown::SlowdownEstimate;
    use crate::units::TenantId;

    fn member(
        tenant: u16,
        pages: u64,
        dedicated: u64,
        misses: f64,
        is_outlier: bool,
    ) -> DedicatedTenant {
        let (misses_per_page, other) = (misses, SlowdownEstimate::default());
        let estimate = SlowdownEstimate { misses_per_page, is_outlier, ..other };
        DedicatedTenant { tenant: TenantId(tenant), pages, dedicated, estimate }
    }

    fn lent(members: &mut [DedicatedTenant]) -> Vec<u64> {
        lend(members, 0.1);
        members.sort_by_key(|m| m.tenant);
        members.iter().map(|m| m.dedicated).collect()
    }

    #[test]
    fn outlier_borrows_from_lenders_in_order() {
        // The outlier may borrow 200; the lenders may lend 50, 80 and 100.
        let mut members = [
            member(0, 500, 200, 0.0, false),
            member(1, 800, 200, 1.0, false),
            member(2, 1000, 200, 2.0, false),
            member(3, 2000, 200, 9.0, true),
        ];
        assert_eq!(lent(&mut members), [150, 120, 130, 400]);
    }

    #[test]
    fn milder_outlier_lends_to_the_worse() {
        let mut members = [member(0, 1000, 300, 1.0, true), member(1, 1000, 300, 2.0, true)];
        assert_eq!(lent(&mut members), [200, 400]);
    }

    #[test]
    fn no_outliers_or_lenders_no_moves() {
        let mut calm = [member(0, 1000, 300, 50.0, false), member(1, 1000, 300, 2.0, false)];
        assert_eq!(lent(&mut calm), [300, 300]);
        let mut alone = [member(0, 1000, 300, 50.0, true)];
        assert_eq!(lent(&mut alone), [300]);
        assert!(lent(&mut []).is_empty());
    }

    #[test]
    fn lending_stays_within_holdings_and_use() {
        let mut poor = [member(0, 1000, 30, 0.0, false), member(1, 1000, 300, 2.0, true)];
        assert_eq!(lent(&mut poor), [0, 330]);
        let mut full = [member(0, 1000, 300, 0.0, false), member(1, 1000, 990, 2.0, true)];
        assert_eq!(lent(&mut full), [290, 1000]);
    }

    fn any_member() -> impl Strategy<Value = (u64, u64, f64, bool)> {
        (1u64..5000, 0.0f64..1.0, 0.0f64..10.0, any::<bool>()).prop_map(
            |(pages, share, misses, outlier)| {
                (pages, (pages as f64 * share) as u64, misses, outlier)
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn pages_are_conserved_and_steps_kept(all in prop::collection::vec(any_member(), 0..20)) {
            let member = |(i, &(pages, dedicated, misses, outlier))| {
                member(i, pages, dedicated, misses, outlier)
            };
            let mut members: Vec<DedicatedTenant> = (0u16..).zip(&all).map(member).collect();
            let after = lent(&mut members);
            prop_assert_eq!(after.iter().sum::<u64>(), all.iter().map(|m| m.1).sum::<u64>());
            for (&after, &(pages, before, _, outlier)) in after.iter().zip(&all) {
                prop_assert!(after <= pages);
                prop_assert!(after.abs_diff(before) <= pages / 10);
                prop_assert!(outlier || after <= before, "only outliers receive");
            }
        }
    }
}
