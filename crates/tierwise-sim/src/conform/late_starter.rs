//! A hot program of 48 MiB that arrives when every tenant has settled down.

use std::time::Duration;

use tierwise_trace::generate::GeneratorSpec;

use super::setting::{MIB, from, neighbour, program, victim};
use super::{Adversary, Setting};

pub(super) const ADVERSARY: Adversary = Adversary {
    name: "late starter",
    summary: "48 MiB, all of them hot, from the 25th second on",
    setting,
};

/// After the grace, and with more than half of the run left.
const START: Duration = Duration::from_secs(25);

fn setting() -> Setting {
    // Twice the accesses for an instruction that the victims have.
    let spec = GeneratorSpec { instructions_per_access: 10, ..GeneratorSpec::default() };
    let late = from(START, program("late", "uniform", 48 * MIB, spec));
    Setting { victims: vec![victim(), neighbour()], adversaries: vec![late] }
}
