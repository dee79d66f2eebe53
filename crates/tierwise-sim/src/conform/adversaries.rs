//! The adversaries: one row of [`ADVERSARIES`] and one setting each.

use std::time::Duration;

use tierwise_core::tenant::{Limit, MAX_WEIGHT};
use tierwise_trace::generate::{GeneratorSpec, Motion};

use super::setting::{MIB, Setting, from, generated, neighbour, victim};
use crate::scenario::WorkloadSpec;

/// A kind of workload that takes memory from its neighbours.
#[derive(Debug)]
pub struct Adversary {
    /// Its name in results.
    pub name: &'static str,
    /// Its behaviour, in one line.
    pub summary: &'static str,
    /// The victims and the adversaries that run.
    pub setting: fn() -> Setting,
}

/// Every adversary, in the order of the results.
pub const ADVERSARIES: &[Adversary] = &[
    Adversary {
        name: "scanner",
        summary: "reads 48 MiB from end to end, repeatedly",
        setting: scanner,
    },
    Adversary {
        name: "thrasher",
        summary: "12 of its 48 MiB are hot; they change every three seconds",
        setting: thrasher,
    },
    Adversary {
        name: "allocator bursts",
        summary: "allocates 48 MiB at once, works on them for 3 s and ends, every 6 s",
        setting: bursts,
    },
    Adversary {
        name: "late starter",
        summary: "48 MiB, all of them hot, from the 25th second on",
        setting: late_starter,
    },
    Adversary {
        name: "idle hoarder",
        summary: "fills the fast memory and leaves it idle; the victim starts 5 s later",
        setting: hoarder,
    },
    Adversary {
        name: "fork bomb",
        summary: "60 tenants of 0.8 MiB, a new one every quarter of a second from the 12th second \
                  on",
        setting: fork_bomb,
    },
    Adversary {
        name: "liar",
        summary: "the largest weight, an automatic floor, and 72 MiB of which it accesses a \
                  hundredth",
        setting: liar,
    },
];

/// Every page is hot while the scanner reads it, and none is worth keeping.
fn scanner() -> Setting {
    let scanner = generated("scanner", "sequential", 48 * MIB, GeneratorSpec::default());
    Setting { victims: vec![victim()], adversaries: vec![scanner] }
}

/// The hot pages change every few seconds: promoted pages are cold soon after.
fn thrasher() -> Setting {
    let spec = GeneratorSpec {
        hot_fraction: 0.25,
        hot_access_share: 0.99,
        motion: Motion::Jump,
        // Each window takes a quarter of a second.
        dwell_windows: 12,
        ..GeneratorSpec::default()
    };
    let thrasher = generated("thrasher", "moving-hot-set", 48 * MIB, spec);
    Setting { victims: vec![victim(), neighbour()], adversaries: vec![thrasher] }
}

/// The bursts that fit into the run after the first interval.
const BURSTS: u32 = 8;
/// The time from the start of one burst to the start of the next.
const BURST_INTERVAL: Duration = Duration::from_secs(6);
/// The time that one burst lasts.
const BURST_LENGTH: Duration = Duration::from_secs(3);

/// Each start is a tenant of its own, as a restarted container is.
fn bursts() -> Setting {
    let burst = |i: u32| {
        let spec = GeneratorSpec { seed: i.into(), ..GeneratorSpec::default() };
        let start = BURST_INTERVAL * (i + 1);
        let mut burst = generated(&format!("burst-{}", i + 1), "uniform", 48 * MIB, spec);
        burst.stop = Some(start + BURST_LENGTH);
        from(start, burst)
    };
    let adversaries = (0..BURSTS).map(burst).collect();
    Setting { victims: vec![victim(), neighbour()], adversaries }
}

/// The start of the late starter: after the grace, with more than half of the run left.
const LATE_START: Duration = Duration::from_secs(25);

/// A hot workload arrives after all placements have become stable.
fn late_starter() -> Setting {
    // Twice the victims' accesses per instruction.
    let spec = GeneratorSpec { instructions_per_access: 10, ..GeneratorSpec::default() };
    let late = from(LATE_START, generated("late", "uniform", 48 * MIB, spec));
    Setting { victims: vec![victim(), neighbour()], adversaries: vec![late] }
}

/// The start of the hoarder's victim: by then the hoarder has allocated all its memory.
const HOARDED: Duration = Duration::from_secs(5);

/// The victim's floor has to be taken back from pages that no tenant uses.
fn hoarder() -> Setting {
    let spec = GeneratorSpec {
        // After its load phase it touches twelve pages.
        hot_fraction: 0.001,
        hot_access_share: 1.0,
        ..GeneratorSpec::default()
    };
    let hoarder = generated("hoarder", "phase-change", 48 * MIB, spec);
    Setting { victims: vec![from(HOARDED, victim())], adversaries: vec![hoarder] }
}

/// The tenants of the fork bomb.
const CHILDREN: u32 = 60;
/// The start of the first child: after the grace.
const FIRST_CHILD: Duration = Duration::from_secs(12);
/// The time from one child's start to the next.
const CHILD_INTERVAL: Duration = Duration::from_millis(250);

/// Each child needs little; all together need more than there is.
fn fork_bomb() -> Setting {
    let child = |i: u32| {
        let spec = GeneratorSpec { seed: i.into(), ..GeneratorSpec::default() };
        let name = format!("child-{}", i + 1);
        from(FIRST_CHILD + CHILD_INTERVAL * i, generated(&name, "uniform", MIB * 4 / 5, spec))
    };
    let adversaries = (0..CHILDREN).map(child).collect();
    Setting { victims: vec![victim(), neighbour()], adversaries }
}

/// The liar claims memory that it does not use: by the largest weight, and by a floor that follows
/// from it.
fn liar() -> Setting {
    let spec =
        GeneratorSpec { hot_fraction: 0.01, hot_access_share: 1.0, ..GeneratorSpec::default() };
    let liar = WorkloadSpec {
        weight: MAX_WEIGHT,
        floors: vec![Some(Limit::Auto)],
        ..generated("liar", "phase-change", 72 * MIB, spec)
    };
    Setting { victims: vec![victim(), neighbour()], adversaries: vec![liar] }
}
