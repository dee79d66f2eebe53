//! Pods as tenants: the tenants that the container runtime's pods mean, followed once a second.
//!
//! The engine numbers tenants. A new pod has the next number, and the place of a pod that has ended
//! stays empty, so that the other tenants' pages keep their tenant and their history. When more
//! places are empty than used, all are numbered again, and the engine learns every page again, with
//! the heat that the daemon remembers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Daemon, setup};
use crate::config::{Config, TenantConfig};
use crate::control::{Claims, Reply};
use crate::pods::{PodCapacity, RuntimeState, tenants};
use crate::view::PodsView;

/// Shortest time between two changes of the tenants: a deployment starts its pods within seconds,
/// and each change is followed by a survey of all tenants.
const INTERVAL: Duration = Duration::from_secs(1);

/// Empty places that are kept at least: numbering again costs more than a few empty places.
const MIN_VACANT: usize = 64;

/// Largest claim: more than any machine has, and less than what a sum of a thousand could overflow.
const MAX_CLAIM: u64 = 1 << 50;

/// What the daemon last saw of the pods.
#[derive(Debug, Default)]
pub(super) struct PodFollower {
    generation: u64,
    followed: Option<Instant>,
    state: RuntimeState,
    refused: u64,
}

impl PodFollower {
    /// Follows the pods again, although none has changed.
    pub(super) fn forget(&mut self) {
        (self.generation, self.followed) = (u64::MAX, None);
    }
}

impl Daemon {
    /// Makes the pods that run now the tenants, if they have changed.
    pub(super) fn follow_pods(&mut self) {
        let waits = self.pods.followed.is_some_and(|at| at.elapsed() < INTERVAL);
        if waits || self.channels.pods.lock().generation() == self.pods.generation {
            return;
        }
        self.pods.followed = Some(Instant::now());
        let tenants = self.pod_tenants();
        self.report_runtime();
        if let Err(e) = self.adopt_pods(&tenants) {
            self.history
                .notice(self.uptime(), format!("the pods' tenants stay as they were: {e:#}"));
        }
    }

    /// The tenants of the pods that run now.
    fn pod_tenants(&mut self) -> Vec<TenantConfig> {
        let share = self.pod_capacity();
        let table = self.channels.pods.lock();
        self.pods.generation = table.generation();
        tenants(&table, &self.options.config.kubernetes, share)
    }

    /// The fast memory that pods may have.
    fn pod_capacity(&self) -> PodCapacity {
        let config = &self.options.config;
        let fastest = self.world.host().topology().tiers.first().map(|tier| tier.capacity);
        let page_size = self.world.host().page_size;
        let capacity = fastest.map_or(0, |pages| pages.in_bytes(page_size).0);
        PodCapacity::beside(capacity, config.kubernetes.reserve_percent, &config.tenants)
    }

    /// Sets the claims, if there are any, and returns those that hold.
    pub(super) fn claims(&mut self, floors: Option<BTreeMap<String, u64>>) -> Reply {
        let kubernetes = &self.options.config.kubernetes;
        if kubernetes.nri_socket().or(kubernetes.cri_socket()).is_none() {
            return Reply::refused(
                "kubernetes.nri and kubernetes.cri are off, so the daemon knows no pod by its \
                 unique id; write the runtime's socket there",
            );
        }
        let mut large = floors.iter().flatten().filter(|(_, bytes)| **bytes > MAX_CLAIM);
        if let Some((uid, bytes)) = large.next() {
            return Reply::refused(format!(
                "claim of pod {uid:?}: found {bytes} B; allowed: up to {MAX_CLAIM} B"
            ));
        }
        let capacity_bytes = self.pod_capacity().bytes;
        let mut table = self.channels.pods.lock();
        if let Some(floors) = floors {
            table.set_claims(floors);
        }
        let claims = Claims { capacity_bytes, floors: table.claims().clone() };
        Reply { claims: Some(claims), ..Reply::done() }
    }

    /// Reports what has changed in the conversation with the runtime.
    fn report_runtime(&mut self) {
        let (state, refused, reason) = {
            let table = self.channels.pods.lock();
            let (refused, reason) = table.refusals();
            (table.state().clone(), refused, reason.map(str::to_owned))
        };
        let at = self.uptime();
        if state != self.pods.state {
            let line = match &state {
                RuntimeState::Apart => {
                    "the container runtime is gone: new pods are not known until it is back".into()
                }
                RuntimeState::Connected(name) => format!("{name} is connected"),
                RuntimeState::InStep(name) => format!("{name} has listed its pods"),
                RuntimeState::Listed(name) => {
                    format!("{name} has listed its pods, and is asked for them by CRI")
                }
            };
            self.history.notice(at, line);
            self.pods.state = state;
        }
        if let Some(reason) = reason.filter(|_| refused > self.pods.refused) {
            self.history.notice(at, format!("a pod is left out: {reason}"));
        }
        self.pods.refused = refused;
    }

    /// Makes these the tenants that are pods.
    fn adopt_pods(&mut self, wanted: &[TenantConfig]) -> anyhow::Result<()> {
        let old = &self.options.config.tenants;
        let (tenants, lines) = merged(old, wanted);
        if tenants == *old {
            return Ok(());
        }
        let vacant = tenants.iter().filter(|tenant| tenant.is_vacant()).count();
        let at = self.uptime();
        lines.into_iter().for_each(|line| self.history.notice(at, line));
        let mut config = Config { tenants, ..self.options.config.clone() };
        if vacant > MIN_VACANT && vacant * 2 > config.tenants.len() {
            config.tenants.retain(|tenant| !tenant.is_vacant());
            return self.adopt(config).map(drop);
        }
        let selectors = setup::selectors(&config)?;
        self.engine.set_tenants(config.tenants.iter().map(TenantConfig::spec).collect())?;
        self.world.set_tenants(selectors, false);
        setup::set_services(&config, &mut self.world);
        self.options.config = config;
        self.endpoints.follow(&self.options.config);
        Ok(())
    }

    /// The pods for the view; none if the daemon follows none.
    pub(super) fn pods_view(&self) -> Option<PodsView> {
        let kubernetes = &self.options.config.kubernetes;
        let (nri, cri) = (kubernetes.nri_socket(), kubernetes.cri_socket());
        let first = nri.or(cri)?;
        let capacity_bytes = self.pod_capacity().bytes;
        let table = self.channels.pods.lock();
        let (answers, slowest) = table.answers();
        let (source, socket, runtime, in_step) = match table.state() {
            RuntimeState::Apart => ("", first, "", false),
            RuntimeState::Connected(name) => ("nri", first, name.as_str(), false),
            RuntimeState::InStep(name) => ("nri", first, name.as_str(), true),
            RuntimeState::Listed(name) => ("cri", cri.unwrap_or(first), name.as_str(), true),
        };
        Some(PodsView {
            source: source.to_owned(),
            source_reason: if source == "nri" { String::new() } else { self.without_nri(nri) },
            socket: socket.to_owned(),
            runtime: runtime.to_owned(),
            in_step,
            pods: table.pods().len() as u64,
            containers: table.containers().len() as u64,
            refused: table.refusals().0,
            capacity_bytes,
            claims: table.claims().len() as u64,
            claimed_bytes: table.claims().values().sum(),
            answers,
            slowest_answer_ms: slowest.as_secs_f64() * 1e3,
        })
    }

    /// Why NRI reports no pods.
    fn without_nri(&self, socket: Option<&str>) -> String {
        if socket.is_none() {
            return "kubernetes.nri is off".to_owned();
        }
        let features = self.channels.unavailable.list();
        let nri = features.into_iter().find(|(feature, _)| *feature == "nri");
        nri.map_or_else(|| "NRI has ended".to_owned(), |(_, reason)| reason)
    }
}

/// The tenants with these pods, each in the place that it had, and the changes as lines.
fn merged(old: &[TenantConfig], wanted: &[TenantConfig]) -> (Vec<TenantConfig>, Vec<String>) {
    let mut new: BTreeMap<&str, &TenantConfig> =
        wanted.iter().map(|tenant| (tenant.name.as_str(), tenant)).collect();
    let mut lines = Vec::new();
    let mut tenants: Vec<TenantConfig> = old
        .iter()
        .map(|tenant| match (&tenant.pod, new.remove(tenant.name.as_str())) {
            // A configured tenant comes before a pod of its name.
            (None, _) => tenant.clone(),
            (Some(_), Some(wanted)) => {
                if settings(tenant) != settings(wanted) {
                    lines.push(format!("pod {}: {}", wanted.name, settings(wanted)));
                }
                wanted.clone()
            }
            (Some(_), None) => {
                if !tenant.is_vacant() {
                    lines.push(format!("pod {} has ended", tenant.name));
                }
                TenantConfig::vacant()
            }
        })
        .collect();
    // A number is 16 bits wide.
    let room = usize::from(u16::MAX).saturating_sub(tenants.len());
    for tenant in new.into_values().take(room) {
        lines.push(format!("pod {} is a tenant: {}", tenant.name, settings(tenant)));
        tenants.push(tenant.clone());
    }
    (tenants, lines)
}

/// A pod's settings in words, with what is wrong with them.
fn settings(tenant: &TenantConfig) -> String {
    let text = |limit: &Option<crate::config::LimitText>| {
        limit.as_ref().map(|limit| limit.limit().to_string())
    };
    let parts = [
        text(&tenant.floor).map(|floor| match tenant.pod.as_ref().and_then(|pod| pod.claim) {
            Some(_) => format!("claimed floor {floor}"),
            None => format!("floor {floor}"),
        }),
        text(&tenant.cap).map(|cap| format!("cap {cap}")),
        tenant.slo_ms.map(|ms| format!("P99 {ms} ms")),
        Some(format!("weight {}", tenant.weight)),
        tenant.pod.as_ref().and_then(|pod| pod.asked_floor).map(|asked| {
            let asked = tierwise_core::units::Bytes(asked);
            format!("its floor of {asked} is lowered, because the floors exceed the fast memory")
        }),
    ];
    let settings = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let problems = tenant.pod.iter().flat_map(|pod| &pod.problems);
    problems.fold(settings, |all, problem| format!("{all}; {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PodTenant;

    fn pod(name: &str) -> TenantConfig {
        TenantConfig::of_pod(name, PodTenant { groups: vec![name.into()], ..PodTenant::default() })
    }

    fn names(tenants: &[TenantConfig]) -> Vec<&str> {
        tenants.iter().map(|tenant| tenant.name.as_str()).collect()
    }

    #[test]
    fn tenants_keep_their_places() {
        let configured = TenantConfig::of_processes("shop/b", vec![1]);
        let (tenants, lines) =
            merged(&[configured], &[pod("shop/a"), pod("shop/b"), pod("shop/c")]);
        assert_eq!(names(&tenants), ["shop/b", "shop/a", "shop/c"]);
        assert_eq!(lines[0], "pod shop/a is a tenant: weight 100");
        let (tenants, lines) = merged(&tenants, &[pod("shop/c"), pod("shop/d")]);
        assert_eq!(names(&tenants), ["shop/b", "", "shop/c", "shop/d"]);
        assert_eq!(lines[0], "pod shop/a has ended");
        let (tenants, lines) = merged(&tenants, &[pod("shop/c"), pod("shop/d")]);
        assert_eq!((names(&tenants).len(), lines.len()), (4, 0));
    }
}
