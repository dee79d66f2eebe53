//! The tenants of the pods that run here.

use std::collections::{BTreeMap, BTreeSet};

use tierwise_core::tenant::Limit;

use super::control_group::qos_class;
use super::settings::{PodLimits, PodSettings};
use super::table::{Container, Pod, PodTable};
use super::wishes::Wishes;
use crate::config::{ClassName, Kubernetes, LimitText, PodChoice, PodTenant, TenantConfig};

/// The fast memory that pods may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodCapacity {
    /// The fast memory of this node less the reserve and the floors of tenants that are no pods,
    /// in bytes.
    pub bytes: u64,
}

impl PodCapacity {
    /// The fast memory that the reserve (0 to 100 %) and the floors of configured tenants leave.
    /// Floors that depend on a tenant's memory are fitted by the engine.
    pub fn beside(capacity: u64, reserve_percent: f64, tenants: &[TenantConfig]) -> Self {
        let floor = |tenant: &TenantConfig| match tenant.floor.as_ref().map(LimitText::limit) {
            Some(Limit::Bytes(bytes)) if tenant.pod.is_none() => bytes.0,
            _ => 0,
        };
        let reserve = (capacity as f64 * reserve_percent / 100.0).ceil() as u64;
        let taken = tenants.iter().map(floor).fold(reserve, u64::saturating_add);
        Self { bytes: capacity.saturating_sub(taken) }
    }
}

/// The tenants of a table, by name. Floors that do not fit together are lowered: first those of
/// annotations and classes by one factor, because the scheduler knows the others, and then claims
/// by one factor. Each keeps what was asked for ([`PodTenant::asked_floor`]).
pub fn tenants(table: &PodTable, config: &Kubernetes, share: PodCapacity) -> Vec<TenantConfig> {
    let mut by_pod: BTreeMap<&str, Vec<&Container>> = BTreeMap::new();
    for container in table.containers().values() {
        by_pod.entry(&container.sandbox).or_default().push(container);
    }
    let mut tenants = Vec::new();
    let mut names = BTreeSet::new();
    for (sandbox, pod) in table.pods() {
        let containers = by_pod.get(sandbox.as_str()).map_or(&[][..], Vec::as_slice);
        let claim = table.claims().get(&pod.uid).copied();
        let asks = claim.is_some() || !pod.annotations.is_empty();
        if config.pods == PodChoice::Annotated && !asks {
            continue;
        }
        for mut tenant in of_pod(pod, containers, claim, config, share) {
            // A pod that was deleted by force may still end while its successor starts.
            if !names.insert(tenant.name.clone()) {
                let short: String = pod.uid.chars().take(8).collect();
                tenant.name = format!("{}@{short}", tenant.name);
                if !names.insert(tenant.name.clone()) {
                    continue;
                }
            }
            tenants.push(tenant);
        }
    }
    fit(&mut tenants, share);
    tenants.sort_by(|a, b| a.name.cmp(&b.name));
    tenants
}

/// The tenants of a pod: one for each container with annotations of its own, and one for the
/// others. A pod with a claim is one tenant, because the claim is for all of its containers.
fn of_pod(
    pod: &Pod,
    containers: &[&Container],
    claim: Option<u64>,
    config: &Kubernetes,
    share: PodCapacity,
) -> Vec<TenantConfig> {
    let wishes = Wishes::parse(&pod.annotations, None);
    let (own, rest): (Vec<&Container>, Vec<&Container>) = containers
        .iter()
        .copied()
        .partition(|c| claim.is_none() && Wishes::of_container(&pod.annotations, &c.name));
    // A pod that restarts a container has two of the name for a moment.
    let mut by_name: BTreeMap<&str, Vec<&Container>> = BTreeMap::new();
    own.into_iter()
        .for_each(|container| by_name.entry(&container.name).or_default().push(container));
    let limits = |containers: &[&Container]| {
        let group = containers.first().map_or("", |container| container.group.as_str());
        PodLimits {
            classes: &config.classes,
            qos: qos_class(group),
            memory: containers.iter().map(|container| container.memory_limit).sum(),
            capacity: share.bytes,
            claim,
            address: pod.address,
        }
    };
    let mut tenants = Vec::new();
    for (name, containers) in by_name {
        let limits = limits(&containers);
        let own = Wishes::parse(&pod.annotations, Some(name));
        let settings = PodSettings::new(&own, Some(&wishes), &limits);
        tenants.push(tenant(pod, Some(name), limits.qos, &containers, settings));
    }
    if !rest.is_empty() {
        let limits = limits(&rest);
        let mut settings = PodSettings::new(&wishes, None, &limits);
        let ignored = rest.iter().filter(|c| Wishes::of_container(&pod.annotations, &c.name));
        settings.problems.extend(ignored.map(|container| {
            format!(
                "container {}: its annotations have no effect, because a pod with a claim is one \
                 tenant",
                container.name
            )
        }));
        tenants.push(tenant(pod, None, limits.qos, &rest, settings));
    }
    tenants
}

fn tenant(
    pod: &Pod,
    container: Option<&str>,
    qos: &str,
    containers: &[&Container],
    settings: PodSettings,
) -> TenantConfig {
    let last = container.map_or(String::new(), |name| format!("/{name}"));
    let name = format!("{}/{}{last}", pod.namespace, pod.name);
    let mut groups: Vec<String> = containers.iter().map(|c| c.group.clone()).collect();
    groups.sort_unstable();
    groups.dedup();
    let of = PodTenant {
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        container: container.map(str::to_owned),
        qos: qos.to_owned(),
        class: settings.class,
        claim: settings.claim,
        asked_floor: None,
        problems: settings.problems,
        groups,
    };
    TenantConfig {
        class: match settings.p99_ms {
            Some(_) => ClassName::LatencyCritical,
            None => ClassName::BestEffort,
        },
        slo_ms: settings.p99_ms,
        weight: settings.weight,
        floor: settings.floor.map(bytes),
        cap: settings.cap.map(bytes),
        latency: settings.latency,
        ..TenantConfig::of_pod(&name, of)
    }
}

fn bytes(bytes: u64) -> LimitText {
    LimitText::of_bytes(tierwise_core::units::Bytes(bytes))
}

fn floor(tenant: &TenantConfig) -> u64 {
    match tenant.floor.as_ref().map(LimitText::limit) {
        Some(Limit::Bytes(bytes)) => bytes.0,
        _ => 0,
    }
}

/// Lowers floors that do not fit together: those of annotations to what claims leave.
fn fit(tenants: &mut [TenantConfig], share: PodCapacity) {
    let claimed = |tenant: &TenantConfig| tenant.pod.as_ref().is_some_and(|p| p.claim.is_some());
    let left = lower(tenants, share.bytes, claimed);
    lower(tenants, left, |tenant| !claimed(tenant));
}

/// Lowers the floors of some tenants by one factor if they exceed these bytes. Returns the bytes
/// that they leave.
fn lower(tenants: &mut [TenantConfig], limit: u64, of: impl Fn(&TenantConfig) -> bool) -> u64 {
    // Each floor is at most 2^50, and there are at most 2^14.
    let sum: u64 = tenants.iter().filter(|tenant| of(tenant)).map(floor).sum();
    if sum <= limit {
        return limit - sum;
    }
    for tenant in tenants.iter_mut().filter(|tenant| of(tenant) && tenant.floor.is_some()) {
        let asked = floor(tenant);
        // A sum above the limit is not zero. Whole bytes, rounded down, so that they fit.
        let lowered = u128::from(asked) * u128::from(limit) / u128::from(sum);
        tenant.floor = Some(bytes(lowered as u64));
        if let Some(pod) = &mut tenant.pod {
            pod.asked_floor = Some(asked);
        }
    }
    0
}
