//! What the threads of the socket and the daemon's thread exchange.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tierwise_linux::process::Process;
use tierwise_linux::world::placed::{MAX_PROCESSES, PlacedRange};

use super::protocol::{Report, TenantEntitlement, TenantReply};

/// Conversations of a tenant at a time: each is a thread, and one tenant must not have all.
const MAX_OPEN: usize = 2;

/// Conversations of a tenant per second. A process needs one in ten seconds (`tierwise.emt`), and
/// each costs the daemon some hundred microseconds.
const MAX_PER_SECOND: u32 = 16;

/// The exchange. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct TenantBoard(Arc<Mutex<Board>>);

#[derive(Debug, Default)]
struct Board {
    /// The processes of all tenants by their numbers, and the index of the tenant.
    members: BTreeMap<i32, (Process, usize)>,
    entitlements: Vec<TenantEntitlement>,
    /// Reports that the daemon's thread has not taken yet: of each process the last one.
    reports: BTreeMap<Process, Vec<PlacedRange>>,
    /// By the tenants' names.
    conversations: BTreeMap<String, Conversations>,
}

/// A tenant's conversations.
#[derive(Debug)]
struct Conversations {
    open: usize,
    /// Those since this time, at most a second ago.
    since: Instant,
    count: u32,
}

impl Conversations {
    /// Returns true if the second that is counted is over.
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= Duration::from_secs(1)
    }
}

/// A conversation with one process. Its tenant has one less when this is dropped.
#[derive(Debug)]
pub(super) struct Conversation {
    board: TenantBoard,
    pid: i32,
    tenant: String,
}

impl TenantBoard {
    /// Writes the tenants' processes, and what each tenant may have.
    pub fn write(
        &self,
        members: impl Iterator<Item = (Process, usize)>,
        entitlements: Vec<TenantEntitlement>,
        now: Instant,
    ) {
        let mut board = self.lock();
        let board = &mut *board;
        board.members.clear();
        board.members.extend(members.map(|(process, tenant)| (process.pid, (process, tenant))));
        board.entitlements = entitlements;
        // Those that limit nothing any more.
        board.conversations.retain(|_, of_tenant| of_tenant.open > 0 || !of_tenant.is_over(now));
    }

    /// Takes the reports since the last call.
    pub fn take(&self) -> BTreeMap<Process, Vec<PlacedRange>> {
        std::mem::take(&mut self.lock().reports)
    }

    /// Starts a conversation with a process.
    pub(super) fn start(&self, pid: i32, now: Instant) -> Result<Conversation, String> {
        let mut board = self.lock();
        let Some(entitlement) = board.entitlement(pid) else {
            return Err(format!(
                "process {pid} belongs to no tenant, or started within the last second"
            ));
        };
        let tenant = entitlement.tenant.clone();
        let of_tenant = board.conversations.entry(tenant.clone()).or_insert(Conversations {
            open: 0,
            since: now,
            count: 0,
        });
        if of_tenant.is_over(now) {
            (of_tenant.since, of_tenant.count) = (now, 0);
        }
        if of_tenant.open >= MAX_OPEN || of_tenant.count >= MAX_PER_SECOND {
            return Err(format!(
                "the tenant {tenant:?} speaks too often; allowed: {MAX_OPEN} conversations at a \
                 time, and {MAX_PER_SECOND} a second; try again"
            ));
        }
        (of_tenant.open, of_tenant.count) = (of_tenant.open + 1, of_tenant.count + 1);
        drop(board);
        Ok(Conversation { board: self.clone(), pid, tenant })
    }

    fn lock(&self) -> MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Board {
    fn entitlement(&self, pid: i32) -> Option<&TenantEntitlement> {
        self.entitlements.get(self.members.get(&pid)?.1)
    }

    fn waiting(&self, tenant: usize) -> usize {
        let of_tenant = |process: &&Process| {
            self.members.get(&process.pid).is_some_and(|(_, index)| *index == tenant)
        };
        self.reports.keys().filter(of_tenant).count()
    }
}

impl Conversation {
    /// Takes a report.
    pub(super) fn answer(&self, report: Report) -> TenantReply {
        let mut board = self.board.lock();
        let Some(&(process, tenant)) = board.members.get(&self.pid) else {
            return TenantReply::refused(format!("process {} belongs to no tenant", self.pid));
        };
        if let Some(placed) = report.placed {
            if !board.reports.contains_key(&process) && board.waiting(tenant) >= MAX_PROCESSES {
                return TenantReply::refused("too many processes of the tenant report; try again");
            }
            board.reports.insert(process, placed);
        }
        let entitlement = board.entitlements.get(tenant).cloned();
        TenantReply { ok: true, entitlement, ..TenantReply::default() }
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        let mut board = self.board.lock();
        if let Some(of_tenant) = board.conversations.get_mut(&self.tenant) {
            of_tenant.open = of_tenant.open.saturating_sub(1);
        }
    }
}
