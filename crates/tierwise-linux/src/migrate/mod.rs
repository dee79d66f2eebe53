//! Migration of pages on a live host.
//!
//! - [`mover`]: move_pages(2) in batches; it verifies every page's placement afterwards.
//! - [`calls`]: the system calls of the mover, as a trait, so that tests supply a kernel of their
//!   own.
//! - [`limits`]: the bytes, CPU time and call length that a mover may use, and its wait after a
//!   full node.
//! - [`page_cache`]: migration by the kernel of file pages that no process maps.
//! - [`unmanaged`]: demotion of idle memory of no tenant.

pub mod calls;
pub mod limits;
pub mod mover;
pub mod page_cache;
#[cfg(test)]
mod tests;
pub mod unmanaged;

pub use calls::{Calls, HostKernel};
pub use limits::Limits;
pub use mover::{MoveRequest, Moved, Mover, MoverCounters};
