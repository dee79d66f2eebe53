//! Who is looked at next when there are more processes than can be looked at.
//!
//! In every turn a process earns its part of the resident memory of all, times the places there are, but at least
//! a sixteenth and at most one. Those that have earned the most are looked at, and pay one. So a process with half of the
//! memory is always looked at, and the smallest has its turn within about sixteen turns, or as soon
//! as the places can be shared out.
//!
//! ```
//! use tierwise_core::units::Bytes;
//! use tierwise_linux::look::Watched;
//! use tierwise_linux::look::turns::Turns;
//! use tierwise_linux::process::Process;
//!
//! let process = |pid| Process { pid, start_time: 1 };
//! let watched = |pid, gib: u64| Watched { process: process(pid), resident: Bytes(gib << 30) };
//! let mut turns = Turns::default();
//! turns.set(&[watched(1, 6), watched(2, 1), watched(3, 1)]);
//! let mut chosen = Vec::new();
//! let mut looks = [0; 4];
//! for _ in 0..8 {
//!     turns.next(2, &mut chosen);
//!     chosen.iter().for_each(|p| looks[p.pid as usize] += 1);
//! }
//! assert_eq!(looks, [0, 8, 4, 4]);
//! ```

use super::Watched;
use crate::process::Process;

/// What the smallest process earns in a turn: it is looked at once in sixteen turns, which at the usual few seconds a turn
/// is within a minute, if there is a place at all.
const LEAST: f64 = 1.0 / 16.0;

#[derive(Debug, Clone, Copy)]
struct Entry {
    watched: Watched,
    earned: f64,
}

/// The processes and what they have earned.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    entries: Vec<Entry>,
}

impl Turns {
    /// Replaces the processes; those that stay keep what they have earned.
    pub fn set(&mut self, processes: &[Watched]) {
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
            entry.earned += part.clamp(LEAST, 1.0);
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
            let watched: Vec<Watched> = (1..)
                .zip(&sizes)
                .map(|(pid, &s)| Watched { process: Process { pid, start_time: 1 }, resident: Bytes(s) })
                .collect();
            let mut turns = Turns::default();
            turns.set(&watched);
            let (mut chosen, mut looks) = (Vec::new(), HashMap::new());
            // What everybody earns is at most LEAST a process more than the places: with sixty, under five places.
            let rounds = 16 * (sizes.len().div_ceil(places) + 16);
            for _ in 0..rounds {
                turns.next(places, &mut chosen);
                prop_assert_eq!(chosen.len(), places.min(sizes.len()));
                chosen.iter().for_each(|p| *looks.entry(p.pid).or_insert(0) += 1);
            }
            prop_assert_eq!(looks.len(), sizes.len());
        }
    }
}
