//! Tenants' processes, followed as they come and go.
//!
//! A process is its pid and its start time, so that a reused pid is another process. A group lists
//! pids only. A new process therefore counts once the group lists its pid while that process is
//! known to have it. A process that fits two tenants belongs to the one listed first, and the
//! conflict is reported once.

use std::collections::BTreeMap;

use tierwise_core::units::TenantId;

use super::qemu;
use super::selector::TenantSelector;
use crate::cgroup::{Buffers, Cgroup};
use crate::error::Result;
use crate::fault::{FaultScope, Faults};
use crate::process::Process;
use crate::roots::Roots;

/// Maximum number of members per tenant whose start times are read again in one refresh. A read
/// takes some 5 us, so a tenant of thousands of processes costs the others no more than one of this
/// size. The identity of the other members counts as unchanged: every user of a process checks its
/// start time.
const CHECKED: usize = 256;

/// State of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantState {
    /// Its groups or its guest do not exist yet, or have no process yet.
    Waiting,
    /// It has processes.
    Running,
    /// It had processes and has none now. A group or guest may return.
    Ended,
}

/// A process that fits two tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// Process that fits both.
    pub process: Process,
    /// Tenant that it belongs to: the one listed first.
    pub kept: TenantId,
    /// The other tenant that it fits.
    pub also: TenantId,
}

/// Changes that [`TenantTracker::refresh`] found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TenantChanges {
    /// New processes.
    pub joined: Vec<(TenantId, Process)>,
    /// Processes that are no longer the tenant's.
    pub left: Vec<(TenantId, Process)>,
    /// Tenants that had no process and have one now.
    pub started: Vec<TenantId>,
    /// Tenants that have lost their last process.
    pub ended: Vec<TenantId>,
    /// Processes that fit two tenants. Each pair is reported once.
    pub conflicts: Vec<Conflict>,
    /// Failed reads; each process, group or guest in it is left out.
    pub faults: Faults,
}

#[derive(Debug)]
struct Tenant {
    name: String,
    selector: TenantSelector,
    state: TenantState,
    /// Ascending.
    members: Vec<Process>,
    groups: Vec<Cgroup>,
    /// Processes found by the current refresh. Afterwards the previous members, to keep their
    /// memory.
    found: Vec<Process>,
    found_groups: Vec<Cgroup>,
    /// Last pid whose start time was checked.
    checked: i32,
    /// For a list of pids: the process that had each pid when it was first found.
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
    reported: Vec<Conflict>,
    buffers: Buffers,
    pids: Vec<i32>,
    owners: Vec<(Process, TenantId)>,
    conflicts: Vec<Conflict>,
}

impl TenantTracker {
    /// A tracker of these tenants, by name; [`TenantId`] is the index.
    pub fn new(tenants: Vec<(String, TenantSelector)>) -> Self {
        let mut tracker = Self::default();
        tracker.set_tenants(tenants);
        tracker
    }

    /// Replaces the tenants. A tenant with the same name and selector keeps its processes, although
    /// its index may change. So does one whose selector names other groups: the next refresh
    /// reports the processes that joined and left. The processes of a removed tenant are not
    /// reported as having left.
    pub fn set_tenants(&mut self, tenants: Vec<(String, TenantSelector)>) {
        let mut old = std::mem::take(&mut self.tenants);
        let keep = |(name, selector): (String, TenantSelector)| {
            let stays = |t: &Tenant| {
                let of_groups = t.selector.is_of_groups() && selector.is_of_groups();
                t.name == name && (of_groups || t.selector == selector)
            };
            match old.iter().position(stays) {
                Some(at) => Tenant { selector, ..old.swap_remove(at) },
                None => Tenant::new(name, selector),
            }
        };
        self.tenants = tenants.into_iter().map(keep).collect();
        // The reported pairs name tenants by index.
        self.reported.clear();
    }

    /// Number of tenants.
    pub fn len(&self) -> usize {
        self.tenants.len()
    }

    /// True if there are no tenants.
    pub fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    /// Name of a tenant; empty if it does not exist.
    pub fn name(&self, tenant: TenantId) -> &str {
        self.tenants.get(tenant.index()).map_or("", |t| &t.name)
    }

    /// State of a tenant; [`TenantState::Ended`] if it does not exist.
    pub fn state(&self, tenant: TenantId) -> TenantState {
        self.tenants.get(tenant.index()).map_or(TenantState::Ended, |t| t.state)
    }

    /// Processes of a tenant, ascending by pid.
    pub fn members(&self, tenant: TenantId) -> impl Iterator<Item = Process> + '_ {
        self.tenants.get(tenant.index()).into_iter().flat_map(|t| t.members.iter().copied())
    }

    /// The tenant of a process; `None` if it belongs to none.
    pub fn tenant_of(&self, process: Process) -> Option<TenantId> {
        let has = |t: &Tenant| t.members.binary_search(&process).is_ok();
        // The configuration refuses more tenants than a u16 can number.
        self.tenants.iter().position(has).map(|index| TenantId(index as u16))
    }

    /// Control groups that a tenant has now; none for other selectors.
    pub fn groups(&self, tenant: TenantId) -> &[Cgroup] {
        self.tenants.get(tenant.index()).map_or(&[], |t| &t.groups)
    }

    /// Reads the processes of all tenants again.
    ///
    /// # Errors
    /// The machine lacks what is needed to read anything; the last known state stays then.
    /// Processes and groups that vanish are no errors, and those that cannot be read are
    /// [`TenantChanges::faults`].
    pub fn refresh(&mut self, roots: &Roots) -> Result<TenantChanges> {
        self.owners.clear();
        let mut faults = Faults::default();
        for (index, tenant) in self.tenants.iter_mut().enumerate() {
            // The configuration refuses more tenants than a u16 can number.
            let id = TenantId(index as u16);
            self.buffers.faults.clear();
            tenant.find(roots, &mut self.buffers, &mut self.pids)?;
            faults.take(&mut self.buffers.faults, Some(id));
            self.owners.extend(tenant.found.iter().map(|&process| (process, id)));
        }
        self.resolve_conflicts();
        let new =
            self.conflicts.iter().filter(|double| self.reported.binary_search(double).is_err());
        let mut changes =
            TenantChanges { conflicts: new.copied().collect(), faults, ..TenantChanges::default() };
        // Only current pairs are kept: a process that has ended is forgotten.
        std::mem::swap(&mut self.reported, &mut self.conflicts);
        for (index, tenant) in self.tenants.iter_mut().enumerate() {
            tenant.take(TenantId(index as u16), &mut changes);
        }
        Ok(changes)
    }

    /// Assigns a process that fits several tenants to the one listed first.
    fn resolve_conflicts(&mut self) {
        self.conflicts.clear();
        self.owners.sort_unstable();
        let mut first = None;
        for &(process, id) in &self.owners {
            match first {
                Some((known, kept)) if known == process => {
                    self.conflicts.push(Conflict { process, kept, also: id });
                }
                _ => first = Some((process, id)),
            }
        }
        // One pass per tenant: two tenants may share thousands of processes.
        let Self { conflicts, tenants, .. } = self;
        for (index, tenant) in tenants.iter_mut().enumerate().filter(|_| !conflicts.is_empty()) {
            let id = TenantId(index as u16);
            // Ascending, as the owners are: one tenant keeps a process, and the others follow.
            let loses = |process: &Process| {
                conflicts.binary_search_by_key(&(*process, id), |c| (c.process, c.also)).is_ok()
            };
            tenant.found.retain(|process| !loses(process));
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

    /// Finds the groups and live processes that match now. Failed reads stay in the buffers.
    ///
    /// # Errors
    /// The machine lacks what is needed to read any of them.
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
                self.list_groups(buffers, pids)?;
            }
            TenantSelector::Groups(paths) => {
                self.found_groups.clear();
                let groups = paths.iter().map(|path| Cgroup::new(roots.cgroup.join(path)));
                self.found_groups.extend(groups);
                self.list_groups(buffers, pids)?;
            }
            TenantSelector::Pids(list) => pids.extend(list),
            TenantSelector::Qemu(named) => {
                // The search reads every command line. It is not needed while the process lives.
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
        let start = match self.members.partition_point(|member| member.pid <= self.checked) {
            // All are checked, or can be in one refresh: the next one starts with the first.
            end if end == self.members.len() || self.members.len() <= CHECKED => i32::MIN,
            _ => self.checked,
        };
        for &pid in &*pids {
            let known = self.members.binary_search_by_key(&pid, |member| member.pid).ok();
            if let Some(known) = known {
                if pid <= start || left == 0 {
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
        if self.selector.is_of_groups() { self.confirm(roots, buffers, pids) } else { Ok(()) }
    }

    /// Adds the processes of the groups found. Leaves out the groups that are gone or cannot be
    /// read.
    ///
    /// # Errors
    /// The machine lacks what is needed to read any of them.
    fn list_groups(&mut self, buffers: &mut Buffers, pids: &mut Vec<i32>) -> Result<()> {
        let mut outcome = Ok(());
        self.found_groups.retain(|group| {
            if outcome.is_err() {
                return false;
            }
            let read = group.processes(buffers, pids);
            let there = one_of_many(read, buffers, || FaultScope::Group(group.path.clone()));
            there.unwrap_or_else(|e| {
                outcome = Err(e);
                false
            })
        });
        outcome
    }

    /// Drops new processes that a second list of the groups does not have. Between the list and the
    /// reading of a pid, its process may end and the kernel may give the pid to another tenant's
    /// process. If a process has the pid before and after the second list, that list means this
    /// process. A member is known by its start time and needs no second list.
    ///
    /// `/proc/PID/cgroup` is of no use here: its paths are those of the daemon's cgroup namespace,
    /// and need not match the mount.
    fn confirm(&mut self, roots: &Roots, buffers: &mut Buffers, pids: &mut Vec<i32>) -> Result<()> {
        let Self { found, members, found_groups, .. } = self;
        let known = |process: &Process| members.binary_search(process).is_ok();
        if found.iter().all(known) {
            return Ok(());
        }
        pids.clear();
        // Faults of a group were recorded with its first list.
        let reported = std::mem::take(&mut buffers.faults);
        for group in found_groups.iter() {
            let read = group.processes(buffers, pids);
            one_of_many(read, buffers, || FaultScope::Group(group.path.clone()))?;
        }
        buffers.faults = reported;
        let reader = &mut buffers.reader;
        found.retain(|process| {
            let listed = || pids.binary_search(&process.pid).is_ok();
            known(process) || (listed() && process.is_alive_with(roots, reader))
        });
        Ok(())
    }

    /// True if a process has a listed pid, but is not the process that had it when the list was
    /// first read.
    fn is_unmanaged(&self, process: Process) -> bool {
        self.first_seen.get(&process.pid).is_some_and(|&first| first != process)
    }

    /// Makes the processes found the tenant's members, and records the changes.
    fn take(&mut self, id: TenantId, changes: &mut TenantChanges) {
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

/// True if the read succeeded. A missing process or group is left out, and one that cannot be read
/// is a fault.
///
/// # Errors
/// The failure is the machine's, so that no other can be read either.
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
