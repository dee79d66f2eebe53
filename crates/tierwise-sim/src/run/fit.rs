//! Refuses workloads that cannot run on their machine, however pages are placed.

use tierwise_core::units::{Bytes, Pages};

use super::prepare::{Opened, Ready};
use crate::error::SimError;
use crate::machine::Machine;
use crate::requests::mix::Mix;
use crate::requests::spec::ServiceSpec;
use crate::requests::tier::TierCosts;
use crate::scenario::{Scenario, WorkloadSpec};

/// Nanoseconds that a workload may run without an end that the scenario gives: a day, as for a
/// trace that is replayed without a scenario. Recordings are of minutes.
const MAX_UNENDED_NS: f64 = 86_400e9;

/// Refuses workloads that run for more than a day, if neither the scenario nor the workload has an
/// end. A trace of a few bytes can describe a run of years.
pub(super) fn check_lengths(scenario: &Scenario, ready: &[Ready]) -> Result<(), SimError> {
    for (workload, ready) in scenario.workloads.iter().zip(ready) {
        let Ready::Loaded(part) = ready else { continue };
        let ends = scenario.duration.is_some() || workload.stop.is_some();
        if !ends && part.all_fast_ns() * f64::from(workload.dilation) > MAX_UNENDED_NS {
            return Err(SimError::Scenario(format!(
                "workload \"{}\" runs for more than 24 hours even in fast memory; give it a \
                 stop_s, or the scenario a duration_s",
                workload.name
            )));
        }
    }
    Ok(())
}

/// Refuses an objective that a request misses even alone, with all memory fast.
pub(super) fn check_slo(
    workload: &WorkloadSpec,
    spec: &ServiceSpec,
    mix: &Mix,
    fast_ns: f64,
) -> Result<(), SimError> {
    let fast = [fast_ns / workload.memory_level_parallelism];
    let costs = TierCosts { load_ns: &fast, store_ns: &fast };
    let alone = mix.mean_ns(&costs, &vec![0; mix.units as usize]);
    let slo = spec.slo.as_nanos() as f64;
    if alone <= slo {
        return Ok(());
    }
    let why = format!(
        "its SLO is {:.3} ms and a request takes {:.3} ms with everything in fast memory and \
         no other tenant; no placement can meet it",
        slo * 1e-6,
        alone * 1e-6
    );
    Err(impossible(workload, why))
}

/// Makes the error that refuses a workload.
pub(super) fn impossible(workload: &WorkloadSpec, why: impl std::fmt::Display) -> SimError {
    SimError::Scenario(format!("workload \"{}\": {why}", workload.name))
}

/// Refuses a trace whose base pages are not the machine's: there it would be another program.
pub(super) fn check_page_size(
    workload: &WorkloadSpec,
    opened: &Opened,
    machine: Bytes,
) -> Result<(), SimError> {
    let Opened::Loaded(program) = opened else { return Ok(()) };
    let trace = Bytes(program.header.page_size.into());
    if trace == machine {
        return Ok(());
    }
    let why =
        format!("its pages have {trace}, the machine's {machine}; set page_size = \"{trace}\"");
    Err(impossible(workload, why))
}

/// Refuses tenants that can never fit: they are a mistake in the scenario, not an outcome.
pub(super) fn check_sizes(
    scenario: &Scenario,
    machine: &Machine,
    resident: impl Iterator<Item = u64>,
) -> Result<(), SimError> {
    let capacity: Bytes = machine.tiers.iter().map(|t| t.capacity).sum();
    for (workload, resident) in scenario.workloads.iter().zip(resident) {
        let needs = Pages(resident).in_bytes(machine.page_size);
        if needs > capacity {
            return Err(impossible(
                workload,
                format!(
                    "its {needs} do not fit into the machine's {capacity}; make a tier larger or \
                     the workload smaller"
                ),
            ));
        }
    }
    Ok(())
}
