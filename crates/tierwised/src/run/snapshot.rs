//! Makes the view from the daemon's parts.

use tierwise_core::metrics::{MoveCounters, TierActivity};
use tierwise_core::migrate::FailReason;
use tierwise_core::share::Decision;
use tierwise_core::tenant::Limit;
use tierwise_core::units::{Bytes, Pages, TenantId, TierId};
use tierwise_linux::fault::FaultScope;
use tierwise_linux::world::LiveWorld;

use super::Daemon;
use super::gain::gain;
use crate::config::{LimitText, PodTenant, TenantConfig};
use crate::system::optional::Unavailable;
use crate::view::{
    Cost, DaemonCounters, DaemonMode, DecisionView, Failed, FaultCount, PodView, Snapshot,
    TenantTierView, TenantView, TierView, UnavailableView,
};

/// A step of memory that an operator plans with.
const GIB: Bytes = Bytes(1 << 30);

impl Daemon {
    /// The whole view, now.
    pub(super) fn snapshot(&mut self) -> Snapshot {
        let tenants = self.options.config.tenants.len();
        self.pressure.read(self.world.tracker(), tenants);
        let (mode, mode_reason) = self.current_mode();
        let configured = &self.options.config.tenants;
        let places = (0..configured.len()).filter(|&i| !configured[i].is_vacant());
        let tenants = places.map(|i| self.tenant_view(i)).collect();
        Snapshot {
            version: env!("CARGO_PKG_VERSION").into(),
            uptime: self.uptime(),
            policy: self.options.config.policy.clone(),
            mode,
            mode_reason,
            monitoring: self.activity.source.clone(),
            unavailable: unavailable(&self.channels.unavailable),
            pods: self.pods_view(),
            tiers: self.tier_views(),
            tenants,
            counters: self.counters(),
            steering: self.steering_view(),
            cost: self.cost(),
            decisions: self.history.decisions.iter().cloned().collect(),
            notices: self.history.notices.iter().cloned().collect(),
            made: Some(std::time::Instant::now()),
        }
    }

    /// The mode now, and why it is not [`DaemonMode::Manage`].
    pub(super) fn current_mode(&self) -> (DaemonMode, String) {
        match self.world.unreadable() {
            _ if self.activity.paused => (DaemonMode::Paused, "paused by a command".into()),
            Some(problem) if self.activity.mode != DaemonMode::Observe => {
                (DaemonMode::Observe, format!("the machine cannot be read: {problem}"))
            }
            _ => (self.activity.mode, self.activity.reason.clone()),
        }
    }

    fn tier_views(&self) -> Vec<TierView> {
        let host = self.world.host();
        let free = self.world.free();
        let view = |(i, tier): (usize, &tierwise_linux::topology::HostTier)| TierView {
            name: tier.name.clone(),
            nodes: tier.nodes.clone(),
            capacity_bytes: tier.capacity.in_bytes(host.page_size).0,
            free_bytes: free.get(i).map_or(0, |pages| pages.in_bytes(host.page_size).0),
            load_latency_ns: tier.figures.load_latency.value.as_nanos() as f64,
            latency_source: tier.figures.load_latency.source.name().into(),
        };
        host.tiers.iter().enumerate().map(view).collect()
    }

    fn tenant_view(&self, index: usize) -> TenantView {
        let (config, id) = (&self.options.config.tenants[index], TenantId(index as u16));
        let counters = self.engine.metrics().tenants.get(index);
        let tiers = self.world.host().tiers.len();
        let tier = |i: usize| {
            let activity = counters.and_then(|c| c.tiers.get(i)).copied().unwrap_or_default();
            self.tenant_tier(config, id, TierId(i as u8), &activity)
        };
        let ms = |duration: std::time::Duration| duration.as_secs_f64() * 1e3;
        TenantView {
            name: config.name.clone(),
            class: config.spec().class.name().into(),
            processes: self.world.tracker().members(id).count() as u32,
            tiers: (0..tiers).map(tier).collect(),
            slo_ms: config.slo_ms,
            p99_ms: self.endpoints.known.p99(&config.name).map(ms),
            latency_problem: self.endpoints.known.problem(&config.name).map(str::to_owned),
            memory_pressure_percent: self.pressure.percent(index),
            fast_access_ratio: self.world.fast_access_ratio(id),
            next_gib_ratio: self.next_gib(id),
            thrash_events: counters.map_or(0, |c| c.thrash_events),
            because: self
                .history
                .share(id, TierId::FASTEST)
                .map_or(String::new(), |(_, because)| because.clone()),
            placed_bytes: self.world.placed(id).0,
            causes: self.history.causes(index).cloned().collect(),
            pod: config.pod.as_deref().map(pod),
        }
    }

    /// The part of a tenant's accesses that a GiB more of the fastest tier would serve.
    fn next_gib(&self, id: TenantId) -> Option<f64> {
        let mut classes = Vec::new();
        self.engine.curve(id, &mut classes);
        let tiers = self.engine.metrics().tenants.get(id.index()).map(|counters| &counters.tiers);
        let fast = tiers.and_then(|tiers| tiers.first()).map_or(Pages(0), |tier| tier.usage);
        gain(&classes, fast, GIB.in_pages(self.world.host().page_size))
    }

    pub(super) fn tenant_tier(
        &self,
        config: &TenantConfig,
        id: TenantId,
        tier: TierId,
        activity: &TierActivity,
    ) -> TenantTierView {
        let page_size = self.world.host().page_size;
        let bytes = |pages: Pages| pages.in_bytes(page_size).0;
        let resident = self.resident(id);
        let limit = |text: &Option<LimitText>| {
            let limit = text.as_ref().filter(|_| tier == TierId::FASTEST)?.limit();
            (limit != Limit::Auto).then(|| limit.pages(resident, page_size).map(bytes)).flatten()
        };
        let share = self.history.share(id, tier).map(|(share, _)| share.floor);
        TenantTierView {
            usage_bytes: bytes(activity.usage),
            floor_bytes: limit(&config.floor),
            cap_bytes: limit(&config.cap),
            share_bytes: share.map(bytes),
            promote_success: activity.promote.success,
            promote_fail: activity.promote.failed(),
            demote_success: activity.demote.success,
            demote_fail: activity.demote.failed(),
            accesses: activity.accesses,
        }
    }

    fn resident(&self, id: TenantId) -> Pages {
        let counters = self.engine.metrics().tenants.get(id.index());
        counters.map_or(Pages(0), |c| c.tiers.iter().map(|t| t.usage).sum())
    }

    fn counters(&self) -> DaemonCounters {
        let metrics = self.engine.metrics();
        DaemonCounters {
            rounds: self.rounds,
            plans: metrics.plans,
            promote_success: metrics.promote.success,
            promote_fail: failed(&metrics.promote),
            demote_success: metrics.demote.success,
            demote_fail: failed(&metrics.demote),
            moved_bytes: self.world.moved_bytes(),
            promoted_cache_bytes: self.page_cache.promotion.moved().0,
            demoted_unmanaged_bytes: self.unmanaged.demoted().0,
            faults: faults(&self.world),
            external_migrations: metrics.external_migrations,
            unpaid_pages: metrics.unpaid.0,
            pages_in_doubt: self.world.pages_in_doubt(),
            samples: metrics.samples,
            blocks: self.world.blocks() as u64,
        }
    }

    fn cost(&self) -> Cost {
        let cpu_budget = self.world.cpu_budget();
        Cost {
            cpu_percent: cpu_budget.used() * 100.0,
            cpu_seconds: cpu_budget.total().as_secs_f64(),
            damon_seconds: cpu_budget.kernel().as_secs_f64(),
            looking_seconds: cpu_budget.looking_so_far().as_secs_f64(),
            deciding_seconds: cpu_budget.deciding_so_far().as_secs_f64(),
            moving_seconds: cpu_budget.moving_so_far().as_secs_f64(),
            polling_seconds: self.endpoints.peers.cpu().as_secs_f64(),
            budget_percent: self.options.config.cpu.budget_percent,
            throttle: cpu_budget.throttle(),
            rss_bytes: crate::system::resident_bytes(),
        }
    }
}

fn pod(pod: &PodTenant) -> PodView {
    PodView {
        namespace: pod.namespace.clone(),
        pod: pod.pod.clone(),
        container: pod.container.clone(),
        qos_class: pod.qos.clone(),
        class: pod.class.clone(),
        claim_bytes: pod.claim,
        asked_floor_bytes: pod.asked_floor,
        problems: pod.problems.clone(),
    }
}

fn unavailable(unavailable: &Unavailable) -> Vec<UnavailableView> {
    let one =
        |(feature, reason): (&str, String)| UnavailableView { feature: feature.into(), reason };
    unavailable.list().into_iter().map(one).collect()
}

fn faults(world: &LiveWorld) -> Vec<FaultCount> {
    let one = |(scope, count): (&str, u64)| FaultCount { scope: scope.into(), count };
    FaultScope::NAMES.into_iter().zip(world.faults()).map(one).collect()
}

fn failed(counters: &MoveCounters) -> Vec<Failed> {
    let one = |(reason, &count): (FailReason, &u64)| Failed { reason: reason.name().into(), count };
    FailReason::ALL.into_iter().zip(&counters.fail).map(one).collect()
}

/// A decision with names and bytes instead of ids and pages.
pub(super) fn decision(decision: &Decision, because: String, world: &LiveWorld) -> DecisionView {
    let host = world.host();
    let bytes = |pages: Pages| pages.in_bytes(host.page_size).0;
    let capacity = host.tiers.get(decision.tier.index()).map_or(Pages(u64::MAX), |t| t.capacity);
    DecisionView {
        at: decision.at.0 as f64 / 1e9,
        tenant: world.tracker().name(decision.tenant).into(),
        tier: host.tiers.get(decision.tier.index()).map_or(String::new(), |t| t.name.clone()),
        floor_bytes: bytes(decision.share.floor),
        cap_bytes: (decision.share.cap < capacity).then(|| bytes(decision.share.cap)),
        promotion: decision.share.promotion,
        because,
    }
}
