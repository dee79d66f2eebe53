//! Access monitoring sources.
//!
//! | name | reports | requires | cost |
//! |---|---|---|---|
//! | [`damon_vaddr`] | regions of a process | `CONFIG_DAMON_VADDR` | a kernel thread per process, up to 16 |
//! | [`damon_paddr`] | regions of physical memory | `CONFIG_DAMON_PADDR` | one kernel thread |
//! | [`idle_bitmap`] | referenced pages | `CONFIG_IDLE_PAGE_TRACKING` | this process |
//! | [`perf_samples`] | single accesses | PEBS or IBS: bare metal | an interrupt per sample |
//! | [`hint_faults`] | faults of slow pages, and regions of a process | `CONFIG_NUMA_BALANCING`, kprobes, DAMON | a fault per slow page and pass |
//! | [`soft_dirty`] | written pages | `CONFIG_MEM_SOFT_DIRTY` | this process, a fault per written page |
//! | [`pagemap_scan`] | written pages | a program that takes part | a fault per written page |
//!
//! Each file has a `probe`, which returns why a source is not available and how to make it so.
//! [`auto()`] selects among the available ones.

pub mod auto;
pub mod damon_paddr;
pub mod damon_vaddr;
mod frames;
pub mod hint_faults;
pub mod idle_bitmap;
pub mod pagemap_scan;
pub mod perf_samples;
pub mod rotation;
pub mod soft_dirty;
pub mod walk;

use std::fmt::Debug;
use std::time::Duration;

use tierwise_core::units::{Bytes, TenantId};

use crate::damon::HostRegion;
use crate::error::{LinuxError, Result};
use crate::process::Process;

pub use auto::{AccessSource, SourceSelection, auto};

/// A process to monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonitorTarget {
    /// Process whose accesses are monitored.
    pub process: Process,
    /// Tenant of the process. If there are more processes than can be monitored, every tenant gets
    /// an equal part.
    pub tenant: TenantId,
    /// Resident set. A tenant's larger processes are monitored more often.
    pub resident: Bytes,
}

/// A DAMON region of a process's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessRegion {
    /// Process that the addresses belong to.
    pub process: Process,
    /// Addresses and access count.
    pub region: HostRegion,
}

/// A range of pages of a process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessRange {
    /// Process that the addresses belong to.
    pub process: Process,
    /// First address.
    pub start: u64,
    /// First address after the range.
    pub end: u64,
}

/// One access that a CPU sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressSample {
    /// Process that the addresses belong to.
    pub process: Process,
    /// Virtual address.
    pub address: u64,
    /// Physical address; 0 if the kernel does not report it.
    pub physical: u64,
    /// True for a store.
    pub write: bool,
}

/// A hint fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressFault {
    /// Process that the addresses belong to.
    pub process: Process,
    /// First address of the page.
    pub address: u64,
    /// Bytes of the page: of a base page or a huge one.
    pub bytes: u64,
    /// Time of the fault on the monotonic clock.
    pub at: Duration,
}

/// A range whose pages were poisoned, unless they were already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoisonedRange {
    /// The range.
    pub range: ProcessRange,
    /// Time when its poisoning began on the monotonic clock.
    pub at: Duration,
}

/// Accesses since the last collection. Lists keep their memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessReport {
    /// Processes that were monitored. About the others nothing is known, which is not the same as
    /// no access.
    pub sampled: Vec<Process>,
    /// Processes are monitored in turns: what was last read of the others counts on.
    pub takes_turns: bool,
    /// DAMON's regions, by process in the order of `sampled`, then ascending.
    pub regions: Vec<ProcessRegion>,
    /// DAMON's regions of physical memory, ascending.
    pub physical: Vec<HostRegion>,
    /// Maximum of `nr_accesses`: the checks per aggregation interval.
    pub max_accesses: u32,
    /// Referenced pages.
    pub referenced: Vec<ProcessRange>,
    /// Written pages.
    pub written: Vec<ProcessRange>,
    /// Sampled accesses.
    pub samples: Vec<AddressSample>,
    /// Hint faults, in the order of their times.
    pub faults: Vec<AddressFault>,
    /// Ranges that were poisoned, in the order of their times. Every fault is of a page that was in
    /// one of them, here or in an earlier report.
    pub poisoned: Vec<PoisonedRange>,
    /// The time of one of the checks that `max_accesses` counts. Only a source of hint faults gives
    /// it.
    pub check: Duration,
}

impl AccessReport {
    /// Empties every list.
    pub fn clear(&mut self) {
        self.sampled.clear();
        self.regions.clear();
        self.physical.clear();
        self.referenced.clear();
        self.written.clear();
        self.samples.clear();
        self.faults.clear();
        self.poisoned.clear();
        (self.max_accesses, self.check, self.takes_turns) = (0, Duration::ZERO, false);
    }
}

/// An access monitoring source that was started.
pub trait AccessMonitor: Debug + Send {
    /// Name in configuration and reports.
    fn name(&self) -> &'static str;

    /// True if it reports hint faults.
    fn has_hint_faults(&self) -> bool {
        false
    }

    /// Monitors these processes and no others from now on. A process that has ended already is not
    /// an error.
    ///
    /// # Errors
    /// The kernel refuses for another reason.
    fn set_targets(&mut self, processes: &[MonitorTarget]) -> Result<()>;

    /// Adds the accesses since the last call to `report`. Processes that have ended are left out.
    ///
    /// # Errors
    /// The kernel refuses.
    fn collect(&mut self, report: &mut AccessReport) -> Result<()>;

    /// Makes intervals `times` times as long as configured, 1 or more, because monitoring exceeds
    /// its CPU budget.
    ///
    /// # Errors
    /// The kernel refuses.
    fn set_throttle(&mut self, _times: f64) -> Result<()> {
        Ok(())
    }

    /// Time after which a collection counts as late: the kernel then waits for a process.
    fn patience(&self) -> Duration {
        PATIENCE
    }

    /// Stops monitoring and restores what was taken over. [`AccessMonitor::set_targets`] starts it
    /// again.
    ///
    /// # Errors
    /// Something could not be restored.
    fn stop(&mut self) -> Result<()>;

    /// CPU time of monitoring, the kernel's threads included.
    ///
    /// # Errors
    /// The CPU time of the kernel's threads cannot be read.
    fn cpu_time(&mut self) -> Result<Duration>;
}

/// Time that a collection may take besides its own intervals: a machine short of CPU time can be
/// that slow.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the error that monitoring could not be stopped.
pub(crate) fn waits_still() -> LinuxError {
    LinuxError::Missing {
        what: "access monitoring waits in the kernel for a process that keeps its address space \
               locked, and is still on"
            .into(),
        remedy: "end that process and run `tierwise restore`".into(),
    }
}

/// CPU time of this thread.
pub fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Adds a range, or extends the last one if it ends where the range starts.
fn push_range(out: &mut Vec<ProcessRange>, range: ProcessRange) {
    match out.last_mut() {
        Some(last) if last.process == range.process && last.end == range.start => {
            last.end = range.end;
        }
        _ => out.push(range),
    }
}
