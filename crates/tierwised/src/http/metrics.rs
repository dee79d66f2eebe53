//! The table of metrics, one row each, in the order of the output.
//!
//! Names are those of the kernel's vmstat where it has them (`promote_success`, `demote_fail`),
//! units are base units and stand last, and `_total` or `_info` is added by the format.

use std::fmt::{self, Write};
use std::sync::Arc;

use super::openmetrics::{self, Metric, MetricValue, Samples, counter, gauge, info};
use crate::view::{
    DaemonMode, PodsView, Snapshot, SteeringView, TenantTierView, TenantView, TierView,
};

/// The labels of a tenant. Those of its pod are absent for other tenants.
const OF_TENANT: &[&str] = &["tenant", "namespace", "pod", "container"];

/// The labels of a tenant's memory in a tier.
const IN_TIER: &[&str] = &["tenant", "tier", "namespace", "pod", "container"];

/// The labels of a tenant's class, with those of its pod.
const TENANT_INFO: &[&str] =
    &["tenant", "class", "namespace", "pod", "container", "qos_class", "memory_class"];

/// Nanoseconds in a second, milliseconds in a second, and percents in a whole.
const NANO: f64 = 1e9;
const MILLI: f64 = 1e3;
const PERCENT: f64 = 100.0;

/// The table.
pub(super) const METRICS: &[Metric] = &[
    info("build", &["version"], "The daemon's version.", |s, out| out.add(&[&s.version], 1u64)),
    info("policy", &["policy"], "The current policy.", |s, out| out.add(&[&s.policy], 1u64)),
    gauge("mode", "", &["mode"], "1 for the current mode, 0 for the others.", mode),
    gauge("uptime", "seconds", &[], "Time since the daemon started.", |s, out| out.one(s.uptime)),
    counter("rounds", "", &[], "Rounds of monitoring and deciding.", |s, out| {
        out.one(s.counters.rounds);
    }),
    counter("plans", "", &[], "Plans that had something to do.", |s, out| {
        out.one(s.counters.plans);
    }),
    counter("samples", "", &[], "Samples of accesses handled.", |s, out| {
        out.one(s.counters.samples);
    }),
    gauge("blocks", "", &[], "Blocks of memory that are managed.", |s, out| {
        out.one(s.counters.blocks);
    }),
    counter("promote_success", "", &[], "Blocks promoted.", |s, out| {
        out.one(s.counters.promote_success);
    }),
    counter("promote_fail", "", &["reason"], "Promotions that failed, by reason.", |s, out| {
        s.counters.promote_fail.iter().for_each(|fail| out.add(&[&fail.reason], fail.count));
    }),
    counter("demote_success", "", &[], "Blocks demoted.", |s, out| {
        out.one(s.counters.demote_success);
    }),
    counter("demote_fail", "", &["reason"], "Demotions that failed, by reason.", |s, out| {
        s.counters.demote_fail.iter().for_each(|fail| out.add(&[&fail.reason], fail.count));
    }),
    counter("moved", "bytes", &[], "Memory moved between tiers.", |s, out| {
        out.one(s.counters.moved_bytes);
    }),
    counter(
        "promoted_cache",
        "bytes",
        &[],
        "Page cache that the kernel promoted on request.",
        |s, out| {
            out.one(s.counters.promoted_cache_bytes);
        },
    ),
    counter(
        "demoted_unmanaged",
        "bytes",
        &[],
        "Idle memory of no tenant that the kernel was asked to demote.",
        |s, out| {
            out.one(s.counters.demoted_unmanaged_bytes);
        },
    ),
    gauge(
        "steering_hot_threshold",
        "seconds",
        &[],
        "The hot threshold that the daemon sets while it steers the kernel's tiering.",
        |s, out| steering(s, out, |v| v.hot_threshold_ms as f64 / MILLI),
    ),
    gauge(
        "steering_scans",
        "",
        &[],
        "Whether the kernel scans slow memory while the daemon steers its tiering.",
        |s, out| steering(s, out, |v| f64::from(v.scans)),
    ),
    gauge(
        "steering_victim_pages",
        "",
        &[],
        "Base pages of the fastest tier that promotions may displace: free or idle.",
        |s, out| steering(s, out, |v| v.victim_pages as f64),
    ),
    counter(
        "steering_promoted_pages",
        "",
        &[],
        "Base pages that the kernel promoted since steering started, of all processes.",
        |s, out| steering(s, out, |v| v.promoted_pages as f64),
    ),
    counter(
        "steering_demoted_pages",
        "",
        &[],
        "Base pages that the kernel demoted since steering started, of all processes.",
        |s, out| steering(s, out, |v| v.demoted_pages as f64),
    ),
    counter(
        "steering_hint_faults",
        "",
        &[],
        "Hint faults since steering started, of all processes.",
        |s, out| steering(s, out, |v| v.hint_faults as f64),
    ),
    counter(
        "external_migrations",
        "",
        &[],
        "Blocks that the kernel or another program migrated.",
        |s, out| {
            out.one(s.counters.external_migrations);
        },
    ),
    counter(
        "unpaid_pages",
        "",
        &[],
        "Base pages not exchanged, because the copies would take more time than the exchange \
         saves; counted at each search.",
        |s, out| out.one(s.counters.unpaid_pages),
    ),
    counter(
        "pages_in_doubt",
        "",
        &[],
        "Base pages moved in a call during which their process exited, and therefore not verified.",
        |s, out| out.one(s.counters.pages_in_doubt),
    ),
    counter(
        "faults",
        "",
        &["scope"],
        "Readings that failed, by what they concern: a process, a control group, a guest or the \
         machine.",
        |s, out| s.counters.faults.iter().for_each(|fault| out.add(&[&fault.scope], fault.count)),
    ),
    gauge(
        "unavailable",
        "",
        &["feature"],
        "Features that cannot start and are tried again: 1 for each.",
        |s, out| s.unavailable.iter().for_each(|off| out.add(&[&off.feature], 1)),
    ),
    gauge("pods", "", &[], "Pods with a running container, as the runtime reports.", |s, out| {
        pods(s, out, |view| view.pods);
    }),
    gauge("containers", "", &[], "Running containers, as the runtime reports.", |s, out| {
        pods(s, out, |view| view.containers);
    }),
    gauge(
        "pods_in_step",
        "",
        &[],
        "1 if the container runtime has listed its pods, 0 if it is not connected.",
        |s, out| pods(s, out, |view| u64::from(view.in_step)),
    ),
    gauge(
        "pods_capacity",
        "bytes",
        &[],
        "Fast memory that floors of pods may have: the fastest tier less the reserve and the \
         floors of configured tenants.",
        |s, out| pods(s, out, |view| view.capacity_bytes),
    ),
    gauge(
        "pods_claimed",
        "bytes",
        &[],
        "Fast memory that pods have claimed, whether they run or not.",
        |s, out| pods(s, out, |view| view.claimed_bytes),
    ),
    counter("pods_refused", "", &[], "Pods and containers that cannot be tenants.", |s, out| {
        pods(s, out, |view| view.refused);
    }),
    counter("nri_answers", "", &[], "Requests of the container runtime answered.", |s, out| {
        pods(s, out, |view| view.answers);
    }),
    gauge(
        "nri_slowest_answer",
        "seconds",
        &[],
        "The longest time from the arrival of the runtime's request to its answer.",
        |s, out| pods(s, out, |view| view.slowest_answer_ms / MILLI),
    ),
    gauge("tier_capacity", "bytes", &["tier"], "Memory of the tier.", |s, out| {
        per_tier(s, out, |tier, name, out| out.add(&[name], tier.capacity_bytes));
    }),
    gauge("tier_free", "bytes", &["tier"], "Free memory of the tier.", |s, out| {
        per_tier(s, out, |tier, name, out| out.add(&[name], tier.free_bytes));
    }),
    gauge(
        "tier_load_latency",
        "seconds",
        &["tier"],
        "Latency of a load from the tier.",
        |s, out| {
            per_tier(s, out, |tier, name, out| out.add(&[name], tier.load_latency_ns / NANO));
        },
    ),
    info(
        "tenant",
        TENANT_INFO,
        "The tenant's class, and its pod's quality of service class and FastMemoryClass.",
        |s, out| {
            per_tenant(s, out, |tenant, out| {
                let [name, namespace, pod, container] = labels(tenant);
                let [qos, memory_class] = tenant.pod.as_ref().map_or(["", ""], |pod| {
                    [&pod.qos_class, pod.class.as_deref().unwrap_or_default()]
                });
                let class = &tenant.class;
                out.add(&[name, class, namespace, pod, container, qos, memory_class], 1u64);
            });
        },
    ),
    gauge("tenant_processes", "", OF_TENANT, "Live processes of the tenant.", |s, out| {
        per_tenant(s, out, |tenant, out| {
            out.add(&labels(tenant), u64::from(tenant.processes));
        });
    }),
    gauge("tenant_usage", "bytes", IN_TIER, "The tenant's usage of the tier.", |s, out| {
        in_tier(s, out, |tier| Some(tier.usage_bytes));
    }),
    gauge(
        "tenant_floor",
        "bytes",
        IN_TIER,
        "The tenant's configured floor in the tier.",
        |s, out| {
            in_tier(s, out, |tier| tier.floor_bytes);
        },
    ),
    gauge(
        "tenant_claim",
        "bytes",
        OF_TENANT,
        "The floor that the scheduler has allocated to a pod with a claim.",
        |s, out| {
            per_tenant(s, out, |tenant, out| {
                let claim = tenant.pod.as_ref().and_then(|pod| pod.claim_bytes);
                claim.into_iter().for_each(|claim| out.add(&labels(tenant), claim));
            });
        },
    ),
    gauge(
        "tenant_floor_asked",
        "bytes",
        OF_TENANT,
        "The floor that a pod asked for, where its own was lowered because the floors of all pods \
         exceed the fast memory.",
        |s, out| {
            per_tenant(s, out, |tenant, out| {
                let asked = tenant.pod.as_ref().and_then(|pod| pod.asked_floor_bytes);
                asked.into_iter().for_each(|asked| out.add(&labels(tenant), asked));
            });
        },
    ),
    gauge(
        "tenant_annotation_problems",
        "",
        OF_TENANT,
        "Annotations of the tenant's pod that are wrong or exceed a limit.",
        |s, out| {
            per_tenant(s, out, |tenant, out| {
                let problems = tenant.pod.as_ref().map(|pod| pod.problems.len() as u64);
                problems.into_iter().for_each(|count| out.add(&labels(tenant), count));
            });
        },
    ),
    gauge("tenant_cap", "bytes", IN_TIER, "The tenant's configured cap in the tier.", |s, out| {
        in_tier(s, out, |tier| tier.cap_bytes);
    }),
    gauge(
        "tenant_share",
        "bytes",
        IN_TIER,
        "The tenant's share of the tier, as the policy sets it now.",
        |s, out| in_tier(s, out, |tier| tier.share_bytes),
    ),
    counter(
        "tenant_accesses",
        "",
        IN_TIER,
        "Accesses of the tenant in the tier that the monitoring source found; their rate is the \
         scale of `full_load`.",
        |s, out| in_tier(s, out, |tier| Some(tier.accesses)),
    ),
    counter(
        "tenant_promote_success",
        "",
        IN_TIER,
        "Blocks of the tenant promoted into the tier.",
        |s, out| in_tier(s, out, |tier| Some(tier.promote_success)),
    ),
    counter(
        "tenant_promote_fail",
        "",
        IN_TIER,
        "Promotions of the tenant's blocks into the tier that failed.",
        |s, out| in_tier(s, out, |tier| Some(tier.promote_fail)),
    ),
    counter(
        "tenant_demote_success",
        "",
        IN_TIER,
        "Blocks of the tenant demoted out of the tier.",
        |s, out| in_tier(s, out, |tier| Some(tier.demote_success)),
    ),
    counter(
        "tenant_demote_fail",
        "",
        IN_TIER,
        "Demotions of the tenant's blocks out of the tier that failed.",
        |s, out| in_tier(s, out, |tier| Some(tier.demote_fail)),
    ),
    gauge(
        "tenant_p99",
        "seconds",
        OF_TENANT,
        "The 99th percentile of the latency of the tenant's requests, where it is known.",
        |s, out| known(s, out, |tenant| Some(tenant.p99_ms? / MILLI)),
    ),
    gauge(
        "tenant_slo",
        "seconds",
        OF_TENANT,
        "The 99th percentile of latency that the tenant must not exceed.",
        |s, out| known(s, out, |tenant| Some(tenant.slo_ms? / MILLI)),
    ),
    gauge(
        "tenant_memory_pressure",
        "ratio",
        OF_TENANT,
        "Part of the last ten seconds in which some of its tasks waited for memory (PSI).",
        |s, out| known(s, out, |tenant| Some(tenant.memory_pressure_percent? / PERCENT)),
    ),
    gauge(
        "tenant_fast_access",
        "ratio",
        OF_TENANT,
        "Part of the tenant's sampled accesses that lay in the fastest tier.",
        |s, out| known(s, out, |tenant| tenant.fast_access_ratio),
    ),
    gauge(
        "tenant_next_gib",
        "ratio",
        OF_TENANT,
        "Part of the tenant's accesses that a GiB more of the fastest tier would serve, if it had \
         its hottest memory there.",
        |s, out| known(s, out, |tenant| tenant.next_gib_ratio),
    ),
    counter(
        "tenant_thrash_events",
        "",
        OF_TENANT,
        "Thrash events: blocks of the tenant demoted soon after their promotion.",
        |s, out| per_tenant(s, out, |tenant, out| out.add(&labels(tenant), tenant.thrash_events)),
    ),
    counter(
        "cpu",
        "seconds",
        &[],
        "CPU time of the daemon, DAMON's threads included.",
        |s, out| {
            out.one(s.cost.cpu_seconds);
        },
    ),
    counter(
        "looking_cpu",
        "seconds",
        &[],
        "CPU time of finding processes, their memory and its accesses, DAMON's threads and the \
         start included.",
        |s, out| out.one(s.cost.looking_seconds),
    ),
    counter("damon_cpu", "seconds", &[], "CPU time of DAMON's threads.", |s, out| {
        out.one(s.cost.damon_seconds);
    }),
    counter("deciding_cpu", "seconds", &[], "CPU time of the policy.", |s, out| {
        out.one(s.cost.deciding_seconds);
    }),
    counter(
        "moving_cpu",
        "seconds",
        &[],
        "CPU time of moving pages and verifying the moves.",
        |s, out| {
            out.one(s.cost.moving_seconds);
        },
    ),
    counter(
        "polling_cpu",
        "seconds",
        &[],
        "CPU time of polling tenants' latency endpoints and guests.",
        |s, out| out.one(s.cost.polling_seconds),
    ),
    gauge("cpu_use", "ratio", &[], "Use of one CPU in the last ten seconds.", |s, out| {
        out.one(s.cost.cpu_percent / PERCENT);
    }),
    gauge("cpu_budget", "ratio", &[], "Part of one CPU that the daemon may use.", |s, out| {
        out.one(s.cost.budget_percent / PERCENT);
    }),
    gauge(
        "interval_throttle",
        "ratio",
        &[],
        "Factor by which the daemon's intervals are longer than configured, to stay within the \
         budget.",
        |s, out| out.one(s.cost.throttle),
    ),
    gauge("rss", "bytes", &[], "Resident memory of the daemon.", |s, out| {
        out.one(s.cost.rss_bytes);
    }),
];

/// Nothing while the daemon does not steer.
fn steering(snapshot: &Snapshot, out: &mut Samples, read: fn(&SteeringView) -> f64) {
    snapshot.steering.iter().for_each(|view| out.one(read(view)));
}

fn mode(snapshot: &Snapshot, out: &mut Samples) {
    let modes = [
        (DaemonMode::Manage, "manage"),
        (DaemonMode::Steer, "steer"),
        (DaemonMode::DryRun, "dry-run"),
        (DaemonMode::Observe, "observe"),
        (DaemonMode::Paused, "paused"),
    ];
    for (mode, name) in modes {
        out.add(&[name], u64::from(mode == snapshot.mode));
    }
}

/// The values of [`OF_TENANT`].
fn labels(tenant: &TenantView) -> [&str; 4] {
    let [namespace, pod, container] = tenant.pod.as_ref().map_or([""; 3], |pod| {
        [&pod.namespace, &pod.pod, pod.container.as_deref().unwrap_or_default()]
    });
    [&tenant.name, namespace, pod, container]
}

/// Nothing unless the daemon follows pods.
fn pods<T: Into<MetricValue>>(snapshot: &Snapshot, out: &mut Samples, read: fn(&PodsView) -> T) {
    snapshot.pods.iter().for_each(|view| out.one(read(view)));
}

fn per_tier(snapshot: &Snapshot, out: &mut Samples, read: fn(&TierView, &str, &mut Samples)) {
    snapshot.tiers.iter().for_each(|tier| read(tier, &tier.name, out));
}

fn per_tenant(snapshot: &Snapshot, out: &mut Samples, read: fn(&TenantView, &mut Samples)) {
    snapshot.tenants.iter().for_each(|tenant| read(tenant, out));
}

fn known(snapshot: &Snapshot, out: &mut Samples, read: fn(&TenantView) -> Option<f64>) {
    for tenant in &snapshot.tenants {
        if let Some(value) = read(tenant) {
            out.add(&labels(tenant), value);
        }
    }
}

fn in_tier(snapshot: &Snapshot, out: &mut Samples, read: fn(&TenantTierView) -> Option<u64>) {
    for tenant in &snapshot.tenants {
        for (tier, has) in snapshot.tiers.iter().zip(&tenant.tiers) {
            if let Some(value) = read(has) {
                let [name, namespace, pod, container] = labels(tenant);
                out.add(&[name, &tier.name, namespace, pod, container], value);
            }
        }
    }
}

/// A snapshot as OpenMetrics text.
///
/// # Errors
/// The format cannot hold a number.
pub(super) fn encode(snapshot: Arc<Snapshot>) -> Result<String, fmt::Error> {
    openmetrics::encode(METRICS, snapshot)
}

/// Every metric with its help, as `docs/metrics.md` has it.
///
/// ```
/// let page = tierwised::http::reference();
/// let row = "| `tierwise_demote_fail_total` | counter | reason | Demotions that failed";
/// assert!(page.contains(row));
/// ```
pub fn reference() -> String {
    let mut page = String::from(
        "# Metrics of tierwised\n\n\
         Generated from the code; a test compares them. `tierwised` serves them at `/metrics` on \
         the address `http.listen` of its configuration, and at `metrics.listen` for other \
         machines, in the OpenMetrics format that Prometheus reads.\n\n\
         | metric | type | labels | meaning |\n|---|---|---|---|\n",
    );
    for metric in METRICS {
        // Writing to a string does not fail.
        let _ = writeln!(page, "{metric}");
    }
    page
}
