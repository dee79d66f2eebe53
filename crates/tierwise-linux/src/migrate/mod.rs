//! Moving pages on a live host.
//!
//! - [`mover`]: move_pages(2) in batches, with every page's placement verified afterwards.
//! - [`calls`]: the system calls that it needs, as a trait, so that tests drive it with a kernel of
//!   their own.
//! - [`limits`]: bytes, CPU time and the length of a call that a mover may take, and its wait after
//!   a full node.
//! - [`page_cache`]: pages of files that no process maps, moved by the kernel.
//! - [`unmanaged`]: room that idle memory of no tenant makes.

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
