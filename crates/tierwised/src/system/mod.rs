//! What the daemon asks of the system for itself.
//!
//! - [`descriptors`]: how many files it may have open.
//! - [`log`]: lines for people or for the journal.
//! - [`optional`]: features that it can do without, tried again.
//! - [`privilege`]: the capabilities that it keeps.
//! - [`signal`]: what ends it and what makes it read its configuration again.

pub mod descriptors;
pub mod log;
pub mod optional;
pub mod privilege;
pub mod signal;

use std::fs;

/// Bytes of this process that are resident; 0 where the kernel does not tell.
pub fn resident_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}
