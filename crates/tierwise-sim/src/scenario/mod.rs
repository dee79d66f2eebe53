//! The subject of a simulation: a machine, and workloads that run on it for a time. Types only; the
//! TOML form is read by [`crate::scenario_file`].

pub mod managed;

use std::path::PathBuf;
use std::time::Duration;

use tierwise_core::migrate::Budget;
pub use tierwise_core::tenant::Class;
use tierwise_core::tenant::{DEFAULT_WEIGHT, Limit, TenantSpec};
use tierwise_core::units::Bytes;
use tierwise_trace::generate::GeneratorSpec;

use crate::costs::Costs;
use crate::machine::Machine;
use crate::requests::spec::ServiceSpec;

/// The source of a workload's windows.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkloadSource {
    /// A recorded trace.
    Trace(PathBuf),
    /// A generator of `tierwise_trace::generate`, by name.
    Generator(String, GeneratorSpec),
    /// A service that answers requests.
    Service(ServiceSpec),
}

/// One workload. Each is a tenant of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadSpec {
    /// The tenant's name; unique in the scenario.
    pub name: String,
    /// Its class, which decides the measure of its success.
    pub class: Class,
    /// The 99th percentile of its requests' latency that it must not exceed.
    pub slo: Option<Duration>,
    /// Its weight among the tenants.
    pub weight: u32,
    /// Its floors, fastest tier first.
    pub floors: Vec<Option<Limit>>,
    /// Its caps, fastest tier first.
    pub caps: Vec<Option<Limit>>,
    /// The file of its profile.
    pub profile: Option<PathBuf>,
    /// The source of its accesses.
    pub source: WorkloadSource,
    /// Number of recorded windows that are merged into one, with evenly spread accesses: windows
    /// finer than a policy can react to only cost time. At least 1.
    pub merge: u32,
    /// Number of identical windows per recorded window: a recording of seconds becomes a run of
    /// minutes with the same access rates, as a loop over each window would give. At least 1.
    pub dilation: u32,
    /// Number of pages per recorded page, which share its accesses evenly. At least 1.
    pub scale: u32,
    /// The size to which the whole recorded program is mapped ([`crate::rescale`]); `None`: as
    /// recorded.
    pub footprint: Option<Bytes>,
    /// Threads that share the workload's work evenly, beside the recorded threads. At least 1.
    pub threads: u32,
    /// True if its threads are pinned to CPUs that no other workload and no work of a policy uses.
    pub own_cpus: bool,
    /// Runs of the measured part. At least 1.
    pub loops: u32,
    /// The mark at which it starts to run, with the memory that it had there in place; `None`: its
    /// recorded start.
    pub run_from: Option<String>,
    /// The mark at which the measured part starts and to which loops return; `None`: the start.
    pub measure_from: Option<String>,
    /// The mark at which the workload ends (a server's shutdown, for example); `None`: the last
    /// window.
    pub measure_to: Option<String>,
    /// The time of its start, if it follows no other workload.
    pub start: Duration,
    /// The workload at whose end it starts: one of those before it in the scenario.
    pub after: Option<String>,
    /// Time at which it is stopped, if it has not ended by then.
    pub stop: Option<Duration>,
    /// True if its address space is mapped with huge pages where 2 MiB of it are populated
    /// together.
    pub huge_pages: bool,
    /// Cache misses that a thread keeps in flight: a miss costs the latency divided by this number.
    /// 1 is a pointer chase.
    pub memory_level_parallelism: f64,
    /// Share of its time beside misses in which it waits for a client on its CPU, 0 to 1. The
    /// client is a part of the trace's instructions.
    pub client_share: f64,
    /// True if its memory stays when it ends, as the page cache of the files that a program read
    /// does. Its run is no part of what is measured.
    pub leaves_memory: bool,
}

impl WorkloadSpec {
    /// Creates a best-effort workload that runs once from start to end, without floor or cap.
    pub fn new(name: impl Into<String>, source: WorkloadSource) -> Self {
        Self {
            name: name.into(),
            class: Class::BestEffort,
            slo: None,
            weight: DEFAULT_WEIGHT,
            floors: Vec::new(),
            caps: Vec::new(),
            profile: None,
            source,
            merge: 1,
            dilation: 1,
            scale: 1,
            footprint: None,
            threads: 1,
            own_cpus: false,
            loops: 1,
            run_from: None,
            measure_from: None,
            measure_to: None,
            start: Duration::ZERO,
            after: None,
            stop: None,
            huge_pages: false,
            memory_level_parallelism: 1.0,
            client_share: 0.0,
            leaves_memory: false,
        }
    }

    /// The CPUs that its threads use: a service's servers, or its threads.
    pub fn cpus(&self) -> u32 {
        match &self.source {
            WorkloadSource::Service(service) => service.servers as u32,
            WorkloadSource::Trace(_) | WorkloadSource::Generator(..) => self.threads,
        }
    }

    /// Its tenant spec for the engine, without its profile and its full load, which need files.
    pub fn tenant(&self) -> TenantSpec {
        TenantSpec {
            name: self.name.clone(),
            class: self.class,
            slo: self.slo,
            weight: self.weight,
            floors: self.floors.clone(),
            caps: self.caps.clone(),
            profile: None,
            full_load: None,
        }
    }
}

/// Size of a tier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TierSize {
    /// A number of bytes.
    Bytes(Bytes),
    /// This share of the sum of all workloads' peak resident sets. The tier gets whole pages, at
    /// least one.
    ShareOfResident(f64),
}

/// Everything on which a run depends, besides the policy and the seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Its name in output.
    pub name: String,
    /// The purpose of the scenario, in one sentence.
    pub summary: String,
    /// The machine. [`Scenario::resolve`] gives its tiers the capacities of `sizes`.
    pub machine: Machine,
    /// The sizes of the machine's tiers, fastest first. Empty: as in `machine`.
    pub sizes: Vec<TierSize>,
    /// Costs of the kernel's work.
    pub costs: Costs,
    /// The limit on migrations.
    pub budget: Budget,
    /// The workloads.
    pub workloads: Vec<WorkloadSpec>,
    /// The end, if not all workloads have ended by then.
    pub duration: Option<Duration>,
}

impl Scenario {
    /// The index of the workload that each workload follows.
    pub fn predecessors(&self) -> Vec<Option<usize>> {
        let place = |name: &String| self.workloads.iter().position(|w| w.name == *name);
        self.workloads.iter().map(|w| w.after.as_ref().and_then(place)).collect()
    }

    /// Returns the sum of the workloads' resident sets, by workload, as if all peaked at once. Of a
    /// workload and those that follow it, only the larger part counts.
    pub fn peak_together(&self, resident: &[u64]) -> u64 {
        let before = self.predecessors();
        // What follows each workload. A workload follows only those before it.
        let mut followers = vec![0; resident.len()];
        let mut all = 0;
        for (i, &own) in resident.iter().enumerate().rev() {
            let most = own.max(followers[i]);
            match before[i] {
                Some(of) => followers[of] += most,
                None => all += most,
            }
        }
        all
    }

    /// Returns the machine with its tiers sized for workloads whose peak resident sets sum up to
    /// `resident`.
    pub fn resolve(&self, resident: Bytes) -> Machine {
        let mut machine = self.machine.clone();
        let page = machine.page_size.0.max(1);
        for (tier, size) in machine.tiers.iter_mut().zip(&self.sizes) {
            tier.capacity = match *size {
                TierSize::Bytes(bytes) => bytes,
                TierSize::ShareOfResident(share) => {
                    let pages = (resident.0 as f64 * share / page as f64).round() as u64;
                    Bytes(pages.max(1) * page)
                }
            };
        }
        machine
    }
}
