//! The configuration of a tenant: the measure of its success, and its entitlement to each tier.
//!
//! - *floor* (Equilibria's lower protection, section IV-B): the memory of a tier that other
//!   tenants' needs do not take away. *cap* (upper bound): the maximum of memory that the tenant
//!   may hold there.
//! - Both are given in bytes or as a share of the tenant's resident memory. A floor may also be
//!   `auto`: the tenant's part of the tier by weight and by the machine's ratio of tiers.
//!
//! ```
//! use tierwise_core::tenant::{Limit, auto_floors};
//! use tierwise_core::units::{Bytes, Pages};
//!
//! // 150 GB of 200 GB are fast: a tenant of 20 GB has 15 GB protected.
//! let gb = |n: u64| Pages(n * 1000);
//! let mut floors = Vec::new();
//! auto_floors(&[(gb(20), 100)], gb(150), gb(200), &mut floors);
//! assert_eq!(floors, [gb(15)]);
//! // Twice the weight protects twice as much. The sum is the ratio's part of both tenants' memory.
//! auto_floors(&[(gb(20), 100), (gb(20), 200)], gb(150), gb(200), &mut floors);
//! assert_eq!(floors, [gb(10), gb(20)]);
//!
//! let page = Bytes(4096);
//! assert_eq!(Limit::Bytes(Bytes(8192)).pages(Pages(10), page), Some(Pages(2)));
//! assert_eq!(Limit::Resident(0.5).pages(Pages(10), page), Some(Pages(5)));
//! assert_eq!(Limit::Auto.pages(Pages(10), page), None); // depends on the other tenants
//! ```

use std::fmt;
use std::time::Duration;

use crate::profile::Profile;
use crate::topology::Topology;
use crate::units::{Bytes, Pages, TierId};

/// The measure of a tenant's success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Class {
    /// Its throughput.
    #[default]
    BestEffort,
    /// The latency of its requests.
    LatencyCritical,
}

impl Class {
    /// The name in configurations and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BestEffort => "best-effort",
            Self::LatencyCritical => "latency-critical",
        }
    }
}

/// An amount of a tier's memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// A number of bytes.
    Bytes(Bytes),
    /// A share of the tenant's resident memory in all tiers, 0 to 1.
    Resident(f64),
    /// Its part by weight: [`auto_floors`].
    Auto,
}

impl Limit {
    /// Returns the amount in base pages, for a tenant with `resident` base pages; `None` for
    /// [`Limit::Auto`].
    pub fn pages(self, resident: Pages, page_size: Bytes) -> Option<Pages> {
        match self {
            Self::Bytes(bytes) => Some(bytes.in_pages(page_size)),
            Self::Resident(share) => Some(Pages((resident.0 as f64 * share).round() as u64)),
            Self::Auto => None,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Resident(share) => write!(f, "{:.1} % of its memory", share * 100.0),
            Self::Auto => write!(f, "auto"),
        }
    }
}

/// The weight of a tenant without a configured one: the default of cgroup v2's weights.
pub const DEFAULT_WEIGHT: u32 = 100;

/// The largest weight, as in cgroup v2 (`CGROUP_WEIGHT_MAX`).
pub const MAX_WEIGHT: u32 = 10_000;

/// One tenant, as configured.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantSpec {
    /// Name in configurations and reports.
    pub name: String,
    /// The measure of its success.
    pub class: Class,
    /// The limit on the 99th percentile of its latency, if it has one.
    pub slo: Option<Duration>,
    /// Its weight among the tenants, 1 to [`MAX_WEIGHT`].
    pub weight: u32,
    /// Protected memory by tier, fastest first; shorter than the tiers if the rest have none.
    pub floors: Vec<Option<Limit>>,
    /// Maximum memory by tier.
    pub caps: Vec<Option<Limit>>,
    /// Its throughput as a function of fast memory, if it was profiled.
    pub profile: Option<Profile>,
    /// Its accesses per second (misses of the last-level cache) under its highest load, if they
    /// were measured: the scale of MTAT's access count, which then survives restarts.
    pub full_load: Option<f64>,
}

impl TenantSpec {
    /// Makes a best-effort tenant with the default weight and no limits.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            class: Class::BestEffort,
            slo: None,
            weight: DEFAULT_WEIGHT,
            floors: Vec::new(),
            caps: Vec::new(),
            profile: None,
            full_load: None,
        }
    }

    /// True for a service: a latency-critical tenant with an SLO.
    pub fn has_slo(&self) -> bool {
        self.class == Class::LatencyCritical && self.slo.is_some()
    }

    /// Its floor in a tier, as configured.
    pub fn floor(&self, tier: TierId) -> Option<Limit> {
        self.floors.get(tier.index()).copied().flatten()
    }

    /// Its cap in a tier, as configured.
    pub fn cap(&self, tier: TierId) -> Option<Limit> {
        self.caps.get(tier.index()).copied().flatten()
    }
}

/// Computes the floors of tenants with [`Limit::Auto`]. A floor is the tenant's memory times the
/// tier's part of all memory (`tier / machine`), times the tenant's weight over the mean weight
/// (weighted by memory), and never more than the tenant's memory. `tenants` has the resident pages
/// and the weight of each; `floors` is replaced.
///
/// The floors add up to at most the ratio's part of all resident memory, so they fit into the tier
/// whenever the memory fits into the machine.
pub fn auto_floors(tenants: &[(Pages, u32)], tier: Pages, machine: Pages, floors: &mut Vec<Pages>) {
    floors.clear();
    let resident: f64 = tenants.iter().map(|(pages, _)| pages.0 as f64).sum();
    let weighted: f64 = tenants.iter().map(|&(pages, w)| pages.0 as f64 * f64::from(w)).sum();
    if machine == Pages(0) || weighted <= 0.0 {
        floors.resize(tenants.len(), Pages(0));
        return;
    }
    let ratio = (tier.0 as f64 / machine.0 as f64).min(1.0);
    let floor = |&(pages, weight): &(Pages, u32)| {
        let by_weight = f64::from(weight) * resident / weighted;
        Pages((pages.0 as f64 * (ratio * by_weight).min(1.0)) as u64)
    };
    floors.extend(tenants.iter().map(floor));
}

/// The reason why a tenant configuration does not fit the machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TenantError {
    /// The floors in bytes exceed the tier.
    #[error(
        "the floors in {tier} add up to {floors}; allowed: {capacity}; lower them, or write \
         floors = \"auto\""
    )]
    FloorsExceed {
        /// The tier.
        tier: String,
        /// The sum of the floors.
        floors: Bytes,
        /// The size of the tier.
        capacity: Bytes,
    },
    /// A weight is outside 1 to [`MAX_WEIGHT`].
    #[error("tenant \"{tenant}\": found a weight of {weight}; allowed: 1 to {MAX_WEIGHT}")]
    Weight {
        /// The tenant.
        tenant: String,
        /// The weight.
        weight: u32,
    },
}

/// Checks that the tenants' floors fit into the tiers. A floor counts up to its tenant's cap.
///
/// # Errors
/// The first mistake.
pub fn check(specs: &[TenantSpec], topology: &Topology) -> Result<(), TenantError> {
    for spec in specs {
        if !(1..=MAX_WEIGHT).contains(&spec.weight) {
            let (tenant, weight) = (spec.name.clone(), spec.weight);
            return Err(TenantError::Weight { tenant, weight });
        }
    }
    for id in topology.ids() {
        let tier = topology.tier(id);
        let protected = |spec: &TenantSpec| match (spec.floor(id), spec.cap(id)) {
            (Some(Limit::Bytes(floor)), Some(Limit::Bytes(cap))) => floor.min(cap),
            (Some(Limit::Bytes(floor)), _) => floor,
            _ => Bytes(0),
        };
        let floors: Bytes = specs.iter().map(protected).sum();
        let capacity = tier.capacity.in_bytes(topology.page_size);
        if floors > capacity {
            let tier = tier.name.clone();
            return Err(TenantError::FloorsExceed { tier, floors, capacity });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_floors_of_nothing_are_none() {
        let mut floors = vec![Pages(7)];
        auto_floors(&[], Pages(10), Pages(20), &mut floors);
        assert_eq!(floors, []);
        auto_floors(&[(Pages(0), 100)], Pages(10), Pages(20), &mut floors);
        assert_eq!(floors, [Pages(0)]);
        auto_floors(&[(Pages(5), 100)], Pages(0), Pages(0), &mut floors);
        assert_eq!(floors, [Pages(0)]);
    }

    #[test]
    fn floors_count_up_to_their_caps() {
        let limit = |pages: u64| vec![Some(Limit::Bytes(Bytes(pages << 12)))];
        let spec = |floor, cap| TenantSpec {
            floors: limit(floor),
            caps: limit(cap),
            ..TenantSpec::new("web")
        };
        // A tier has 100 pages.
        let topology = crate::baseline::testing::topology(2);
        assert_eq!(check(&[spec(80, 10), spec(80, 90)], &topology), Ok(()));
        let error = check(&[spec(80, 30), spec(80, 90)], &topology).unwrap_err();
        assert!(
            matches!(error, TenantError::FloorsExceed { floors: Bytes(450_560), .. }),
            "{error}"
        );
    }
}
