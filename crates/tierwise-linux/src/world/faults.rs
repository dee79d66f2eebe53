//! What could not be read: counted always, said once, and not more often than people read.

use std::collections::VecDeque;

use tierwise_core::units::Timestamp;

use crate::fault::{Fault, FaultScope, Faults};
use crate::migrate::limits::Allowance;

/// Whom faults were said of is remembered for so many: a tenant can make processes faster than
/// anybody reads, and would otherwise be forgotten and said again.
const REMEMBERED: usize = 1024;

/// So many are said at once: a screen.
const AT_ONCE: u64 = 32;

/// And then one in so many milliseconds: some hundred lines an hour at most.
const MILLISECONDS: u64 = 30_000;

/// Counts faults, and picks those worth saying.
#[derive(Debug)]
pub struct Ledger {
    totals: [u64; FaultScope::NAMES.len()],
    /// Whom something was said of, the first one first.
    said: VecDeque<FaultScope>,
    /// Milliseconds, which a fault that is said costs.
    allowance: Allowance,
    /// What is wrong with the machine, as of the last survey.
    machine: Option<String>,
}

/// What is worth saying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// A fault that was not said yet.
    Fault(Fault),
    /// The machine can be read again.
    Readable,
}

impl Default for Ledger {
    fn default() -> Self {
        let allowance = Allowance::new(Some(1000), AT_ONCE * MILLISECONDS);
        Self { totals: Default::default(), said: VecDeque::new(), allowance, machine: None }
    }
}

impl Ledger {
    /// Takes the faults of a survey, and empties their list.
    pub fn take(&mut self, faults: &mut Faults, now: Timestamp, mut tell: impl FnMut(Told)) {
        for (total, more) in self.totals.iter_mut().zip(faults.counts()) {
            *total += more;
        }
        for fault in faults.kept().iter().filter(|fault| fault.scope != FaultScope::Machine) {
            if self.is_worth_saying(&fault.scope, now) {
                tell(Told::Fault(fault.clone()));
            }
        }
        let machine = faults.of_machine().map(str::to_owned);
        match (&self.machine, &machine) {
            (None, Some(problem)) => {
                let problem = problem.clone();
                tell(Told::Fault(Fault { scope: FaultScope::Machine, tenant: None, problem }));
            }
            (Some(_), None) => tell(Told::Readable),
            _ => {}
        }
        self.machine = machine;
        faults.clear();
    }

    fn is_worth_saying(&mut self, scope: &FaultScope, now: Timestamp) -> bool {
        if self.said.contains(scope) || self.allowance.left(now) < MILLISECONDS as i64 {
            return false;
        }
        self.allowance.spend(MILLISECONDS);
        if self.said.len() == REMEMBERED {
            self.said.pop_front();
        }
        self.said.push_back(scope.clone());
        true
    }

    /// Faults so far, by [`FaultScope::NAMES`].
    pub fn totals(&self) -> [u64; FaultScope::NAMES.len()] {
        self.totals
    }

    /// What of the machine could not be read in the last survey.
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
    fn each_is_said_once_and_counted_always() {
        let (mut ledger, mut told) = (Ledger::default(), Vec::new());
        for second in 0..5 {
            ledger.take(&mut faults([7, 8], libc::EIO), at(second), |t| told.push(t));
        }
        assert_eq!((told.len(), ledger.totals()), (2, [10, 0, 0, 0]));
    }

    #[test]
    fn a_flood_is_counted_and_not_said() {
        let (mut ledger, mut told) = (Ledger::default(), 0);
        for second in 0..600 {
            let pids = (0..50).map(|i| second as i32 * 50 + i);
            ledger.take(&mut faults(pids, libc::EIO), at(second), |_| told += 1);
        }
        assert_eq!(told, AT_ONCE + 599 * 1000 / MILLISECONDS);
        assert_eq!(ledger.totals(), [30_000, 0, 0, 0]);
        assert!(ledger.said.len() <= REMEMBERED);
    }

    #[test]
    fn machine_fault_is_a_lasting_state() {
        let (mut ledger, mut told) = (Ledger::default(), Vec::new());
        for (second, number) in [(0, libc::EMFILE), (1, libc::ENOMEM), (2, libc::EIO)] {
            ledger.take(&mut faults([7], number), at(second), |t| told.push(t));
            assert_eq!(ledger.machine().is_some(), second < 2);
        }
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(matches!(&told[0], Told::Fault(Fault { scope: FaultScope::Machine, .. })));
        assert!(told.contains(&Told::Readable));
    }
}
