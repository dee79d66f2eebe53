//! Virtual machines as tenants: QEMU's description of a guest, read through QMP.

mod guest;
pub(crate) mod process;
mod qmp;

pub use guest::{Guest, MemoryDevice, Vcpu};
pub use qmp::{Dialogue, MAX_LEN, QmpError, Step};
