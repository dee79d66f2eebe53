//! Who belongs to which tenant, followed as processes come and go.
//!
//! A process is its number and when it was started, so a number that was given out again is another
//! process. A group lists numbers alone, so a new process counts once the group lists its number
//! while it is known to have it. One that fits two tenants belongs to the one listed first, and
//! that is said once.

use std::collections::BTreeMap;

use tierwise_core::units::TenantId;

use super::qemu;
use super::selector::TenantSelector;
use crate::cgroup::{Buffers, Group};
use crate::error::Result;
use crate::fault::{FaultScope, Faults};
use crate::process::Process;
use crate::roots::Roots;

/// Members whose start times are read again in one refresh, of each tenant. A read takes some 5 us,
/// so that a tenant of thousands of processes costs the others no more than one of this many. The
/// others are taken to be who they were: whoever uses a process checks its start time.
const CHECKED: usize = 256;

/// Where a tenant is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantState {
    /// Its groups or its guest do not exist yet, or have no process yet.
    Waiting,
    /// It has processes.
    Running,
    /// It had processes and has none now. A group or a guest may come back.
    Ended,
}

/// A process that fits two tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The process.
    pub process: Process,
    /// The tenant that it belongs to: the one listed first.
    pub kept: TenantId,
    /// The tenant that it would fit too.
    pub also: TenantId,
}

/// What [`TenantTracker::refresh`] found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Processes that came.
    pub joined: Vec<(TenantId, Process)>,
    /// Processes that are not the tenant's any more.
    pub left: Vec<(TenantId, Process)>,
    /// Tenants that have processes now and had none.
    pub started: Vec<TenantId>,
    /// Tenants whose last process went.
    pub ended: Vec<TenantId>,
    /// Processes that fit two tenants, each pair said once.
    pub conflicts: Vec<Conflict>,
    /// What could not be read: a process, a group or a guest that is left out.
    pub faults: Faults,
}

#[derive(Debug)]
struct Tenant {
    name: String,
    selector: TenantSelector,
    state: TenantState,
    /// Ascending.
    members: Vec<Process>,
    groups: Vec<Group>,
    /// What the refresh at hand finds, and after it what the one before had: its memory is kept.
    found: Vec<Process>,
    found_groups: Vec<Group>,
    /// The pid after which members are checked next.
    checked: i32,
    /// For a list of pids: who had the number when it was first seen.
    first_seen: BTreeMap<i32, Process>,
}

/// Follows the tenants' processes.
///
/// ```no_run
/// use tierwise_linux::roots::Roots;
/// use tierwise_linux::tenant::TenantTracker;
///
/// let tenants = vec![("cache".to_owned(), "cgroup:redis-server.service".parse()?)];
/// let mut tracker = TenantTracker::new(tenants);
/// for (tenant, process) in tracker.refresh(&Roots::default())?.joined {
///     println!("{tenant:?}: process {}", process.pid);
/// }
/// # Ok::<(), tierwise_linux::error::LinuxError>(())
/// ```
#[derive(Debug, Default)]
pub struct TenantTracker {
    tenants: Vec<Tenant>,
    /// Ascending.
    said: Vec<Conflict>,
    buffers: Buffers,
    pids: Vec<i32>,
    owners: Vec<(Process, TenantId)>,
    conflicts: Vec<Conflict>,
}

impl TenantTracker {
    /// Follows these tenants, by name; [`TenantId`] is the index.
    pub fn new(tenants: Vec<(String, TenantSelector)>) -> Self {
        let mut tracker = Self::default();
        tracker.set_tenants(tenants);
        tracker
    }

    /// Follows these tenants from now on. A tenant whose name and selector stay keeps its
    /// processes, though its index may be another; those of a tenant that is no more are not
    /// reported as having left.
    pub fn set_tenants(&mut self, tenants: Vec<(String, TenantSelector)>) {
        let mut old = std::mem::take(&mut self.tenants);
        let keep = |(name, selector): (String, TenantSelector)| match old
            .iter()
            .position(|t| t.name == name && t.selector == selector)
        {
            Some(at) => old.swap_remove(at),
            None => Tenant::new(name, selector),
        };
        self.tenants = tenants.into_iter().map(keep).collect();
        // The pairs name tenants by their index.
        self.said.clear();
    }

    /// How many tenants there are.
    pub fn len(&self) -> usize {
        self.tenants.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    /// A tenant's name; empty for one that does not exist.
    pub fn name(&self, tenant: TenantId) -> &str {
        self.tenants.get(tenant.index()).map_or("", |t| &t.name)
    }

    /// Where a tenant is in its life; [`TenantState::Ended`] for one that does not exist.
    pub fn state(&self, tenant: TenantId) -> TenantState {
        self.tenants.get(tenant.index()).map_or(TenantState::Ended, |t| t.state)
    }

    /// A tenant's processes, ascending by number.
    pub fn members(&self, tenant: TenantId) -> impl Iterator<Item = Process> + '_ {
        self.tenants.get(tenant.index()).into_iter().flat_map(|t| t.members.iter().copied())
    }

    /// The control groups that a tenant has now; none if it is not chosen by group.
    pub fn groups(&self, tenant: TenantId) -> &[Group] {
        self.tenants.get(tenant.index()).map_or(&[], |t| &t.groups)
    }

    /// Reads again who belongs to whom.
    ///
    /// # Errors
    /// The machine lacks what it takes to read anything. What was known before stays then.
    /// Processes and groups that vanish are no errors, and those that cannot be read are
    /// [`Changes::faults`].
    pub fn refresh(&mut self, roots: &Roots) -> Result<Changes> {
        self.owners.clear();
        let mut faults = Faults::default();
        for (index, tenant) in self.tenants.iter_mut().enumerate() {
            // More tenants than u16 can number are refused with the configuration.
            let id = TenantId(index as u16);
            self.buffers.faults.clear();
            tenant.find(roots, &mut self.buffers, &mut self.pids)?;
            faults.take(&mut self.buffers.faults, Some(id));
            self.owners.extend(tenant.found.iter().map(|&process| (process, id)));
        }
        self.part_doubles();
        let new = self.conflicts.iter().filter(|double| self.said.binary_search(double).is_err());
        let mut changes =
            Changes { conflicts: new.copied().collect(), faults, ..Changes::default() };
        // Only pairs that are there now: a process that ended is forgotten.
        std::mem::swap(&mut self.said, &mut self.conflicts);
        for (index, tenant) in self.tenants.iter_mut().enumerate() {
            tenant.take(TenantId(index as u16), &mut changes);
        }
        Ok(changes)
    }

    /// Leaves a process that fits several tenants to the one listed first.
    fn part_doubles(&mut self) {
        self.conflicts.clear();
        self.owners.sort_unstable();
        let mut first = None;
        for &(process, id) in &self.owners {
            match first {
                Some((known, kept)) if known == process => {
                    self.conflicts.push(Conflict { process, kept, also: id });
                    let found = &mut self.tenants[id.index()].found;
                    found.retain(|other| *other != process);
                }
                _ => first = Some((process, id)),
            }
        }
    }
}

impl Tenant {
    fn new(name: String, selector: TenantSelector) -> Self {
        Self {
            name,
            selector,
            state: TenantState::Waiting,
            members: Vec::new(),
            groups: Vec::new(),
            found: Vec::new(),
            found_groups: Vec::new(),
            checked: 0,
            first_seen: BTreeMap::new(),
        }
    }

    /// Finds the groups and the live processes that fit now. What cannot be read of them is left in
    /// the buffers.
    ///
    /// # Errors
    /// The machine lacks what it takes to read any.
    fn find(&mut self, roots: &Roots, buffers: &mut Buffers, pids: &mut Vec<i32>) -> Result<()> {
        pids.clear();
        let mut guest = None;
        match &self.selector {
            TenantSelector::Cgroup(pattern) => {
                let listed = pattern.groups(roots, buffers, &mut self.found_groups);
                if !one_of_many(listed, buffers, || FaultScope::Group(pattern.as_str().into()))? {
                    self.found_groups.clear();
                }
                buffers.faults.take(buffers.directories.faults(), None);
                let mut outcome = Ok(());
                self.found_groups.retain(|group| {
                    if outcome.is_err() {
                        return false;
                    }
                    let read = group.processes(buffers, pids);
                    let there =
                        one_of_many(read, buffers, || FaultScope::Group(group.path.clone()));
                    there.unwrap_or_else(|e| {
                        outcome = Err(e);
                        false
                    })
                });
                outcome?;
            }
            TenantSelector::Pids(list) => pids.extend(list),
            TenantSelector::Qemu(named) => {
                // Finding it reads every command line; as long as it lives there is no need to.
                let reader = &mut buffers.reader;
                match self.members.first().filter(|p| p.is_alive_with(roots, reader)) {
                    Some(process) => guest = Some(*process),
                    None => {
                        let found = qemu::find(roots, named, reader).map(|found| guest = found);
                        one_of_many(found, buffers, || {
                            FaultScope::Guest(self.selector.to_string())
                        })?;
                    }
                }
                pids.extend(guest.map(|process| process.pid));
            }
        }
        pids.sort_unstable();
        pids.dedup();
        self.found.clear();
        let mut left = CHECKED;
        let turn = match self.members.partition_point(|member| member.pid <= self.checked) {
            // All were checked, or can be at once: from the first again.
            end if end == self.members.len() || self.members.len() <= CHECKED => i32::MIN,
            _ => self.checked,
        };
        for &pid in &*pids {
            let known = self.members.binary_search_by_key(&pid, |member| member.pid).ok();
            if let Some(known) = known {
                if pid <= turn || left == 0 {
                    self.found.push(self.members[known]);
                    continue;
                }
                left -= 1;
                self.checked = pid;
            }
            let read = Process::read(roots, pid, &mut buffers.reader);
            let read = read.map(|process| {
                if !self.is_unmanaged(process) && guest.is_none_or(|guest| guest == process) {
                    self.found.push(process);
                }
            });
            one_of_many(read, buffers, || FaultScope::Process(pid))?;
        }
        match self.selector {
            TenantSelector::Cgroup(_) => self.confirm(roots, buffers, pids),
            _ => Ok(()),
        }
    }

    /// Leaves out new processes that the groups do not list once more. Between the list and the
    /// reading of a number, its process may end and the kernel may give the number to a process
    /// of another tenant's. One that has the number before and after a list that has it was
    /// meant by that list. A member is known by its start time and needs no second list.
    ///
    /// A list of the group's is asked, and not `/proc/PID/cgroup`, because its paths are those of
    /// the daemon's cgroup namespace and need not fit the mount.
    fn confirm(&mut self, roots: &Roots, buffers: &mut Buffers, pids: &mut Vec<i32>) -> Result<()> {
        let Self { found, members, found_groups, .. } = self;
        let known = |process: &Process| members.binary_search(process).is_ok();
        if found.iter().all(known) {
            return Ok(());
        }
        pids.clear();
        // What is wrong with a group was said with its first list.
        let said = std::mem::take(&mut buffers.faults);
        for group in found_groups.iter() {
            let read = group.processes(buffers, pids);
            one_of_many(read, buffers, || FaultScope::Group(group.path.clone()))?;
        }
        buffers.faults = said;
        let reader = &mut buffers.reader;
        found.retain(|process| {
            let listed = || pids.binary_search(&process.pid).is_ok();
            known(process) || (listed() && process.is_alive_with(roots, reader))
        });
        Ok(())
    }

    /// Whether a process has a listed number but is not the one that had it when it was listed:
    /// nobody asked for it.
    fn is_unmanaged(&self, process: Process) -> bool {
        self.first_seen.get(&process.pid).is_some_and(|&first| first != process)
    }

    /// What was found is what it has now.
    fn take(&mut self, id: TenantId, changes: &mut Changes) {
        if matches!(self.selector, TenantSelector::Pids(_)) {
            for process in &self.found {
                self.first_seen.entry(process.pid).or_insert(*process);
            }
        }
        // Both lists ascend.
        let missing = |from: &[Process], p: &Process| from.binary_search(p).is_err();
        let joined = self.found.iter().filter(|p| missing(&self.members, p));
        changes.joined.extend(joined.map(|&p| (id, p)));
        let left = self.members.iter().filter(|p| missing(&self.found, p));
        changes.left.extend(left.map(|&p| (id, p)));
        let state = match (self.state, self.found.is_empty()) {
            (_, false) => TenantState::Running,
            (TenantState::Running, true) => TenantState::Ended,
            (before, true) => before,
        };
        match (self.state, state) {
            (TenantState::Running, TenantState::Ended) => changes.ended.push(id),
            (TenantState::Waiting | TenantState::Ended, TenantState::Running) => {
                changes.started.push(id)
            }
            _ => {}
        }
        self.state = state;
        std::mem::swap(&mut self.members, &mut self.found);
        std::mem::swap(&mut self.groups, &mut self.found_groups);
    }
}

/// Whether one of many was read. One that is gone was not, and one that cannot be read is a fault.
///
/// # Errors
/// No other could be read either.
fn one_of_many(
    read: Result<()>,
    buffers: &mut Buffers,
    scope: impl FnOnce() -> FaultScope,
) -> Result<bool> {
    match read {
        Err(e) if e.is_of_machine() => Err(e),
        other => Ok(buffers.faults.absorb(scope, other).is_some()),
    }
}

#[cfg(test)]
mod tests;
