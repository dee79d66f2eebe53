//! The machine, and the victims.

use std::time::Duration;

use tierwise_core::migrate::Budget;
use tierwise_core::tenant::Limit;
use tierwise_core::units::Bytes;
use tierwise_trace::generate::GeneratorSpec;

use super::LENGTH;
use crate::costs::Costs;
use crate::machine::Machine;
use crate::scenario::{Scenario, WorkloadSource, WorkloadSpec};

/// Base pages of a MiB.
pub(super) const MIB: u64 = 256;

const PAGE: u64 = 4096;

/// Fast memory: 24 MiB. The victims' floors, 16 MiB together, leave a third of it for which tenants
/// compete.
const FAST: Bytes = Bytes(24 * MIB * PAGE);

/// Slow memory: 96 MiB, enough for every tenant, so that no tenant is killed for lack of memory.
const SLOW: Bytes = Bytes(96 * MIB * PAGE);

/// Accesses of a window: with the dilation below a window of a memory-bound workload takes a
/// quarter of a second.
const WINDOW: u32 = 20_000;

/// Identical windows per generated window, which make it a quarter of a second long.
const DILATION: u32 = 50;

/// The workloads of a test, victims first.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Tenants with floors.
    pub victims: Vec<WorkloadSpec>,
    /// Tenants that take memory from them.
    pub adversaries: Vec<WorkloadSpec>,
}

/// Returns the suite's machine: DRAM and CXL memory (MTAT, section 5.1).
pub fn machine() -> Machine {
    // The preset exists; a run refuses a machine without tiers.
    Machine::preset("dram-cxl", FAST, SLOW).unwrap_or(Machine {
        page_size: Bytes(PAGE),
        tiers: Vec::new(),
        instruction_ns: Machine::DEFAULT_INSTRUCTION_NS,
        watermark_scale_factor: Machine::DEFAULT_WATERMARK_SCALE,
        granule_order: 0,
        hardware: None,
        cpus: None,
        damon: None,
    })
}

/// The scenario in which the workloads run.
pub(super) fn scenario(name: &str, workloads: Vec<WorkloadSpec>) -> Scenario {
    Scenario {
        name: name.to_owned(),
        summary: String::new(),
        machine: machine(),
        sizes: Vec::new(),
        costs: Costs::default(),
        budget: Budget::default(),
        workloads,
        duration: Some(LENGTH),
    }
}

/// A generated workload that never ends.
pub(super) fn generated(
    name: &str,
    pattern: &str,
    pages: u64,
    spec: GeneratorSpec,
) -> WorkloadSpec {
    // A small workload has fewer accesses in a window of the same length.
    let small = if pages < MIB { 10 } else { 1 };
    let spec = GeneratorSpec {
        footprint_pages: pages,
        accesses_per_window: WINDOW / small,
        windows: None,
        ..spec
    };
    WorkloadSpec {
        measure_from: Some("run".to_owned()),
        dilation: DILATION * small,
        ..WorkloadSpec::new(name, WorkloadSource::Generator(pattern.to_owned(), spec))
    }
}

/// The well-behaved tenant: of its 16 MiB half are hot, and of the other half each page is accessed
/// about once per second, which is colder than all that an adversary uses. Its floor of 12 MiB also
/// protects half of the colder pages.
pub(super) fn victim() -> WorkloadSpec {
    let spec = GeneratorSpec {
        hot_fraction: 0.5,
        hot_access_share: 0.99,
        seed: 1,
        ..GeneratorSpec::default()
    };
    WorkloadSpec {
        // A dilated window accesses the same pages repeatedly. Shorter windows access more
        // different pages per second.
        dilation: DILATION / 2,
        floors: vec![Some(Limit::Bytes(Bytes(12 * MIB * PAGE)))],
        ..generated("keeper", "phase-change", 16 * MIB, spec)
    }
}

/// A second victim: 8 MiB, all pages alike, and a floor of half of it.
pub(super) fn neighbour() -> WorkloadSpec {
    let spec = GeneratorSpec { seed: 2, ..GeneratorSpec::default() };
    WorkloadSpec {
        floors: vec![Some(Limit::Bytes(Bytes(4 * MIB * PAGE)))],
        ..generated("neighbour", "uniform", 8 * MIB, spec)
    }
}

/// Returns the workload with another start.
pub(super) fn from(start: Duration, workload: WorkloadSpec) -> WorkloadSpec {
    WorkloadSpec { start, ..workload }
}
