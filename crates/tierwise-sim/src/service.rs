//! A service as it runs on the host: its requests, the tiers of its units, and its monitor.

use tierwise_core::units::TierId;

use crate::requests::error::RequestError;
use crate::requests::latency::LatencySummary;
use crate::requests::tenant::{RequestService, RequestTenant};
use crate::requests::watcher::Watcher;

/// Length of an interval of response times: the reported 99th percentile is that of the last whole
/// one. In a second the slowest of MTAT's services answers ten thousand requests, a hundred of them
/// above its 99th percentile.
pub const INTERVAL_NS: u64 = 1_000_000_000;

/// A running service.
#[derive(Debug)]
pub struct RunningService {
    /// Its requests.
    pub tenant: RequestTenant,
    /// The monitor of their touches.
    pub watcher: Watcher,
    /// The tier of each unit.
    pub tiers: Vec<u8>,
    /// Time at which each unit was poisoned.
    pub poisoned_at: Vec<u64>,
    /// Bytes per nanosecond that it read from and wrote to each tier in the last step.
    pub rates: Vec<(f64, f64)>,
    interval_ends: u64,
    last: Option<LatencySummary>,
    /// Response times of the whole seconds since the last point of the timeline.
    worst: LatencySummary,
    /// Whole seconds measured.
    pub seconds: u64,
    /// Number of those seconds whose 99th percentile exceeded the objective.
    pub violating_seconds: u64,
}

impl RunningService {
    /// Creates a service that starts at a time, on a machine with this many tiers, with units of
    /// this many pages.
    ///
    /// # Errors
    /// Those of [`RequestTenant::new`].
    pub fn new(
        service: &RequestService,
        start_ns: u64,
        tiers: usize,
        pages: f64,
    ) -> Result<Self, RequestError> {
        let units = service.mix.units as usize;
        Ok(Self {
            tenant: RequestTenant::new(service, start_ns)?,
            watcher: Watcher::new(units, pages),
            tiers: vec![0; units],
            poisoned_at: vec![0; units],
            rates: vec![(0.0, 0.0); tiers],
            interval_ends: start_ns + INTERVAL_NS,
            last: None,
            worst: LatencySummary::default(),
            seconds: 0,
            violating_seconds: 0,
        })
    }

    /// Sets a unit's tier after a move.
    pub fn relocated(&mut self, local: u32, tier: TierId) {
        self.tiers[local as usize] = tier.0;
        self.watcher.unpoison(local);
    }

    /// Adds the bytes per nanosecond that it read from and wrote to each tier in the last step.
    pub fn add_demand(&self, demand: &mut [(f64, f64)]) {
        for ((read, write), (own_read, own_write)) in demand.iter_mut().zip(&self.rates) {
            *read += own_read;
            *write += own_write;
        }
    }

    /// Returns the end of the interval of response times.
    pub fn interval_ends(&self) -> u64 {
        self.interval_ends
    }

    /// Ends the interval if `now` has reached its end.
    pub fn end_interval(&mut self, now: u64) {
        if now < self.interval_ends {
            return;
        }
        self.interval_ends = now + INTERVAL_NS;
        let summary = self.tenant.latencies_mut().end_interval();
        let slo = u128::from(self.tenant.latencies().slo_ns());
        self.seconds += 1;
        self.violating_seconds += u64::from(summary.p99.as_nanos() > slo);
        if summary.p99 >= self.worst.p99 {
            self.worst = summary;
        }
        self.last = (summary.requests > 0).then_some(summary);
    }

    /// Response times of the last whole second in which requests ended.
    pub fn last(&self) -> Option<&LatencySummary> {
        self.last.as_ref()
    }

    /// The second with the highest 99th percentile since the last call.
    pub fn take_worst(&mut self) -> LatencySummary {
        std::mem::take(&mut self.worst)
    }
}
