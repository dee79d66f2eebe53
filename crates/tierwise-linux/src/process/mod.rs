//! A process as the kernel shows it: who it is, what it has mapped, which of its pages are there
//! and where they lie.
//!
//! - [`identity`]: a process number that was given out again is another process.
//! - [`maps`]: its mappings, and which of them are worth tiering.
//! - [`resident`]: the pages that are present, from `PAGEMAP_SCAN` or `/proc/PID/pagemap`.
//! - [`task`]: the thread through which its memory is reached.
//! - [`syscall`]: the only system calls of this crate that no library wraps.
//!
//! Everything is read into buffers of the caller's, so that looking at the same processes again
//! allocates nothing.

#[cfg(test)]
pub(crate) mod headless;
pub mod identity;
pub mod maps;
pub mod mounts;
pub mod reader;
pub mod resident;
pub mod stat;
pub mod syscall;
pub mod task;

pub use identity::Process;
pub use maps::{Mapping, MappingKind, Maps};
pub use mounts::Mounts;
pub use reader::Reader;
pub use resident::{AddressRange, PageState, Pagemap};
pub use stat::Stat;
pub use task::Task;
