//! Room that idle unmanaged memory makes for tenants: the daemon compares the free memory of the
//! fastest tier with the tenants' memory in slower tiers, and asks the kernel to demote what is
//! missing, as far as it is idle and no tenant's. It does so once a second while it finds some.

use std::time::Duration;

use tierwise_core::topology::Topology;
use tierwise_core::units::{Bytes, Pages, TenantId, TierId};
use tierwise_linux::kernel_tiering;
use tierwise_linux::migrate::page_cache::groups::Groups;
use tierwise_linux::migrate::page_cache::mglru;
use tierwise_linux::migrate::unmanaged::{RoomMaker, group_of};
use tierwise_linux::monitor::thread_cpu;
use tierwise_linux::roots::Roots;
use tierwise_linux::tenant::TenantTracker;

use super::Daemon;
use super::pace::{ORDERS, RestPace};
use super::refusal::Refusal;

/// Maximum demoted per round: the call returns when it is done, and a round must not be long.
const MAX: Bytes = Bytes(32 << 20);

/// The part of the fastest tier that is kept free ahead of need, so that a new or growing tenant
/// finds room before it asks: what a round frees at most on a tier of a gigabyte.
const AHEAD: u64 = 32;

/// Readings of the generations within the time for which memory must be idle: it is found late by
/// an eighth of that time at most.
const LOOKS: u32 = 8;

/// The state of the feature.
#[derive(Debug)]
pub(super) struct Unmanaged {
    pace: RestPace,
    pub(super) refusal: Refusal,
    maker: RoomMaker,
    demoted: Bytes,
}

impl Unmanaged {
    pub(super) fn new() -> Self {
        Self {
            pace: RestPace::new(),
            refusal: Refusal::default(),
            maker: RoomMaker::new(ORDERS),
            demoted: Bytes(0),
        }
    }

    /// The amount that the kernel was asked to demote so far.
    pub(super) fn demoted(&self) -> Bytes {
        self.demoted
    }
}

impl Daemon {
    /// Asks the kernel to demote idle unmanaged memory, if it is time. A refusal is reported once,
    /// and the daemon tries again later.
    pub(super) fn make_room(&mut self) {
        if !self.unmanaged.pace.is_due() {
            return;
        }
        self.unmanaged.pace.rest(Duration::ZERO, self.cpu_part());
        let idle = Duration::from_secs(self.options.config.moving.unmanaged_idle_s);
        let world = &self.world;
        let halted = world.cpu_budget().suspended() || world.unreadable().is_some();
        let steers = self.is_steering();
        let acts = steers || self.activity.manages();
        if idle.is_zero() || self.unmanaged.refusal.holds() || halted || !acts {
            return;
        }
        // Without the kernel's demotion the key has no effect: the operator did not ask for one.
        // Steering switches it on when there is something to demote.
        if !steers && mglru::probe_demotion(&self.options.roots).is_err() {
            return;
        }
        let wanted = self.wanted_room().in_bytes(world.host().page_size).min(MAX);
        if wanted < world.host().page_size {
            return;
        }
        let managed = managed(&self.options.roots, world.tracker());
        let nodes = world.host().tiers.first().map_or(&[][..], |tier| &tier.nodes);
        let (roots, maker) = (&self.options.roots, &mut self.unmanaged.maker);
        let before = thread_cpu();
        let settings = &mut self.settings;
        let mut demotion = || if steers { kernel_tiering::demote(settings) } else { Ok(()) };
        let asked = maker.make_room(roots, &managed, nodes, idle, wanted, &mut demotion);
        let (took, read) = (thread_cpu().saturating_sub(before), maker.reading_time());
        self.world.moving(took.saturating_sub(read));
        self.unmanaged.pace.rest(read, self.cpu_part());
        match asked {
            Ok(demoted) => {
                self.unmanaged.refusal.end();
                if demoted == Bytes(0) {
                    self.unmanaged.pace.wait(idle / LOOKS);
                }
                self.count_room(demoted);
            }
            Err(e) => {
                if self.unmanaged.refusal.is_news() {
                    let at = self.uptime();
                    self.history.notice(at, format!("unmanaged memory is left where it is: {e}"));
                }
            }
        }
    }

    /// The part of a CPU that work may take which other users can make longer.
    pub(super) fn cpu_part(&self) -> f64 {
        self.options.config.cpu.budget_percent / 100.0
    }

    pub(super) fn count_room(&mut self, demoted: Bytes) {
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
}

/// Base pages that are missing in the fastest tier: as many as the tenants have in slower tiers, up
/// to the reserve, beyond what is free above the kernel's high watermark.
fn wanted(slow: Pages, free: Pages, topology: &Topology) -> Pages {
    let Some(fast) = topology.tiers.get(TierId::FASTEST.index()) else { return Pages(0) };
    let reserve = Pages(fast.capacity.0 / AHEAD);
    (fast.watermarks.high + slow.min(reserve)).saturating_sub(free)
}

/// The control groups of the tenants. A process whose group cannot be read affects itself alone.
pub(super) fn managed(roots: &Roots, tracker: &TenantTracker) -> Groups {
    let mut managed = Groups::default();
    for tenant in (0..tracker.len()).map(|i| TenantId(i as u16)) {
        for group in tracker.groups(tenant) {
            managed.add_tree_of(roots, &group.path, tenant);
        }
        if tracker.groups(tenant).is_empty() {
            for process in tracker.members(tenant) {
                match group_of(roots, &process) {
                    Ok(group) => group.iter().for_each(|name| managed.add_single(name)),
                    Err(e) => tracing::debug!("idle memory of process {}: {e}", process.pid),
                }
            }
        }
    }
    managed
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

    #[test]
    fn unreadable_process_hides_no_other_group() {
        let machine = tempfile::tempdir().unwrap();
        let roots = Roots::under(machine.path());
        for pid in [7, 8] {
            let process = roots.proc.join(pid.to_string());
            std::fs::create_dir_all(&process).unwrap();
            let stat = format!("{pid} (a) S 1 1 1 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 99 0 0 0");
            std::fs::write(process.join("stat"), stat).unwrap();
        }
        // A directory cannot be read as a file.
        std::fs::create_dir(roots.proc.join("7/cgroup")).unwrap();
        std::fs::write(roots.proc.join("8/cgroup"), "0::/user.slice\n").unwrap();
        let tenants =
            vec![("a".into(), "pids:7".parse().unwrap()), ("b".into(), "pids:8".parse().unwrap())];
        let mut tracker = TenantTracker::new(tenants);
        tracker.refresh(&roots).unwrap();
        assert_eq!(tracker.members(TenantId(0)).count(), 1);
        assert!(managed(&roots, &tracker).holds(b"/user.slice"));
    }
}
