//! A view in words and cells, the same in `status` and `top`.

use std::time::Duration;

use tierwise_core::units::Bytes;
use tierwised::view::{
    Cost, DaemonMode, DecisionView, PodView, PodsView, Snapshot, TenantView, TierView,
};

use crate::number::counted;

/// The cell of an unknown or unset value.
pub const NOTHING: &str = "-";

/// The daemon's mode, in words.
pub fn mode(mode: DaemonMode) -> &'static str {
    match mode {
        DaemonMode::Manage => "manages",
        DaemonMode::Steer => "steers the kernel's tiering",
        DaemonMode::DryRun => "dry run",
        DaemonMode::Observe => "only observes",
        DaemonMode::Paused => "paused",
    }
}

/// Formats the first line: the program, its mode, its uptime.
pub fn title(snapshot: &Snapshot) -> String {
    format!(
        "tierwised {}: {}, policy {}, up {}",
        snapshot.version,
        mode(snapshot.mode),
        snapshot.policy,
        time(snapshot.uptime)
    )
}

/// "1h 2m 5s".
pub fn time(seconds: f64) -> String {
    // Whole seconds: the daemon never reports negative ones, and a cast of NaN is 0.
    humantime::format_duration(Duration::from_secs(seconds as u64)).to_string()
}

/// "80 GiB".
pub fn size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// Formats a size, which may be unset.
pub fn limit(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| NOTHING.into(), size)
}

/// Formats milliseconds, which may be unknown.
pub fn milliseconds(ms: Option<f64>) -> String {
    ms.map_or_else(|| NOTHING.into(), |ms| format!("{ms:.2} ms"))
}

/// Formats a percentage, which may be unknown.
pub fn percent(percent: Option<f64>) -> String {
    percent.map_or_else(|| NOTHING.into(), |percent| format!("{percent:.1} %"))
}

/// The nodes of a tier: "0, 2".
pub fn nodes(tier: &TierView) -> String {
    tier.nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// "90 ns (firmware)".
pub fn latency(tier: &TierView) -> String {
    format!("{:.0} ns ({})", tier.load_latency_ns, tier.latency_source)
}

/// Returns the part of a tier that is in use.
pub fn used(tier: &TierView) -> u64 {
    tier.capacity_bytes.saturating_sub(tier.free_bytes)
}

/// Returns a tenant's memory in the tiers below the fastest.
pub fn slow(tenant: &TenantView) -> u64 {
    tenant.tiers.iter().skip(1).map(|tier| tier.usage_bytes).sum()
}

/// The columns of [`tenant`].
pub const TENANT_HEAD: [&str; 10] =
    ["TENANT", "FAST", "FLOOR", "CAP", "SHARE", "SLOW", "FAST HITS", "P99", "SLO", "PRESSURE"];

/// Formats a tenant's row, without its moves.
pub fn tenant(tenant: &TenantView) -> [String; 10] {
    let fast = tenant.tiers.first().cloned().unwrap_or_default();
    [
        tenant.name.clone(),
        size(fast.usage_bytes),
        limit(fast.floor_bytes),
        limit(fast.cap_bytes),
        limit(fast.share_bytes),
        size(slow(tenant)),
        percent(tenant.fast_access_ratio.map(|ratio| ratio * 100.0)),
        milliseconds(tenant.p99_ms),
        milliseconds(tenant.slo_ms),
        percent(tenant.memory_pressure_percent),
    ]
}

/// Returns true if the tenant misses its SLO.
pub fn misses_slo(tenant: &TenantView) -> bool {
    tenant.p99_ms.zip(tenant.slo_ms).is_some_and(|(p99, slo)| p99 > slo)
}

/// Formats a decision, without its time.
pub fn decision(decision: &DecisionView) -> String {
    let cap =
        decision.cap_bytes.map_or_else(|| "no cap".into(), |cap| format!("cap {}", size(cap)));
    format!(
        "{} in {}: floor {}, {cap}, promotion {:.0} %: {}",
        decision.tenant,
        decision.tier,
        size(decision.floor_bytes),
        decision.promotion * 100.0,
        decision.because
    )
}

/// Describes where the names of pods come from.
pub fn pods(pods: &PodsView) -> String {
    if pods.runtime.is_empty() {
        let why = match pods.source_reason.as_str() {
            "" => format!("no container runtime at {}", pods.socket),
            reason => reason.to_owned(),
        };
        return format!("It does not know the pods that start from now on: {why}.");
    }
    let (count, containers) = (counted(pods.pods, "pod"), counted(pods.containers, "container"));
    let of = &pods.runtime;
    let claims = match pods.claims {
        0 => String::new(),
        _ => format!(
            "; claims: {} of {} for {}",
            size(pods.claimed_bytes),
            size(pods.capacity_bytes),
            counted(pods.claims, "pod")
        ),
    };
    if pods.source == "cri" {
        let why = &pods.source_reason;
        return format!(
            "It follows {count} with {containers} by CRI of {of}, which it asks every few seconds, \
             because NRI does not report them: {why}{claims}."
        );
    }
    let step = if pods.in_step { "" } else { " (it has not listed them yet)" };
    let slowest = pods.slowest_answer_ms;
    format!(
        "It follows {count} with {containers} by NRI of {of}{step}; the slowest answer took \
         {slowest:.2} ms{claims}."
    )
}

/// Describes a tenant's pod.
pub fn pod(pod: &PodView) -> String {
    let container =
        pod.container.as_ref().map_or_else(String::new, |name| format!("container {name} of "));
    let qos = match pod.qos_class.as_str() {
        "" => String::new(),
        class => format!(", {class}"),
    };
    let class = pod.class.as_ref().map_or_else(String::new, |name| format!(", class {name}"));
    let claim =
        pod.claim_bytes.map_or_else(String::new, |claim| format!(", claim {}", size(claim)));
    let lowered = pod.asked_floor_bytes.map_or_else(String::new, |asked| {
        let asked = size(asked);
        format!("; its floor of {asked} was lowered: the floors exceed the fast memory")
    });
    format!("{container}pod {} in namespace {}{qos}{class}{claim}{lowered}", pod.pod, pod.namespace)
}

/// The daemon's cost.
pub fn cost(cost: &Cost) -> String {
    let throttled = if cost.throttle > 1.0 {
        format!(", intervals {:.1} times as long", cost.throttle)
    } else {
        String::new()
    };
    format!(
        "{:.2} % of a CPU (budget {:.2} %{throttled}); {:.1} s so far: {:.1} looking (DAMON \
         {:.1}), {:.1} deciding, {:.1} moving; {} of memory",
        cost.cpu_percent,
        cost.budget_percent,
        cost.cpu_seconds,
        cost.looking_seconds,
        cost.damon_seconds,
        cost.deciding_seconds,
        cost.moving_seconds,
        size(cost.rss_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn what_is_not_known_is_a_dash() {
        let snapshot = sample::snapshot();
        let rows: Vec<_> = snapshot.tenants.iter().map(tenant).collect();
        let shop = ["shop", "40 GiB", "32 GiB", "-", "48 GiB", "8 GiB", "87.5 %", "6.25 ms"];
        assert_eq!(rows[0][..8], shop);
        assert_eq!(rows[2][2..5], ["-", "-", "-"]);
        assert!(misses_slo(&snapshot.tenants[0]));
        assert!(!misses_slo(&snapshot.tenants[1]));
        assert_eq!(tenant(&TenantView::default())[1], "0 B", "a machine without tiers");
    }

    #[test]
    fn words_form_whole_sentences() {
        let snapshot = sample::snapshot();
        let title = title(&snapshot);
        assert_eq!(title, "tierwised 0.1.0: manages, policy tierwise, up 1h 2m 5s");
        assert!(cost(&snapshot.cost).contains("(budget 1.00 %, intervals 1.5 times as long"));
        assert_eq!(time(f64::NAN), "0s");
        assert_eq!(
            decision(&snapshot.decisions[0]),
            "shop in DRAM: floor 40 GiB, no cap, promotion 50 %: its P99 is above its SLO"
        );
    }
}
