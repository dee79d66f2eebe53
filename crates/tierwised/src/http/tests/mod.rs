//! Tests of the server over a socket.

mod client;
mod document;
mod exported;
mod guard;
mod hostile;
mod live;
mod metrics;
mod parts;

use std::sync::Arc;

use crossbeam_channel::{Receiver, bounded};
use tokio::sync::watch;

use super::HttpServer;
use super::server::Deadlines;
use crate::view::{
    DaemonCounters, DaemonMode, DecisionView, Failed, PodView, PodsView, Snapshot, TenantTierView,
    TenantView, TierView,
};

/// A server with a snapshot, and the sender of further ones.
fn start() -> (HttpServer, watch::Sender<Arc<Snapshot>>) {
    let (server, views, _) = start_asking();
    (server, views)
}

/// The same, with other deadlines.
fn start_with(deadlines: Deadlines) -> (HttpServer, watch::Sender<Arc<Snapshot>>) {
    let (views, seen) = watch::channel(Arc::new(snapshot()));
    let listen = "127.0.0.1:0".parse().unwrap();
    (HttpServer::start_with(listen, seen, bounded(1).0, deadlines).unwrap(), views)
}

/// The same, with the receiver of its requests for newer ones.
fn start_asking() -> (HttpServer, watch::Sender<Arc<Snapshot>>, Receiver<()>) {
    let (views, seen) = watch::channel(Arc::new(snapshot()));
    let (waker, asked) = bounded(1);
    (HttpServer::start("127.0.0.1:0".parse().unwrap(), seen, waker).unwrap(), views, asked)
}

/// A name that every format has to escape.
const AWKWARD: &str = "a \"b\"\\c/d\n<e>";

fn snapshot() -> Snapshot {
    let tier = |name: &str, capacity_bytes| TierView {
        name: name.into(),
        nodes: vec![0],
        capacity_bytes,
        free_bytes: 5,
        load_latency_ns: 90.0,
        latency_source: "the firmware".into(),
    };
    let decision = |at, tenant: &str| DecisionView {
        at,
        tenant: tenant.into(),
        tier: "fast".into(),
        promotion: 1.0,
        because: "its floor".into(),
        ..DecisionView::default()
    };
    Snapshot {
        version: "1.2.3".into(),
        uptime: 12.5,
        policy: "tierwise".into(),
        mode: DaemonMode::DryRun,
        tiers: vec![tier("fast", 100), tier("slow", (1 << 60) + 1)],
        tenants: vec![tenant("shop"), tenant(AWKWARD), pod()],
        pods: Some(PodsView {
            socket: "/run/nri.sock".into(),
            runtime: "containerd 1.7.24".into(),
            in_step: true,
            pods: 3,
            slowest_answer_ms: 0.25,
            ..PodsView::default()
        }),
        counters: DaemonCounters {
            rounds: 7,
            demote_fail: vec![Failed { reason: "busy".into(), count: 3 }],
            ..DaemonCounters::default()
        },
        decisions: vec![decision(1.0, "shop"), decision(2.0, "gone"), decision(3.0, "shop")],
        ..Snapshot::default()
    }
}

/// A container of a pod, with a floor that was lowered.
fn pod() -> TenantView {
    let pod = PodView {
        namespace: "shop".into(),
        pod: "web-0".into(),
        container: Some("db".into()),
        qos_class: "Burstable".into(),
        class: Some("gold".into()),
        claim_bytes: Some(50),
        asked_floor_bytes: Some(50),
        problems: vec!["weight: found \"0\"".into()],
    };
    TenantView { pod: Some(pod), ..tenant("shop/web-0/db") }
}

fn tenant(name: &str) -> TenantView {
    TenantView {
        name: name.into(),
        class: "best-effort".into(),
        tiers: vec![
            TenantTierView { usage_bytes: 40, floor_bytes: Some(30), ..TenantTierView::default() },
            TenantTierView { usage_bytes: 60, demote_success: 9, ..TenantTierView::default() },
        ],
        p99_ms: Some(2.5),
        ..TenantView::default()
    }
}
