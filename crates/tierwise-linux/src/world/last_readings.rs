//! What was last read of processes that are monitored in turns.
//!
//! Pages cool down while nothing is read of them. A process that waits for its turn is as hot as it
//! was, as far as anybody knows: its last reading counts again with each report, until its next
//! turn. It ends with the process, and with a process that can no longer be surveyed, whose blocks
//! are forgotten.

use std::collections::BTreeMap;

use tierwise_core::units::PageId;

use super::blocks::Blocks;
use crate::monitor::AccessReport;
use crate::process::Process;

/// By process: its accessed pages at its last turn, with the checks that found them accessed.
#[derive(Debug, Default)]
pub(super) struct LastReadings {
    processes: BTreeMap<Process, Vec<(PageId, f64)>>,
}

impl LastReadings {
    /// Follows a report, whose checks by page are `hotness`. Calls `add` with what was last read of
    /// the processes that are not in it.
    pub(super) fn follow(
        &mut self,
        report: &AccessReport,
        blocks: &Blocks,
        hotness: &[f64],
        mut add: impl FnMut(PageId, f64),
    ) {
        if !report.takes_turns {
            self.processes.clear();
            return;
        }
        // Nothing was read, and nothing cools down.
        if report.sampled.is_empty() {
            return;
        }
        let of = |process: Process| blocks.within(process, 0, u64::MAX);
        self.processes.retain(|&process, _| !of(process).is_empty());
        for &process in &report.sampled {
            let reading = self.processes.entry(process).or_default();
            reading.clear();
            let checks = |&(_, page): &(u64, PageId)| {
                let checks = hotness.get(page.index()).copied().unwrap_or(0.0);
                (checks > 0.0).then_some((page, checks))
            };
            reading.extend(of(process).iter().filter_map(checks));
        }
        let mut sampled = report.sampled.clone();
        sampled.sort_unstable();
        for (process, reading) in &self.processes {
            if sampled.binary_search(process).is_ok() {
                continue;
            }
            for &(page, checks) in reading {
                // The page may be another process's by now.
                if blocks.get(page).is_some_and(|block| block.process == *process) {
                    add(page, checks);
                }
            }
        }
    }
}
