//! The commands and the answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::config::{LimitText, TenantConfig};
use crate::view::Snapshot;

/// One line to the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ControlCommand {
    /// Return the whole view, now.
    Snapshot,
    /// Stop deciding and moving; continue observing.
    Pause,
    /// Decide and move again.
    Resume,
    /// Change the policy: a shipped recipe by its name, or the path of a recipe file.
    Policy {
        /// Its name or path.
        recipe: String,
    },
    /// Read the configuration again.
    Reload,
    /// Add a tenant.
    TenantAdd {
        /// As in the configuration.
        tenant: TenantConfig,
    },
    /// Remove a tenant. Its processes belong to no tenant from now on.
    TenantRemove {
        /// The tenant's name.
        name: String,
    },
    /// Change a tenant's weight, floor, cap, SLO or full load.
    TenantSet {
        /// The tenant's name.
        name: String,
        /// The new values; absent ones stay.
        #[serde(flatten)]
        change: TenantChange,
    },
    /// Set the floors that pods have claimed, and return those that hold. The driver for dynamic
    /// resource allocation sends it (docs/kubernetes.md).
    Claims {
        /// All of them, by the pods' unique ids, in bytes; absent, nothing is changed. A pod that
        /// is not named has no claim from now on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        floors: Option<BTreeMap<String, u64>>,
    },
    /// Report a tenant's latency.
    Latency {
        /// The tenant's name.
        tenant: String,
        /// The 99th percentile since its last report, in milliseconds.
        p99_ms: f64,
        /// Requests since its last report.
        #[serde(default)]
        operations: u64,
    },
}

/// A change of a tenant's weight, floor, cap, SLO or full load.
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
    /// The 99th percentile that its requests must not exceed, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo_ms: Option<f64>,
    /// Its accesses per second under its highest load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_load: Option<f64>,
}

/// The claims that hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The fast memory that floors of pods may have, in bytes.
    pub capacity_bytes: u64,
    /// The claimed floors by the pods' unique ids, in bytes.
    pub floors: BTreeMap<String, u64>,
}

/// One line from the daemon.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// True if the command was executed.
    pub ok: bool,
    /// The reason for a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The changes, one per line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// The claims, as the answer to [`ControlCommand::Claims`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<Claims>,
    /// The view, as the answer to [`ControlCommand::Snapshot`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Box<Snapshot>>,
}

impl Reply {
    /// The command was executed.
    pub fn done() -> Self {
        Self { ok: true, ..Self::default() }
    }

    /// The command was refused.
    pub fn refused(error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), ..Self::default() }
    }

    /// The command was executed and made these changes.
    pub fn changed(changed: Vec<String>) -> Self {
        Self { ok: true, changed, ..Self::default() }
    }
}
