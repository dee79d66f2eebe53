//! Its hot pages, 12 MiB of 48, are others every few seconds: whoever promotes them does so in
//! vain.

use tierwise_trace::generate::{GeneratorSpec, Motion};

use super::setting::{MIB, neighbour, program, victim};
use super::{Adversary, Setting};

pub(super) const ADVERSARY: Adversary = Adversary {
    name: "thrasher",
    summary: "12 of its 48 MiB are hot, others every three seconds",
    setting,
};

fn setting() -> Setting {
    let spec = GeneratorSpec {
        hot_fraction: 0.25,
        hot_access_share: 0.99,
        motion: Motion::Jump,
        // A quarter of a second each.
        dwell_windows: 12,
        ..GeneratorSpec::default()
    };
    let thrasher = program("thrasher", "moving-hot-set", 48 * MIB, spec);
    Setting { victims: vec![victim(), neighbour()], adversaries: vec![thrasher] }
}
