//! Floors and caps in pages, from the configuration and the tenants' resident memory.
//!
//! A floor counts up to its tenant's cap: nothing beyond the cap is held, so nothing beyond it can
//! be protected. Equilibria's section V-B gives one container a floor of 80 GB and a cap of 10 GB;
//! in the kernel too `memory.low` may exceed `memory.high`.

use crate::config::{ConfigError, Section};
use crate::migrate::Cap;
use crate::policy::PlanContext;
use crate::share::{Rule, Share};
use crate::tenant::{DEFAULT_WEIGHT, Limit, TenantSpec, auto_floors};
use crate::topology::{Topology, WatermarkLevel};
use crate::units::{Bytes, Pages, TenantId, TierId};

/// The floor in the fastest tier of tenants that have none of their own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Default {
    /// A floor by weight.
    Auto,
    /// No floor.
    None,
    /// The limit in the recipe.
    Limit(Limit),
}

/// The floors of one tier. The value is used again, which keeps its memory.
#[derive(Debug, Clone)]
pub(super) struct Floors {
    default: Default,
    pages: Vec<Pages>,
    by_weight: Vec<(Pages, u32)>,
    auto: Vec<Pages>,
    overcommitted: Option<(Pages, Pages)>,
}

impl Floors {
    /// Reads `floors`.
    ///
    /// # Errors
    /// `floors` is neither an allowed word, nor a size, nor a share.
    pub(super) fn read(section: &Section<'_>, default: Default) -> Result<Self, ConfigError> {
        let default = match section.limit_or_none("floors")? {
            None => default,
            Some(None) => Default::None,
            Some(Some(Limit::Auto)) => Default::Auto,
            Some(Some(limit)) => Default::Limit(limit),
        };
        Ok(Self {
            default,
            pages: Vec::new(),
            by_weight: Vec::new(),
            auto: Vec::new(),
            overcommitted: None,
        })
    }

    /// Computes every tenant's floor in a tier.
    pub(super) fn resolve(&mut self, tier: TierId, ctx: &PlanContext<'_>) {
        let size = ctx.topology.tier(tier);
        let capacity = size.capacity.saturating_sub(size.watermarks.at(WatermarkLevel::High));
        let machine: Pages = ctx.topology.tiers.iter().map(|t| t.capacity).sum();
        let tenants = (0..ctx.tenants.len()).map(|i| TenantId(i as u16));
        let weight = |t: TenantId| ctx.specs.get(t.index()).map_or(DEFAULT_WEIGHT, |s| s.weight);
        self.by_weight.clear();
        self.by_weight.extend(tenants.clone().map(|t| (ctx.resident(t), weight(t))));
        let mut auto = std::mem::take(&mut self.auto);
        auto_floors(&self.by_weight, size.capacity, machine, &mut auto);
        self.pages.clear();
        let mut left = capacity;
        for tenant in tenants.clone() {
            let explicit = self.limit(tenant, tier, ctx).map_or(Pages(0), |limit| {
                let page_size: Bytes = ctx.topology.page_size;
                limit.pages(ctx.resident(tenant), page_size).unwrap_or_default()
            });
            let explicit = explicit.min(cap(tenant, tier, ctx));
            let auto = &mut auto[tenant.index()];
            *auto = (*auto).min(cap(tenant, tier, ctx));
            left = left.saturating_sub(explicit);
            self.pages.push(explicit);
        }
        let is_auto = |t: &TenantId| self.limit(*t, tier, ctx) == Some(Limit::Auto);
        let wanted: Pages = tenants.clone().filter(is_auto).map(|t| auto[t.index()]).sum();
        for tenant in tenants {
            if self.limit(tenant, tier, ctx) == Some(Limit::Auto) {
                self.pages[tenant.index()] = part(auto[tenant.index()], wanted, left);
            }
        }
        self.auto = auto;
        self.fit(capacity);
    }

    fn limit(&self, tenant: TenantId, tier: TierId, ctx: &PlanContext<'_>) -> Option<Limit> {
        let own = ctx.specs.get(tenant.index()).and_then(|spec| spec.floor(tier));
        own.or(match self.default {
            _ if tier != TierId::FASTEST => None,
            Default::Auto => Some(Limit::Auto),
            Default::None => None,
            Default::Limit(limit) => Some(limit),
        })
    }

    /// Cuts floors that do not fit, all in proportion.
    fn fit(&mut self, capacity: Pages) {
        let sum: Pages = self.pages.iter().copied().sum();
        self.overcommitted = (sum > capacity).then_some((sum, capacity));
        if sum > capacity {
            self.pages.iter_mut().for_each(|floor| *floor = part(*floor, sum, capacity));
        }
    }

    /// A tenant's floor in the last resolved tier.
    pub(super) fn of(&self, tenant: TenantId) -> Pages {
        self.pages.get(tenant.index()).copied().unwrap_or_default()
    }

    /// The rule that set these floors.
    pub(super) fn rule(&self) -> Rule {
        match self.overcommitted {
            None => Rule::Configured,
            Some((floors, capacity)) => Rule::Overcommitted { floors, capacity },
        }
    }
}

/// Returns `wanted`, cut in proportion if `sum` exceeds `capacity`.
fn part(wanted: Pages, sum: Pages, capacity: Pages) -> Pages {
    if sum <= capacity {
        return wanted;
    }
    Pages((u128::from(wanted.0) * u128::from(capacity.0) / u128::from(sum.0)) as u64)
}

/// A tenant's cap in a tier.
pub(super) fn cap(tenant: TenantId, tier: TierId, ctx: &PlanContext<'_>) -> Pages {
    let cap = ctx.specs.get(tenant.index()).and_then(|spec| spec.cap(tier));
    let pages = cap.and_then(|cap| cap.pages(ctx.resident(tenant), ctx.topology.page_size));
    pages.unwrap_or(Share::UNCAPPED)
}

/// The caps that are known before any page is resident: those in bytes.
pub(super) fn first_caps(specs: &[TenantSpec], topology: &Topology) -> Vec<Cap> {
    let mut caps = Vec::new();
    for (i, spec) in specs.iter().enumerate() {
        for tier in topology.ids() {
            if let Some(Limit::Bytes(bytes)) = spec.cap(tier) {
                let pages = bytes.in_pages(topology.page_size);
                caps.push(Cap { tenant: TenantId(i as u16), tier, pages });
            }
        }
    }
    caps
}
