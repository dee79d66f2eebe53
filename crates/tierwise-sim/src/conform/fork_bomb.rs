//! Sixty small tenants, one after the other: each asks for little, all together for more than there
//! is.

use std::time::Duration;

use tierwise_trace::generate::GeneratorSpec;

use super::setting::{MIB, from, neighbour, program, victim};
use super::{Adversary, Setting};

pub(super) const ADVERSARY: Adversary = Adversary {
    name: "fork bomb",
    summary: "60 tenants of 0.8 MiB, a new one every quarter of a second from the 12th second on",
    setting,
};

const CHILDREN: u32 = 60;
/// After the grace.
const FIRST: Duration = Duration::from_secs(12);
const EVERY: Duration = Duration::from_millis(250);

fn setting() -> Setting {
    let child = |i: u32| {
        let spec = GeneratorSpec { seed: i.into(), ..GeneratorSpec::default() };
        let name = format!("child-{}", i + 1);
        from(FIRST + EVERY * i, program(&name, "uniform", MIB * 4 / 5, spec))
    };
    let adversaries = (0..CHILDREN).map(child).collect();
    Setting { victims: vec![victim(), neighbour()], adversaries }
}
