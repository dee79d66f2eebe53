//! Demotion of idle unmanaged memory for tenants: once a second the daemon compares the free memory
//! of the fastest tier with the tenants' memory in slower tiers, and makes the kernel demote the
//! difference, as far as that memory is idle and belongs to no tenant.

use std::time::{Duration, Instant};

use tierwise_core::topology::Topology;
use tierwise_core::units::{Bytes, Pages, TenantId, TierId};
use tierwise_linux::error::Result;
use tierwise_linux::migrate::page_cache::mglru;
use tierwise_linux::migrate::unmanaged::{TenantCgroups, make_room};
use tierwise_linux::roots::Roots;
use tierwise_linux::tenant::TenantTracker;

use super::Daemon;

/// Interval between two demotions.
const INTERVAL: Duration = Duration::from_secs(1);

/// Maximum demoted per round: the call returns when it is done, and a round must be short.
const MAX: Bytes = Bytes(32 << 20);

/// Divisor of the fastest tier's size for the memory kept free ahead of need, so that a new or
/// growing tenant finds free memory at once: the most that a round frees on a tier of a gigabyte.
const AHEAD: u64 = 32;

/// The state of the feature.
#[derive(Debug)]
pub(super) struct Unmanaged {
    asked_at: Instant,
    /// True if the kernel cannot demote and the log has the reason.
    pub(super) refused: bool,
    demoted: Bytes,
}

impl Unmanaged {
    pub(super) fn new() -> Self {
        Self { asked_at: Instant::now(), refused: false, demoted: Bytes(0) }
    }

    /// Returns the amount that the daemon requested so far.
    pub(super) fn demoted(&self) -> Bytes {
        self.demoted
    }
}

impl Daemon {
    /// Makes the kernel demote idle unmanaged memory, once per second. Reports a refusal once, and
    /// then stops until the configuration changes.
    pub(super) fn make_room(&mut self) {
        if self.unmanaged.asked_at.elapsed() < INTERVAL {
            return;
        }
        self.unmanaged.asked_at = Instant::now();
        let idle = Duration::from_secs(self.options.config.moving.unmanaged_idle_s);
        let world = &self.world;
        let halted = world.cpu_budget().suspended() || world.unreadable().is_some();
        if idle.is_zero() || self.unmanaged.refused || halted || !self.activity.manages() {
            return;
        }
        // Without the kernel's demotion the key has no effect: the operator did not ask for a
        // demotion.
        if mglru::probe_demotion(&self.options.roots).is_err() {
            return;
        }
        let wanted = self.wanted_room().in_bytes(world.host().page_size).min(MAX);
        if wanted < world.host().page_size {
            return;
        }
        match demote(&self.options.roots, world.tracker(), self.fast_nodes(), idle, wanted) {
            Ok(demoted) => self.count_room(demoted),
            Err(e) => {
                self.unmanaged.refused = true;
                let at = self.uptime();
                self.history.notice(at, format!("unmanaged memory is left where it is: {e}"));
            }
        }
    }

    fn count_room(&mut self, demoted: Bytes) {
        if self.unmanaged.demoted == Bytes(0) && demoted > Bytes(0) {
            let at = self.uptime();
            let line =
                "idle unmanaged memory makes room for tenants: the kernel demotes it".to_owned();
            self.history.notice(at, line);
        }
        self.unmanaged.demoted = Bytes(self.unmanaged.demoted.0.saturating_add(demoted.0));
    }

    fn wanted_room(&self) -> Pages {
        let slow = (0..self.world.tracker().len())
            .flat_map(|i| self.world.usage(TenantId(i as u16)).iter().skip(1).copied())
            .sum();
        let free = self.world.free().first().copied().unwrap_or_default();
        wanted(slow, free, &self.world.host().topology())
    }

    fn fast_nodes(&self) -> &[u32] {
        self.world.host().tiers.first().map_or(&[][..], |tier| &tier.nodes)
    }
}

/// Returns the base pages that the fastest tier lacks: as many as the tenants have in slower tiers,
/// up to the reserve, less the memory that is free above the kernel's high watermark.
fn wanted(slow: Pages, free: Pages, topology: &Topology) -> Pages {
    let Some(fast) = topology.tiers.get(TierId::FASTEST.index()) else { return Pages(0) };
    let reserve = Pages(fast.capacity.0 / AHEAD);
    (fast.watermarks.high + slow.min(reserve)).saturating_sub(free)
}

/// The control groups that hold the tenants' memory.
///
/// # Errors
/// The group of a process cannot be read.
pub(super) fn managed(roots: &Roots, tracker: &TenantTracker) -> Result<TenantCgroups> {
    let mut managed = TenantCgroups::default();
    for tenant in (0..tracker.len()).map(|i| TenantId(i as u16)) {
        for group in tracker.groups(tenant) {
            managed.add_group(roots, &group.path);
        }
        if tracker.groups(tenant).is_empty() {
            for process in tracker.members(tenant) {
                managed.add_process(roots, &process)?;
            }
        }
    }
    Ok(managed)
}

fn demote(
    roots: &Roots,
    tracker: &TenantTracker,
    nodes: &[u32],
    idle: Duration,
    wanted: Bytes,
) -> Result<Bytes> {
    let managed = managed(roots, tracker)?;
    let mut left = wanted.0;
    for &node in nodes {
        left -= make_room(roots, &managed, node, idle, Bytes(left))?.0;
    }
    Ok(Bytes(wanted.0 - left))
}

#[cfg(test)]
mod tests {
    use std::time::Duration as Time;

    use tierwise_core::topology::{Tier, Watermarks};
    use tierwise_core::units::Bandwidth;

    use super::*;

    fn topology() -> Topology {
        let mark = |pages| Pages(pages);
        let watermarks =
            Watermarks { min: mark(10), low: mark(20), high: mark(30), promo: mark(40) };
        let tier = |ns| Tier {
            name: format!("{ns}"),
            capacity: Pages(3200),
            watermarks,
            load_latency: Time::from_nanos(ns),
            store_latency: Time::from_nanos(ns),
            bandwidth: Bandwidth(1),
        };
        Topology { page_size: Bytes(4096), tiers: vec![tier(90), tier(220)] }
    }

    #[test]
    fn room_is_wanted_for_slow_memory_only() {
        let wanted = |slow, free| wanted(Pages(slow), Pages(free), &topology()).0;
        assert_eq!(wanted(0, 30), 0, "no tenant lacks anything");
        assert_eq!(wanted(7, 30), 7);
        assert_eq!(wanted(5000, 30), 100, "a thirty-second part of the tier at a time");
        assert_eq!(wanted(5000, 130), 0, "enough is free");
    }
}
