//! A job that allocates 48 MiB as fast as it can, works on them for three seconds and ends, again
//! and again. Each start is a tenant of its own, as a restarted container is.

use std::time::Duration;

use tierwise_trace::generate::GeneratorSpec;

use super::setting::{MIB, from, neighbour, program, victim};
use super::{Adversary, Setting};

pub(super) const ADVERSARY: Adversary = Adversary {
    name: "allocator bursts",
    summary: "allocates 48 MiB at once, works on them for 3 s and ends, every 6 s",
    setting,
};

/// How many bursts fit into the run after the first.
const BURSTS: u32 = 8;
/// From one to the next.
const EVERY: Duration = Duration::from_secs(6);
/// How long one lasts.
const LASTS: Duration = Duration::from_secs(3);

fn setting() -> Setting {
    let burst = |i: u32| {
        let spec = GeneratorSpec { seed: i.into(), ..GeneratorSpec::default() };
        let start = EVERY * (i + 1);
        let mut burst = program(&format!("burst-{}", i + 1), "uniform", 48 * MIB, spec);
        burst.stop = Some(start + LASTS);
        from(start, burst)
    };
    let adversaries = (0..BURSTS).map(burst).collect();
    Setting { victims: vec![victim(), neighbour()], adversaries }
}
