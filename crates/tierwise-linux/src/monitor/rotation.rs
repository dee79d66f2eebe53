//! Rotation: selects the processes to monitor if there are more than can be monitored at once.
//!
//! In every turn each tenant earns an equal part of the places, and divides it among its processes:
//! a sixteenth evenly, the rest by their resident memory. A process earns at most one place. The
//! processes that have earned the most are monitored, and each pays one place. A tenant therefore
//! cannot crowd out the others, however many processes it has and however much memory they map, and
//! its smallest process gets a turn, too.
//!
//! ```
//! use tierwise_core::units::{Bytes, TenantId};
//! use tierwise_linux::monitor::MonitorTarget;
//! use tierwise_linux::monitor::rotation::RoundRobin;
//! use tierwise_linux::process::Process;
//!
//! let process = |pid| Process { pid, start_time: 1 };
//! let watched = |pid, gib: u64| MonitorTarget {
//!     process: process(pid),
//!     tenant: TenantId(0),
//!     resident: Bytes(gib << 30),
//! };
//! let mut rotation = RoundRobin::default();
//! rotation.set(&[watched(1, 6), watched(2, 1), watched(3, 1)]);
//! let mut selected = Vec::new();
//! let mut is_monitoring = [0; 4];
//! for _ in 0..8 {
//!     selected.clear();
//!     rotation.next(2, |_| true, &mut selected);
//!     selected.iter().for_each(|p| is_monitoring[p.pid as usize] += 1);
//! }
//! assert_eq!(is_monitoring, [0, 8, 4, 4]);
//! ```

use super::MonitorTarget;
use crate::process::Process;

/// Part of a tenant's earnings that is divided evenly: a process with almost no memory is monitored
/// in one of sixteen turns of its tenant's places.
const EVEN: f64 = 1.0 / 16.0;

#[derive(Debug, Clone, Copy)]
struct Entry {
    watched: MonitorTarget,
    earned: f64,
}

/// The processes and their earnings.
#[derive(Debug, Clone, Default)]
pub struct RoundRobin {
    /// Ascending by process.
    entries: Vec<Entry>,
    /// Memory for the next list.
    spare: Vec<Entry>,
    /// Indexes of the entries, by falling earnings.
    order: Vec<usize>,
    /// By tenant: number of processes, and their resident memory in all.
    tenants: Vec<(usize, f64)>,
}

impl RoundRobin {
    /// Replaces the processes. Those that stay keep their earnings.
    pub fn set(&mut self, processes: &[MonitorTarget]) {
        let mut entries = std::mem::take(&mut self.spare);
        entries.clear();
        entries.extend(processes.iter().map(|&watched| Entry { watched, earned: 0.0 }));
        entries.sort_unstable_by_key(|entry| entry.watched.process);
        let mut known = self.entries.iter().peekable();
        for entry in &mut entries {
            let process = entry.watched.process;
            while known.next_if(|old| old.watched.process < process).is_some() {}
            if let Some(old) = known.next_if(|old| old.watched.process == process) {
                entry.earned = old.earned;
            }
        }
        self.spare = std::mem::replace(&mut self.entries, entries);
        self.tenants.clear();
        for MonitorTarget { tenant, resident, .. } in processes {
            if self.tenants.len() <= tenant.index() {
                self.tenants.resize(tenant.index() + 1, (0, 0.0));
            }
            let (count, bytes) = &mut self.tenants[tenant.index()];
            *count += 1;
            *bytes += resident.0 as f64;
        }
    }

    /// Number of processes.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are no processes.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// True if it is one of the processes.
    pub fn holds(&self, process: &Process) -> bool {
        self.entries.binary_search_by_key(process, |entry| entry.watched.process).is_ok()
    }

    /// Starts a turn: adds one process per place to `selected`, of those that are `free`.
    pub fn next(
        &mut self,
        places: usize,
        free: impl Fn(&Process) -> bool,
        selected: &mut Vec<Process>,
    ) {
        let tenants = self.tenants.iter().filter(|(count, _)| *count > 0).count();
        let part = places as f64 / tenants.max(1) as f64;
        for entry in &mut self.entries {
            let (count, bytes) = self.tenants[entry.watched.tenant.index()];
            let by_size = entry.watched.resident.0 as f64 / bytes.max(1.0);
            let earns = part * (EVEN / count as f64 + (1.0 - EVEN) * by_size);
            entry.earned += earns.min(1.0);
        }
        self.order.clear();
        let entries = &mut self.entries;
        let indexes = (0..entries.len()).filter(|&at| free(&entries[at].watched.process));
        self.order.extend(indexes);
        // Equal earnings go by process, so that the order of the caller's list has no effect.
        let by_earnings = |&a: &usize, &b: &usize| {
            entries[b].earned.total_cmp(&entries[a].earned).then(a.cmp(&b))
        };
        if places < self.order.len() {
            self.order.select_nth_unstable_by(places, by_earnings);
            self.order.truncate(places);
        }
        self.order.sort_unstable_by(by_earnings);
        for &at in &self.order {
            entries[at].earned -= 1.0;
            selected.push(entries[at].watched.process);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use tierwise_core::units::{Bytes, TenantId};

    fn target(pid: i32, tenant: u16, bytes: u64) -> MonitorTarget {
        let process = Process { pid, start_time: 1 };
        MonitorTarget { process, tenant: TenantId(tenant), resident: Bytes(bytes) }
    }

    /// Number of turns of each process.
    fn times_selected(
        targets: &[MonitorTarget],
        places: usize,
        rounds: usize,
    ) -> HashMap<i32, usize> {
        let mut rotation = RoundRobin::default();
        let (mut selected, mut steps) = (Vec::new(), HashMap::new());
        for _ in 0..rounds {
            rotation.set(targets);
            selected.clear();
            rotation.next(places, |_| true, &mut selected);
            assert_eq!(selected.len(), places.min(targets.len()));
            selected.iter().for_each(|p| *steps.entry(p.pid).or_insert(0) += 1);
        }
        steps
    }

    proptest! {
        /// Every process gets a turn, however small, and no place stays empty.
        #[test]
        fn every_process_is_selected_in_time(
            sizes in proptest::collection::vec((0u16..3, 0u64..1 << 40), 1..60),
            places in 1usize..20,
        ) {
            let targets: Vec<MonitorTarget> =
                (1..).zip(&sizes).map(|(pid, &(tenant, size))| target(pid, tenant, size)).collect();
            // The smallest of sixty processes of one of three tenants earns, per turn, a sixteenth
            // of a sixtieth of a third of the places.
            let rounds = 16 * 3 * (sizes.len().div_ceil(places) + 16);
            prop_assert_eq!(times_selected(&targets, places, rounds).len(), sizes.len());
        }

        /// A tenant gets its part of the turns, however much another one starts and maps.
        #[test]
        fn tenants_share_places_evenly(others in 1i32..500, size in 0u64..1 << 40) {
            let hostile = (2..others + 2).map(|pid| target(pid, 1, size));
            let targets: Vec<MonitorTarget> =
                std::iter::once(target(1, 0, 1 << 20)).chain(hostile).collect();
            let own = times_selected(&targets, 4, 200)[&1];
            prop_assert!(own >= 190, "{own} of 200 turns");
        }
    }
}
