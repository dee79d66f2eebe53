//! Moves pages of processes to nodes with move_pages(2), and reports one outcome per page.
//!
//! 1. Consecutive requests of one process share a call, up to the limit of [`BatchSize`]. The mover
//!    checks the process before each call, so that it moves no page of a process that reuses a dead
//!    one's pid, and after it: the pages moved in a call during which the process ended are in
//!    doubt, and no success.
//! 2. It queries the pages' nodes first, and does not move a page that is gone or already there.
//! 3. It queries the nodes again afterwards, and only this result counts. Return codes lie: a
//!    migration can fall back to its source and report success, and a call that gives up early
//!    leaves status entries untouched.
//! 4. It retries busy pages after all other requests, [`ATTEMPTS`] tries in total. It does not try
//!    a full node before its [`Backoff`] ends. Until then no page makes room for one that could not
//!    follow: an exchange would become a demotion.
//! 5. [`Limits`] bounds bytes moved and CPU time. Requests beyond them end with
//!    [`FailReason::Budget`].
//!
//! A huge page is one request, with its first address and its size: the kernel moves it whole, or
//! splits it when the target has no huge page free. The mover verifies its first base page only.

use std::collections::BTreeMap;
use std::time::Duration;

use tierwise_core::migrate::FailReason;
use tierwise_core::units::{TenantId, Timestamp};

use super::calls::Calls;
use super::limits::{Backoff, BatchSize, Limits, TokenBucket};
use crate::error::{LinuxError, Result};
use crate::process::Process;
use crate::process::resident::PAGE_SIZE;

/// Tries of a busy page in one run. The kernel itself retries ten times within a call
/// (`NR_MAX_MIGRATE_PAGES_RETRY`), so a page that is busy after that mostly stays busy. But a page
/// that sat in another CPU's LRU batch is free by the next call.
pub const ATTEMPTS: u32 = 3;

/// The bucket holds at least a huge page, or a low rate could never pay for one.
const MAX_PAGE: u64 = 2 << 20;

/// The value of status entries before a call: no node, and no error number of Linux.
const UNTOUCHED: i32 = i32::MIN;

/// A page to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MoveRequest {
    /// Tenant of the process.
    pub tenant: TenantId,
    /// Process that maps the page.
    pub process: Process,
    /// First address of the page.
    pub address: u64,
    /// Size in bytes, of a base page or a huge page.
    pub bytes: u64,
    /// Target node.
    pub node: u32,
    /// The node on which it makes room for another page; `None` if it moves for its own sake.
    pub room_on: Option<u32>,
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// Node before the move; `None` if the page was not present or its node was never read.
    pub from: Option<u32>,
    /// Success, or the reason of the failure.
    pub result: std::result::Result<(), FailReason>,
}

/// Counters of a mover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MoverCounters {
    /// Calls of move_pages(2) that moved.
    pub calls: u64,
    /// Bytes verified to have moved.
    pub bytes: u64,
    /// Pages that the kernel reported as moved but that stayed.
    pub lies: u64,
    /// Pages moved in a call during which their process ended: they may belong to another process.
    pub in_doubt: u64,
    /// Pages retried.
    pub retries: u64,
}

/// Moves pages. It keeps its buffers from run to run.
#[derive(Debug)]
pub struct Mover {
    shared: bool,
    batch_size: BatchSize,
    /// Of the tenants whose calls have a target of their own.
    own_sizes: BTreeMap<TenantId, BatchSize>,
    bytes: TokenBucket,
    /// Nanoseconds.
    cpu: TokenBucket,
    backoff: Backoff,
    tally: MoverCounters,
    /// Indexes of the requests of this pass, and of those for the next.
    todo: Vec<u32>,
    again: Vec<u32>,
    batch: Batch,
}

impl Mover {
    /// Creates a mover with full buckets.
    pub fn new(limits: &Limits) -> Self {
        let nanoseconds = |share: f64| (share.max(0.0) * 1e9) as u64;
        Self {
            shared: limits.shared,
            batch_size: BatchSize::new(limits.call),
            own_sizes: BTreeMap::new(),
            bytes: TokenBucket::new(limits.bandwidth.map(|b| b.0), MAX_PAGE),
            cpu: TokenBucket::new(limits.cpu.map(nanoseconds), 0),
            backoff: Backoff::default(),
            tally: MoverCounters::default(),
            todo: Vec::new(),
            again: Vec::new(),
            batch: Batch::default(),
        }
    }

    /// Returns the counters so far.
    pub fn tally(&self) -> MoverCounters {
        self.tally
    }

    /// Sets the tenants whose calls have a target of their own for the P99 of a call's duration, if
    /// it is shorter than the common one ([`Limits::call`]). What was learnt of the sizes for the
    /// same target stays.
    pub fn set_targets(&mut self, targets: impl IntoIterator<Item = (TenantId, Duration)>) {
        let mut known = std::mem::take(&mut self.own_sizes);
        let shorter = targets.into_iter().filter(|(_, target)| *target < self.batch_size.target());
        self.own_sizes = shorter
            .map(|(tenant, target)| {
                let size = known.remove(&tenant).filter(|size| size.target() == target);
                (tenant, size.unwrap_or_else(|| BatchSize::new(target)))
            })
            .collect();
    }

    fn size_of(&mut self, tenant: TenantId) -> &mut BatchSize {
        self.own_sizes.get_mut(&tenant).unwrap_or(&mut self.batch_size)
    }

    /// Returns the 99th percentile of the last calls' durations, of the tenants whose is longest.
    pub fn call_p99(&self) -> Duration {
        let own = self.own_sizes.values().map(BatchSize::p99);
        own.fold(self.batch_size.p99(), Duration::max)
    }

    /// Executes requests in order; `out[i]` becomes the outcome of `requests[i]`.
    ///
    /// # Errors
    /// The kernel refuses to move pages at all (`EPERM`, `ENODEV`, `EINVAL`, `ENOSYS`). `out` is
    /// complete even then: requests that were not reached count as cut by the budget.
    pub fn run(
        &mut self,
        calls: &mut impl Calls,
        requests: &[MoveRequest],
        out: &mut Vec<Moved>,
    ) -> Result<()> {
        out.clear();
        // Requests that are not reached were cut by the budget.
        out.resize(requests.len(), Moved { from: None, result: Err(FailReason::Budget) });
        self.todo.clear();
        self.todo.extend(0..requests.len() as u32);
        for attempt in 1..=ATTEMPTS {
            self.again.clear();
            let done = self.pass(calls, requests, out)?;
            std::mem::swap(&mut self.todo, &mut self.again);
            if !done || self.todo.is_empty() {
                break;
            }
            if attempt < ATTEMPTS {
                self.tally.retries += self.todo.len() as u64;
            }
        }
        Ok(())
    }

    /// Tries every request in `todo` once; false if the budget ended the pass.
    fn pass(
        &mut self,
        calls: &mut impl Calls,
        requests: &[MoveRequest],
        out: &mut [Moved],
    ) -> Result<bool> {
        let mut at = 0;
        while at < self.todo.len() {
            let before = calls.cpu();
            let now = calls.now();
            if self.cpu.left(now) <= 0 {
                return Ok(false);
            }
            let affordable = self.bytes.left(now);
            self.batch.clear();
            at = self.fill(requests, at, affordable);
            if self.batch.requests.is_empty() {
                return Ok(false);
            }
            let answer = self.execute(calls, requests, out);
            let used = calls.cpu().saturating_sub(before);
            self.cpu.spend(u64::try_from(used.as_nanos()).unwrap_or(u64::MAX));
            answer?;
        }
        Ok(true)
    }

    /// Fills the batch from `todo[at..]`: pages of one process, within the limits of size and
    /// budget, but always at least one page if the budget has any. Returns the start of the next
    /// batch.
    fn fill(&mut self, requests: &[MoveRequest], mut at: usize, affordable: i64) -> usize {
        let Some(&first) = self.todo.get(at) else { return at };
        let tenant = requests[first as usize].tenant;
        let most = u64::from(self.size_of(tenant).pages()) * PAGE_SIZE;
        let mut bytes = 0;
        let mut process = None;
        while let Some(&index) = self.todo.get(at) {
            let request = &requests[index as usize];
            let total = bytes + request.bytes.max(PAGE_SIZE);
            let fits = bytes == 0 || total <= most;
            let paid = i64::try_from(total).is_ok_and(|t| t <= affordable);
            if !fits || !paid || *process.get_or_insert(request.process) != request.process {
                break;
            }
            self.batch.push(index, request);
            bytes = total;
            at += 1;
        }
        at
    }

    /// Moves one batch and writes its outcomes.
    fn execute(
        &mut self,
        calls: &mut impl Calls,
        requests: &[MoveRequest],
        out: &mut [Moved],
    ) -> Result<()> {
        let MoveRequest { tenant, process, .. } = requests[self.batch.requests[0] as usize];
        calls.charge(tenant);
        let Some(thread) = calls.thread(&process) else {
            self.all(out, FailReason::NotPresent);
            return Ok(());
        };
        self.batch.forget_status();
        let monitored = calls.nodes(thread, &self.batch.addresses, &mut self.batch.status);
        if !is_still(calls, &process, thread) {
            self.all(out, FailReason::NotPresent);
            return Ok(());
        }
        if let Err(e) = monitored {
            return self.refused(e, out);
        }
        self.keep_what_must_move(calls, requests, out);
        if self.batch.requests.is_empty() {
            return Ok(());
        }
        let answer = self.call(calls, requests, thread);
        let verified = self.verify(calls, thread);
        if !is_still(calls, &process, thread) {
            self.doubt(&process, requests, out);
            return Ok(());
        }
        match (answer, verified) {
            (Err(e), _) if !is_no_memory(&e) => self.refused(e, out),
            (_, Err(e)) => self.refused(e, out),
            (answer, Ok(())) => {
                self.judge(calls, requests, out, answer.is_err());
                Ok(())
            }
        }
    }

    /// Keeps the pages in the batch that are on another node and may move now; writes the outcomes
    /// of the others.
    fn keep_what_must_move(
        &mut self,
        calls: &mut impl Calls,
        requests: &[MoveRequest],
        out: &mut [Moved],
    ) {
        let now = calls.now();
        let backoff = &self.backoff;
        let is_waiting = |node: u32| {
            let node = i32::try_from(node).unwrap_or(i32::MAX);
            backoff.is_waiting(node, now)
        };
        let batch = &mut self.batch;
        let mut kept = 0;
        for i in 0..batch.requests.len() {
            let (index, node) = (batch.requests[i], batch.nodes[i]);
            let moved = &mut out[index as usize];
            let Ok(from) = u32::try_from(batch.status[i]) else {
                moved.result = Err(absent(batch.status[i]));
                continue;
            };
            moved.from = Some(from);
            if batch.status[i] == node {
                moved.result = Err(FailReason::Already);
            } else if backoff.is_waiting(node, now) {
                moved.result = Err(FailReason::TargetFull);
            } else if requests[index as usize].room_on.is_some_and(is_waiting) {
                moved.result = Err(FailReason::Budget);
            } else {
                batch.keep(i, kept);
                kept += 1;
            }
        }
        batch.truncate(kept);
    }

    fn call(&mut self, calls: &mut impl Calls, requests: &[MoveRequest], pid: i32) -> Result<()> {
        let batch = &mut self.batch;
        batch.forget_status();
        let (before, worked) = (calls.now(), calls.cpu());
        let answer =
            calls.move_pages(pid, &batch.addresses, &batch.nodes, &mut batch.status, self.shared);
        let time = calls.now().since(before);
        let bytes: u64 = batch.requests.iter().map(|&i| requests[i as usize].bytes).sum();
        if let Err(LinuxError::Locked { .. }) = answer {
            // One process's delay does not predict that of others.
            return answer;
        }
        let work = calls.cpu().saturating_sub(worked);
        let pages = u32::try_from(bytes / PAGE_SIZE).unwrap_or(u32::MAX);
        let tenant = requests[batch.requests[0] as usize].tenant;
        self.size_of(tenant).took(pages, time, work);
        self.tally.calls += 1;
        answer
    }

    fn verify(&mut self, calls: &mut impl Calls, pid: i32) -> Result<()> {
        let batch = &mut self.batch;
        batch.forget_placed();
        calls.nodes(pid, &batch.addresses, &mut batch.placed)
    }

    /// Writes the outcomes of the pages that the call moved, by their placement afterwards.
    fn judge(
        &mut self,
        calls: &mut impl Calls,
        requests: &[MoveRequest],
        out: &mut [Moved],
        no_memory: bool,
    ) {
        let now = calls.now();
        let batch = &self.batch;
        for (i, &index) in batch.requests.iter().enumerate() {
            let (node, placed) = (batch.nodes[i], batch.placed[i]);
            let status = if no_memory { -libc::ENOMEM } else { batch.status[i] };
            let result = verdict(node, placed, status);
            out[index as usize].result = result;
            match result {
                Ok(()) => {
                    let bytes = requests[index as usize].bytes;
                    self.tally.bytes += bytes;
                    self.bytes.spend(bytes);
                }
                Err(FailReason::Busy) if is_worth_another_try(status) => self.again.push(index),
                Err(_) => self.tally.lies += u64::from(status == node),
            }
        }
        self.note_full_nodes(out, now);
    }

    /// Marks a node full if it accepted no page of the batch.
    fn note_full_nodes(&mut self, out: &[Moved], now: Timestamp) {
        let batch = &self.batch;
        let results = || batch.nodes.iter().zip(&batch.requests);
        for (&node, &index) in results() {
            match out[index as usize].result {
                Ok(()) => self.backoff.succeeded(node),
                // Once per batch: the first failure starts the wait.
                Err(FailReason::TargetFull) if !self.backoff.is_waiting(node, now) => {
                    let room =
                        results().any(|(n, &i)| *n == node && out[i as usize].result.is_ok());
                    if !room {
                        self.backoff.failed(node, now);
                    }
                }
                Err(_) => (),
            }
        }
    }

    /// Handles a process that ended during the call: the moved pages may belong to a process that
    /// reuses its pid. They count as gone, and their bytes as used.
    fn doubt(&mut self, process: &Process, requests: &[MoveRequest], out: &mut [Moved]) {
        let batch = &self.batch;
        let mut pages = 0;
        for (i, &index) in batch.requests.iter().enumerate() {
            if batch.status[i] == batch.nodes[i] || batch.placed[i] == batch.nodes[i] {
                pages += 1;
                self.bytes.spend(requests[index as usize].bytes);
            }
        }
        if pages > 0 && self.tally.in_doubt == 0 {
            tracing::info!(
                "process {} ended while {pages} pages were moved, which may be of another process \
                 with the same pid: they count as not moved; this message appears once",
                process.pid
            );
        }
        self.tally.in_doubt += pages;
        self.all(out, FailReason::NotPresent);
    }

    /// Sets the outcomes of a batch whose call failed as a whole.
    fn refused(&mut self, error: LinuxError, out: &mut [Moved]) -> Result<()> {
        if let LinuxError::Locked { .. } = error {
            // The survey reports it.
            self.all(out, FailReason::Busy);
            return Ok(());
        }
        let LinuxError::Process { source, .. } = &error else {
            self.all(out, FailReason::Busy);
            return Err(error);
        };
        match source.raw_os_error() {
            Some(libc::ESRCH) => self.all(out, FailReason::NotPresent),
            // The kernel lacks memory even for the query: the pages stay, and this run does not
            // retry them.
            Some(libc::ENOMEM | libc::EBUSY | libc::EAGAIN | libc::EINTR) => {
                self.all(out, FailReason::Busy);
            }
            _ => {
                self.all(out, FailReason::Busy);
                return Err(error);
            }
        }
        Ok(())
    }

    fn all(&self, out: &mut [Moved], reason: FailReason) {
        for &index in &self.batch.requests {
            out[index as usize].result = Err(reason);
        }
    }
}

/// True if a thread's id still belongs to the process. A process keeps its pid while one of its
/// threads lives.
fn is_still(calls: &mut impl Calls, process: &Process, thread: i32) -> bool {
    calls.thread(process).is_some_and(|now| now == thread || thread == process.pid)
}

/// The arguments and results of one call.
#[derive(Debug, Default)]
struct Batch {
    requests: Vec<u32>,
    addresses: Vec<usize>,
    nodes: Vec<i32>,
    status: Vec<i32>,
    placed: Vec<i32>,
}

impl Batch {
    fn clear(&mut self) {
        self.requests.clear();
        self.addresses.clear();
        self.nodes.clear();
    }

    fn push(&mut self, index: u32, request: &MoveRequest) {
        self.requests.push(index);
        self.addresses.push(request.address as usize);
        // No kernel has more nodes than an int can count; the kernel refuses one out of range.
        self.nodes.push(i32::try_from(request.node).unwrap_or(i32::MAX));
    }

    /// Keeps entry `from` as entry `to` of the next call.
    fn keep(&mut self, from: usize, to: usize) {
        self.requests[to] = self.requests[from];
        self.addresses[to] = self.addresses[from];
        self.nodes[to] = self.nodes[from];
    }

    fn truncate(&mut self, length: usize) {
        self.requests.truncate(length);
        self.addresses.truncate(length);
        self.nodes.truncate(length);
    }

    fn forget_status(&mut self) {
        self.status.clear();
        self.status.resize(self.addresses.len(), UNTOUCHED);
    }

    fn forget_placed(&mut self) {
        self.placed.clear();
        self.placed.resize(self.addresses.len(), UNTOUCHED);
    }
}

/// The outcome of a page with target `node`, placement `placed` and the kernel's `status`.
fn verdict(node: i32, placed: i32, status: i32) -> std::result::Result<(), FailReason> {
    if placed == node {
        Ok(())
    } else if placed < 0 {
        Err(absent(placed))
    } else if status == -libc::ENOMEM || status == node {
        // Reported as moved but elsewhere: the kernel fell back because the target had no free
        // memory.
        Err(FailReason::TargetFull)
    } else {
        Err(FailReason::Busy)
    }
}

/// The reason why a page has no node.
fn absent(status: i32) -> FailReason {
    // Not mapped, swapped out, or the shared page of zeros, which belongs to no process.
    let gone = [libc::ENOENT, libc::EFAULT].iter().any(|&e| status == -e);
    if gone { FailReason::NotPresent } else { FailReason::Busy }
}

/// True if a busy page may be free by the next call. A page that other processes map too (`EACCES`)
/// will not be.
fn is_worth_another_try(status: i32) -> bool {
    status != -libc::EACCES
}

/// True if a call as a whole failed because a node had no free memory.
fn is_no_memory(error: &LinuxError) -> bool {
    let LinuxError::Process { source, .. } = error else { return false };
    source.raw_os_error() == Some(libc::ENOMEM)
}
