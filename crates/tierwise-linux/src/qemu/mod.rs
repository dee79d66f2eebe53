//! Virtual machines as tenants: what QEMU says of itself through QMP, and the exchange of pages
//! between two of them.

pub mod exchange;
mod guest;
pub(crate) mod process;
mod qmp;

pub use guest::{Guest, MemoryDevice, Vcpu};
pub use qmp::{Dialogue, MAX_LEN, QmpError, Step};
