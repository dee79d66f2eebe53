//! The header of a live recording.

use std::time::Duration;

use tierwise_linux::file;
use tierwise_linux::roots::Roots;
use tierwise_sim::machine::Machine;
use tierwise_trace::{CacheModel, Header};

use super::project::PAGE_SIZE;

/// Returns the instructions of a window of this duration. DAMON counts none: these are as many as a
/// simulated machine's CPU executes in that time, so that a replay lasts about as long as the
/// recording.
pub fn instructions(window: Duration) -> u64 {
    (window.as_nanos() as f64 / Machine::DEFAULT_INSTRUCTION_NS) as u64
}

/// The header of a trace.
pub fn header(
    roots: &Roots,
    command: Vec<String>,
    interval: Duration,
    sampling: Duration,
) -> Header {
    let release = file::text(&roots.proc.join("sys/kernel/osrelease")).unwrap_or_default();
    Header {
        command,
        host: format!(
            "Linux {}; recorded live by DAMON, checks every {}, summed up every {}: an access is \
             one check that found the page's region accessed, counts as a load and as a miss, and \
             the instructions stand for the time; tierwise {}",
            release.trim(),
            humantime::format_duration(sampling),
            humantime::format_duration(interval),
            env!("CARGO_PKG_VERSION")
        ),
        page_size: PAGE_SIZE as u32,
        window_instructions: instructions(interval),
        // No cache is modelled: DAMON reads page table bits.
        cache: CacheModel { size_bytes: 0, ways: 0, line_bytes: 64 },
    }
}
