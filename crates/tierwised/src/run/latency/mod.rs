//! Tenants' latency, read once a second from the configured endpoints: a Prometheus histogram, or
//! the round trip of the cheapest request to Redis or Memcached.
//!
//! - [`metered`]: the CPU time of an endpoint, and its limit.
//! - [`histogram`]: Prometheus' text format.
//! - `source`: one reading, from the connection to the last byte.
//! - `known`: each tenant's last known latency, or why it is unknown.
//!
//! One thread reads all of them (`peers`), each endpoint in a task of its own: a service that does
//! not answer delays no other. A task outlives a reload of the configuration if its endpoint stays,
//! so that an endpoint has one task at any time.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod head;
pub mod histogram;
pub(super) mod known;
pub mod metered;
mod reply;
mod source;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::Sender;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use self::metered::{CpuAllowance, Metered};
use self::source::LatencySource;
use super::peers::Peers;
use crate::config::{Config, Latency};

/// Interval between two readings of an endpoint: the partitioners' own interval.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time limit of a whole reading, from the connection to the last byte. A service that takes longer
/// is as good as down.
const PATIENCE: Duration = Duration::from_secs(2);

/// A latency that was read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LatencyReading {
    /// The 99th percentile since the reading before.
    pub(super) p99: Duration,
    /// Requests since the reading before, where they are known.
    pub(super) operations: u64,
}

/// The outcome of reading an endpoint: no reading if there were no requests, or the problem.
pub(super) type LatencyOutcome = Result<Option<LatencyReading>, String>;

/// Outcomes that the daemon has not taken yet: at most one per tenant.
type Board = Arc<Mutex<BTreeMap<String, LatencyOutcome>>>;

/// Interval and limits of reading an endpoint.
#[derive(Debug, Clone, Copy)]
struct Limits {
    interval: Duration,
    patience: Duration,
    /// Part of one CPU that reading one endpoint may take.
    budget: f64,
}

/// A tenant's latency endpoint.
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
    /// No tasks yet. Each endpoint may cost as much CPU time as the daemon itself.
    pub(super) fn new(config: &Config, wake: &Sender<()>) -> Self {
        let budget = config.cpu.budget_percent / 100.0;
        Self::within(Limits { interval: INTERVAL, patience: PATIENCE, budget }, wake)
    }

    fn within(limits: Limits, wake: &Sender<()>) -> Self {
        Self { board: Board::default(), wake: wake.clone(), limits, tasks: Vec::new() }
    }

    /// Reads the latency of the configured tenants from now on. An endpoint that stays keeps its
    /// task, and with it the CPU time that it has used.
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

    /// The outcomes since the last call, by tenant.
    pub(super) fn take(&self) -> BTreeMap<String, LatencyOutcome> {
        std::mem::take(&mut *board(&self.board))
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.tasks.iter().for_each(|(_, task)| task.abort());
    }
}

/// A task that panicked leaves no half-written entry: one call inserts it.
fn board(board: &Board) -> MutexGuard<'_, BTreeMap<String, LatencyOutcome>> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn read_on(endpoint: Endpoint, limits: Limits, found: Board, wake: Sender<()>) {
    let mut source = LatencySource::new(endpoint.latency);
    let mut allowance = CpuAllowance::new(limits.budget);
    let mut before = Instant::now();
    loop {
        let started = Instant::now();
        allowance.earn(started - before);
        before = started;
        let (outcome, pause) = read_once(&mut source, limits, &mut allowance).await;
        note(&mut board(&found), &endpoint.tenant, outcome);
        // A daemon that is awake already takes it as well.
        let _ = wake.try_send(());
        sleep(pause.unwrap_or(limits.interval)).await;
    }
}

/// One reading within the limits, and how long to pause if it cost too much.
async fn read_once(
    source: &mut LatencySource,
    limits: Limits,
    allowance: &mut CpuAllowance,
) -> (LatencyOutcome, Option<Duration>) {
    let mut used = Duration::ZERO;
    let read = Metered::new(source.read(limits.patience), allowance.left(), &mut used).await;
    // A reading that was cut off has used more than its allowance.
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
        "the last reading took {used:.1?} of CPU time; allowed: {} % of a CPU (cpu.budget_percent) \
         over ten seconds; it is read again in {:.0} s",
        budget * 100.0,
        pause.as_secs_f64().ceil()
    )
}

/// Puts an outcome on the board. The requests of an outcome that was not taken yet are added.
fn note(board: &mut BTreeMap<String, LatencyOutcome>, tenant: &str, outcome: LatencyOutcome) {
    let known = board.get(tenant).and_then(|known| known.as_ref().ok()).copied().flatten();
    let outcome = match (known, outcome) {
        (Some(known), Ok(None)) => Ok(Some(known)),
        (Some(known), Ok(Some(new))) => {
            let operations = known.operations.saturating_add(new.operations);
            Ok(Some(LatencyReading { operations, ..new }))
        }
        (_, outcome) => outcome,
    };
    board.insert(tenant.to_owned(), outcome);
}

#[cfg(test)]
mod tests;
