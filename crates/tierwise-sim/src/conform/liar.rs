//! Claims what it has no use for: the largest weight there is and a floor by it, on 72 MiB of which
//! it accesses hardly any.

use tierwise_core::tenant::{Limit, MAX_WEIGHT};
use tierwise_trace::generate::GeneratorSpec;

use super::setting::{MIB, neighbour, program, victim};
use super::{Adversary, Setting};
use crate::scenario::Workload;

pub(super) const ADVERSARY: Adversary = Adversary {
    name: "liar",
    summary: "the largest weight, an automatic floor, and 72 MiB of which it accesses a hundredth",
    setting,
};

fn setting() -> Setting {
    let spec =
        GeneratorSpec { hot_fraction: 0.01, hot_access_share: 1.0, ..GeneratorSpec::default() };
    let liar = Workload {
        weight: MAX_WEIGHT,
        floors: vec![Some(Limit::Auto)],
        ..program("liar", "phase-change", 72 * MIB, spec)
    };
    Setting { victims: vec![victim(), neighbour()], adversaries: vec![liar] }
}
