//! The state of a running daemon, as data, for the control socket, the API, the metrics and the
//! dashboard. It is made only while a client reads it. Sizes are in bytes and times in seconds,
//! unless a name gives another unit.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Interval between two snapshots while a client reads them.
pub const VIEW_INTERVAL: Duration = Duration::from_secs(1);

/// The whole state at one time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Snapshot {
    /// The daemon's version.
    pub version: String,
    /// Seconds since the daemon started.
    pub uptime: f64,
    /// The policy at work.
    pub policy: String,
    /// The current mode.
    pub mode: DaemonMode,
    /// The reason why the mode is not `manage`; empty if it is.
    pub mode_reason: String,
    /// The access monitoring source, and why it was chosen.
    pub monitoring: String,
    /// Features that cannot start and are tried again: HTTP, the message queue, the container
    /// runtime.
    #[serde(default)]
    pub unavailable: Vec<UnavailableView>,
    /// The container runtime and its pods; none if the daemon follows none.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(inline))]
    pub pods: Option<PodsView>,
    /// The memory tiers, fastest first.
    pub tiers: Vec<TierView>,
    /// The tenants, in the order of the configuration.
    pub tenants: Vec<TenantView>,
    /// Counters since the start.
    pub counters: DaemonCounters,
    /// The kernel's tiering while the daemon steers it.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(inline))]
    pub steering: Option<SteeringView>,
    /// The daemon's own cost.
    pub cost: Cost,
    /// The last decisions, newest last.
    pub decisions: Vec<DecisionView>,
    /// Lines for the operator, newest last.
    pub notices: Vec<Notice>,
    /// Time at which a daemon made it; none if no daemon did.
    #[serde(skip)]
    #[cfg_attr(feature = "server", schema(ignore))]
    pub made: Option<Instant>,
}

impl Snapshot {
    /// Returns true if it is older than [`VIEW_INTERVAL`].
    pub fn is_old(&self) -> bool {
        self.made.is_some_and(|made| made.elapsed() >= VIEW_INTERVAL)
    }
}

/// The kernel's tiering while the daemon steers it; counts since steering started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct SteeringView {
    /// Whether the kernel scans slow memory, and promotes what is hot of it.
    pub scans: bool,
    /// The hot threshold: pages are promoted that were accessed within this time after they were
    /// poisoned.
    pub hot_threshold_ms: u64,
    /// Base pages of the fastest tier that promotions may displace: free or idle.
    pub victim_pages: u64,
    /// Measured CPU time of migrating one base page, in nanoseconds.
    pub copy_ns: u64,
    /// Base pages that the kernel promoted, of all processes.
    pub promoted_pages: u64,
    /// Base pages that the kernel demoted, of all processes.
    pub demoted_pages: u64,
    /// Hint faults of all processes.
    pub hint_faults: u64,
}

/// A feature that cannot start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct UnavailableView {
    /// `cri`, `http`, `metrics`, `nri`, `queue` or `tenants`.
    pub feature: String,
    /// The obstacle.
    pub reason: String,
}

/// The mode of the daemon.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DaemonMode {
    /// The daemon monitors accesses, decides and moves pages.
    Manage,
    /// The daemon lets the kernel promote and demote pages, and regulates it.
    Steer,
    /// The daemon monitors accesses and decides, but moves nothing.
    DryRun,
    /// The daemon only observes: there is one tier only, access monitoring is not available, or the
    /// machine cannot be read.
    #[default]
    Observe,
    /// A command paused the daemon.
    Paused,
}

/// A memory tier.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct TierView {
    /// Its name.
    pub name: String,
    /// Its NUMA nodes.
    pub nodes: Vec<u32>,
    /// Its capacity.
    pub capacity_bytes: u64,
    /// Free memory.
    pub free_bytes: u64,
    /// Latency of a load.
    pub load_latency_ns: f64,
    /// Source of the latency: the firmware, the operator, or an assumption.
    pub latency_source: String,
}

/// A tenant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct TenantView {
    /// Its name.
    pub name: String,
    /// `best-effort` or `latency-critical`.
    pub class: String,
    /// Live processes. Zero before it starts and after it ends.
    pub processes: u32,
    /// Its memory in each tier, fastest first.
    pub tiers: Vec<TenantTierView>,
    /// The 99th percentile that its requests must not exceed.
    pub slo_ms: Option<f64>,
    /// The 99th percentile of its requests, where it is known.
    pub p99_ms: Option<f64>,
    /// The reason why its latency cannot be read from the configured endpoint. The service's reply
    /// is quoted and cut.
    #[serde(default)]
    pub latency_problem: Option<String>,
    /// Part of the last ten seconds in which some of its tasks waited for memory (PSI), in percent.
    pub memory_pressure_percent: Option<f64>,
    /// Part of its sampled accesses that lay in the fastest tier, 0 to 1.
    pub fast_access_ratio: Option<f64>,
    /// Part of its accesses that a GiB more of the fastest tier would serve, 0 to 1, if it had its
    /// hottest memory there. By the policy's classes of similar hotness, if it counts accesses.
    #[serde(default)]
    pub next_gib_ratio: Option<f64>,
    /// Thrash events: pages demoted soon after their promotion.
    pub thrash_events: u64,
    /// The rule that set its share, as text.
    pub because: String,
    /// Its memory in slower tiers that the daemon leaves there, because its processes have placed
    /// it and say so (`control.tenants`).
    #[serde(default)]
    pub placed_bytes: u64,
    /// Its blocks that were moved since it was configured, by reason.
    #[serde(default)]
    pub causes: Vec<CauseView>,
    /// Its pod, if it is one of Kubernetes'.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(inline))]
    pub pod: Option<PodView>,
}

/// The container runtime and its pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct PodsView {
    /// The runtime's interface that names the pods: `nri`, which reports them, or `cri`, which is
    /// asked for them every few seconds; empty while neither does.
    #[serde(default)]
    pub source: String,
    /// Why it is not `nri`; empty if it is.
    #[serde(default)]
    pub source_reason: String,
    /// The socket of that interface, or of the first that is configured.
    pub socket: String,
    /// The runtime's name and version; empty while there is no connection.
    pub runtime: String,
    /// Whether the runtime has listed its pods, by whichever interface. Without it, pods that have
    /// started since are not known.
    pub in_step: bool,
    /// Pods with a running container.
    pub pods: u64,
    /// Running containers.
    pub containers: u64,
    /// Pods and containers that cannot be tenants, since the start.
    pub refused: u64,
    /// Fast memory that floors of pods may have: the fastest tier less the reserve and the floors
    /// of configured tenants.
    #[serde(default)]
    pub capacity_bytes: u64,
    /// Pods with a claim, whether they run or not.
    #[serde(default)]
    pub claims: u64,
    /// The sum of their claims.
    #[serde(default)]
    pub claimed_bytes: u64,
    /// Requests of the runtime that were answered, since the start.
    pub answers: u64,
    /// The longest time from a request's arrival to its answer, in milliseconds.
    pub slowest_answer_ms: f64,
}

/// A tenant's pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct PodView {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// The container, if the tenant is one container.
    pub container: Option<String>,
    /// `Guaranteed`, `Burstable` or `BestEffort`; empty if its control group tells none.
    pub qos_class: String,
    /// The FastMemoryClass that holds for it.
    pub class: Option<String>,
    /// The floor that the scheduler has allocated to it, if it has a claim.
    #[serde(default)]
    pub claim_bytes: Option<u64>,
    /// The floor that it asked for, if its own was lowered because the floors of all pods exceed
    /// the fast memory.
    pub asked_floor_bytes: Option<u64>,
    /// What is wrong with its annotations.
    pub problems: Vec<String>,
}

/// Blocks of a tenant that were moved for one reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct CauseView {
    /// The reason, in words that follow "they were moved".
    pub because: String,
    /// Blocks promoted.
    pub promoted: u64,
    /// Blocks demoted.
    pub demoted: u64,
}

/// A tenant's memory in one tier.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct TenantTierView {
    /// Its usage.
    pub usage_bytes: u64,
    /// The configured floor.
    pub floor_bytes: Option<u64>,
    /// The configured cap.
    pub cap_bytes: Option<u64>,
    /// The share to which the policy entitles it now.
    pub share_bytes: Option<u64>,
    /// Pages promoted into this tier.
    pub promote_success: u64,
    /// Promotions into this tier that failed.
    pub promote_fail: u64,
    /// Pages demoted out of this tier.
    pub demote_success: u64,
    /// Demotions out of this tier that failed.
    pub demote_fail: u64,
    /// Its accesses in this tier that the monitoring source found, since the daemon started.
    #[serde(default)]
    pub accesses: u64,
}

/// Counters since the daemon started. Pages are blocks of the configured size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct DaemonCounters {
    /// Rounds of monitoring and deciding.
    pub rounds: u64,
    /// Plans that had something to do.
    pub plans: u64,
    /// Pages promoted.
    pub promote_success: u64,
    /// Promotions that failed, by reason.
    pub promote_fail: Vec<Failed>,
    /// Pages demoted.
    pub demote_success: u64,
    /// Demotions that failed, by reason.
    pub demote_fail: Vec<Failed>,
    /// Bytes moved.
    pub moved_bytes: u64,
    /// Base pages moved in a call during which their process exited: the daemon cannot verify to
    /// which process they belonged.
    #[serde(default)]
    pub pages_in_doubt: u64,
    /// Bytes of page cache that the kernel promoted on request, by its last count.
    #[serde(default)]
    pub promoted_cache_bytes: u64,
    /// Bytes of idle unmanaged memory that the kernel was asked to demote.
    #[serde(default)]
    pub demoted_unmanaged_bytes: u64,
    /// Readings that failed, by what they concern.
    #[serde(default)]
    pub faults: Vec<FaultCount>,
    /// Pages that the kernel or another program moved.
    pub external_migrations: u64,
    /// Base pages not exchanged, because the copies would take more time than the exchange saves;
    /// counted at each search.
    #[serde(default)]
    pub unpaid_pages: u64,
    /// Samples of accesses handled.
    pub samples: u64,
    /// Blocks of memory that are managed.
    pub blocks: u64,
}

/// Moves that failed for one reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Failed {
    /// `busy`, `target_full`, `not_present`, `budget`, `already`.
    pub reason: String,
    /// Their number.
    pub count: u64,
}

/// Readings that failed, of one scope. Repeated failures of one object are counted; only the first
/// is a notice.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct FaultCount {
    /// `process`, `group`, `guest`, `machine`.
    pub scope: String,
    /// Their number.
    pub count: u64,
}

/// The cost of the daemon.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Cost {
    /// Use of one CPU in the last ten seconds, in percent. Includes kernel threads that work for
    /// the daemon.
    pub cpu_percent: f64,
    /// CPU seconds since the start.
    pub cpu_seconds: f64,
    /// The part of them spent on finding processes, their memory and its accesses, DAMON's threads
    /// and the start included.
    #[serde(default)]
    pub looking_seconds: f64,
    /// The part of those that DAMON's threads used.
    pub damon_seconds: f64,
    /// The part of `cpu_seconds` that the policy used.
    #[serde(default)]
    pub deciding_seconds: f64,
    /// The part of `cpu_seconds` spent on moving pages and verifying the moves.
    pub moving_seconds: f64,
    /// CPU seconds of polling tenants' services and virtual machines. Each endpoint has a budget of
    /// its own.
    #[serde(default)]
    pub polling_seconds: f64,
    /// The CPU use that the configuration allows, in percent.
    pub budget_percent: f64,
    /// Factor by which its intervals are longer than configured, to stay within the budget.
    pub throttle: f64,
    /// Its resident memory.
    pub rss_bytes: u64,
}

/// A share that changed, and why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct DecisionView {
    /// Seconds after the daemon started.
    pub at: f64,
    /// The tenant.
    pub tenant: String,
    /// The tier.
    pub tier: String,
    /// The new floor.
    pub floor_bytes: u64,
    /// The new cap; absent if there is none.
    pub cap_bytes: Option<u64>,
    /// The part of the base rate at which its pages are promoted.
    pub promotion: f64,
    /// The rule that set it, as text.
    pub because: String,
}

/// A line for the operator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Notice {
    /// Seconds after the daemon started.
    pub at: f64,
    /// The line.
    pub text: String,
}
