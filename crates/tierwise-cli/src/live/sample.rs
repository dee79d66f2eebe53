//! A view with an example of everything, for tests.

use tierwised::view::{
    CauseView, Cost, DaemonCounters, DaemonMode, DecisionView, Failed, Notice, PodView, PodsView,
    Snapshot, TenantTierView, TenantView, TierView,
};

const GIB: u64 = 1 << 30;

/// Returns two tiers and three tenants: one misses its SLO, one has a cap, one has not started.
pub fn snapshot() -> Snapshot {
    Snapshot {
        version: "0.1.0".into(),
        uptime: 3_725.0,
        policy: "tierwise".into(),
        mode: DaemonMode::Manage,
        mode_reason: String::new(),
        monitoring: "damon-vaddr, because it finds hot regions of each process".into(),
        unavailable: Vec::new(),
        pods: None,
        tiers: vec![
            tier("DRAM", 0, 128 * GIB, 16 * GIB, 90.0),
            tier("CXL", 1, 256 * GIB, 200 * GIB, 250.0),
        ],
        tenants: vec![shop(), batch(), late()],
        counters: DaemonCounters {
            rounds: 3700,
            plans: 120,
            promote_success: 4000,
            promote_fail: vec![Failed { reason: "busy".into(), count: 7 }],
            demote_success: 3500,
            demote_fail: Vec::new(),
            moved_bytes: 15 * GIB,
            promoted_cache_bytes: 0,
            demoted_unmanaged_bytes: 0,
            faults: Vec::new(),
            pages_in_doubt: 0,
            external_migrations: 2,
            unpaid_pages: 0,
            samples: 0,
            blocks: 65_536,
        },
        steering: None,
        cost: Cost {
            cpu_percent: 0.8,
            cpu_seconds: 30.0,
            looking_seconds: 15.0,
            damon_seconds: 12.0,
            deciding_seconds: 0.5,
            moving_seconds: 8.0,
            polling_seconds: 2.0,
            budget_percent: 1.0,
            throttle: 1.5,
            rss_bytes: 12 << 20,
        },
        decisions: vec![
            decision(3_700.0, "shop", "its P99 is above its SLO"),
            decision(3_720.0, "batch", "a neighbour is below its floor"),
        ],
        notices: vec![Notice { at: 3_600.0, text: "paused by the operator and resumed".into() }],
        made: None,
    }
}

fn tier(name: &str, node: u32, capacity: u64, free: u64, latency: f64) -> TierView {
    TierView {
        name: name.into(),
        nodes: vec![node],
        capacity_bytes: capacity,
        free_bytes: free,
        load_latency_ns: latency,
        latency_source: "firmware".into(),
    }
}

fn cause(because: &str, promoted: u64, demoted: u64) -> CauseView {
    CauseView { because: because.into(), promoted, demoted }
}

fn decision(at: f64, tenant: &str, because: &str) -> DecisionView {
    DecisionView {
        at,
        tenant: tenant.into(),
        tier: "DRAM".into(),
        floor_bytes: 40 * GIB,
        cap_bytes: None,
        promotion: 0.5,
        because: because.into(),
    }
}

fn holds(fast: u64, slow: u64) -> Vec<TenantTierView> {
    let usage = |bytes| TenantTierView { usage_bytes: bytes, ..TenantTierView::default() };
    vec![usage(fast), usage(slow)]
}

fn shop() -> TenantView {
    let mut tiers = holds(40 * GIB, 8 * GIB);
    tiers[0].floor_bytes = Some(32 * GIB);
    tiers[0].share_bytes = Some(48 * GIB);
    tiers[0].promote_success = 3000;
    tiers[0].promote_fail = 7;
    tiers[0].demote_success = 500;
    TenantView {
        name: "shop".into(),
        class: "latency-critical".into(),
        processes: 12,
        tiers,
        slo_ms: Some(5.0),
        p99_ms: Some(6.25),
        latency_problem: None,
        memory_pressure_percent: Some(1.5),
        fast_access_ratio: Some(0.875),
        next_gib_ratio: Some(0.0625),
        thrash_events: 4,
        placed_bytes: 2 * GIB,
        causes: vec![
            cause("because its tenant's share grew", 3000, 0),
            cause("because its tenant holds its share and has hotter pages", 0, 1),
        ],
        because: "its P99 is above its SLO".into(),
        pod: None,
    }
}

/// Returns the same with a container of a pod and a floor that was lowered.
pub fn with_pod() -> Snapshot {
    let pod = PodView {
        namespace: "shop".into(),
        pod: "web-0".into(),
        container: Some("db".into()),
        qos_class: "Burstable".into(),
        class: Some("gold".into()),
        claim_bytes: None,
        asked_floor_bytes: Some(4 * GIB),
        problems: vec!["weight: found \"0\"; allowed: 1 to 10000".into()],
    };
    let name = "shop/web-0/db".into();
    let mut snapshot = snapshot();
    snapshot.tenants.push(TenantView { name, pod: Some(pod), ..late() });
    snapshot.pods = Some(PodsView {
        source: "nri".into(),
        source_reason: String::new(),
        socket: "/var/run/nri/nri.sock".into(),
        runtime: "containerd 1.7.24".into(),
        in_step: true,
        pods: 12,
        containers: 15,
        refused: 0,
        capacity_bytes: 60 * GIB,
        claims: 2,
        claimed_bytes: 6 * GIB,
        answers: 60,
        slowest_answer_ms: 0.25,
    });
    snapshot
}

fn batch() -> TenantView {
    let mut tiers = holds(70 * GIB, 40 * GIB);
    tiers[0].cap_bytes = Some(64 * GIB);
    tiers[0].share_bytes = Some(64 * GIB);
    tiers[0].promote_success = 1000;
    tiers[0].demote_success = 3000;
    TenantView {
        name: "batch".into(),
        class: "best-effort".into(),
        processes: 3,
        tiers,
        because: "a neighbour is below its floor".into(),
        latency_problem: Some("127.0.0.1:6379: no process listens there".into()),
        ..TenantView::default()
    }
}

fn late() -> TenantView {
    TenantView {
        name: "late".into(),
        class: "best-effort".into(),
        tiers: holds(0, 0),
        ..TenantView::default()
    }
}
