//! Counters of the engine's work, named after the kernel's `vmstat`.

use crate::migrate::{FailReason, MoveOutcome};
use crate::observe::TenantReading;
use crate::page::{Flag, PageTable, ScanCost};
use crate::units::{Pages, TierId};

/// Moves in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MoveCounters {
    /// Pages moved.
    pub success: u64,
    /// Base pages moved: a huge page counts for all of its frames.
    pub frames: Pages,
    /// Pages that did not move, by [`FailReason`].
    pub fail: [u64; FailReason::ALL.len()],
}

impl MoveCounters {
    /// Moves that failed.
    pub fn failed(&self) -> u64 {
        self.fail.iter().sum()
    }
}

/// A tenant's memory in one tier, and the moves and faults of its pages there (Equilibria, section
/// IV-C).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TierActivity {
    /// Base pages held, as last reported.
    pub usage: Pages,
    /// Promotions into this tier.
    pub promote: MoveCounters,
    /// Demotions out of this tier.
    pub demote: MoveCounters,
    /// Hint faults of pages in this tier.
    pub hint_faults: u64,
    /// Accesses that this tier served, as far as the world observed them
    /// ([`crate::observe::TenantReading::misses`]).
    pub accesses: u64,
}

/// One tenant's counters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TenantCounters {
    /// By tier, fastest first. May be shorter than the number of tiers.
    pub tiers: Vec<TierActivity>,
    /// Pages demoted soon after their promotion (section IV-F), if the policy counts them.
    pub thrash_events: u64,
}

impl TenantCounters {
    fn tier_mut(&mut self, tier: TierId) -> &mut TierActivity {
        if tier.index() >= self.tiers.len() {
            self.tiers.resize(tier.index() + 1, TierActivity::default());
        }
        &mut self.tiers[tier.index()]
    }
}

/// All counters since the engine started. They only grow, except for usage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metrics {
    /// Moves towards a faster tier.
    pub promote: MoveCounters,
    /// Moves towards a slower tier.
    pub demote: MoveCounters,
    /// Attempted promotions of pages that have [`Flag::Demoted`]: they were demoted before (TPP's
    /// `pgpromote_candidate_demoted`, ASPLOS 2023, section 5.5).
    pub promote_demoted: u64,
    /// Plans made, empty ones left out.
    pub plans: u64,
    /// Pages that the kernel or another program moved.
    pub external_migrations: u64,
    /// Base pages whose exchange would have taken more time than it saves, counted each time it was
    /// considered.
    pub unpaid: Pages,
    /// Reference bits read and cleared.
    pub scan: ScanCost,
    /// Pages poisoned.
    pub poisoned: u64,
    /// Hint faults handled.
    pub hint_faults: u64,
    /// Hardware samples handled.
    pub samples: u64,
    /// The counters of each tenant, by tenant number.
    pub tenants: Vec<TenantCounters>,
}

impl Metrics {
    /// Returns a tenant's counters. The table grows with the tenants.
    pub fn tenant_mut(&mut self, tenant: usize) -> &mut TenantCounters {
        if tenant >= self.tenants.len() {
            self.tenants.resize(tenant + 1, TenantCounters::default());
        }
        &mut self.tenants[tenant]
    }

    /// Counts a hint fault of a tenant's page in a tier.
    pub(crate) fn hint_fault(&mut self, tenant: usize, tier: TierId) {
        self.tenant_mut(tenant).tier_mut(tier).hint_faults += 1;
    }

    /// Records a tenant's usage by tier, and adds its accesses since the last reading.
    pub(crate) fn reading(&mut self, tenant: usize, reading: &TenantReading) {
        let counters = self.tenant_mut(tenant);
        for (tier, &pages) in reading.usage.iter().enumerate() {
            counters.tier_mut(TierId(tier as u8)).usage = pages;
        }
        for (tier, &misses) in reading.misses.iter().enumerate() {
            counters.tier_mut(TierId(tier as u8)).accesses += misses;
        }
    }

    /// Counts one outcome, for the machine and for the page's tenant.
    pub(crate) fn count(&mut self, outcome: &MoveOutcome, pages: &PageTable) {
        // A page that is not present has no tier to compare with: a move to the fastest tier was a
        // promotion.
        let promotion =
            outcome.from.map_or(outcome.to == TierId::FASTEST, |from| outcome.to < from);
        let frames = pages.frames(outcome.page);
        let known = pages.tier(outcome.page).is_some();
        let tenant = pages.tenant(outcome.page).index();
        self.promote_demoted += u64::from(promotion && pages.flag(outcome.page, Flag::Demoted));
        let pick = |promote, demote| if promotion { promote } else { demote };
        Self::add(pick(&mut self.promote, &mut self.demote), outcome, frames);
        if let Some(from) = outcome.from.filter(|_| known) {
            let counters = self.tenant_mut(tenant);
            let side = if promotion {
                &mut counters.tier_mut(outcome.to).promote
            } else {
                &mut counters.tier_mut(from).demote
            };
            Self::add(side, outcome, frames);
        }
    }

    fn add(counters: &mut MoveCounters, outcome: &MoveOutcome, frames: u64) {
        match outcome.result {
            Ok(()) => {
                counters.success += 1;
                counters.frames += Pages(frames);
            }
            Err(reason) => counters.fail[reason as usize] += 1,
        }
    }
}
