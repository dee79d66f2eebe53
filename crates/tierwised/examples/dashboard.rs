//! Serves the dashboard, the API and the metrics with made-up figures that change, to work on the
//! page without a daemon and to test it in a browser:
//!
//! ```text
//! cargo run -p tierwised --example dashboard -- 127.0.0.1:9471
//! ```
//!
//! A second argument is the time between two changes in milliseconds (1000); each makes the figures
//! a second older.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tierwised::http::HttpServer;
use tierwised::view::{
    Cost, DaemonCounters, DaemonMode, DecisionView, Failed, Notice, Snapshot, TenantTierView,
    TenantView, TierView,
};
use tokio::sync::watch;

const GIB: u64 = 1 << 30;

/// Age of the made-up daemon at the start, in seconds, so that it has a history.
const AGE: u64 = 4000;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let listen = arguments.next().unwrap_or_else(|| "127.0.0.1:9471".into());
    let listen = listen.parse().with_context(|| format!("{listen}: no address with a port"))?;
    let step = arguments.next().unwrap_or_else(|| "1000".into());
    let step = step.parse().with_context(|| format!("{step}: no number of milliseconds"))?;
    let (views, seen) = watch::channel(Arc::new(made_up(AGE)));
    let (waker, _asked) = crossbeam_channel::bounded(1);
    let server = HttpServer::start(listen, seen, waker)?;
    println!("http://{}/", server.address());
    for second in AGE + 1.. {
        std::thread::sleep(Duration::from_millis(step));
        views.send_replace(Arc::new(made_up(second)));
    }
    Ok(())
}

/// A possible view of a daemon at a second of its life.
fn made_up(second: u64) -> Snapshot {
    let tenants = vec![shop(second), search(second), batch(second), late()];
    let held = |tier: usize| tenants.iter().map(|t| t.tiers[tier].usage_bytes).sum::<u64>();
    Snapshot {
        version: env!("CARGO_PKG_VERSION").into(),
        uptime: second as f64,
        policy: "tierwise".into(),
        mode: DaemonMode::Manage,
        mode_reason: String::new(),
        monitoring: "damon-vaddr, because it finds hot regions and the CPU has no samples".into(),
        unavailable: Vec::new(),
        pods: None,
        tiers: vec![
            tier("DRAM", 0, 64 * GIB, 62 * GIB - held(0), 94.0),
            tier("CXL", 1, 256 * GIB, 250 * GIB - held(1), 224.0),
        ],
        counters: counters(second),
        steering: None,
        cost: cost(second),
        decisions: decisions(second),
        notices: vec![
            Notice {
                at: 12.0,
                text: "tenant late: its cgroup late.slice is not there yet; waiting for it".into(),
            },
            Notice {
                at: second as f64 - 95.0,
                text: "tenant batch: pid 4711 <defunct> is gone; its pages are forgotten".into(),
            },
        ],
        tenants,
        made: None,
    }
}

fn tier(name: &str, node: u32, capacity_bytes: u64, free_bytes: u64, latency: f64) -> TierView {
    TierView {
        name: name.into(),
        nodes: vec![node],
        capacity_bytes,
        free_bytes,
        load_latency_ns: latency,
        latency_source: "the firmware".into(),
    }
}

/// A figure that swings about `middle` by `swing` once in `period` seconds.
fn swinging(second: u64, middle: f64, swing: f64, period: f64) -> f64 {
    middle + swing * (second as f64 * std::f64::consts::TAU / period).sin()
}

fn gib(count: f64) -> u64 {
    (count * GIB as f64) as u64
}

/// The count until now, if the rate swings as in [`swinging`]: its integral, which only grows.
fn counted(second: u64, middle: f64, period: f64) -> u64 {
    let angle = second as f64 * std::f64::consts::TAU / period;
    let swings = middle * period / std::f64::consts::TAU * (1.0 - angle.cos());
    (middle * second as f64 + swings) as u64
}

fn shop(second: u64) -> TenantView {
    let fast = swinging(second, 21.0, 2.5, 90.0);
    TenantView {
        pod: None,
        name: "shop".into(),
        class: "latency-critical".into(),
        processes: 6,
        tiers: vec![
            TenantTierView {
                usage_bytes: gib(fast),
                floor_bytes: Some(16 * GIB),
                cap_bytes: Some(32 * GIB),
                share_bytes: Some(24 * GIB),
                promote_success: counted(second, 14.0, 90.0),
                promote_fail: second / 40,
                demote_success: counted(second, 6.0, 120.0),
                ..TenantTierView::default()
            },
            TenantTierView { usage_bytes: gib(40.0 - fast), ..TenantTierView::default() },
        ],
        slo_ms: Some(5.0),
        p99_ms: Some(swinging(second, 3.4, 0.6, 60.0)),
        latency_problem: None,
        memory_pressure_percent: Some(0.4),
        fast_access_ratio: Some(swinging(second, 0.93, 0.03, 90.0)),
        next_gib_ratio: Some(0.04),
        thrash_events: 3,
        because: "its floor of 16 GiB and 8 GiB of the rest, by weight 4 of 7".into(),
        placed_bytes: 0,
        causes: Vec::new(),
    }
}

fn search(second: u64) -> TenantView {
    TenantView {
        pod: None,
        name: "search-with-a-rather-long-name.slice/leaf@17.service".into(),
        class: "latency-critical".into(),
        processes: 1,
        tiers: vec![
            TenantTierView {
                usage_bytes: gib(swinging(second, 7.1, 0.3, 70.0)),
                floor_bytes: Some(12 * GIB),
                share_bytes: Some(12 * GIB),
                promote_success: counted(second, 35.0, 200.0),
                demote_success: second / 3,
                demote_fail: 2,
                ..TenantTierView::default()
            },
            TenantTierView { usage_bytes: 31 * GIB, ..TenantTierView::default() },
        ],
        slo_ms: Some(8.0),
        p99_ms: Some(swinging(second, 11.7, 0.4, 60.0)),
        latency_problem: None,
        memory_pressure_percent: Some(6.3),
        fast_access_ratio: Some(0.58),
        next_gib_ratio: Some(0.11),
        thrash_events: 0,
        because: "started 40 s ago; its floor is being restored".into(),
        placed_bytes: 0,
        causes: Vec::new(),
    }
}

fn batch(second: u64) -> TenantView {
    TenantView {
        pod: None,
        name: "batch".into(),
        class: "best-effort".into(),
        processes: 48,
        tiers: vec![
            TenantTierView {
                usage_bytes: gib(swinging(second, 17.5, 1.0, 150.0)),
                cap_bytes: Some(20 * GIB),
                share_bytes: Some(18 * GIB),
                promote_success: counted(second, 4.0, 150.0),
                demote_success: counted(second, 41.0, 200.0),
                ..TenantTierView::default()
            },
            TenantTierView {
                usage_bytes: 96 * GIB,
                cap_bytes: Some(128 * GIB),
                ..TenantTierView::default()
            },
        ],
        memory_pressure_percent: Some(11.0),
        fast_access_ratio: Some(0.41),
        thrash_events: 1264,
        because: "the rest, up to its cap of 20 GiB".into(),
        ..TenantView::default()
    }
}

/// A tenant that has not started.
fn late() -> TenantView {
    TenantView {
        pod: None,
        name: "late".into(),
        class: "best-effort".into(),
        tiers: vec![TenantTierView::default(); 2],
        ..TenantView::default()
    }
}

fn counters(second: u64) -> DaemonCounters {
    let failed = |reason: &str, count| Failed { reason: reason.into(), count };
    let promoted = |tenant: TenantView| tenant.tiers[0].promote_success;
    let demoted = |tenant: TenantView| tenant.tiers[0].demote_success;
    let promote_success =
        promoted(shop(second)) + promoted(search(second)) + promoted(batch(second));
    let demote_success = demoted(shop(second)) + demoted(search(second)) + demoted(batch(second));
    DaemonCounters {
        rounds: second,
        plans: second * 4 / 5,
        promote_success,
        promote_fail: vec![failed("busy", second / 50), failed("target_full", second / 200)],
        demote_success,
        demote_fail: vec![failed("not_present", 2)],
        pages_in_doubt: 0,
        // A block is a huge page.
        moved_bytes: (promote_success + demote_success) << 21,
        promoted_cache_bytes: 0,
        demoted_unmanaged_bytes: 0,
        faults: Vec::new(),
        external_migrations: 17,
        unpaid_pages: 0,
        samples: second * 850,
        blocks: 99_000,
    }
}

fn cost(second: u64) -> Cost {
    Cost {
        cpu_percent: swinging(second, 0.74, 0.12, 45.0),
        cpu_seconds: second as f64 * 0.0074,
        looking_seconds: second as f64 * 0.0062,
        damon_seconds: second as f64 * 0.0041,
        deciding_seconds: second as f64 * 0.0003,
        moving_seconds: second as f64 * 0.0024,
        polling_seconds: second as f64 * 0.0011,
        budget_percent: 1.0,
        throttle: 1.5,
        rss_bytes: 14 << 20,
    }
}

fn decisions(second: u64) -> Vec<DecisionView> {
    let decided =
        |before: u64, tenant: &str, floor: u64, cap: Option<u64>, promotion, because: &str| {
            DecisionView {
                at: second.saturating_sub(before) as f64,
                tenant: tenant.into(),
                tier: "DRAM".into(),
                floor_bytes: floor * GIB,
                cap_bytes: cap.map(|cap| cap * GIB),
                promotion,
                because: because.into(),
            }
        };
    vec![
        decided(610, "batch", 0, Some(20), 1.0, "the operator's cap of 20 GiB"),
        decided(
            240,
            "batch",
            0,
            Some(20),
            0.25,
            "thrash control: 1,264 blocks were demoted within 5 s of their promotion, more than \
             the 500 that are allowed",
        ),
        decided(
            64,
            "search-with-a-rather-long-name.slice/leaf@17.service",
            12,
            None,
            1.0,
            "P99 11.7 ms is above the SLO of 8 ms, and it holds less than its floor",
        ),
        decided(
            9,
            "shop",
            16,
            Some(32),
            1.0,
            "P99 3.4 ms is within the SLO of 5 ms; 8 GiB more by weight 4 of 7",
        ),
    ]
}
