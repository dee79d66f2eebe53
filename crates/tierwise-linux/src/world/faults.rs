//! Fault reports. Every fault is counted; each scope is reported once, at a rate that people can
//! read.

use std::collections::VecDeque;

use tierwise_core::units::Timestamp;

use crate::fault::{FaultScope, Faults, HostFault};
use crate::migrate::limits::TokenBucket;

/// Number of reported scopes that are remembered: a tenant can create processes without end, and a
/// scope that is forgotten is reported again.
const MAX_REMEMBERED: usize = 1024;

/// Burst of reports: a screen.
const BURST: u64 = 32;

/// Milliseconds per report after a burst: at most 120 lines per hour.
const MILLISECONDS_PER_REPORT: u64 = 30_000;

/// Counts faults, and selects those to report.
#[derive(Debug)]
pub struct Ledger {
    totals: [u64; FaultScope::NAMES.len()],
    /// Scopes that were reported, the oldest first.
    reported: VecDeque<FaultScope>,
    /// Each report costs [`MILLISECONDS_PER_REPORT`] of these milliseconds.
    allowance: TokenBucket,
    /// Problem of the machine at the last survey.
    machine: Option<String>,
}

/// A report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultReport {
    /// A fault whose scope was not reported yet.
    Fault(HostFault),
    /// The machine can be read again.
    Readable,
}

impl Default for Ledger {
    fn default() -> Self {
        let allowance = TokenBucket::new(Some(1000), BURST * MILLISECONDS_PER_REPORT);
        Self { totals: Default::default(), reported: VecDeque::new(), allowance, machine: None }
    }
}

impl Ledger {
    /// Takes the faults of a survey, empties their list, and passes new ones to `report`.
    pub fn take(
        &mut self,
        faults: &mut Faults,
        now: Timestamp,
        mut report: impl FnMut(FaultReport),
    ) {
        for (total, more) in self.totals.iter_mut().zip(faults.counts()) {
            *total += more;
        }
        for fault in faults.kept().iter().filter(|fault| fault.scope != FaultScope::Machine) {
            if self.is_reportable(&fault.scope, now) {
                report(FaultReport::Fault(fault.clone()));
            }
        }
        let machine = faults.of_machine().map(str::to_owned);
        match (&self.machine, &machine) {
            (None, Some(problem)) => {
                let problem = problem.clone();
                report(FaultReport::Fault(HostFault {
                    scope: FaultScope::Machine,
                    tenant: None,
                    problem,
                }));
            }
            (Some(_), None) => report(FaultReport::Readable),
            _ => {}
        }
        self.machine = machine;
        faults.clear();
    }

    fn is_reportable(&mut self, scope: &FaultScope, now: Timestamp) -> bool {
        if self.reported.contains(scope)
            || self.allowance.left(now) < MILLISECONDS_PER_REPORT as i64
        {
            return false;
        }
        self.allowance.spend(MILLISECONDS_PER_REPORT);
        if self.reported.len() == MAX_REMEMBERED {
            self.reported.pop_front();
        }
        self.reported.push_back(scope.clone());
        true
    }

    /// Number of faults so far, by [`FaultScope::NAMES`].
    pub fn totals(&self) -> [u64; FaultScope::NAMES.len()] {
        self.totals
    }

    /// The machine's problem at the last survey; `None` if it could be read.
    pub fn machine(&self) -> Option<&str> {
        self.machine.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::error::LinuxError;

    fn faults(pids: impl IntoIterator<Item = i32>, number: i32) -> Faults {
        let error = io::Error::from_raw_os_error(number);
        let error = LinuxError::file(Path::new("/proc/7/stat"), "read", error);
        let mut faults = Faults::default();
        pids.into_iter().for_each(|pid| faults.process(pid, &error));
        faults
    }

    fn at(second: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs(second)
    }

    #[test]
    fn each_is_reported_once_and_counted_always() {
        let (mut ledger, mut shown) = (Ledger::default(), Vec::new());
        for second in 0..5 {
            ledger.take(&mut faults([7, 8], libc::EIO), at(second), |t| shown.push(t));
        }
        assert_eq!((shown.len(), ledger.totals()), (2, [10, 0, 0, 0]));
    }

    #[test]
    fn a_flood_is_counted_and_not_reported() {
        let (mut ledger, mut shown) = (Ledger::default(), 0);
        for second in 0..600 {
            let pids = (0..50).map(|i| second as i32 * 50 + i);
            ledger.take(&mut faults(pids, libc::EIO), at(second), |_| shown += 1);
        }
        assert_eq!(shown, BURST + 599 * 1000 / MILLISECONDS_PER_REPORT);
        assert_eq!(ledger.totals(), [30_000, 0, 0, 0]);
        assert!(ledger.reported.len() <= MAX_REMEMBERED);
    }

    #[test]
    fn machine_fault_is_a_lasting_state() {
        let (mut ledger, mut shown) = (Ledger::default(), Vec::new());
        for (second, number) in [(0, libc::EMFILE), (1, libc::ENOMEM), (2, libc::EIO)] {
            ledger.take(&mut faults([7], number), at(second), |t| shown.push(t));
            assert_eq!(ledger.machine().is_some(), second < 2);
        }
        assert_eq!(shown.len(), 3, "{shown:?}");
        assert!(matches!(
            &shown[0],
            FaultReport::Fault(HostFault { scope: FaultScope::Machine, .. })
        ));
        assert!(shown.contains(&FaultReport::Readable));
    }
}
