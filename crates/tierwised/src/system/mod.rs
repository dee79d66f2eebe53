//! The daemon's own use of the system.
//!
//! - [`answering`]: the CPU time of answering whoever asks.
//! - [`descriptors`]: the limit of open files.
//! - [`log`]: lines for a terminal or the journal.
//! - [`memory`]: its own memory, in the slowest tier.
//! - [`optional`]: features that may fail to start and are tried again.
//! - [`privilege`]: the capabilities that it keeps.
//! - [`signal`]: the signals that end it or make it read its configuration again.

#[cfg(feature = "server")]
pub mod answering;
#[cfg(feature = "server")]
pub mod descriptors;
#[cfg(feature = "server")]
pub mod log;
#[cfg(feature = "server")]
pub mod memory;
#[cfg(feature = "server")]
pub mod optional;
pub mod privilege;
#[cfg(feature = "server")]
pub mod signal;

use std::fs;

/// Resident bytes of this process; 0 if the kernel does not report them.
pub fn resident_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}
