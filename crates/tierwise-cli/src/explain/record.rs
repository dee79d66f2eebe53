//! Parts of a record that the stories of a tenant and of a page share.

use std::collections::BTreeMap;

use serde::Serialize;
use tierwise_sim::record::{DecisionRecord, RunRecord};

/// A change of a share.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShareChange {
    pub at_seconds: f64,
    pub tier: String,
    pub floor_bytes: u64,
    pub cap_bytes: Option<u64>,
    /// Promotion rate, 0 to 1.
    pub promotion: f64,
    pub rule: String,
    pub numbers: BTreeMap<String, f64>,
    pub words: String,
}

/// Returns a tier's name.
pub fn tier(record: &RunRecord, tier: usize) -> String {
    record.tiers.get(tier).map_or_else(|| format!("tier {tier}"), |t| t.name.clone())
}

/// The direction of a move, as `--json` names it.
pub fn direction(from: Option<u8>, to: u8) -> &'static str {
    match from {
        Some(from) if to < from => "promotion",
        Some(_) => "demotion",
        None => "none",
    }
}

/// Converts a decision to bytes, with its tier's name.
pub fn change(record: &RunRecord, decision: &DecisionRecord) -> ShareChange {
    let bytes = |pages: u64| pages.saturating_mul(record.page_size);
    ShareChange {
        at_seconds: decision.at_seconds,
        tier: tier(record, decision.tier),
        floor_bytes: bytes(decision.floor_pages),
        cap_bytes: decision.cap_pages.map(bytes),
        promotion: decision.promotion,
        rule: decision.rule.clone(),
        numbers: decision.numbers.clone(),
        words: decision.words.clone(),
    }
}
