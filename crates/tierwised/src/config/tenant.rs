//! One tenant of the configuration.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tierwise_core::tenant::{Class, DEFAULT_WEIGHT, TenantSpec};

use super::limit::LimitText;
use super::loopback::loopback;

/// Allowed SLOs, as in scenarios: from 50 microseconds, below which a number is meant in seconds,
/// to an hour.
pub(super) const SLO_MS: std::ops::RangeInclusive<f64> = 0.05..=3_600_000.0;

/// Allowed accesses per second: a source that finds fewer than one knows nothing of the load, and
/// none counts a billion.
pub const FULL_LOAD: std::ops::RangeInclusive<f64> = 1.0..=1e9;

/// A tenant: its processes, and the memory to which it is entitled. Exactly one of `cgroup`, `pids`
/// and `qemu` names the processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantConfig {
    /// Its name, unique among the tenants.
    pub name: String,
    /// A cgroup by its path below the cgroup file system (`system.slice/redis.service`), a slice or
    /// scope by its name, or a pattern (`kubepods.slice/*/*`). It need not exist yet. A name or
    /// wildcard does not reach below delegated groups; the name of a unit that two groups have is
    /// refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Process ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<i32>,
    /// A QEMU virtual machine: its guest name, the path of its pid file, or `qmp:` and the path of
    /// its QMP socket, through which the daemon also asks for its CPUs and memory devices. Only
    /// root may be able to change its executable. A guest name counts only if the process belongs
    /// to a user below 1000 or to libvirt-qemu.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qemu: Option<String>,
    /// The measure of its success.
    #[serde(default)]
    pub class: ClassName,
    /// The 99th percentile of latency that a latency-critical tenant must not exceed, in
    /// milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo_ms: Option<f64>,
    /// Its accesses per second under its highest load, for a latency-critical tenant: the rate of
    /// the metric `tierwise_tenant_accesses_total` over its tiers, with the same monitoring source.
    /// `mtat` and `tierwise` then know how far its load can rise, from the first second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_load: Option<f64>,
    /// Its weight among the tenants, 1 to 10000.
    #[serde(default = "default_weight")]
    pub weight: u32,
    /// Memory of the fastest tier that other tenants' demand does not take away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<LimitText>,
    /// Max memory that it may hold in the fastest tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<LimitText>,
    /// Endpoint of its latency, if it does not report it over the control socket; loopback
    /// addresses only. A reading ends after two seconds, after 4 MiB, or after as much CPU time as
    /// `cpu.budget_percent` allows the daemon; `tierwise status` shows it then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Its pod, for a tenant that the container runtime named. No file and no command sets it.
    #[serde(skip)]
    pub pod: Option<Box<PodTenant>>,
}

/// The pod of a tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodTenant {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The container, for a tenant of one container.
    pub container: Option<String>,
    /// `Guaranteed`, `Burstable` or `BestEffort`; empty if the pod's control group tells none.
    pub qos: String,
    /// The class that it names.
    pub class: Option<String>,
    /// The floor that the scheduler has allocated to it, in bytes, if it has a claim.
    pub claim: Option<u64>,
    /// The floor that its claim, annotations or class ask for, in bytes, if the floors of all pods
    /// did not fit and this one was lowered.
    pub asked_floor: Option<u64>,
    /// What is wrong with its annotations.
    pub problems: Vec<String>,
    /// The control groups of its containers, below the cgroup file system.
    pub groups: Vec<String>,
}

fn default_weight() -> u32 {
    DEFAULT_WEIGHT
}

/// The measure of a tenant's success.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClassName {
    /// Throughput.
    #[default]
    BestEffort,
    /// The latency of its requests.
    LatencyCritical,
}

/// The endpoint of a tenant's latency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Latency {
    /// A Prometheus histogram on a loopback address, in seconds.
    Prometheus {
        /// `127.0.0.1:9100/metrics`.
        #[schemars(example = "127.0.0.1:9100/metrics")]
        address: String,
        /// The histogram's name without `_bucket`.
        metric: String,
    },
    /// The round trip of a `PING` to Redis at this loopback address (`127.0.0.1:6379`, `[::1]:6379`
    /// or `localhost:6379`).
    #[schemars(example = "127.0.0.1:6379")]
    Redis(String),
    /// The round trip of a `version` to Memcached at this loopback address.
    #[schemars(example = "127.0.0.1:11211")]
    Memcached(String),
}

impl TenantConfig {
    /// A tenant of these processes, with defaults for everything else.
    pub fn of_processes(name: &str, pids: Vec<i32>) -> Self {
        Self {
            name: name.to_owned(),
            cgroup: None,
            pids,
            qemu: None,
            class: ClassName::default(),
            slo_ms: None,
            full_load: None,
            weight: DEFAULT_WEIGHT,
            floor: None,
            cap: None,
            latency: None,
            pod: None,
        }
    }

    /// A tenant of a pod, with defaults for everything else.
    pub fn of_pod(name: &str, pod: PodTenant) -> Self {
        Self { pod: Some(Box::new(pod)), ..Self::of_processes(name, Vec::new()) }
    }

    /// The place of a tenant that was removed. The engine numbers tenants, so the tenants after it
    /// keep their numbers.
    pub fn vacant() -> Self {
        Self::of_pod("", PodTenant::default())
    }

    /// True for [`TenantConfig::vacant`].
    pub fn is_vacant(&self) -> bool {
        self.name.is_empty() && self.pod.is_some()
    }

    /// The QMP socket, if it names the tenant.
    pub fn qmp(&self) -> Option<&str> {
        self.qemu.as_deref()?.strip_prefix("qmp:")
    }

    /// Its spec for the engine.
    pub fn spec(&self) -> TenantSpec {
        let class = match self.class {
            ClassName::BestEffort => Class::BestEffort,
            ClassName::LatencyCritical => Class::LatencyCritical,
        };
        TenantSpec {
            class,
            slo: self.slo(),
            full_load: self.full_load,
            weight: self.weight,
            floors: vec![self.floor.as_ref().map(LimitText::limit)],
            caps: vec![self.cap.as_ref().map(LimitText::limit)],
            ..TenantSpec::new(&self.name)
        }
    }

    /// Its SLO: the 99th percentile that it is judged by.
    pub fn slo(&self) -> Option<Duration> {
        self.slo_ms.map(|ms| Duration::from_secs_f64(ms / 1e3))
    }

    /// The mistake in its latency endpoint.
    fn latency_problem(&self) -> Option<String> {
        let address = match self.latency.as_ref()? {
            Latency::Prometheus { address, .. } => address,
            Latency::Redis(address) | Latency::Memcached(address) => address,
        };
        let path = matches!(self.latency, Some(Latency::Prometheus { .. }));
        let host = if path { address.split('/').next().unwrap_or_default() } else { address };
        // The request is one line that contains the address.
        if !address.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Some(format!("found {address:?}; allowed: an address without spaces"));
        }
        loopback(host).err().map(|e| format!("found {address:?}; {e}"))
    }

    /// The first mistake in it: the key and the problem.
    pub(super) fn problem(&self) -> Option<(&'static str, String)> {
        // Pods have names that the runtime gave and rules of their own.
        if self.pod.is_some() {
            return None;
        }
        let named = usize::from(self.cgroup.is_some())
            + usize::from(!self.pids.is_empty())
            + usize::from(self.qemu.is_some());
        if self.name.is_empty() {
            return Some((
                "name",
                "found an empty name; write a name for commands and messages".into(),
            ));
        }
        if self.name.chars().any(char::is_control) {
            let problem =
                format!("found {:?}; allowed: a name without control characters", self.name);
            return Some(("name", problem));
        }
        if named != 1 {
            let problem = format!(
                "tenant {:?} has {named} of cgroup, pids and qemu; write exactly one: it names \
                 the tenant's processes",
                self.name
            );
            return Some(("cgroup", problem));
        }
        if let Some(path) = self.qmp().filter(|path| !path.starts_with('/')) {
            let problem = format!(
                "found \"qmp:{path}\"; write the socket's whole path: qmp:/run/qemu/db-1.qmp"
            );
            return Some(("qemu", problem));
        }
        if let Some(pid) = self.pids.iter().find(|&&pid| pid <= 0) {
            return Some(("pids", format!("found {pid}; allowed: process ids, from 1")));
        }
        if !(1..=tierwise_core::tenant::MAX_WEIGHT).contains(&self.weight) {
            return Some(("weight", format!("found {}; allowed: 1 to 10000", self.weight)));
        }
        if let Some(slo) = self.slo_ms.filter(|slo| !SLO_MS.contains(slo)) {
            let seconds = (slo > 0.0 && slo < *SLO_MS.start()).then_some(slo * 1e3);
            let meant = seconds.filter(|meant| SLO_MS.contains(meant));
            let hint = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
            let (min, max) = (SLO_MS.start(), SLO_MS.end());
            let problem = format!("found {slo}; allowed: {min} to {max} milliseconds{hint}");
            return Some(("slo_ms", problem));
        }
        if self.class == ClassName::BestEffort && self.slo_ms.is_some() {
            let problem = "a best-effort tenant is judged by its throughput, so its SLO would be \
                           ignored; write class = \"latency-critical\" beside it, or remove slo_ms";
            return Some(("slo_ms", problem.into()));
        }
        if self.class == ClassName::LatencyCritical && self.slo_ms.is_none() {
            let problem = "a latency-critical tenant needs slo_ms, the 99th percentile that it \
                           must not exceed";
            return Some(("class", problem.into()));
        }
        if let Some(load) = self.full_load.filter(|load| !FULL_LOAD.contains(load)) {
            let (min, max) = (FULL_LOAD.start(), FULL_LOAD.end());
            let problem = format!("found {load}; allowed: {min} to {max} accesses per second");
            return Some(("full_load", problem));
        }
        if self.class == ClassName::BestEffort && self.full_load.is_some() {
            let problem = "only a latency-critical tenant's load decides its memory; write class = \
                           \"latency-critical\" and slo_ms beside it, or remove full_load";
            return Some(("full_load", problem.into()));
        }
        if let Some(problem) = self.latency_problem() {
            return Some(("latency", problem));
        }
        let auto =
            self.cap.as_ref().is_some_and(|cap| cap.limit() == tierwise_core::tenant::Limit::Auto);
        auto.then(|| {
            ("cap", "found \"auto\", which is for floors; write an amount or a part".into())
        })
    }
}
