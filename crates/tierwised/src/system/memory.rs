//! Placement of the daemon's own memory, so that it costs tenants no fast memory.

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
    if let Err(e) = live_on(node, &others) {
        tracing::debug!("the daemon's own memory stays in fast memory: {e}");
    }
}
