//! Control groups, version 2 (`Documentation/admin-guide/cgroup-v2.rst`).
//!
//! - [`check`]: is it cgroup v2, with the memory controller?
//! - [`Pattern`]: a path, a glob or a unit's name, and the groups that fit it now.
//! - [`Group`]: processes, memory by node, counters, pressure, CPUs, reclaim.
//! - [`numa_stat`], [`stat`], [`pressure`], [`cpu`]: the files' formats.

pub mod cpu;
pub(crate) mod group;
mod mounts;
pub mod numa_stat;
mod pattern;
pub mod pressure;
pub mod stat;

pub use group::{Buffers, Group, MAX_BELOW};
pub use mounts::check;
pub use pattern::Pattern;
pub use pressure::{Pressure, Stall};
pub use stat::{Events, MemoryStat};
