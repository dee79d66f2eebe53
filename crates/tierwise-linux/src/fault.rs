//! Faults: failures of one process, group or guest, as distinct from those of the machine.
//!
//! - A failure to read one process, control group, guest or endpoint is a [`HostFault`]: data, next
//!   to the readings of the others.
//! - A failure for lack of file descriptors or memory, or of something that belongs to no tenant,
//!   is the machine's, even if a tenant's file was read. Surveys return it as their error. The live
//!   world reports it, keeps its last known state, moves nothing, and tries again.
//! - No failure ends the daemon once it runs: the error of [`crate::world::LiveWorld`] is a type
//!   without values. The daemon does not start if the machine's tiers, its configuration or its
//!   state cannot be read.

use std::path::{Path, PathBuf};

use tierwise_core::units::TenantId;

use crate::error::{LinuxError, Result};

/// Maximum number of faults kept per survey: a tenant's deliberate faults must not fill memory. The
/// rest is counted.
const MAX_KEPT: usize = 64;

/// Scope of a fault.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultScope {
    /// A process.
    Process(i32),
    /// A control group and those below it.
    Group(PathBuf),
    /// A QEMU guest, as its tenant's selector names it.
    Guest(String),
    /// Every tenant.
    Machine,
}

impl FaultScope {
    /// All names, in the order of [`FaultScope::index`].
    pub const NAMES: [&'static str; 4] = ["process", "group", "guest", "machine"];

    /// Index of its name.
    pub fn index(&self) -> usize {
        match self {
            Self::Process(_) => 0,
            Self::Group(_) => 1,
            Self::Guest(_) => 2,
            Self::Machine => 3,
        }
    }
}

/// A failure and its scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFault {
    /// Process, group, guest or machine that the failure concerns.
    pub scope: FaultScope,
    /// Tenant of the process, group or guest, if it is known.
    pub tenant: Option<TenantId>,
    /// Error message.
    pub problem: String,
}

impl HostFault {
    /// A fault of this scope, or of the machine if the machine lacks something.
    pub fn new(scope: FaultScope, error: &LinuxError) -> Self {
        let scope = if error.is_of_machine() { FaultScope::Machine } else { scope };
        Self { scope, tenant: None, problem: error.to_string() }
    }
}

/// The faults of one survey.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    kept: Vec<HostFault>,
    /// By [`FaultScope::index`], including those that were not kept.
    counts: [u64; FaultScope::NAMES.len()],
}

impl Faults {
    /// Removes all faults.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.counts = Default::default();
    }

    /// True if there are no faults.
    pub fn is_empty(&self) -> bool {
        self.counts == [0; FaultScope::NAMES.len()]
    }

    /// Adds a fault.
    pub fn push(&mut self, fault: HostFault) {
        self.counts[fault.scope.index()] += 1;
        self.keep(fault);
    }

    /// Returns the value of a successful read. A failure becomes a fault, unless the file or
    /// process no longer exists.
    pub fn absorb<T>(&mut self, scope: impl FnOnce() -> FaultScope, read: Result<T>) -> Option<T> {
        match read {
            Ok(read) => return Some(read),
            Err(e) if e.is_gone() => {}
            Err(e) => self.push(HostFault::new(scope(), &e)),
        }
        None
    }

    /// Adds the fault of a process.
    pub fn process(&mut self, pid: i32, error: &LinuxError) {
        self.push(HostFault::new(FaultScope::Process(pid), error));
    }

    /// Adds the fault of a control group.
    pub fn group(&mut self, path: &Path, error: &LinuxError) {
        self.push(HostFault::new(FaultScope::Group(path.to_owned()), error));
    }

    /// Takes the faults of another list. Those without a tenant get this one.
    pub fn take(&mut self, others: &mut Self, tenant: Option<TenantId>) {
        for (count, more) in self.counts.iter_mut().zip(others.counts) {
            *count += more;
        }
        for fault in others.kept.drain(..) {
            self.keep(HostFault { tenant: fault.tenant.or(tenant), ..fault });
        }
        others.clear();
    }

    fn keep(&mut self, fault: HostFault) {
        // A fault of the machine must not be lost; one is enough.
        let is_first = || fault.scope == FaultScope::Machine && self.of_machine().is_none();
        if self.kept.len() < MAX_KEPT || is_first() {
            self.kept.push(fault);
        }
    }

    /// Number of faults, by [`FaultScope::index`].
    pub fn counts(&self) -> [u64; FaultScope::NAMES.len()] {
        self.counts
    }

    /// Faults that were kept.
    pub fn kept(&self) -> &[HostFault] {
        &self.kept
    }

    /// The machine's problem, if there is one.
    pub fn of_machine(&self) -> Option<&str> {
        self.kept.iter().find(|fault| fault.scope == FaultScope::Machine).map(|f| &*f.problem)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn error(number: i32) -> LinuxError {
        LinuxError::file(Path::new("/proc/7/maps"), "read", io::Error::from_raw_os_error(number))
    }

    #[test]
    fn resource_exhaustion_blames_no_tenant() {
        let scope = |number| HostFault::new(FaultScope::Process(7), &error(number)).scope;
        for own in [libc::EIO, libc::EACCES, libc::ENAMETOOLONG, libc::EISDIR, libc::ELOOP] {
            assert_eq!(scope(own), FaultScope::Process(7), "{own}");
        }
        for machine in [libc::EMFILE, libc::ENFILE, libc::ENOMEM] {
            assert_eq!(scope(machine), FaultScope::Machine, "{machine}");
        }
        let missing = LinuxError::Missing { what: "no NUMA".into(), remedy: "boot".into() };
        assert_eq!(HostFault::new(FaultScope::Process(7), &missing).scope, FaultScope::Machine);
    }

    #[test]
    fn faults_are_counted_and_machine_ones_kept() {
        let (mut faults, mut others) = (Faults::default(), Faults::default());
        (0..1000).for_each(|pid| others.process(pid, &error(libc::EIO)));
        others.process(1000, &error(libc::EMFILE));
        faults.group(Path::new("/c"), &error(libc::EIO));
        faults.take(&mut others, Some(TenantId(3)));
        assert_eq!(faults.counts(), [1000, 1, 0, 1]);
        assert!(faults.kept().len() <= MAX_KEPT + 1 && others.is_empty());
        assert!(faults.of_machine().is_some_and(|problem| problem.contains("Too many open files")));
        assert_eq!((faults.kept()[0].tenant, faults.kept()[1].tenant), (None, Some(TenantId(3))));
    }
}
