//! What the outside may see of a running daemon, as data: made while somebody reads it, for the
//! control socket, the API, the metrics and the dashboard alike. Sizes are in bytes, times in
//! seconds unless a name says otherwise.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How often it is made anew while somebody reads it.
pub const VIEW_INTERVAL: Duration = Duration::from_secs(1);

/// Everything, at one time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// The daemon's version.
    pub version: String,
    /// Seconds since the daemon began.
    pub uptime: f64,
    /// The policy at work.
    pub policy: String,
    /// What the daemon does.
    pub mode: Mode,
    /// Why it does no more than that; empty when it manages.
    pub mode_reason: String,
    /// How it looks at pages, and why so.
    pub monitoring: String,
    /// Features that cannot start, and are tried again: HTTP, the message queue.
    #[serde(default)]
    pub unavailable: Vec<UnavailableView>,
    /// The memory tiers, fastest first.
    pub tiers: Vec<TierView>,
    /// The tenants, in the order of the configuration.
    pub tenants: Vec<TenantView>,
    /// What was done so far.
    pub counters: Counters,
    /// What it costs.
    pub cost: Cost,
    /// The last decisions, newest last.
    pub decisions: Vec<DecisionView>,
    /// What the operator should know, newest last.
    pub notices: Vec<Notice>,
    /// When it was made, as far as a daemon made it.
    #[serde(skip)]
    #[schema(ignore)]
    pub made: Option<Instant>,
}

impl Snapshot {
    /// Whether there should be another by now.
    pub fn is_old(&self) -> bool {
        self.made.is_some_and(|made| made.elapsed() >= VIEW_INTERVAL)
    }
}

/// A feature that cannot start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnavailableView {
    /// `http` or `queue`.
    pub feature: String,
    /// Why it cannot.
    pub reason: String,
}

/// What the daemon does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// It looks, decides and moves.
    Manage,
    /// It looks and decides, and moves nothing.
    DryRun,
    /// It looks: there are not two tiers to decide between.
    #[default]
    Observe,
    /// It was told to pause.
    Paused,
}

/// A memory tier.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TierView {
    /// Its name.
    pub name: String,
    /// Its NUMA nodes.
    pub nodes: Vec<u32>,
    /// Its memory.
    pub capacity_bytes: u64,
    /// What of it is not in use.
    pub free_bytes: u64,
    /// Latency of a load.
    pub load_latency_ns: f64,
    /// Who says so: the firmware, the operator, or nobody (an assumption).
    pub latency_source: String,
}

/// A tenant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TenantView {
    /// Its name.
    pub name: String,
    /// `best-effort` or `latency-critical`.
    pub class: String,
    /// Live processes. Zero while it has not begun, or after it ended.
    pub processes: u32,
    /// What it has of each tier, fastest first.
    pub tiers: Vec<TenantTierView>,
    /// The 99th percentile that it must not exceed.
    pub slo_ms: Option<f64>,
    /// The 99th percentile of its requests, where it is known.
    pub p99_ms: Option<f64>,
    /// Why its latency cannot be read where the configuration says; what its service said is quoted
    /// and cut.
    #[serde(default)]
    pub latency_problem: Option<String>,
    /// Part of the last ten seconds in which some of its tasks waited for memory (PSI), in percent.
    pub memory_pressure_percent: Option<f64>,
    /// Part of its accesses seen that lay in the fastest tier, 0 to 1.
    pub fast_access_ratio: Option<f64>,
    /// Thrash events: pages demoted soon after their promotion.
    pub thrash_events: u64,
    /// Why it has the share that it has, in words.
    pub because: String,
}

/// What a tenant has of one tier.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TenantTierView {
    /// What it holds.
    pub usage_bytes: u64,
    /// What the operator protects of it.
    pub floor_bytes: Option<u64>,
    /// The most that it may hold.
    pub cap_bytes: Option<u64>,
    /// What the policy entitles it to now.
    pub share_bytes: Option<u64>,
    /// Pages promoted into this tier.
    pub promote_success: u64,
    /// Promotions into this tier that failed.
    pub promote_fail: u64,
    /// Pages demoted out of this tier.
    pub demote_success: u64,
    /// Demotions out of this tier that failed.
    pub demote_fail: u64,
}

/// What was done since the daemon began. Pages are blocks of the configured size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Counters {
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
    /// Base pages moved in a call during which their process exited: the daemon cannot verify whose
    /// they were.
    #[serde(default)]
    pub pages_in_doubt: u64,
    /// Bytes of page cache that the kernel was told to promote and did, as it last counted.
    #[serde(default)]
    pub promoted_cache_bytes: u64,
    /// Readings that failed, by what they concern.
    #[serde(default)]
    pub faults: Vec<FaultCount>,
    /// Pages that somebody else moved, the kernel most likely.
    pub external_migrations: u64,
    /// Samples of accesses handled.
    pub samples: u64,
    /// Blocks of memory that are managed.
    pub blocks: u64,
}

/// Moves that failed for one reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Failed {
    /// `busy`, `target_full`, `gone`, `budget`, `already`.
    pub reason: String,
    /// How many.
    pub count: u64,
}

/// Readings that failed and concern the same kind of thing. Of a thing that fails again and again
/// only the first failure is a notice.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FaultCount {
    /// `process`, `group`, `guest`, `machine`.
    pub scope: String,
    /// How many.
    pub count: u64,
}

/// What the daemon costs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cost {
    /// Of one processor in the last ten seconds, kernel threads that work for it included.
    pub cpu_percent: f64,
    /// Processor seconds since it began.
    pub cpu_seconds: f64,
    /// Those of them that DAMON's threads used.
    pub damon_seconds: f64,
    /// Those of them that went into moving pages, verification included.
    pub moving_seconds: f64,
    /// CPU seconds of polling tenants' services and virtual machines. Each endpoint has a budget of
    /// its own.
    #[serde(default)]
    pub polling_seconds: f64,
    /// What it may use.
    pub budget_percent: f64,
    /// Factor by which its intervals are longer than configured, to stay within the budget.
    pub throttle: f64,
    /// Its resident memory.
    pub rss_bytes: u64,
}

/// A share that changed, and why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DecisionView {
    /// Seconds after the daemon began.
    pub at: f64,
    /// Whose.
    pub tenant: String,
    /// Of which tier.
    pub tier: String,
    /// From now on.
    pub floor_bytes: u64,
    /// From now on; absent if there is none.
    pub cap_bytes: Option<u64>,
    /// At which part of the base rate its pages are promoted.
    pub promotion: f64,
    /// Why, in words.
    pub because: String,
}

/// Something that the operator should know.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Notice {
    /// Seconds after the daemon began.
    pub at: f64,
    /// What.
    pub text: String,
}
