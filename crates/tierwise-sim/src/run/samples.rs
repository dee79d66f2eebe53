//! The CPU's counters and the slowdown of a workload in each interval: the training samples of a
//! slowdown classifier (Memstrata, section 4.2).

use tierwise_core::engine::{Engine, EngineConfig};
use tierwise_core::observe::{CpuCounters, Observation};
use tierwise_core::recipe::Recipe;
use tierwise_core::world::World;
use tierwise_driver::{Driver, Observer};

use super::{Prepared, RunOptions};
use crate::error::SimError;
use crate::host::SimulatedHost;

/// One interval of one workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IntervalSample {
    /// The CPU's counters.
    pub counters: CpuCounters,
    /// The share of its misses that slow memory served, which no counter shows.
    pub miss_ratio: f64,
    /// Time divided by the time with all memory fast.
    pub slowdown: f64,
}

/// The interval of Memstrata's allocator, in nanoseconds.
const INTERVAL_NS: u64 = 10_000_000_000;

/// Sums up the counters of an interval.
struct Collector {
    out: Vec<IntervalSample>,
    sum: CpuCounters,
    since: u64,
    /// The time with all memory fast, the misses and the slow misses when the interval started.
    before: (f64, f64, f64),
}

impl Observer<SimulatedHost> for Collector {
    fn observed(&mut self, host: &SimulatedHost, observation: &Observation) {
        if let Some(counters) = observation.tenants.first().and_then(|t| t.counters) {
            self.sum = self.sum.and(&counters);
        }
        let now = host.now().0;
        let account = &host.stats().accounts[0];
        let measuring = account.measured_from.is_some();
        if now - self.since < INTERVAL_NS {
            return;
        }
        let work = &account.total;
        let slow = work.misses.last().copied().unwrap_or(0.0);
        let after = (work.all_fast_ns, work.misses.iter().sum::<f64>(), slow);
        let counters = std::mem::take(&mut self.sum);
        let all_fast_ns = after.0 - self.before.0;
        if measuring && all_fast_ns > 0.0 && account.ended.is_none() {
            self.out.push(IntervalSample {
                counters,
                miss_ratio: (after.2 - self.before.2) / (after.1 - self.before.1).max(1.0),
                slowdown: (now - self.since) as f64 / all_fast_ns,
            });
        }
        (self.since, self.before) = (now, after);
    }
}

/// Runs a scenario's first workload on its hardware-managed machine, without moves, and returns
/// each interval of its measured part.
///
/// # Errors
/// Those of [`super::run`], and a machine without a managed tier.
pub fn samples(prepared: &Prepared, options: &RunOptions) -> Result<Vec<IntervalSample>, SimError> {
    // There is one tenant, so none lends: the recipe only requests the counters, every ten seconds.
    let recipe =
        Recipe::named("flat-memstrata").map_err(tierwise_core::engine::EngineError::from)?;
    let mut config = EngineConfig::new(recipe);
    config.learning = prepared.learning().cloned();
    let mut host = prepared.host(prepared.machine().clone(), options)?;
    let mut engine = Engine::new(&config, host.topology(), &host.capabilities(), options.seed)?;
    let mut collector = Collector {
        out: Vec::new(),
        sum: CpuCounters::default(),
        since: 0,
        before: (0.0, 0.0, 0.0),
    };
    let mut driver = Driver::default();
    driver.start(&engine, &mut host)?;
    while driver.round_with(&mut engine, &mut host, &mut collector)? {}
    Ok(collector.out)
}
