//! The operations that take the mmap lock of a process: reading its memory's layout, querying the
//! placement of its pages, moving them. They are a trait, so that tests supply a kernel that is
//! full, slow or wrong.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tierwise_core::units::{TenantId, Timestamp};

use crate::error::Result;
use crate::guard::Guard;
use crate::process::syscall::{self, MPOL_MF_MOVE, MPOL_MF_MOVE_ALL};
use crate::process::{Process, Reader, Task};
use crate::roots::Roots;

/// The kernel, as far as a mover needs it. Slices that belong together have the same length.
pub trait Calls {
    /// Returns the monotonic time.
    fn now(&mut self) -> Timestamp;
    /// Returns the CPU time that the calling thread and its calls have used.
    fn cpu(&mut self) -> Duration;
    /// True if this process still runs.
    fn is_alive(&mut self, process: &Process) -> bool;
    /// Returns the id of a live thread of exactly this process, by which its pages are queried and
    /// moved. `None` if the process is gone.
    fn thread(&mut self, process: &Process) -> Option<i32> {
        self.is_alive(process).then_some(process.pid)
    }
    /// Charges the following calls to this tenant, which may delay them ([`crate::guard`]).
    fn charge(&mut self, _tenant: TenantId) {}
    /// Runs a call on a process that takes its mmap lock.
    ///
    /// # Errors
    /// The process delays the call too long.
    fn guarded<T: Send + 'static>(
        &mut self,
        _pid: i32,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        Ok(call())
    }
    /// Reads the nodes of pages: `status[i]` becomes a node or a negative error number.
    ///
    /// # Errors
    /// The call as a whole failed.
    fn nodes(&mut self, pid: i32, addresses: &[usize], status: &mut [i32]) -> Result<()>;
    /// Moves pages to nodes; with `shared` also pages that other processes map. `status` is as for
    /// [`Calls::nodes`], but entries may be untouched or wrong.
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
pub struct HostKernel {
    roots: Roots,
    reader: Reader,
    started: Instant,
    guard: Guard,
    tenant: TenantId,
    /// The arguments and results of one call.
    batch: CallArguments,
}

/// The arguments of a call. It owns them, because it may wait.
#[derive(Debug, Default)]
struct CallArguments {
    addresses: Vec<usize>,
    nodes: Vec<i32>,
    status: Vec<i32>,
}

impl HostKernel {
    /// Starts the clock.
    pub fn new(roots: Roots) -> Self {
        Self {
            roots,
            reader: Reader::default(),
            started: Instant::now(),
            guard: Guard::default(),
            tenant: TenantId(0),
            batch: CallArguments::default(),
        }
    }

    /// Calls move_pages(2) on the guard's thread.
    fn call(
        &mut self,
        pid: i32,
        addresses: &[usize],
        nodes: Option<&[i32]>,
        status: &mut [i32],
        flags: i32,
    ) -> Result<()> {
        let mut batch = std::mem::take(&mut self.batch);
        batch.addresses.clear();
        batch.addresses.extend_from_slice(addresses);
        batch.nodes.clear();
        batch.nodes.extend_from_slice(nodes.unwrap_or_default());
        batch.status.clear();
        batch.status.extend_from_slice(status);
        let moves = nodes.is_some();
        let (batch, answer) = self.guarded(pid, move || {
            let mut batch = batch;
            let nodes = moves.then_some(&batch.nodes[..]);
            let answer =
                syscall::move_pages(pid, &batch.addresses, nodes, &mut batch.status, flags);
            (batch, answer)
        })?;
        status.copy_from_slice(&batch.status);
        self.batch = batch;
        answer.map(|_| ())
    }
}

impl Calls for HostKernel {
    fn now(&mut self) -> Timestamp {
        Timestamp::ZERO + self.started.elapsed()
    }

    fn cpu(&mut self) -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let own =
            Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0));
        own + self.guard.cpu()
    }

    fn is_alive(&mut self, process: &Process) -> bool {
        process.is_alive_with(&self.roots, &mut self.reader)
    }

    fn thread(&mut self, process: &Process) -> Option<i32> {
        process.task(&self.roots, &mut self.reader).ok().map(Task::tid)
    }

    fn charge(&mut self, tenant: TenantId) {
        self.tenant = tenant;
    }

    fn guarded<T: Send + 'static>(
        &mut self,
        pid: i32,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        self.guard.run(pid, self.tenant, call)
    }

    fn nodes(&mut self, pid: i32, addresses: &[usize], status: &mut [i32]) -> Result<()> {
        self.call(pid, addresses, None, status, 0)
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
        self.call(pid, addresses, Some(nodes), status, flags)
    }
}
