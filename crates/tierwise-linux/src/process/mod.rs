//! A process: its identity, its mappings, and the presence and location of its pages.
//!
//! - [`identity`]: distinguishes a process from a later one with the same pid.
//! - [`maps`]: reads its mappings, and selects those worth tiering.
//! - [`program`]: recognises a program that was started again.
//! - [`resident`]: finds present pages, with `PAGEMAP_SCAN` or `/proc/PID/pagemap`.
//! - [`task`]: finds the thread through which its memory is reached.
//! - [`syscall`]: wraps the system calls of this crate that no library wraps.
//!
//! Callers pass the buffers, so that reading the same processes again allocates nothing.

#[cfg(test)]
pub(crate) mod headless;
pub mod identity;
pub mod maps;
pub mod mounts;
pub mod program;
pub mod reader;
pub mod resident;
pub mod stat;
pub mod syscall;
pub mod task;

pub use identity::Process;
pub use maps::{Mapping, MappingKind, Maps};
pub use mounts::Mounts;
pub use program::Program;
pub use reader::Reader;
pub use resident::{AddressRange, PageState, Pagemap};
pub use stat::ProcessStat;
pub use task::Task;
