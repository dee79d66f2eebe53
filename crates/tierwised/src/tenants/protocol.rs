//! The message of a tenant's process, and its answer.

use serde::{Deserialize, Serialize};
use tierwise_linux::bytes::shown;
use tierwise_linux::world::placed::{PlacedRange, check};

use crate::view::DaemonMode;

/// A message to the daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The addresses of all memory that the process has placed in slow tiers: the first of each
    /// range, and the one after its last, ascending. An empty list takes everything back; absent,
    /// the last report holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<Vec<PlacedRange>>,
}

/// What a tenant has and may have, as of the last second; sizes are bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantEntitlement {
    /// The tenant's name.
    pub tenant: String,
    /// The daemon's mode: in `manage` it promotes and demotes; in `steer` the kernel does.
    pub mode: DaemonMode,
    /// The nodes of the fastest tier.
    pub fast_nodes: Vec<u32>,
    /// The nodes of the others.
    pub slow_nodes: Vec<u32>,
    /// The tenant's memory in the fastest tier.
    pub usage_bytes: u64,
    /// The configured floor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_bytes: Option<u64>,
    /// The configured cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_bytes: Option<u64>,
    /// The share to which the policy entitles the tenant now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_bytes: Option<u64>,
    /// Free memory of the fastest tier.
    pub free_bytes: u64,
    /// Memory of the tenant in slower tiers that the daemon leaves there, because the tenant's
    /// processes have placed it.
    pub placed_bytes: u64,
}

/// An answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantReply {
    /// True if the message was taken.
    pub ok: bool,
    /// The reason for a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the tenant may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entitlement: Option<TenantEntitlement>,
}

impl TenantReply {
    /// The message was refused, and changes nothing.
    pub fn refused(error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), ..Self::default() }
    }
}

/// Parses and checks a message.
pub(super) fn parse(line: &[u8]) -> Result<Report, String> {
    // The parser's message may quote the line.
    let unfit = |e: serde_json::Error| {
        format!("{}; allowed: {{\"placed\":[[START,END],...]}}", shown(e.to_string().as_bytes()))
    };
    let report: Report = serde_json::from_slice(line).map_err(unfit)?;
    check(report.placed.as_deref().unwrap_or_default()).map_err(|e| e.to_string())?;
    Ok(report)
}

/// The parser as a function of bytes, with its invariants.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing {
    use super::*;

    /// Max bytes of a refusal: a quoted, escaped line and the words around it.
    const MAX_PROBLEM: usize = 1 << 13;

    /// A report survives the round trip through JSON, and its ranges ascend.
    pub(crate) fn report(bytes: &[u8]) {
        match parse(bytes) {
            Ok(report) => {
                let placed = report.placed.clone().unwrap_or_default();
                assert!(placed.is_sorted_by(|a, b| a.1 <= b.0), "{placed:?}");
                let written = serde_json::to_vec(&report).unwrap_or_default();
                assert_eq!(parse(&written), Ok(report));
            }
            Err(message) => {
                assert!(message.len() < MAX_PROBLEM && !message.contains('\n'), "{message:?}")
            }
        }
    }
}
