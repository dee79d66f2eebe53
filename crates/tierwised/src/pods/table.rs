//! The pods and containers that run here.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most containers and most pods. A node runs some hundred of each; the runtime also reports those
/// that have ended.
const MAX_ENTRIES: usize = 8192;

/// A pod, with names that were checked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its unique id.
    pub uid: String,
    /// Annotations of Tierwise.
    pub annotations: BTreeMap<String, String>,
    /// Loopback, if it is in the host's network: the daemon reads no latency elsewhere.
    pub address: Option<IpAddr>,
}

/// A container of a pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Container {
    /// The id of its pod's sandbox.
    pub sandbox: String,
    /// Its name.
    pub name: String,
    /// Its control group, below the cgroup file system.
    pub group: String,
    /// Its memory limit in bytes.
    pub memory_limit: Option<u64>,
}

/// The connection to the container runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RuntimeState {
    /// There is none.
    #[default]
    Apart,
    /// It is connected, and has not listed its pods yet.
    Connected(String),
    /// It is connected, and the table holds what runs: name and version of the runtime.
    InStep(String),
    /// It has no NRI connection, and its CRI service lists what runs every few seconds.
    Listed(String),
}

/// The pods and containers that run here.
#[derive(Debug, Default)]
pub struct PodTable {
    /// By the id of the sandbox.
    pods: BTreeMap<String, Pod>,
    /// By id.
    containers: BTreeMap<String, Container>,
    /// Floors by the pods' unique ids, in bytes.
    claims: BTreeMap<String, u64>,
    /// A list of the runtime that has not ended yet.
    listed: Option<(BTreeMap<String, Pod>, BTreeMap<String, Container>)>,
    generation: u64,
    state: RuntimeState,
    refused: u64,
    refusal: Option<String>,
    answers: u64,
    slowest: Duration,
}

impl PodTable {
    /// Grows with every change of a pod, a container, a claim or the connection.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The connection to the runtime.
    pub fn state(&self) -> &RuntimeState {
        &self.state
    }

    /// Pods and containers that were refused since the start, and the reason of the last.
    pub fn refusals(&self) -> (u64, Option<&str>) {
        (self.refused, self.refusal.as_deref())
    }

    /// The pods by the ids of their sandboxes.
    pub fn pods(&self) -> &BTreeMap<String, Pod> {
        &self.pods
    }

    /// The containers by their ids.
    pub fn containers(&self) -> &BTreeMap<String, Container> {
        &self.containers
    }

    /// The floors that pods have claimed, by the pods' unique ids, in bytes. A pod need not run
    /// yet.
    pub fn claims(&self) -> &BTreeMap<String, u64> {
        &self.claims
    }

    /// Replaces all claims. Returns true if one has changed.
    pub fn set_claims(&mut self, claims: BTreeMap<String, u64>) -> bool {
        let changed = self.claims != claims;
        self.generation += u64::from(changed);
        self.claims = claims;
        changed
    }

    /// Sets the connection's state. Without a connection the last known pods stay: their control
    /// groups show whether they still run.
    pub fn set_state(&mut self, state: RuntimeState) {
        self.generation += u64::from(self.state != state);
        self.state = state;
        self.listed = None;
    }

    /// True if NRI reports pods, so that nothing needs to be asked.
    pub fn is_told(&self) -> bool {
        matches!(self.state, RuntimeState::Connected(_) | RuntimeState::InStep(_))
    }

    /// Takes the pods that the CRI service of a runtime lists, unless NRI reports them meanwhile.
    pub fn take_listing(
        &mut self,
        runtime: &str,
        pods: BTreeMap<String, Pod>,
        containers: BTreeMap<String, Container>,
        refusals: Vec<String>,
    ) {
        if self.is_told() {
            return;
        }
        refusals.into_iter().for_each(|reason| self.refuse(reason));
        let before = (std::mem::take(&mut self.pods), std::mem::take(&mut self.containers));
        let full = fill(&mut self.pods, pods) | fill(&mut self.containers, containers);
        self.drop_empty();
        let changed = (&self.pods, &self.containers) != (&before.0, &before.1);
        self.generation += u64::from(changed);
        // Each list would count it again.
        if full && changed {
            self.refuse(too_many());
        }
        self.set_state(RuntimeState::Listed(runtime.to_owned()));
    }

    /// Records that the CRI service does not list pods any more.
    pub fn lose_listing(&mut self) {
        if matches!(self.state, RuntimeState::Listed(_)) {
            self.set_state(RuntimeState::Apart);
        }
    }

    /// Counts a pod or a container that cannot be a tenant.
    pub fn refuse(&mut self, reason: String) {
        self.refused += 1;
        self.refusal = Some(reason);
        self.generation += 1;
    }

    /// Counts an answer to the runtime, sent this long after the request had arrived.
    pub fn answered(&mut self, delay: Duration) {
        self.answers += 1;
        self.slowest = self.slowest.max(delay);
    }

    /// Answers to the runtime since the start, and the longest delay of one.
    pub fn answers(&self) -> (u64, Duration) {
        (self.answers, self.slowest)
    }

    /// Takes a part of the runtime's list. The last part replaces the table.
    pub fn list(
        &mut self,
        pods: impl IntoIterator<Item = (String, Pod)>,
        containers: impl IntoIterator<Item = (String, Container)>,
        more: bool,
    ) {
        let mut listed = self.listed.take().unwrap_or_default();
        let mut full = fill(&mut listed.0, pods);
        full |= fill(&mut listed.1, containers);
        if full {
            self.refuse(too_many());
        }
        if more {
            self.listed = Some(listed);
            return;
        }
        (self.pods, self.containers) = listed;
        self.drop_empty();
        self.generation += 1;
        if let RuntimeState::Connected(name) = &self.state {
            self.state = RuntimeState::InStep(name.clone());
        }
    }

    /// Records that a container runs.
    pub fn started(&mut self, sandbox: String, pod: Pod, id: String, container: Container) {
        // The last part of a list that is under way replaces the table.
        if let Some((pods, containers)) = &mut self.listed {
            fill(pods, [(sandbox.clone(), pod.clone())]);
            fill(containers, [(id.clone(), container.clone())]);
        }
        let full =
            fill(&mut self.pods, [(sandbox, pod)]) | fill(&mut self.containers, [(id, container)]);
        if full {
            self.refuse(too_many());
        }
        self.generation += 1;
    }

    /// Records that a container has ended.
    pub fn ended(&mut self, id: &str) {
        if let Some((_, containers)) = &mut self.listed {
            containers.remove(id);
        }
        if self.containers.remove(id).is_some() {
            self.drop_empty();
            self.generation += 1;
        }
    }

    /// Records that a pod and its containers have ended.
    pub fn pod_ended(&mut self, sandbox: &str) {
        if let Some((pods, containers)) = &mut self.listed {
            pods.remove(sandbox);
            containers.retain(|_, container| container.sandbox != sandbox);
        }
        let before = self.containers.len();
        self.containers.retain(|_, container| container.sandbox != sandbox);
        let removed = self.pods.remove(sandbox).is_some() || self.containers.len() < before;
        self.generation += u64::from(removed);
    }

    /// Forgets pods without a running container: each event of a container names its pod again.
    fn drop_empty(&mut self) {
        let Self { pods, containers, .. } = self;
        let used: std::collections::BTreeSet<&str> =
            containers.values().map(|container| container.sandbox.as_str()).collect();
        pods.retain(|sandbox, _| used.contains(sandbox.as_str()));
    }
}

/// Adds entries up to the limit. Returns true if one did not fit.
fn fill<T>(map: &mut BTreeMap<String, T>, entries: impl IntoIterator<Item = (String, T)>) -> bool {
    let mut full = false;
    for (key, value) in entries {
        match map.len() < MAX_ENTRIES || map.contains_key(&key) {
            true => drop(map.insert(key, value)),
            false => full = true,
        }
    }
    full
}

fn too_many() -> String {
    format!(
        "the runtime reports more than {MAX_ENTRIES} pods or containers; the others are left out"
    )
}

/// The table, shared by the daemon's thread and the one that learns from the runtime. The thread
/// that answers the runtime never takes it.
#[derive(Debug, Clone, Default)]
pub struct SharedPods(Arc<Mutex<PodTable>>);

impl SharedPods {
    /// The table. Every change of it is complete before the lock is released, so that a panic of
    /// the other thread leaves no half of one.
    pub fn lock(&self) -> MutexGuard<'_, PodTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
