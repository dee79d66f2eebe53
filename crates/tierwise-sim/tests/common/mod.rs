//! Small machines and workloads for the simulator's tests.

use tierwise_core::migrate::Budget;
use tierwise_core::units::Bytes;
use tierwise_sim::costs::Costs;
use tierwise_sim::machine::Machine;
use tierwise_sim::scenario::{Scenario, WorkloadSource, WorkloadSpec};
use tierwise_trace::generate::GeneratorSpec;

pub const PAGE: u64 = 4096;

/// A generated workload with the defaults of a scenario.
pub fn workload(name: &str, generator: &str, spec: GeneratorSpec) -> WorkloadSpec {
    WorkloadSpec {
        measure_from: Some("run".to_owned()),
        ..WorkloadSpec::new(name, WorkloadSource::Generator(generator.to_owned(), spec))
    }
}

/// DRAM + CXL with this many pages of each.
pub fn machine(fast_pages: u64, slow_pages: u64) -> Machine {
    Machine::preset("dram-cxl", Bytes(fast_pages * PAGE), Bytes(slow_pages * PAGE)).unwrap()
}

pub fn scenario(machine: Machine, workloads: Vec<WorkloadSpec>) -> Scenario {
    Scenario {
        name: "test".to_owned(),
        summary: String::new(),
        machine,
        sizes: Vec::new(),
        costs: Costs::default(),
        budget: Budget::default(),
        workloads,
        duration: None,
    }
}
