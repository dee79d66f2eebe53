//! This Linux host as a world: its memory tiers and tenants, access monitoring and page migration.
//!
//! All paths start at [`roots::Roots`], so that tests run on a tree of their own. The lab covers
//! what only a real kernel can show.

#![cfg_attr(not(test), warn(unreachable_pub))]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod bytes;
pub mod cgroup;
pub mod damon;
pub mod directories;
pub mod error;
pub mod fault;
pub mod file;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod guard;
pub mod kernel_tiering;
pub mod migrate;
pub mod monitor;
pub mod mqueue;
pub mod pace;
pub mod process;
pub mod qemu;
pub mod roots;
pub mod settings;
pub mod state_file;
pub mod tenant;
pub mod topology;
mod worker;
pub mod world;
