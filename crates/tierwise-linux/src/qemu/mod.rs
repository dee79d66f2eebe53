//! Virtual machines as tenants: QEMU's description of a guest, read through QMP.

pub(crate) mod process;
mod qmp;

pub use qmp::{Dialogue, Guest, MAX_LEN, MemoryDevice, QmpError, QmpStep, Vcpu};
