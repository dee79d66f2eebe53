//! Tenants' latency, read once a second where the configuration says: a Prometheus histogram, or
//! the round trip of the cheapest request to Redis or Memcached.
//!
//! - [`metered`]: what an endpoint costs, and what follows when it is too much.
//! - [`histogram`]: Prometheus' text format.
//! - `source`: one reading, from the connection to the last byte.
//! - `known`: what the daemon knows of each tenant's latency, and why it does not.
//!
//! One thread reads all of them (`peers`), each endpoint in a task of its own: a service that does
//! not answer keeps nobody waiting. A task is handed over when the configuration is read again, so
//! that there is one for an endpoint at any time.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod head;
pub mod histogram;
pub(super) mod known;
pub mod metered;
mod reply;
mod source;

pub(crate) use self::source::loopback;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::Sender;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use self::metered::{Allowance, Metered};
use self::source::Source;
use super::peers::Peers;
use crate::config::{Config, Latency};

/// How often it is read: the partitioners' own interval.
const INTERVAL: Duration = Duration::from_secs(1);

/// A service that does not answer in this time is as good as down. It is for everything, from the
/// connection to the last byte.
const PATIENCE: Duration = Duration::from_secs(2);

/// A latency that was read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reading {
    /// The 99th percentile since the reading before.
    pub(super) p99: Duration,
    /// Requests since the reading before, where they are known.
    pub(super) operations: u64,
}

/// What came of reading an endpoint: nothing where there were no requests, or why it cannot be
/// read.
pub(super) type Outcome = Result<Option<Reading>, String>;

/// What the tasks have found out and the daemon has not taken yet, by tenant: at most one each.
type Board = Arc<Mutex<BTreeMap<String, Outcome>>>;

/// How endpoints are read.
#[derive(Debug, Clone, Copy)]
struct Limits {
    interval: Duration,
    patience: Duration,
    /// Part of one processor that reading one endpoint may take.
    budget: f64,
}

/// Where a tenant's latency is read.
#[derive(Debug, Clone, PartialEq)]
struct Endpoint {
    tenant: String,
    latency: Latency,
}

/// The tasks that read.
pub struct Readers {
    board: Board,
    wake: Sender<()>,
    limits: Limits,
    tasks: Vec<(Endpoint, AbortHandle)>,
}

impl Readers {
    /// Nothing is read yet. Each endpoint may cost as much processor time as the daemon itself.
    pub(super) fn new(config: &Config, wake: &Sender<()>) -> Self {
        let budget = config.cpu.budget_percent / 100.0;
        Self::within(Limits { interval: INTERVAL, patience: PATIENCE, budget }, wake)
    }

    fn within(limits: Limits, wake: &Sender<()>) -> Self {
        Self { board: Board::default(), wake: wake.clone(), limits, tasks: Vec::new() }
    }

    /// Reads these tenants' latency from now on. An endpoint that stays keeps its task, and with it
    /// what it owes.
    pub(super) fn follow(&mut self, peers: &Peers, config: &Config) {
        let tenants = config.tenants.iter();
        let wanted: Vec<Endpoint> = tenants
            .filter_map(|tenant| {
                Some(Endpoint { tenant: tenant.name.clone(), latency: tenant.latency.clone()? })
            })
            .collect();
        self.tasks.retain(|(endpoint, task)| {
            let stays = wanted.contains(endpoint);
            if !stays {
                task.abort();
            }
            stays
        });
        board(&self.board).retain(|tenant, _| wanted.iter().any(|known| known.tenant == *tenant));
        for endpoint in wanted {
            if self.tasks.iter().any(|(known, _)| *known == endpoint) {
                continue;
            }
            let (board, wake) = (Arc::clone(&self.board), self.wake.clone());
            let task = peers.spawn(read_on(endpoint.clone(), self.limits, board, wake));
            self.tasks.extend(task.map(|task| (endpoint, task)));
        }
    }

    /// What was found out since the last call, by tenant.
    pub(super) fn take(&self) -> BTreeMap<String, Outcome> {
        std::mem::take(&mut *board(&self.board))
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.tasks.iter().for_each(|(_, task)| task.abort());
    }
}

/// A task that panicked has left nothing half-written: an entry is put in by one call.
fn board(board: &Board) -> MutexGuard<'_, BTreeMap<String, Outcome>> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn read_on(endpoint: Endpoint, limits: Limits, found: Board, wake: Sender<()>) {
    let mut source = Source::new(endpoint.latency);
    let mut allowance = Allowance::new(limits.budget);
    let mut before = Instant::now();
    loop {
        let started = Instant::now();
        allowance.earn(started - before);
        before = started;
        let (outcome, pause) = read_once(&mut source, limits, &mut allowance).await;
        note(&mut board(&found), &endpoint.tenant, outcome);
        // One that is awake already takes it in as well.
        let _ = wake.try_send(());
        sleep(pause.unwrap_or(limits.interval)).await;
    }
}

/// One reading within the limits, and how long to pause if it cost too much.
async fn read_once(
    source: &mut Source,
    limits: Limits,
    allowance: &mut Allowance,
) -> (Outcome, Option<Duration>) {
    let mut used = Duration::ZERO;
    let read = Metered::new(source.read(limits.patience), allowance.left(), &mut used).await;
    // One that was cut off has used more than it had.
    match (allowance.spend(used), read) {
        (None, Some(read)) => (read.map_err(|e| format!("{e:#}")), None),
        (pause, _) => {
            let pause = pause.unwrap_or(limits.interval);
            (Err(too_costly(used, pause, limits.budget)), Some(pause))
        }
    }
}

fn too_costly(used: Duration, pause: Duration, budget: f64) -> String {
    format!(
        "reading it took {used:.1?} of CPU time at last; allowed: {} % of a CPU \
         (cpu.budget_percent) over ten seconds; it is read again in {:.0} s",
        budget * 100.0,
        pause.as_secs_f64().ceil()
    )
}

/// Puts an outcome where the daemon takes it from. What it has not taken yet is not lost: requests
/// add up.
fn note(board: &mut BTreeMap<String, Outcome>, tenant: &str, outcome: Outcome) {
    let known = board.get(tenant).and_then(|known| known.as_ref().ok()).copied().flatten();
    let outcome = match (known, outcome) {
        (Some(known), Ok(None)) => Ok(Some(known)),
        (Some(known), Ok(Some(new))) => {
            let operations = known.operations.saturating_add(new.operations);
            Ok(Some(Reading { operations, ..new }))
        }
        (_, outcome) => outcome,
    };
    board.insert(tenant.to_owned(), outcome);
}

#[cfg(test)]
mod tests;
