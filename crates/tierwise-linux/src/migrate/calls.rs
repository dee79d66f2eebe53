//! What a mover asks of the kernel, behind a trait, so that tests can bring a kernel that is full,
//! slow or lies.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tierwise_core::units::Timestamp;

use crate::error::Result;
use crate::process::syscall::{self, MPOL_MF_MOVE, MPOL_MF_MOVE_ALL};
use crate::process::{Process, Reader, Task};
use crate::roots::Roots;

/// The kernel, as far as a mover needs it. Slices that belong together have the same length.
pub trait Calls {
    /// Monotonic time.
    fn now(&mut self) -> Timestamp;
    /// Processor time that the calling thread has used.
    fn cpu(&mut self) -> Duration;
    /// Whether this very process still runs.
    fn is_alive(&mut self, process: &Process) -> bool;
    /// The number by which the pages of this very process are asked for and moved: that of a
    /// thread that is alive. `None` if the process is gone.
    fn thread(&mut self, process: &Process) -> Option<i32> {
        self.is_alive(process).then_some(process.pid)
    }
    /// Where pages lie: `status[i]` becomes a node or a negative error number.
    ///
    /// # Errors
    /// The call as a whole failed.
    fn nodes(&mut self, pid: i32, addresses: &[usize], status: &mut [i32]) -> Result<()>;
    /// Moves pages to nodes; `shared` also those that other processes map. `status` as for
    /// [`Calls::nodes`], but it may be left as it was, and may say what did not happen.
    ///
    /// # Errors
    /// The call as a whole failed; some pages may have moved.
    fn move_pages(
        &mut self,
        pid: i32,
        addresses: &[usize],
        nodes: &[i32],
        status: &mut [i32],
        shared: bool,
    ) -> Result<()>;
}

/// This host's kernel.
#[derive(Debug)]
pub struct Kernel {
    roots: Roots,
    reader: Reader,
    started: Instant,
}

impl Kernel {
    /// Time begins now.
    pub fn new(roots: Roots) -> Self {
        Self { roots, reader: Reader::default(), started: Instant::now() }
    }
}

impl Calls for Kernel {
    fn now(&mut self) -> Timestamp {
        Timestamp::ZERO + self.started.elapsed()
    }

    fn cpu(&mut self) -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    fn is_alive(&mut self, process: &Process) -> bool {
        process.is_alive_with(&self.roots, &mut self.reader)
    }

    fn thread(&mut self, process: &Process) -> Option<i32> {
        process.task(&self.roots, &mut self.reader).ok().map(Task::tid)
    }

    fn nodes(&mut self, pid: i32, addresses: &[usize], status: &mut [i32]) -> Result<()> {
        syscall::move_pages(pid, addresses, None, status, 0).map(|_| ())
    }

    fn move_pages(
        &mut self,
        pid: i32,
        addresses: &[usize],
        nodes: &[i32],
        status: &mut [i32],
        shared: bool,
    ) -> Result<()> {
        let flags = if shared { MPOL_MF_MOVE_ALL } else { MPOL_MF_MOVE };
        syscall::move_pages(pid, addresses, Some(nodes), status, flags).map(|_| ())
    }
}
