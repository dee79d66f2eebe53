//! Moving pages on a live host.
//!
//! - [`mover`]: move_pages(2) in batches, with every page's placement verified afterwards.
//! - [`calls`]: the system calls that it needs, as a trait, so that tests drive it with a kernel of
//!   their own.
//! - [`pace`]: how large a batch may be so that one call does not hold the process's mappings for
//!   long.
//! - [`allowance`]: how much may be moved and how much CPU time spent; [`backoff`]: when a
//!   full node is asked again.
//! - [`page_cache`]: what no process maps, demoted by the kernel; [`cache_promoter`]: promoted by
//!   it.
//! - Kernel-side ways: [`mglru`] (eviction by generation), [`damos`] (DAMON moves by itself).

pub mod allowance;
pub mod backoff;
mod batch;
pub mod cache_promoter;
pub mod calls;
pub mod damos;
pub mod mglru;
pub mod mover;
pub mod pace;
pub mod page_cache;
#[cfg(test)]
mod tests;
mod verdict;

pub use calls::{Calls, Kernel};
pub use mover::{Limits, Moved, Mover, Request, Tally};
