//! What concerns one of many, and what concerns the machine: told apart here and nowhere else.
//!
//! - A failure to read one process, control group, guest or endpoint is a [`Fault`]: data, beside
//!   what was read of the others.
//! - A failure for want of descriptors or memory, or of something that belongs to nobody, is the
//!   machine's, whoever's file was being read. Surveys return it as their error; a world says it,
//!   keeps what it knows, moves nothing, and tries again.
//! - Nothing ends the daemon once it runs: the error of [`crate::world::LiveWorld`] is a type
//!   without values. What keeps it from starting is that the machine's tiers, its configuration or
//!   its state cannot be read then.

use std::path::{Path, PathBuf};

use tierwise_core::units::TenantId;

use crate::error::{LinuxError, Result};

/// Most faults that are kept of one survey: what one tenant breaks on purpose must not fill memory.
/// The rest is counted.
const KEPT: usize = 64;

/// Whom a fault concerns.
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
    /// Every name, in the order of [`FaultScope::index`].
    pub const NAMES: [&'static str; 4] = ["process", "group", "guest", "machine"];

    /// Which of the names is its own.
    pub fn index(&self) -> usize {
        match self {
            Self::Process(_) => 0,
            Self::Group(_) => 1,
            Self::Guest(_) => 2,
            Self::Machine => 3,
        }
    }
}

/// A failure, and whom it concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Whom.
    pub scope: FaultScope,
    /// Whose process, group or guest it is, if that is known.
    pub tenant: Option<TenantId>,
    /// What happened, for people.
    pub problem: String,
}

impl Fault {
    /// Reading something of this scope failed. Where the machine lacks something it is the
    /// machine's fault.
    pub fn new(scope: FaultScope, error: &LinuxError) -> Self {
        let scope = if error.is_of_machine() { FaultScope::Machine } else { scope };
        Self { scope, tenant: None, problem: error.to_string() }
    }
}

/// The faults of one survey.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    kept: Vec<Fault>,
    /// By [`FaultScope::index`], those that were not kept too.
    counts: [u64; FaultScope::NAMES.len()],
}

impl Faults {
    /// None.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.counts = Default::default();
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.counts == [0; FaultScope::NAMES.len()]
    }

    /// One more.
    pub fn push(&mut self, fault: Fault) {
        self.counts[fault.scope.index()] += 1;
        self.keep(fault);
    }

    /// What was read, if it was: what is gone is no fault.
    pub fn absorb<T>(&mut self, scope: impl FnOnce() -> FaultScope, read: Result<T>) -> Option<T> {
        match read {
            Ok(read) => return Some(read),
            Err(e) if e.is_gone() => {}
            Err(e) => self.push(Fault::new(scope(), &e)),
        }
        None
    }

    /// Reading a process failed.
    pub fn process(&mut self, pid: i32, error: &LinuxError) {
        self.push(Fault::new(FaultScope::Process(pid), error));
    }

    /// Reading a control group failed.
    pub fn group(&mut self, path: &Path, error: &LinuxError) {
        self.push(Fault::new(FaultScope::Group(path.to_owned()), error));
    }

    /// Takes those of another list, which concern a tenant.
    pub fn take(&mut self, others: &mut Self, tenant: Option<TenantId>) {
        for (count, more) in self.counts.iter_mut().zip(others.counts) {
            *count += more;
        }
        for fault in others.kept.drain(..) {
            self.keep(Fault { tenant: fault.tenant.or(tenant), ..fault });
        }
        others.clear();
    }

    fn keep(&mut self, fault: Fault) {
        // The machine's must not be lost; one is enough.
        let is_first = || fault.scope == FaultScope::Machine && self.of_machine().is_none();
        if self.kept.len() < KEPT || is_first() {
            self.kept.push(fault);
        }
    }

    /// How many, by [`FaultScope::index`].
    pub fn counts(&self) -> [u64; FaultScope::NAMES.len()] {
        self.counts
    }

    /// Those that were kept.
    pub fn kept(&self) -> &[Fault] {
        &self.kept
    }

    /// What is wrong with the machine, if anything.
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
        let scope = |number| Fault::new(FaultScope::Process(7), &error(number)).scope;
        for own in [libc::EIO, libc::EACCES, libc::ENAMETOOLONG, libc::EISDIR, libc::ELOOP] {
            assert_eq!(scope(own), FaultScope::Process(7), "{own}");
        }
        for machine in [libc::EMFILE, libc::ENFILE, libc::ENOMEM] {
            assert_eq!(scope(machine), FaultScope::Machine, "{machine}");
        }
        let missing = LinuxError::Missing { what: "no NUMA".into(), remedy: "boot".into() };
        assert_eq!(Fault::new(FaultScope::Process(7), &missing).scope, FaultScope::Machine);
    }

    #[test]
    fn faults_are_counted_and_machine_ones_kept() {
        let (mut faults, mut others) = (Faults::default(), Faults::default());
        (0..1000).for_each(|pid| others.process(pid, &error(libc::EIO)));
        others.process(1000, &error(libc::EMFILE));
        faults.group(Path::new("/c"), &error(libc::EIO));
        faults.take(&mut others, Some(TenantId(3)));
        assert_eq!(faults.counts(), [1000, 1, 0, 1]);
        assert!(faults.kept().len() <= KEPT + 1 && others.is_empty());
        assert!(faults.of_machine().is_some_and(|problem| problem.contains("Too many open files")));
        assert_eq!((faults.kept()[0].tenant, faults.kept()[1].tenant), (None, Some(TenantId(3))));
    }
}
