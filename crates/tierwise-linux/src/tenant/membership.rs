//! Who belongs to which tenant, followed as processes come and go.
//!
//! A process is its number and when it was started, so a number that was given out again is another process. One that fits
//! two tenants belongs to the one listed first, and that is said once.

use std::collections::{BTreeMap, BTreeSet};

use tierwise_core::units::TenantId;

use super::qemu;
use super::selector::Selector;
use crate::cgroup::Group;
use crate::error::Result;
use crate::process::{Process, Reader};
use crate::roots::Roots;

/// Where a tenant is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Its groups or its guest do not exist yet, or have no process yet.
    Waiting,
    /// It has processes.
    Running,
    /// It had processes and has none now. A group or a guest may come back.
    Ended,
}

/// A process that fits two tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Double {
    /// The process.
    pub process: Process,
    /// The tenant that it belongs to: the one listed first.
    pub kept: TenantId,
    /// The tenant that it would fit too.
    pub also: TenantId,
}

/// What [`Follower::refresh`] found.
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
    pub doubles: Vec<Double>,
}

#[derive(Debug)]
struct Tenant {
    name: String,
    selector: Selector,
    state: State,
    members: BTreeSet<Process>,
    groups: Vec<Group>,
    /// For a list of pids: who had the number when it was first seen.
    first_seen: BTreeMap<i32, Process>,
}

/// Follows the tenants' processes.
///
/// ```no_run
/// use tierwise_linux::roots::Roots;
/// use tierwise_linux::tenant::Follower;
///
/// let tenants = vec![("cache".to_owned(), "cgroup:redis-server.service".parse()?)];
/// let mut follower = Follower::new(tenants);
/// for (tenant, process) in follower.refresh(&Roots::default())?.joined {
///     println!("{tenant:?}: process {}", process.pid);
/// }
/// # Ok::<(), tierwise_linux::error::LinuxError>(())
/// ```
#[derive(Debug, Default)]
pub struct Follower {
    tenants: Vec<Tenant>,
    said: BTreeSet<Double>,
    reader: Reader,
}

impl Follower {
    /// Follows these tenants, by name; [`TenantId`] is the index.
    pub fn new(tenants: Vec<(String, Selector)>) -> Self {
        let mut follower = Self::default();
        follower.set_tenants(tenants);
        follower
    }

    /// Follows these tenants from now on. A tenant whose name and selector stay keeps its processes, though its index may be
    /// another; those of a tenant that is no more are not reported as having left.
    pub fn set_tenants(&mut self, tenants: Vec<(String, Selector)>) {
        let mut old = std::mem::take(&mut self.tenants);
        let keep = |(name, selector): (String, Selector)| match old
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

    /// Where a tenant is in its life; [`State::Ended`] for one that does not exist.
    pub fn state(&self, tenant: TenantId) -> State {
        self.tenants.get(tenant.index()).map_or(State::Ended, |t| t.state)
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
    /// A file is damaged, or a folder cannot be listed. What was known before stays then. Processes and groups that vanish
    /// are no errors.
    pub fn refresh(&mut self, roots: &Roots) -> Result<Changes> {
        let mut owner: BTreeMap<Process, TenantId> = BTreeMap::new();
        let mut found = Vec::with_capacity(self.tenants.len());
        let mut doubles = BTreeSet::new();
        for (index, tenant) in self.tenants.iter().enumerate() {
            // More tenants than u16 can number are refused with the configuration.
            let id = TenantId(index as u16);
            let (groups, mut members) = tenant.find(roots, &mut self.reader)?;
            members.retain(|&process| match owner.get(&process) {
                Some(&kept) => {
                    doubles.insert(Double { process, kept, also: id });
                    false
                }
                None => {
                    owner.insert(process, id);
                    true
                }
            });
            found.push((groups, members));
        }
        let mut changes = Changes {
            doubles: doubles.difference(&self.said).copied().collect(),
            ..Changes::default()
        };
        // Only pairs that are there now: a process that ended is forgotten.
        self.said = doubles;
        for (index, (tenant, (groups, members))) in self.tenants.iter_mut().zip(found).enumerate() {
            tenant.take(TenantId(index as u16), groups, members, &mut changes);
        }
        Ok(changes)
    }
}

impl Tenant {
    fn new(name: String, selector: Selector) -> Self {
        Self {
            name,
            selector,
            state: State::Waiting,
            members: BTreeSet::new(),
            groups: Vec::new(),
            first_seen: BTreeMap::new(),
        }
    }

    /// The groups and the live processes that fit now.
    fn find(&self, roots: &Roots, reader: &mut Reader) -> Result<(Vec<Group>, BTreeSet<Process>)> {
        let mut groups = Vec::new();
        let mut pids = BTreeSet::new();
        match &self.selector {
            Selector::Cgroup(pattern) => {
                for group in pattern.groups(roots)? {
                    match group.processes(&mut pids) {
                        Err(e) if e.is_gone() => {}
                        other => {
                            other?;
                            groups.push(group);
                        }
                    }
                }
            }
            Selector::Pids(list) => pids.extend(list),
            Selector::Qemu(guest) => {
                // Finding it reads every command line; as long as it lives there is no need to.
                match self.members.first().filter(|p| p.is_alive_with(roots, reader)) {
                    Some(process) => pids.extend([process.pid]),
                    None => pids.extend(qemu::find(roots, guest, reader)?),
                }
            }
        }
        let mut members = BTreeSet::new();
        for pid in pids {
            match Process::read(roots, pid, reader) {
                Ok(process) if self.is_stranger(process) => {}
                Err(e) if e.is_gone() => {}
                other => {
                    members.insert(other?);
                }
            }
        }
        Ok((groups, members))
    }

    /// Whether a process has a listed number but is not the one that had it when it was listed: nobody asked for it.
    fn is_stranger(&self, process: Process) -> bool {
        self.first_seen.get(&process.pid).is_some_and(|&first| first != process)
    }

    fn take(
        &mut self,
        id: TenantId,
        groups: Vec<Group>,
        members: BTreeSet<Process>,
        changes: &mut Changes,
    ) {
        if matches!(self.selector, Selector::Pids(_)) {
            for process in &members {
                self.first_seen.entry(process.pid).or_insert(*process);
            }
        }
        changes.joined.extend(members.difference(&self.members).map(|&p| (id, p)));
        changes.left.extend(self.members.difference(&members).map(|&p| (id, p)));
        let state = match (self.state, members.is_empty()) {
            (_, false) => State::Running,
            (State::Running, true) => State::Ended,
            (before, true) => before,
        };
        match (self.state, state) {
            (State::Running, State::Ended) => changes.ended.push(id),
            (State::Waiting | State::Ended, State::Running) => changes.started.push(id),
            _ => {}
        }
        (self.state, self.members, self.groups) = (state, members, groups);
    }
}

#[cfg(test)]
mod tests;
