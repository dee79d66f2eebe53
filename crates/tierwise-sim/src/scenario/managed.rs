//! Scenarios on hardware-managed machines, with the paper's settings (Memstrata, sections 3.2, 3.3
//! and 6.1).

use tierwise_core::units::Bytes;
use tierwise_trace::generate::GeneratorSpec;

use super::{Scenario, TierSize, WorkloadSource, WorkloadSpec};
use crate::hardware::{Colouring, Hardware, ManagementMode, Ratio};

/// The managed tier's size, divided by the workloads' need: virtual machines' sizes are rounded up,
/// and the kernel keeps its watermarks. Chosen, not measured: with less room workloads run out of
/// memory; with more they use fewer pages of each colour and conflict less.
pub const ROOM: f64 = 1.1;

/// Misses in flight per thread of the recorded programs. A recording does not contain it; a current
/// core has ten to sixteen line fill buffers, and a workload that follows pointers uses one. Four
/// is an assumption, the same for all of them.
pub const OVERLAP: f64 = 4.0;

/// Returns the scenario with [`OVERLAP`] misses in flight per thread.
#[must_use]
pub fn overlapped(mut scenario: Scenario) -> Scenario {
    scenario.workloads.iter_mut().for_each(|w| w.memory_level_parallelism = OVERLAP);
    scenario
}

/// Returns the sizes of a dedicated and a managed tier; the dedicated tier has this share of the
/// resident set.
pub fn sizes(dedicated: f64) -> Vec<TierSize> {
    let first = if dedicated > 0.0 {
        TierSize::ShareOfResident(dedicated)
    } else {
        TierSize::Bytes(Bytes(0))
    };
    vec![first, TierSize::ShareOfResident((1.0 - dedicated) * ROOM)]
}

/// Returns the same workloads in Flat Memory Mode at 1:1, with this share of the resident set
/// dedicated (0: none; a third is the paper's mixed mode).
///
/// ```
/// use tierwise_core::units::Bytes;
/// use tierwise_sim::hardware::Colouring;
/// use tierwise_sim::scenario::{Scenario, managed::flat};
///
/// let text = r#"
///     name = "z"
///     summary = "z"
///     duration_s = 1
///     [machine]
///     preset = "dram-cxl"
///     fast_share = 0.5
///     [[workload]]
///     name = "z"
///     [workload.generator]
///     pattern = "zipf"
///     footprint = "30MiB"
/// "#;
/// let scenario = Scenario::parse("z.toml", text, std::path::Path::new(".")).unwrap();
/// let mixed = flat(&scenario, 1.0 / 3.0, Colouring::Isolated);
/// let machine = mixed.resolve(Bytes(30 << 20));
/// assert_eq!(machine.tiers[0].capacity, Bytes(10 << 20));
/// assert_eq!(machine.tiers[1].capacity, Bytes(22 << 20));
/// ```
pub fn flat(scenario: &Scenario, dedicated: f64, colouring: Colouring) -> Scenario {
    let mut scenario = scenario.clone();
    scenario.machine.hardware =
        Some(Hardware { mode: ManagementMode::Flat(Ratio::ONE), colouring });
    scenario.sizes = sizes(dedicated);
    scenario
}

/// Returns the same workloads in 2LM, with as much fast memory for a cache as in Flat Memory Mode,
/// and slow memory for all of them: two bytes behind each byte of the cache.
pub fn two_level(scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    let mode = ManagementMode::TwoLevel(Ratio::TWO);
    scenario.machine.hardware = Some(Hardware { mode, colouring: Colouring::Isolated });
    scenario.sizes = sizes(0.0);
    scenario
}

/// Line accesses per window of the neighbour: a second at some three or four nanoseconds each. All
/// its windows are alike, so finer ones would only take longer.
const LINES_PER_WINDOW: u64 = 1 << 28;

/// Instructions for each line that the neighbour reads: load, add, compare and branch.
const INSTRUCTIONS_A_LINE: u64 = 4;

/// Makes a neighbour that reads memory as large as the workload's as fast as it can, as a memory
/// latency checker does: without end, with six threads (section 3.3).
pub fn noisy_neighbour(resident: Bytes) -> WorkloadSpec {
    let pages = resident.in_pages(Bytes(4096)).0.max(4);
    let spec = GeneratorSpec {
        footprint_pages: pages,
        // A window goes over all pages alike, as a second of scanning does.
        accesses_per_window: pages as u32,
        accesses_per_page: Some(1),
        instructions_per_access: INSTRUCTIONS_A_LINE,
        write_ratio: 0.0,
        windows: None,
        ..GeneratorSpec::default()
    };
    WorkloadSpec {
        threads: 6,
        dilation: (LINES_PER_WINDOW / pages).max(1) as u32,
        // Hardware prefetching keeps the next lines of a scan in flight.
        memory_level_parallelism: 4.0,
        ..WorkloadSpec::new(
            "noisy-neighbour",
            WorkloadSource::Generator("sequential".to_owned(), spec),
        )
    }
}
