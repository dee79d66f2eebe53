//! Ways of looking at what processes access.
//!
//! | name | sees | needs | who pays |
//! |---|---|---|---|
//! | [`damon_vaddr`] | regions of a process's addresses | `CONFIG_DAMON_VADDR` | a kernel thread a process looked at |
//! | [`damon_paddr`] | regions of physical memory | `CONFIG_DAMON_PADDR` | one kernel thread |
//! | [`idle_bitmap`] | single pages referenced | `CONFIG_IDLE_PAGE_TRACKING` | this process |
//! | [`perf_samples`] | single accesses | PEBS or IBS: bare metal | an interrupt a sample |
//! | [`soft_dirty`] | single pages written | `CONFIG_MEM_SOFT_DIRTY` | this process, and a fault a page written |
//! | [`pagemap_scan`] | single pages written | a program that takes part | that program: a fault a page |
//!
//! Each file has a `probe`, which says why a way is not available and how to get it. [`auto()`]
//! picks from what is there.

pub mod auto;
pub mod damon_paddr;
pub mod damon_vaddr;
mod frames;
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

pub use auto::{Selection, Source, auto};

/// A process to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonitorTarget {
    /// The process.
    pub process: Process,
    /// Its tenant: each has the same part where there is more to see than can be monitored.
    pub tenant: TenantId,
    /// Its resident set: of a tenant's processes the large come more often.
    pub resident: Bytes,
}

/// A region of a process's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessRegion {
    /// Whose.
    pub process: Process,
    /// The region.
    pub region: HostRegion,
}

/// A run of pages of a process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessRange {
    /// Whose.
    pub process: Process,
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
}

/// One access that a CPU sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressSample {
    /// Whose.
    pub process: Process,
    /// Virtual address.
    pub address: u64,
    /// Physical address; 0 where the kernel does not tell.
    pub physical: u64,
    /// A store.
    pub write: bool,
}

/// What was seen since the last collection. Lists keep their memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessReport {
    /// The processes that were looked at: of the others nothing is known, which is not the same as
    /// nothing accessed.
    pub sampled: Vec<Process>,
    /// DAMON's regions, by process in the order of `sampled`, then ascending.
    pub regions: Vec<ProcessRegion>,
    /// DAMON's regions of physical memory, ascending.
    pub physical: Vec<HostRegion>,
    /// The most that `nr_accesses` can be: samples in an aggregation interval.
    pub max_accesses: u32,
    /// Pages referenced.
    pub referenced: Vec<ProcessRange>,
    /// Pages written.
    pub written: Vec<ProcessRange>,
    /// Accesses sampled.
    pub samples: Vec<AddressSample>,
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
        self.max_accesses = 0;
    }
}

/// A way of looking that was started.
pub trait AccessMonitor: Debug + Send {
    /// Its name in configuration and reports.
    fn name(&self) -> &'static str;

    /// Looks at these processes and no others from now on. One that is gone already is not an
    /// error.
    ///
    /// # Errors
    /// The kernel refuses for another reason.
    fn set_targets(&mut self, processes: &[MonitorTarget]) -> Result<()>;

    /// Adds what was seen since the last call to `report`. Processes that are gone are left out.
    ///
    /// # Errors
    /// The kernel refuses.
    fn collect(&mut self, report: &mut AccessReport) -> Result<()>;

    /// Looks so many times less often than configured, 1 or more: what it costs is above the
    /// budget.
    ///
    /// # Errors
    /// The kernel refuses.
    fn set_throttle(&mut self, _times: f64) -> Result<()> {
        Ok(())
    }

    /// How long a collection may take before the kernel is taken to wait for a process.
    fn patience(&self) -> Duration {
        PATIENCE
    }

    /// Stops looking and gives back what was taken. Looking can start again by
    /// [`AccessMonitor::set_targets`].
    ///
    /// # Errors
    /// Something could not be given back.
    fn stop(&mut self) -> Result<()>;

    /// CPU time that looking has cost, the kernel's threads included.
    ///
    /// # Errors
    /// The kernel's threads cannot be asked.
    fn cpu_time(&mut self) -> Result<Duration>;
}

/// What a collection may take beside its own intervals: a machine short of CPU time can be so slow.
const PATIENCE: Duration = Duration::from_secs(30);

/// Says why monitoring could not be stopped.
pub(crate) fn waits_still() -> LinuxError {
    LinuxError::Missing {
        what: "access monitoring waits in the kernel for a process that keeps its address space \
               locked, and is still on"
            .into(),
        remedy: "end that process and run `tierwise restore`".into(),
    }
}

/// CPU time of this thread.
pub(crate) fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Joins a range to the last one if it follows it.
fn push_range(out: &mut Vec<ProcessRange>, range: ProcessRange) {
    match out.last_mut() {
        Some(last) if last.process == range.process && last.end == range.start => {
            last.end = range.end;
        }
        _ => out.push(range),
    }
}
