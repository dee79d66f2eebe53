//! One workload of a scenario alone: its run when no other tenant takes its memory.

use tierwise_core::units::{Bytes, Pages};

use super::{Prepared, room_for};
use crate::scenario::{Scenario, TierSize, WorkloadSpec};

/// A workload of a scenario alone on the same machine (with the sizes of `prepared`), from its
/// start to its stop, without floor, cap or profile.
pub fn alone(prepared: &Prepared, workload: usize) -> Scenario {
    let scenario = prepared.scenario();
    let its = &scenario.workloads[workload];
    let until = [its.stop, scenario.duration].into_iter().flatten().min();
    let sizes = prepared.machine().tiers.iter().map(|t| TierSize::Bytes(t.capacity)).collect();
    Scenario {
        name: format!("{}: {} alone", scenario.name, its.name),
        sizes,
        workloads: vec![WorkloadSpec {
            start: std::time::Duration::ZERO,
            stop: None,
            floors: Vec::new(),
            caps: Vec::new(),
            profile: None,
            ..its.clone()
        }],
        duration: until.map(|until| until.saturating_sub(its.start)),
        ..scenario.clone()
    }
}

/// The sizes of a machine with this much in its fastest tier, whose slowest has space for
/// everything.
pub fn enough_slow(prepared: &Prepared, fast: Bytes) -> Vec<TierSize> {
    let machine = prepared.machine();
    let all = room_for(Pages(prepared.resident_pages())).in_bytes(machine.page_size);
    let last = machine.tiers.len().saturating_sub(1);
    let size = |(i, capacity): (usize, Bytes)| match i {
        0 => fast,
        i if i == last => capacity.max(all),
        _ => capacity,
    };
    let capacities = machine.tiers.iter().map(|t| t.capacity);
    capacities.enumerate().map(size).map(TierSize::Bytes).collect()
}
