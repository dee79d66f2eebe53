//! DAMON, the kernel's access monitor, through its sysfs
//! (`Documentation/admin-guide/mm/damon/usage.rst`).
//!
//! A *kdamond* is a kernel thread that samples page table accessed bits of a *target* (a process,
//! `vaddr`, or ranges of physical memory, `paddr`) and counts them by *region*. A *scheme* selects
//! regions by their access pattern and applies an action: `stat` only reports them in
//! `tried_regions`, `migrate_hot` and `migrate_cold` move them.
//!
//! Other programs use kdamonds, too. [`admin`] takes only places that no program uses. [`record`]
//! stores the places taken, so that a start after `kill -9` can turn them off.
//!
//! The kernel guards its whole sysfs with one lock that it only tries, and holds it while it
//! executes a command. Any access can therefore fail with `EBUSY` for as long as an aggregation
//! interval; [`patience`] retries.

pub mod admin;
#[cfg(test)]
pub(crate) mod fake;
pub mod kdamond;
pub mod operations;
pub mod patience;
pub mod physical;
pub mod record;
pub mod regions;
pub mod scheme;
#[cfg(test)]
mod tests;
pub mod trace;

pub use admin::Admin;
pub use kdamond::{DamonTarget, Kdamond, Monitoring, damon_stat};
pub use record::KdamondRecord;
pub use regions::HostRegion;
pub use scheme::{AccessPattern, DamosAction, Filter, Quota, Scheme, SchemeStats};
