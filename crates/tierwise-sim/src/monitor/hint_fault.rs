//! Hint faults: the kernel poisons a page (`PROT_NONE`), and its next access traps.
//!
//! The time of that access follows from the workload's windows. Faults wait in a heap by the share
//! of the window at which they will happen; a page that is not accessed in this window stays
//! poisoned and is checked again when the next one opens.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tierwise_core::observe::{HintFault, Observation};
use tierwise_core::units::Timestamp;

use crate::memory::Memory;
use crate::workload::Workload;

/// A share of a window as an ordered number: positive floats sort like their bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Share(u64);

impl Share {
    fn of(share: f64) -> Self {
        Self(share.to_bits())
    }

    fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// One workload's poisoned pages.
#[derive(Debug, Default)]
pub struct HintFaults {
    due: BinaryHeap<Reverse<(Share, u32)>>,
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
        self.due.extend(next.map(|at| Reverse((Share::of(at), local))));
    }

    /// Finds the first accesses of poisoned pages in a new window.
    pub fn open_window(&mut self, workload: &Workload, memory: &Memory) {
        self.due.clear();
        for access in &workload.window.accesses {
            let Some(page) = workload.page(access.page) else { continue };
            if memory.frame(page).is_poisoned()
                && let Some(at) = workload.next_access(access, 0.0)
            {
                self.due.push(Reverse((Share::of(at), access.page)));
            }
        }
    }

    /// The share of the window at which the `n`th of the waiting faults is due, or the last of them
    /// if there are fewer; `None` if none is.
    pub fn nth(&mut self, n: usize) -> Option<f64> {
        let first: Vec<_> = (0..n).map_while(|_| self.due.pop()).collect();
        let share = first.last().map(|Reverse((share, _))| share.get());
        self.due.extend(first);
        share
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
        while let Some(&Reverse((share, local))) = self.due.peek() {
            if share.get() > workload.done {
                break;
            }
            self.due.pop();
            // The page may have been migrated, unmapped or faulted already since it was poisoned.
            let Some(page) = workload.page(local).filter(|&p| memory.frame(p).is_poisoned()) else {
                continue;
            };
            memory.set_poisoned(page, false);
            let write = workload.row(local).is_some_and(|row| row.stores > row.loads);
            observation.hint_faults.push(HintFault {
                page,
                poisoned_at: Timestamp(self.poisoned_at[local as usize]),
                at: Timestamp(at(share.get())),
                write,
            });
        }
    }
}
