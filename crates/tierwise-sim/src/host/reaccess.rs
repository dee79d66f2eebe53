//! Counts the promoted pages that are accessed again before they leave the faster tier
//! (MULTI-CLOCK, section V-D). Exact, from the windows: no policy sees it, and no access signal is
//! involved. A granule counts as accessed when software would find it accessed.

use std::collections::BTreeMap;

use crate::workload::Workload;

/// The promoted pages that were not accessed since.
#[derive(Debug)]
pub(crate) struct Reaccess {
    /// By workload: the page, and the share of the current window after which accesses count.
    waiting: Vec<BTreeMap<u32, f64>>,
}

fn is_accessed(workload: &Workload, local: u32, from: f64, to: f64) -> bool {
    workload.row(local).is_some_and(|row| workload.is_accessed(row, from, to))
}

impl Reaccess {
    pub(crate) fn new(workloads: usize) -> Self {
        Self { waiting: vec![BTreeMap::new(); workloads] }
    }

    /// Handles a move of a page. Returns true if an earlier promotion of it was followed by an
    /// access.
    pub(crate) fn moved(
        &mut self,
        i: usize,
        local: u32,
        promoted: bool,
        workloads: &[Workload],
    ) -> bool {
        let accessed = self.left(i, local, workloads);
        if promoted {
            self.waiting[i].insert(local, workloads[i].done);
        }
        accessed
    }

    /// Handles a page that is freed, like [`Reaccess::moved`].
    pub(crate) fn left(&mut self, i: usize, local: u32, workloads: &[Workload]) -> bool {
        let from = self.waiting[i].remove(&local);
        from.is_some_and(|from| is_accessed(&workloads[i], local, from, workloads[i].done))
    }

    /// Handles the end of a workload's window. Returns the number of promoted pages that were
    /// accessed.
    pub(crate) fn close_window(&mut self, i: usize, workload: &Workload) -> u64 {
        let before = self.waiting[i].len();
        self.waiting[i].retain(|&local, from| {
            let accessed = is_accessed(workload, local, *from, 1.0);
            *from = 0.0;
            !accessed
        });
        (before - self.waiting[i].len()) as u64
    }

    /// The pages that were accessed since their promotion and not counted yet.
    pub(crate) fn pending(&self, i: usize, workload: &Workload) -> u64 {
        let accessed =
            |&(&local, &from): &(&u32, &f64)| is_accessed(workload, local, from, workload.done);
        self.waiting[i].iter().filter(accessed).count() as u64
    }
}
