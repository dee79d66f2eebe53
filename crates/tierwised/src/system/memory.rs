//! Placement of the daemon's own memory, so that it costs tenants no fast memory.

use caps::{CapSet, Capability};
use tierwise_linux::process::syscall::live_on;
use tierwise_linux::roots::Roots;
use tierwise_linux::topology::LinuxHost;

use crate::config::Config;

/// Places the memory of this process, and of the threads that it starts afterwards, in the slowest
/// tier. On a machine that has one tier or refuses, the memory stays where it is.
pub fn leave_fast_tier(config: &Config, roots: &Roots) {
    // A tree of files has no nodes of its own.
    if *roots != Roots::default() {
        return;
    }
    let Ok(host) = LinuxHost::discover(roots, config.tier_override().as_ref()) else { return };
    let [faster @ .., slowest] = &host.tiers[..] else { return };
    let Some(&node) = slowest.nodes.first().filter(|_| !faster.is_empty()) else { return };
    let others: Vec<u32> = faster.iter().flat_map(|tier| &tier.nodes).copied().collect();
    if let Err(e) = without_shared_memory(|| live_on(node, &others)) {
        tracing::debug!("the daemon's own memory stays in fast memory: {e}");
    }
}

/// With `CAP_SYS_NICE` migrate_pages(2) moves what this process shares, too (`do_migrate_pages`):
/// the C library, whose pages all programs execute. Most of its time went there.
fn without_shared_memory<T>(move_pages: impl FnOnce() -> T) -> T {
    let nice = Capability::CAP_SYS_NICE;
    let had = caps::has_cap(None, CapSet::Effective, nice).unwrap_or(false);
    if had && let Err(e) = caps::drop(None, CapSet::Effective, nice) {
        tracing::debug!("the daemon moves shared pages: {e}");
    }
    let moved = move_pages();
    if had && let Err(e) = caps::raise(None, CapSet::Effective, nice) {
        tracing::warn!("runs without {nice} and cannot move shared pages: {e}");
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_is_left_and_capability_returns() {
        let nice = || caps::has_cap(None, CapSet::Effective, Capability::CAP_SYS_NICE).unwrap();
        let before = nice();
        assert!(!without_shared_memory(nice));
        assert_eq!(nice(), before);
    }
}
