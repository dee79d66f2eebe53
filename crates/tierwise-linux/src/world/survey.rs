//! Survey: the blocks of each process, and the tier of each.
//!
//! A block counts if at least half of it is resident: a few pages of a large mapping are not worth
//! a page of the engine's, and stay where the kernel put them. The tier of a block is that of its
//! first resident page (move_pages(2) without nodes). Moves are verified page by page, and the
//! kernel's own migrations move larger pieces.
//!
//! A block in a slower tier is left out if its program has placed most of it there ([`placed`]):
//! the engine does not know it, and does not promote it. The other blocks' placed parts stay behind
//! when a block is promoted.
//!
//! A survey of a process takes as long as its page tables are large. After a survey a process
//! therefore rests for a hundred times as long as the survey took. A tenant can have any number of
//! processes, with any number of mappings. Once the surveys of a tenant in one round have taken
//! [`SHARE`], its other processes wait until twenty times as long has passed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use tierwise_core::observe::Observation;
use tierwise_core::units::{Bytes, TenantId, TierId, Timestamp};

use super::blocks::{Block, Blocks, FoundBlock};
use super::heat::place::{PlacedMapping, places};
use super::heat::{HeatMemory, KnownProcess, since_boot};
use super::placed::{self, PlacedMemory, overlap, take_out};
use crate::error::{LinuxError, Result};
use crate::fault::{FaultScope, Faults, HostFault};
use crate::migrate::Calls;
use crate::monitor::MonitorTarget;
use crate::process::resident::PAGE_SIZE;
use crate::process::{
    AddressRange, Maps, Mounts, PageState, Pagemap, Process, Program, Reader, Task,
};
use crate::roots::Roots;
use crate::tenant::TenantTracker;
use crate::topology::LinuxHost;

/// Rest of a process after a survey, as a multiple of the survey's duration: surveys of one process
/// take at most a hundredth of one CPU.
const REST: u32 = 100;

/// Maximum time for the surveys of one tenant per round: a tenth of a round at the default
/// interval. The survey that passes it is still finished.
const SHARE: Duration = Duration::from_millis(50);

/// Rest of a tenant whose processes did not all fit into a round, as a multiple of the time that
/// they took: it delays the other tenants for at most a twentieth of the time.
const TENANT_REST: u32 = 20;

/// Addresses per call: 12 bytes each, and the kernel's own copy. The kernel works in chunks of 16
/// pages; beyond a few thousand addresses the cost per page no longer falls.
const ASKED: usize = 4096;

/// State of a process between surveys.
#[derive(Debug)]
struct Surveyed {
    mounts: Arc<Mounts>,
    due: Timestamp,
    resident: Bytes,
    /// Memory that its program has placed in slower tiers, and that is left there.
    placed: Bytes,
    tenant: TenantId,
    /// If heat is remembered: its program, and the places of its mappings.
    program: Option<Program>,
    places: Vec<PlacedMapping>,
}

impl Surveyed {
    fn recognised<'a>(
        &'a self,
        process: Process,
        tracker: &'a TenantTracker,
    ) -> Option<KnownProcess<'a>> {
        let (program, tenant) = (self.program?, tracker.name(self.tenant));
        Some(KnownProcess { tenant, process, program, places: &self.places })
    }
}

/// Reads the mappings of one process, and which of their pages are resident. The walker is moved
/// into a guarded call and returns with its result: the call may wait for the process's mmap lock.
#[derive(Debug, Default)]
struct Walker {
    /// The process that was read last.
    pagemap: Option<Pagemap>,
    maps: Maps,
    reader: Reader,
    ranges: Vec<AddressRange>,
    program: Option<Program>,
    places: Vec<PlacedMapping>,
}

impl Walker {
    /// Reads the resident pages of mappings worth tiering. Returns the first damaged line of the
    /// mappings.
    fn survey(&mut self, roots: &Roots, task: Task, mounts: &Mounts) -> Result<Option<LinuxError>> {
        let damage = self.maps.read(roots, task, mounts, &mut self.reader)?;
        let pagemap = Pagemap::of(&mut self.pagemap, roots, task)?;
        self.ranges.clear();
        for mapping in self.maps.tierable() {
            pagemap.ranges(mapping.start, mapping.end, PageState::Present, &mut self.ranges)?;
        }
        Ok(damage)
    }

    /// Reads the properties by which the process's memory is recognised. A process without an
    /// executable, or one that ends meanwhile, is not recognised.
    fn recognise(&mut self, roots: &Roots, task: Task, block: u64) {
        self.program = Program::read(roots, task, &mut self.reader).ok();
        places(&self.maps, block, &mut self.places);
    }

    /// Reads the resident pages between two addresses.
    fn resident(&mut self, roots: &Roots, task: Task, start: u64, end: u64) -> Result<()> {
        let pagemap = Pagemap::of(&mut self.pagemap, roots, task)?;
        self.ranges.clear();
        pagemap.ranges(start, end, PageState::Present, &mut self.ranges)
    }
}

/// A block with resident memory.
#[derive(Debug, Clone, Copy)]
struct Held {
    number: u64,
    first: u64,
    bytes: u64,
    /// Those of them that the program has placed.
    placed: u64,
}

/// Parts of the live world that a survey borrows.
#[derive(Debug)]
pub struct SurveyContext<'a, C> {
    /// The time of the survey.
    pub now: Timestamp,
    /// The factor by which intervals are longer than configured.
    pub throttle: f64,
    /// The machine.
    pub host: &'a LinuxHost,
    /// The processes of each tenant.
    pub tracker: &'a TenantTracker,
    /// The engine's pages.
    pub blocks: &'a mut Blocks,
    /// What was hot before, if it is remembered.
    pub heat: Option<&'a mut HeatMemory>,
    /// The kernel.
    pub calls: &'a mut C,
    /// The observation that the survey adds to.
    pub out: &'a mut Observation,
}

/// Surveys processes. Buffers are kept.
#[derive(Debug, Default)]
pub struct Survey {
    roots: Arc<Roots>,
    processes: BTreeMap<Process, Surveyed>,
    placed: PlacedMemory,
    walker: Walker,
    reader: Reader,
    /// The mounts of the mount namespaces that were read in the present round, by inode.
    mounts: BTreeMap<u64, Arc<Mounts>>,
    held: Vec<Held>,
    found: Vec<FoundBlock>,
    addresses: Vec<usize>,
    status: Vec<i32>,
    watched: Vec<MonitorTarget>,
    /// Every tenant's processes, ascending.
    members: Vec<Process>,
    /// By tenant: the earliest time of the next survey.
    tenants_due: Vec<Timestamp>,
    /// The processes of one tenant that are due, the longest waiting first.
    due: Vec<(Timestamp, Process)>,
    /// Failed reads of the last survey.
    faults: Faults,
}

impl Survey {
    /// A survey without processes.
    pub fn new(roots: Roots) -> Self {
        Self { roots: Arc::new(roots), ..Self::default() }
    }

    /// Forgets all processes, so that the next survey reads every one.
    pub fn forget(&mut self) {
        self.processes.clear();
        self.tenants_due.clear();
    }

    /// The processes found by the last survey.
    pub fn watched(&self) -> &[MonitorTarget] {
        &self.watched
    }

    /// The memory that programs have placed.
    pub fn placed(&mut self) -> &mut PlacedMemory {
        &mut self.placed
    }

    /// Bytes of these processes that were left in slower tiers at their last surveys, because their
    /// programs have placed them there.
    pub fn left_placed(&self, processes: impl Iterator<Item = Process>) -> Bytes {
        Bytes(processes.filter_map(|process| Some(self.processes.get(&process)?.placed.0)).sum())
    }

    /// Failed reads since this list was last taken.
    pub fn faults(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// Resident pages of a block's process between two addresses. Of a block in a slower tier they
    /// have no memory that its program has placed.
    ///
    /// # Errors
    /// The process is gone, or its page map cannot be opened.
    pub fn resident(
        &mut self,
        block: &Block,
        start: u64,
        end: u64,
        calls: &mut impl Calls,
    ) -> Result<&[AddressRange]> {
        let process = block.process;
        self.walker.ranges.clear();
        if self.processes.contains_key(&process) {
            let task = process.task(&self.roots, &mut self.reader)?;
            let (mut walker, roots) = (std::mem::take(&mut self.walker), Arc::clone(&self.roots));
            calls.charge(block.tenant);
            let (walker, read) = calls.guarded(process.pid, move || {
                let read = walker.resident(&roots, task, start, end);
                (walker, read)
            })?;
            self.walker = walker;
            read?;
            if block.tier != TierId::FASTEST {
                take_out(self.placed.of(process), &mut self.walker.ranges);
            }
        }
        Ok(&self.walker.ranges)
    }

    /// Surveys every process that is due, and forgets those that have ended. A process that cannot
    /// be surveyed is left out and recorded as a fault. If the machine lacks resources, its last
    /// known state stays.
    pub fn run(&mut self, mut context: SurveyContext<'_, impl Calls>) {
        let SurveyContext { now, tracker, .. } = context;
        context.blocks.start();
        self.drop_unmanaged(&mut context);
        self.watched.clear();
        self.mounts.clear();
        self.tenants_due.resize(tracker.len(), Timestamp::ZERO);
        for tenant in (0..tracker.len()).map(|i| TenantId(i as u16)) {
            if now >= self.tenants_due[tenant.index()] {
                self.survey_tenant(tenant, &mut context);
            }
            for process in tracker.members(tenant) {
                if let Some(known) = self.processes.get(&process) {
                    self.watched.push(MonitorTarget { process, tenant, resident: known.resident });
                }
            }
        }
    }

    /// Surveys the due processes of a tenant until its share of the round is used up.
    fn survey_tenant(&mut self, tenant: TenantId, context: &mut SurveyContext<'_, impl Calls>) {
        let SurveyContext { now, throttle, tracker, .. } = *context;
        let mut due = std::mem::take(&mut self.due);
        due.clear();
        due.extend(tracker.members(tenant).filter_map(|process| {
            let due = self.processes.get(&process).map_or(Timestamp::ZERO, |known| known.due);
            (now >= due).then_some((due, process))
        }));
        due.sort_unstable();
        let tenant_started = context.calls.now();
        for &(_, process) in &due {
            let started = context.calls.now();
            let spent = started.since(tenant_started);
            if spent >= SHARE {
                self.tenants_due[tenant.index()] = now + (spent * TENANT_REST).mul_f64(throttle);
                break;
            }
            if let Err(e) = self.survey(process, tenant, context) {
                self.failed(process, tenant, &e, context);
            }
            if let Some(known) = self.processes.get_mut(&process) {
                let rest = context.calls.now().since(started) * REST;
                known.due = now + rest.mul_f64(throttle);
            }
        }
        self.due = due;
    }

    fn drop_unmanaged(&mut self, context: &mut SurveyContext<'_, impl Calls>) {
        let tracker = context.tracker;
        let tenants = (0..tracker.len()).map(|i| TenantId(i as u16));
        self.members.clear();
        self.members.extend(tenants.flat_map(|tenant| tracker.members(tenant)));
        self.members.sort_unstable();
        let members = &self.members;
        self.processes.retain(|process, _| {
            let stays = members.binary_search(process).is_ok();
            if !stays {
                context.blocks.leave(*process, &mut context.out.freed);
            }
            stays
        });
        self.placed.keep(|process| members.binary_search(process).is_ok());
        if let Some(heat) = &mut context.heat {
            heat.keep(|process| members.binary_search(process).is_ok());
        }
    }

    fn failed(
        &mut self,
        process: Process,
        tenant: TenantId,
        error: &LinuxError,
        context: &mut SurveyContext<'_, impl Calls>,
    ) {
        if !error.is_gone() {
            let fault = HostFault::new(FaultScope::Process(process.pid), error);
            self.faults.push(HostFault { tenant: Some(tenant), ..fault });
        }
        if !error.is_of_machine() {
            self.processes.remove(&process);
            context.blocks.leave(process, &mut context.out.freed);
        }
    }

    fn survey(
        &mut self,
        process: Process,
        tenant: TenantId,
        context: &mut SurveyContext<'_, impl Calls>,
    ) -> Result<()> {
        let SurveyContext { host, blocks, calls, out, heat, .. } = context;
        calls.charge(tenant);
        let task = process.task(&self.roots, &mut self.reader)?;
        let known = match self.processes.entry(process) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let mounts = mounts_of(&mut self.mounts, &self.roots, task, &mut self.reader)?;
                new.insert(Surveyed {
                    mounts,
                    due: Timestamp::ZERO,
                    resident: Bytes(0),
                    placed: Bytes(0),
                    tenant,
                    program: None,
                    places: Vec::new(),
                })
            }
        };
        let (mut walker, roots) = (std::mem::take(&mut self.walker), Arc::clone(&self.roots));
        let mounts = Arc::clone(&known.mounts);
        let block = heat.is_some().then_some(blocks.size());
        let (walker, read) = calls.guarded(process.pid, move || {
            let read = walker.survey(&roots, task, &mounts);
            if let Some(block) = block {
                walker.recognise(&roots, task, block);
            }
            (walker, read)
        })?;
        self.walker = walker;
        // Checked after the files were opened: they are this process's, and not those of a later
        // process with the same pid.
        if !calls.is_alive(&process) {
            let source = std::io::Error::from_raw_os_error(libc::ESRCH);
            return Err(LinuxError::Process { pid: process.pid, call: "survey", source });
        }
        let damage = read?;
        if let Some(damage) = damage {
            let fault = HostFault::new(FaultScope::Process(process.pid), &damage);
            self.faults.push(HostFault { tenant: Some(tenant), ..fault });
        }
        known.resident =
            Bytes(self.walker.ranges.iter().map(|range| range.end - range.start).sum());
        (known.tenant, known.program) = (tenant, self.walker.program);
        std::mem::swap(&mut known.places, &mut self.walker.places);
        let placed = self.placed.of(process);
        divide(&self.walker.ranges, placed, blocks.size(), &mut self.held);
        let left = self.locate(task, host, *calls)?;
        if let Some(known) = self.processes.get_mut(&process) {
            known.placed = left;
        }
        blocks.update(
            process,
            tenant,
            &self.found,
            &mut out.allocated,
            &mut out.freed,
            &mut out.external_migrations,
        );
        self.recall(process, context);
        Ok(())
    }

    /// Reports the heat that the new blocks of a process had before.
    fn recall(&self, process: Process, context: &mut SurveyContext<'_, impl Calls>) {
        let SurveyContext { tracker, blocks, calls, out, heat, .. } = context;
        let known =
            self.processes.get(&process).and_then(|known| known.recognised(process, tracker));
        if let (Some(heat), Some(known)) = (heat, known) {
            let (size, fresh) = (blocks.size(), blocks.fresh());
            let is_alive = |process: &Process| calls.is_alive(process);
            heat.recall(known, since_boot(), size, fresh, is_alive, &mut out.remembered);
        }
    }

    /// The surveyed processes that can be recognised later.
    pub fn recognised<'a>(
        &'a self,
        tracker: &'a TenantTracker,
    ) -> impl Iterator<Item = KnownProcess<'a>> + 'a {
        self.processes.iter().filter_map(|(process, known)| known.recognised(*process, tracker))
    }

    /// Finds the tier of each block. Leaves out those in slower tiers that are mostly placed, and
    /// returns their placed bytes.
    fn locate(&mut self, task: Task, host: &LinuxHost, calls: &mut impl Calls) -> Result<Bytes> {
        self.found.clear();
        let mut left = 0;
        for held in self.held.chunks(ASKED) {
            self.addresses.clear();
            self.addresses.extend(held.iter().map(|h| h.first as usize));
            self.status.clear();
            self.status.resize(held.len(), -libc::ENOENT);
            calls.nodes(task.tid(), &self.addresses, &mut self.status)?;
            let tier = |&node: &i32| u32::try_from(node).ok().and_then(|node| host.tier_of(node));
            for (h, node) in held.iter().zip(&self.status) {
                let tier = tier(node);
                // A report of fast memory has no effect: its tenant could hold more than its share.
                if h.placed * 2 >= h.bytes && tier.is_some_and(|tier| tier != TierId::FASTEST) {
                    left += h.placed;
                    continue;
                }
                let resident = u32::try_from(h.bytes / PAGE_SIZE).unwrap_or(u32::MAX);
                self.found.push(FoundBlock { number: h.number, tier, resident });
            }
        }
        Ok(Bytes(left))
    }
}

/// Divides resident ranges into blocks, and keeps those that are at least half full.
fn divide(ranges: &[AddressRange], placed: &[placed::PlacedRange], size: u64, out: &mut Vec<Held>) {
    out.clear();
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            let number = start / size;
            let end = range.end.min((number + 1) * size);
            let placed = overlap(placed, start, end);
            match out.last_mut() {
                Some(last) if last.number == number => {
                    last.bytes += end - start;
                    last.placed += placed;
                }
                _ => out.push(Held { number, first: start, bytes: end - start, placed }),
            }
            start = end;
        }
    }
    out.retain(|held| held.bytes * 2 >= size.max(PAGE_SIZE));
}

/// Returns the mounts that a process sees: those of its mount namespace, if they were read before.
fn mounts_of(
    known: &mut BTreeMap<u64, Arc<Mounts>>,
    roots: &Roots,
    task: Task,
    reader: &mut Reader,
) -> Result<Arc<Mounts>> {
    let namespace = Mounts::namespace(roots, task);
    if let Some(mounts) = namespace.and_then(|inode| known.get(&inode)) {
        return Ok(Arc::clone(mounts));
    }
    let mut mounts = Mounts::default();
    mounts.read(roots, task, reader)?;
    let mounts = Arc::new(mounts);
    known.extend(namespace.map(|inode| (inode, Arc::clone(&mounts))));
    Ok(mounts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_need_half_their_pages_resident() {
        let range = |start, end| AddressRange { start, end, huge: false };
        let mut found = Vec::new();
        // 16 KiB blocks: number 1 has three pages in two pieces, 2 has one page, 3 is full and 4
        // starts it.
        let page = PAGE_SIZE;
        let ranges =
            [range(4 * page, 6 * page), range(7 * page, 9 * page), range(12 * page, 18 * page)];
        divide(&ranges, &[(5 * page, 8 * page), (17 * page, 99 * page)], 4 * page, &mut found);
        let held: Vec<_> = found
            .iter()
            .map(|h| (h.number, h.first / page, h.bytes / page, h.placed / page))
            .collect();
        assert_eq!(held, [(1, 4, 3, 2), (3, 12, 4, 0), (4, 16, 2, 1)]);
    }
}
