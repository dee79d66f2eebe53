//! Tenants: which processes they are, and what is read of them.
//!
//! - [`TenantSelector`]: how the operator says which processes a tenant is.
//! - [`TenantTracker`]: who belongs to whom, as processes come and go.
//! - [`Readings`]: resident pages by tier, CPU time and CPUs, for the engine.
//! - [`numa_maps`]: pages by node of a process without a control group of its own, and what that
//!   costs.

pub mod numa_maps;
pub(crate) mod qemu;
mod reading;
mod selector;
mod tracker;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use qemu::guest_name;
pub use reading::Readings;
pub use selector::{Qemu, TenantSelector};
pub use tracker::{Changes, Conflict, TenantState, TenantTracker};
