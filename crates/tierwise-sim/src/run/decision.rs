//! The CPU time that the engine's decisions take in a run.

use std::time::Duration;

use tierwise_core::engine::{Engine, EngineConfig};
use tierwise_core::migrate::{MigrationPlan, MoveOutcome};
use tierwise_core::observe::{Capabilities, Observation};
use tierwise_core::recipe::Recipe;
use tierwise_core::topology::Topology;
use tierwise_core::units::Timestamp;
use tierwise_core::world::World;
use tierwise_driver::Driver;

use super::{Prepared, RunOptions};
use crate::error::SimError;
use crate::host::SimulatedHost;

/// What decisions cost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DecisionCost {
    /// Real CPU time of the engine, its policy and its learner.
    pub cpu: Duration,
    /// Hardware samples that it read.
    pub samples: u64,
    /// Plans that it made.
    pub plans: u64,
    /// Virtual time that passed meanwhile.
    pub passed: Duration,
}

/// A world that times what happens between its calls.
struct TimedHost<'a> {
    host: SimulatedHost,
    clock: &'a dyn Fn() -> Duration,
    /// The clock at the end of the last call.
    left: Duration,
    cost: DecisionCost,
}

impl TimedHost<'_> {
    /// Does the world's own work, which is no decision's.
    fn untimed<T>(&mut self, work: impl FnOnce(&mut SimulatedHost) -> T) -> T {
        self.cost.cpu += (self.clock)().saturating_sub(self.left);
        let result = work(&mut self.host);
        self.left = (self.clock)();
        result
    }
}

impl World for TimedHost<'_> {
    type Error = SimError;

    fn topology(&self) -> Topology {
        self.host.topology()
    }

    fn capabilities(&self) -> Capabilities {
        self.host.capabilities()
    }

    fn now(&self) -> Timestamp {
        self.host.now()
    }

    fn observe(&mut self, out: &mut Observation) -> Result<(), SimError> {
        self.untimed(|host| host.observe(out))?;
        self.cost.samples += out.samples.len() as u64;
        Ok(())
    }

    fn migrate(
        &mut self,
        plan: &MigrationPlan,
        out: &mut Vec<MoveOutcome>,
    ) -> Result<(), SimError> {
        self.cost.plans += 1;
        self.untimed(|host| host.migrate(plan, out))
    }

    fn wait_until(&mut self, deadline: Option<Timestamp>) -> Result<bool, SimError> {
        self.untimed(|host| host.wait_until(deadline))
    }
}

/// Runs a recipe to the scenario's end and measures its decisions with `clock`, which returns the
/// CPU time of this thread.
///
/// # Errors
/// Those of [`super::run`].
pub fn decision_cost(
    prepared: &Prepared,
    recipe: &Recipe,
    options: &RunOptions,
    clock: &dyn Fn() -> Duration,
    progress: &mut dyn FnMut(f64),
) -> Result<DecisionCost, SimError> {
    let mut config = EngineConfig::new(recipe.clone());
    config.budget = prepared.scenario().budget;
    config.tenants = prepared.tenants().to_vec();
    config.learning = prepared.learning().cloned();
    let host = prepared.host(prepared.machine().clone(), options)?;
    let (topology, capabilities) = (host.topology(), host.capabilities());
    let mut engine = Engine::new(&config, topology, &capabilities, options.seed)?;
    let mut driver = Driver::default();
    let mut world = TimedHost { host, clock, left: clock(), cost: DecisionCost::default() };
    driver.start(&engine, &mut world)?;
    while driver.round(&mut engine, &mut world)? {
        progress(prepared.share_done(&world.host));
    }
    Ok(DecisionCost { passed: Duration::from_nanos(world.now().0), ..world.cost })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::Path;

    use super::*;
    use crate::scenario::Scenario;

    /// The clock ticks at every reading, so each stretch between two calls of the world counts one
    /// tick, and the world's own work none.
    #[test]
    fn only_time_between_calls_counts() {
        let text = "name = \"t\"\nsummary = \"x\"\n[machine]\npreset = \"dram-cxl\"\nfast_share = \
                    0.25\n[[workload]]\nname = \"w\"\n[workload.generator]\npattern = \
                    \"zipf\"\nfootprint = \"1MiB\"\naccesses_per_window = 2000\nwindows = 400\n";
        let scenario = Scenario::parse("t.toml", text, Path::new(".")).unwrap();
        let prepared = Prepared::load(scenario).unwrap();
        let reading = Cell::new(0u32);
        let clock = || {
            reading.set(reading.get() + 1);
            Duration::from_secs(reading.get().into())
        };
        let recipe = Recipe::named("memtis").unwrap();
        let options = RunOptions::default();
        let cost = decision_cost(&prepared, &recipe, &options, &clock, &mut |_| ()).unwrap();
        // Two readings around each call of the world, and one before the first.
        let calls = reading.get() / 2;
        assert_eq!(cost.cpu, Duration::from_secs(calls.into()));
        assert!(cost.plans > 1 && cost.samples > 0 && cost.passed > Duration::ZERO, "{cost:?}");
    }
}
