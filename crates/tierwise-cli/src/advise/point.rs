//! Results of the search: sizes of fast memory and the answers that follow from them.

use serde::Serialize;

/// The results of one size of fast memory.
#[derive(Debug, Clone, Serialize)]
pub struct SizePoint {
    pub fast_bytes: u64,
    /// The policy that served this size best; the other fields are its results.
    pub policy: String,
    /// Geometric mean of the tenants' slowdowns.
    pub slowdown: f64,
    /// All tenants are within their limits.
    pub meets: bool,
    pub tenants: Vec<TenantSizePoint>,
    /// The results of each policy considered, in their order.
    pub considered: Vec<PolicyPoint>,
}

/// The result of one size under one policy.
#[derive(Debug, Clone, Serialize)]
pub struct PolicyPoint {
    pub policy: String,
    pub slowdown: f64,
    pub meets: bool,
}

/// The result of one size for one tenant.
#[derive(Debug, Clone, Serialize)]
pub struct TenantSizePoint {
    pub tenant: String,
    pub slowdown: f64,
    pub p99_ms: Option<f64>,
    pub meets: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A policy by itself.
#[derive(Debug, Clone, Serialize)]
pub struct PolicyAlone {
    pub policy: String,
    /// The smallest of the sizes tried from which on the policy met all limits; `None` if there is
    /// none.
    pub fast_bytes: Option<u64>,
}

/// The size of fast memory that is enough.
#[derive(Debug, Clone, Serialize)]
pub struct SufficientSize {
    pub fast_bytes: u64,
    /// The policy that served this size best.
    pub policy: String,
    pub share_of_resident: f64,
    /// The largest fast memory found too small, if there is one.
    pub too_small_bytes: Option<u64>,
}

/// The size above which more fast memory helps less.
#[derive(Debug, Clone, Serialize)]
pub struct FastMemoryKnee {
    pub fast_bytes: u64,
    pub slowdown: f64,
}
