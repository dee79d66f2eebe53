//! Control groups, version 2 (`Documentation/admin-guide/cgroup-v2.rst`).
//!
//! - [`check`]: requires cgroup v2 with the memory controller.
//! - [`GroupPattern`]: a path, a glob or a unit's name, and the groups that match it now.
//! - [`Cgroup`]: processes, memory by node, counters, pressure, CPUs, reclaim.
//! - [`numa_stat`], [`stat`], [`pressure`], [`cpu`]: the files' formats.

pub mod cpu;
pub(crate) mod group;
mod mounts;
pub mod numa_stat;
mod pattern;
pub mod pressure;
pub mod stat;

pub use group::{Buffers, Cgroup, MAX_BELOW};
pub use mounts::check;
pub use pattern::GroupPattern;
pub use pressure::{MemoryPressure, Stall};
pub use stat::{MemoryEvents, MemoryStat};
