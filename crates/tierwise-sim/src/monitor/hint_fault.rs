//! Hint faults: the kernel poisons a page (`PROT_NONE`), and its next access traps.
//!
//! The time of that access follows from the workload's windows. Faults wait in the order of the
//! share of the window at which they will happen; a page that is not accessed in this window stays
//! poisoned and is checked again when the next one opens.

use tierwise_core::observe::{HintFault, Observation};
use tierwise_core::units::Timestamp;

use crate::memory::Memory;
use crate::workload::Workload;

/// A fault that will happen.
#[derive(Debug, Clone, Copy)]
struct Due {
    /// The share of the window at which it happens.
    share: f64,
    /// The page's local number.
    local: u32,
}

impl Due {
    /// Orders faults by time, then by page. Positive floats sort like their bits; one number is
    /// compared faster than a pair.
    fn order(&self) -> u128 {
        u128::from(self.share.to_bits()) << 32 | u128::from(self.local)
    }
}

/// The faults of a window, in order. Thousands are added at once, when the kernel scans, so they
/// are sorted then; a heap would be ordered again at every fault.
#[derive(Debug, Default)]
struct Queue {
    sorted: Vec<Due>,
    /// The first in `sorted` that has not happened.
    first: usize,
    added: Vec<Due>,
}

impl Queue {
    fn clear(&mut self) {
        self.sorted.clear();
        self.added.clear();
        self.first = 0;
    }

    fn add(&mut self, due: Due) {
        self.added.push(due);
    }

    /// The faults that have not happened, in order.
    fn waiting(&mut self) -> &[Due] {
        if !self.added.is_empty() {
            self.added.sort_unstable_by_key(Due::order);
            self.sorted.drain(..self.first);
            self.first = 0;
            self.sorted.append(&mut self.added);
            // Stable: it finds the two parts that are sorted already, and merges them.
            self.sorted.sort_by_key(Due::order);
        }
        &self.sorted[self.first..]
    }

    /// Takes the first fault, if it happens up to this share of the window.
    fn pop_until(&mut self, share: f64) -> Option<Due> {
        let due = *self.waiting().first().filter(|due| due.share <= share)?;
        self.first += 1;
        Some(due)
    }
}

/// One workload's poisoned pages.
#[derive(Debug, Default)]
pub struct HintFaults {
    due: Queue,
    /// Time at which each page was poisoned, by its local number.
    poisoned_at: Vec<u64>,
}

impl HintFaults {
    /// Finds the next access of a page just poisoned.
    pub fn poison(&mut self, workload: &Workload, local: u32, now: u64) {
        let index = local as usize;
        if index >= self.poisoned_at.len() {
            self.poisoned_at.resize(workload.locals.len().max(index + 1), 0);
        }
        self.poisoned_at[index] = now;
        let next = workload.row(local).and_then(|row| workload.next_access(row, workload.done));
        if let Some(share) = next {
            self.due.add(Due { share, local });
        }
    }

    /// Finds the first accesses of poisoned pages in a new window.
    pub fn open_window(&mut self, workload: &Workload, memory: &Memory) {
        self.due.clear();
        for access in &workload.window.accesses {
            let Some(page) = workload.page(access.page) else { continue };
            if memory.frame(page).is_poisoned()
                && let Some(share) = workload.next_access(access, 0.0)
            {
                self.due.add(Due { share, local: access.page });
            }
        }
    }

    /// The share of the window at which the `n`th of the waiting faults is due, or the last of them
    /// if there are fewer; `None` if none is.
    pub fn nth(&mut self, n: usize) -> Option<f64> {
        let waiting = self.due.waiting();
        waiting.get(..n).unwrap_or(waiting).last().map(|due| due.share)
    }

    /// Reports the faults up to the workload's progress. `at` converts a share of the window to a
    /// time.
    pub fn take(
        &mut self,
        workload: &Workload,
        memory: &mut Memory,
        observation: &mut Observation,
        at: impl Fn(f64) -> u64,
    ) {
        while let Some(Due { share, local }) = self.due.pop_until(workload.done) {
            // The page may have been migrated, unmapped or faulted already since it was poisoned.
            let Some(page) = workload.page(local).filter(|&p| memory.frame(p).is_poisoned()) else {
                continue;
            };
            memory.set_poisoned(page, false);
            let write = workload.row(local).is_some_and(|row| row.stores > row.loads);
            observation.hint_faults.push(HintFault {
                page,
                poisoned_at: Timestamp(self.poisoned_at[local as usize]),
                at: Timestamp(at(share)),
                write,
            });
        }
    }
}
