//! Latency by load, and the maximum load of a placement: MTAT's figures 1 and 8 for one service.

use std::time::Duration;

use super::arrival::Arrivals;
use super::error::RequestError;
use super::latency::LatencySummary;
use super::mix::Mix;
use super::presets::ServicePreset;
use super::tenant::RequestTenant;
use super::tier::{TierCosts, Unwatched};

/// A service whose units are placed in tiers.
#[derive(Debug, Clone, Copy)]
pub struct Placed<'a> {
    /// The service's figures.
    pub preset: &'a ServicePreset,
    /// Its requests.
    pub mix: &'a Mix,
    /// Costs of misses.
    pub costs: TierCosts<'a>,
    /// Tier of each unit.
    pub tier_of: &'a [u8],
    /// Length of each load's trial, in virtual time.
    pub time: Duration,
    /// The seed of arrivals and touches.
    pub seed: u64,
}

/// Difference, as a share of the load, below which two loads count as equal. Chosen, not measured:
/// nine trials reach it, and it is far below the 3 % by which the result may be off the capacity. A
/// smaller one takes more trials; a larger one is seen in the result.
const FINE: f64 = 0.002;

impl Placed<'_> {
    /// Requests per second at which all servers are busy all the time: `k / E[S]`.
    pub fn capacity(&self) -> f64 {
        self.preset.servers as f64 * 1e9 / self.mix.mean_ns(&self.costs, self.tier_of)
    }

    /// Response times under a constant load. Requests that still wait at the end count as
    /// violations, but have no response time.
    ///
    /// # Errors
    /// Those of [`RequestTenant::new`].
    pub fn under(&self, per_second: f64) -> Result<LatencySummary, RequestError> {
        let arrivals = Arrivals::Poisson { per_second };
        let service = self.preset.service(self.mix.clone(), arrivals, self.seed);
        let mut tenant = RequestTenant::new(&service, 0)?;
        tenant.advance(self.time.as_nanos() as u64, &self.costs, self.tier_of, &mut Unwatched);
        let mut summary = tenant.latencies().total();
        summary.violations += tenant.waiting().overdue;
        Ok(summary)
    }

    /// Returns the maximum load at which the 99th percentile meets the objective. An overload is
    /// noticed only when its queue has grown to the objective. So the result is too high by about
    /// the share `slo / time`.
    ///
    /// # Errors
    /// Those of [`RequestTenant::new`].
    pub fn max_load(&self) -> Result<f64, RequestError> {
        let (mut sustained, mut exceeded) = (0.0, 1.25 * self.capacity());
        while exceeded - sustained > FINE * exceeded {
            let load = f64::midpoint(sustained, exceeded);
            if self.under(load)?.p99 <= self.preset.slo {
                sustained = load
            } else {
                exceeded = load
            }
        }
        Ok(sustained)
    }
}
