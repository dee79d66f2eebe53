//! What may be asked and what is answered.

use serde::{Deserialize, Serialize};

use crate::config::{LimitText, TenantConfig};
use crate::view::Snapshot;

/// One line to the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Everything, now.
    Snapshot,
    /// Stop deciding and moving; monitoring continues.
    Pause,
    /// Go on.
    Resume,
    /// Change the policy: a shipped recipe by its name, or the path of a recipe file.
    Policy {
        /// Which.
        recipe: String,
    },
    /// Read the configuration again.
    Reload,
    /// A tenant more.
    TenantAdd {
        /// As in the configuration.
        tenant: TenantConfig,
    },
    /// A tenant less; its processes are nobody's from now on.
    TenantRemove {
        /// Which.
        name: String,
    },
    /// Change what a tenant is entitled to.
    TenantSet {
        /// Which.
        name: String,
        /// How; what is absent stays.
        #[serde(flatten)]
        change: TenantChange,
    },
    /// A tenant reports its latency.
    Latency {
        /// Which.
        tenant: String,
        /// The 99th percentile since its last report, in milliseconds.
        p99_ms: f64,
        /// Requests since its last report.
        #[serde(default)]
        operations: u64,
    },
}

/// A change of what a tenant is entitled to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TenantChange {
    /// Its weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Its floor in the fastest tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<LimitText>,
    /// Its cap in the fastest tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<LimitText>,
    /// The 99th percentile that it must not exceed, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo_ms: Option<f64>,
}

/// One line from the daemon.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Whether it was done.
    pub ok: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What was changed, line by line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// What was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Box<Snapshot>>,
}

impl Reply {
    /// It was done.
    pub fn done() -> Self {
        Self { ok: true, ..Self::default() }
    }

    /// It was not done.
    pub fn refused(error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), ..Self::default() }
    }

    /// It was done, and this changed.
    pub fn changed(changed: Vec<String>) -> Self {
        Self { ok: true, changed, ..Self::default() }
    }
}
