//! Who is looked at next when there are more processes than can be looked at.
//!
//! In every turn a process earns its part of the resident memory of all, times the places there
//! are, but at least a sixteenth and at most one. Those that have earned the most are looked at,
//! and pay one. So a process with half of the memory is always looked at, and the smallest has its
//! turn within about sixteen turns, or as soon as the places can be shared out.
//!
//! ```
//! use tierwise_core::units::Bytes;
//! use tierwise_linux::monitor::MonitorTarget;
//! use tierwise_linux::monitor::rotation::RoundRobin;
//! use tierwise_linux::process::Process;
//!
//! let process = |pid| Process { pid, start_time: 1 };
//! let watched = |pid, gib: u64| MonitorTarget { process: process(pid), resident: Bytes(gib << 30) };
//! let mut rotation = RoundRobin::default();
//! rotation.set(&[watched(1, 6), watched(2, 1), watched(3, 1)]);
//! let mut chosen = Vec::new();
//! let mut is_monitoring = [0; 4];
//! for _ in 0..8 {
//!     rotation.next(2, &mut chosen);
//!     chosen.iter().for_each(|p| is_monitoring[p.pid as usize] += 1);
//! }
//! assert_eq!(is_monitoring, [0, 8, 4, 4]);
//! ```

use super::MonitorTarget;
use crate::process::Process;

/// What the smallest process earns in a turn: it is looked at once in sixteen turns, which at the
/// usual few seconds a turn is within a minute, if there is a place at all.
const MIN: f64 = 1.0 / 16.0;

#[derive(Debug, Clone, Copy)]
struct Entry {
    watched: MonitorTarget,
    earned: f64,
}

/// The processes and what they have earned.
#[derive(Debug, Clone, Default)]
pub struct RoundRobin {
    entries: Vec<Entry>,
}

impl RoundRobin {
    /// Replaces the processes; those that stay keep what they have earned.
    pub fn set(&mut self, processes: &[MonitorTarget]) {
        self.entries.retain(|e| processes.iter().any(|w| w.process == e.watched.process));
        for &watched in processes {
            match self.entries.iter_mut().find(|e| e.watched.process == watched.process) {
                Some(entry) => entry.watched = watched,
                None => self.entries.push(Entry { watched, earned: 0.0 }),
            }
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Begins a turn: chooses as many as there are places.
    pub fn next(&mut self, places: usize, chosen: &mut Vec<Process>) {
        chosen.clear();
        let total: f64 = self.entries.iter().map(|e| e.watched.resident.0 as f64).sum();
        for entry in &mut self.entries {
            let part = entry.watched.resident.0 as f64 / total.max(1.0) * places as f64;
            entry.earned += part.clamp(MIN, 1.0);
        }
        // Equal earnings go by process, so that the order of the caller's list does not matter.
        self.entries.sort_unstable_by(|a, b| {
            b.earned.total_cmp(&a.earned).then(a.watched.process.cmp(&b.watched.process))
        });
        for entry in self.entries.iter_mut().take(places) {
            entry.earned -= 1.0;
            chosen.push(entry.watched.process);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use tierwise_core::units::Bytes;

    proptest! {
        /// Everybody has a turn, however small, and places are never left empty.
        #[test]
        fn nobody_is_forgotten(
            sizes in proptest::collection::vec(0u64..1 << 40, 1..60),
            places in 1usize..20,
        ) {
            let watched: Vec<MonitorTarget> = (1..)
                .zip(&sizes)
                .map(|(pid, &s)| MonitorTarget { process: Process { pid, start_time: 1 }, resident: Bytes(s) })
                .collect();
            let mut rotation = RoundRobin::default();
            rotation.set(&watched);
            let (mut chosen, mut is_monitoring) = (Vec::new(), HashMap::new());
            // What everybody earns is at most LEAST a process more than the places: with sixty,
            // under five places.
            let rounds = 16 * (sizes.len().div_ceil(places) + 16);
            for _ in 0..rounds {
                rotation.next(places, &mut chosen);
                prop_assert_eq!(chosen.len(), places.min(sizes.len()));
                chosen.iter().for_each(|p| *is_monitoring.entry(p.pid).or_insert(0) += 1);
            }
            prop_assert_eq!(is_monitoring.len(), sizes.len());
        }
    }
}
