//! The order in which the kernel's promotion is switched on.
//!
//! While a slow page is poisoned, the kernel holds the time of that instead of the CPU and process
//! that accessed the page last (`folio_use_access_time`). A hint fault reads the mode several
//! times. If the mode changes from 0 to 2 in between, the fault takes the time for a CPU's number,
//! promotes the page, and looks up a CPU that is not there (`task_numa_fault`), which stops the
//! kernel: a 7.3 kernel stopped within a hundred switches that were 30 ms apart.
//!
//! While the rate limit is 0, no page is promoted, and a fault of a page that stays slow ends
//! before the lookup (`cpupid_valid`). So the limit is 0 when the mode is set: the same kernel then
//! survived five hundred switches. Where much of a node is free, the kernel promotes whatever the
//! limit (`pgdat_free_space_enough`): there the mode must not be switched often.

use std::time::Duration;

use super::knob::Knob;
use crate::roots::Roots;

/// `NUMA_BALANCING_MEMORY_TIERING` (`include/linux/sched/sysctl.h`).
pub(crate) const MEMORY_TIERING: u64 = 2;

/// The rate limit without any promotion.
pub(super) const NONE: &str = "0";

/// A fault reads the mode under a spin lock, for microseconds: after this time, each fault that
/// began before a change has ended.
pub(super) const FAULT_ENDS: Duration = Duration::from_millis(1);

/// True if this value of `kernel.numa_balancing` switches promotion on.
pub(super) fn switches_on(roots: &Roots, value: &str) -> bool {
    let promotes =
        |mode: &str| mode.trim().parse::<u64>().is_ok_and(|mode| mode & MEMORY_TIERING != 0);
    promotes(value) && Knob::NumaBalancing.read(roots).is_ok_and(|now| !promotes(&now))
}
