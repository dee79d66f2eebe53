//! Runs one recipe on one scenario.

mod alone;
mod decision;
mod fit;
mod memory_mode;
mod oracle;
mod prepare;
mod profile;
mod samples;
mod summary;
mod watch;

use std::time::Duration;

use tierwise_core::engine::{Engine, EngineConfig};
use tierwise_core::recipe::{Bound, Recipe};
use tierwise_core::share::Decision;
use tierwise_core::units::{Bytes, Pages};
use tierwise_core::world::World;
use tierwise_driver::{Driver, Observer, RoundMode};

pub use alone::{alone, enough_slow};
pub use decision::{DecisionCost, decision_cost};
pub use memory_mode::memory_mode;
pub use prepare::Prepared;
pub use profile::{ProfileFile, ProfilePoint, read_profile};
pub use samples::{IntervalSample, samples};
pub use watch::Watch;

use crate::error::SimError;
use crate::host::{Injection, SimulatedHost};
use crate::machine::Machine;
use crate::record::Recorder;
use crate::result::RunOutput;

/// Options of a run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RunOptions {
    /// The seed of all random choices.
    pub seed: u64,
    /// True if the checkers run after every step.
    pub check: bool,
    /// The interval of the timeline; `None` for no timeline.
    pub timeline: Option<Duration>,
    /// True if the heat map is collected, with columns as long as the timeline's interval (or a
    /// second).
    pub heat_map: bool,
    /// True if the decisions and their reasons are recorded.
    pub record: bool,
    /// True if the policy starts with the first measured part. Until then pages lie where they were
    /// first touched.
    pub policy_at_mark: bool,
    /// Faults to inject into the run.
    pub injection: Injection,
}

/// Runs a recipe to the scenario's end. `progress` is called repeatedly with the share done, 0 to
/// 1.
///
/// # Errors
/// The recipe does not fit the machine, a trace is damaged, or a checker found the simulator itself
/// wrong.
pub fn run(
    prepared: &Prepared,
    recipe: &Recipe,
    options: &RunOptions,
    progress: &mut dyn FnMut(f64),
) -> Result<RunOutput, SimError> {
    if recipe.bound() == Some(Bound::Oracle) {
        return oracle::run(prepared, recipe, options);
    }
    let machine = machine_for(prepared, recipe.bound());
    let mut config = EngineConfig::new(recipe.clone());
    config.budget = prepared.scenario().budget;
    config.tenants = prepared.tenants().to_vec();
    config.learning = prepared.learning().cloned();
    let mut host = prepared.host(machine, options)?;
    let topology = host.topology();
    let mut engine = Engine::new(&config, topology, &host.capabilities(), options.seed)?;
    let mut output;
    if options.record {
        let (scenario, policy) = (&prepared.scenario().name, recipe.name());
        let mut recorder = Recorder::new(scenario, policy, options.seed, &host.topology());
        let decided = Recorder::decided;
        drive(prepared, &mut engine, &mut host, options, progress, &mut recorder, decided)?;
        output = summary::summarise(prepared, recipe, &host, options);
        let names = prepared.scenario().workloads.iter().map(|w| w.name.as_str());
        output.record = Some(recorder.finish(&host, names));
    } else {
        drive(prepared, &mut engine, &mut host, options, progress, &mut (), |(), _| ())?;
        output = summary::summarise(prepared, recipe, &host, options);
    }
    Ok(output)
}

fn drive<O: Observer<SimulatedHost>>(
    prepared: &Prepared,
    engine: &mut Engine,
    host: &mut SimulatedHost,
    options: &RunOptions,
    progress: &mut dyn FnMut(f64),
    observer: &mut O,
    decided: impl Fn(&mut O, &[Decision]),
) -> Result<(), SimError> {
    let mut driver = Driver::default();
    driver.start(engine, host)?;
    let mut goes_on = true;
    driver.set_mode(RoundMode::Observe);
    while options.policy_at_mark && goes_on && host.wait_for_mark() {
        goes_on = driver.round_with(engine, host, observer)?;
        progress(prepared.share_done(host));
    }
    driver.set_mode(RoundMode::Manage);
    while goes_on {
        goes_on = driver.round_with(engine, host, observer)?;
        decided(observer, engine.decisions());
        progress(prepared.share_done(host));
    }
    progress(1.0);
    Ok(())
}

/// Returns half as much again as `resident`: watermarks are a share of the tier, and all pages must
/// fit above them. The 1024 pages more are chosen, not measured: two huge pages, without which the
/// smallest sets would not fit above their watermarks. A larger tier would only have more unused
/// memory.
fn room_for(resident: Pages) -> Pages {
    Pages(resident.0 * 3 / 2 + 1024)
}

/// Returns the machine on which a bound is measured: one tier is made large enough for all pages.
fn machine_for(prepared: &Prepared, bound: Option<Bound>) -> Machine {
    let mut machine = prepared.machine().clone();
    let all = room_for(Pages(prepared.resident_pages())).in_bytes(machine.page_size);
    let enough = |capacity: &mut Bytes| *capacity = (*capacity).max(all);
    if bound.is_some() {
        // All pages are in one kind of memory, so the CPU has no tier to manage.
        machine.hardware = None;
    }
    match bound {
        Some(Bound::AllFast) => machine.tiers.first_mut().map(|t| enough(&mut t.capacity)),
        Some(Bound::AllSlow) => machine.tiers.last_mut().map(|t| enough(&mut t.capacity)),
        Some(Bound::Oracle) | None => None,
    };
    machine
}
