//! Tenants: their processes, and the readings of them.
//!
//! - [`TenantSelector`]: selects a tenant's processes.
//! - [`TenantTracker`]: follows each tenant's processes as they come and go.
//! - [`Readings`]: reads resident pages by tier, CPU time and CPUs for the engine.
//! - [`numa_maps`]: reads the pages by node of a process without a control group of its own, and
//!   documents the cost.

pub mod numa_maps;
pub(crate) mod qemu;
mod reading;
mod selector;
mod tracker;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use qemu::guest_name;
pub use reading::Readings;
pub use selector::{Qemu, TenantSelector};
pub use tracker::{Conflict, TenantChanges, TenantState, TenantTracker};
