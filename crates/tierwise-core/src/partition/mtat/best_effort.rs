//! Division of the remaining memory among best-effort tenants (MTAT, section 3.2.2, algorithm 2).

use std::time::Duration;

use super::Claim;
use crate::learn::{Learning, Objective};
use crate::policy::PlanContext;
use crate::profile::Profile;
use crate::share::Rule;
use crate::ticker::Ticker;
use crate::units::{Bytes, Pages, TenantId, TierId, Timestamp};

/// Annealing steps per tier: the paper's step is 1 GB of a tier of 32 GB.
const TIER_STEPS: u64 = 32;

/// Annealing steps per even part, with many tenants: otherwise a step would be a tenant's whole
/// part. Chosen, not measured. With more the annealing may end before it reaches the best division;
/// with fewer the best division lies between two steps.
const PART_STEPS: u64 = 8;

/// The division, and the last annealing.
#[derive(Debug, Clone)]
pub(super) struct BestEffort {
    again: Ticker,
    seed: u64,
    runs: u64,
    /// The tenants of the last annealing.
    tenants: Vec<TenantId>,
    /// Pages beyond its floor that the last annealing gave each tenant.
    parts: Vec<u64>,
    /// The sum of the parts.
    divided: u64,
}

/// The smallest normalised performance (equation 3).
struct Smallest<'a> {
    claims: &'a [Claim],
    profiles: &'a [&'a Profile],
    page_size: Bytes,
    step: u64,
}

impl Objective for Smallest<'_> {
    fn performance(&self, place: usize, beyond: u64) -> f64 {
        let claim = &self.claims[place];
        let pages = (claim.floor + Pages(beyond)).min(claim.cap);
        self.profiles[place].normalised(pages.in_bytes(self.page_size))
    }

    fn step(&self) -> u64 {
        self.step
    }
}

impl BestEffort {
    /// Makes a division that is annealed again at this interval.
    pub(super) fn new(interval: Duration, seed: u64) -> Self {
        let again = Ticker::new(Some(interval));
        Self { again, seed, runs: 0, tenants: Vec::new(), parts: Vec::new(), divided: 0 }
    }

    /// Divides `rest`, which is at least the claims' floors if these fit.
    pub(super) fn divide(
        &mut self,
        now: Timestamp,
        rest: Pages,
        claims: &mut [Claim],
        ctx: &PlanContext<'_>,
        learning: &dyn Learning,
    ) {
        let beyond = rest.saturating_sub(claims.iter().map(|claim| claim.floor).sum());
        let profile = |claim: &Claim| ctx.specs.get(claim.tenant.index())?.profile.as_ref();
        let again = self.again.take(now);
        if claims.is_empty() {
            return;
        }
        if claims.iter().any(|claim| profile(claim).is_none()) {
            self.tenants.clear();
            by_weight(beyond, claims);
            return;
        }
        let profiles: Vec<&Profile> = claims.iter().filter_map(profile).collect();
        let tier = ctx.topology.tier(TierId::FASTEST).capacity.0 / TIER_STEPS;
        let part = beyond.0 / (PART_STEPS * claims.len().max(1) as u64);
        let (page_size, step) = (ctx.topology.page_size, tier.min(part).max(1));
        let objective = Smallest { claims, profiles: &profiles, page_size, step };
        let same = self.tenants.iter().copied().eq(claims.iter().map(|claim| claim.tenant));
        if again || !same || self.divided.abs_diff(beyond.0) > step {
            self.anneal(beyond.0, &objective, learning);
        }
        let scaled = |part: u64| {
            (u128::from(part) * u128::from(beyond.0) / u128::from(self.divided.max(1))) as u64
        };
        let parts: Vec<u64> = self.parts.iter().map(|&part| scaled(part)).collect();
        let smallest = objective.value(&parts);
        let expected: Vec<f64> =
            (0..parts.len()).map(|i| objective.performance(i, parts[i])).collect();
        for (claim, (part, expected)) in claims.iter_mut().zip(parts.into_iter().zip(expected)) {
            claim.pages = (claim.floor + Pages(part)).min(claim.cap);
            claim.rule = Rule::Annealed { expected, smallest };
        }
    }

    /// Anneals from an even split. Keeps the even split if the learner's answer is not a division.
    fn anneal(&mut self, beyond: u64, objective: &Smallest<'_>, learning: &dyn Learning) {
        let tenants = objective.claims.len() as u64;
        let start: Vec<u64> =
            (0..tenants).map(|i| beyond / tenants + u64::from(i < beyond % tenants)).collect();
        self.runs += 1;
        let found = learning.anneal(objective, &start, self.seed.wrapping_add(self.runs));
        let sum = found.iter().try_fold(0u64, |sum, &part| sum.checked_add(part));
        let fits = found.len() == start.len() && sum == Some(beyond);
        self.parts = if fits { found } else { start };
        self.divided = beyond;
        self.tenants.clear();
        self.tenants.extend(objective.claims.iter().map(|claim| claim.tenant));
    }
}

/// Divides pages by weight beyond the floors. Pages that some tenants cannot take go to the others.
/// The remainder of the division stays free: at most one page per tenant.
fn by_weight(beyond: Pages, claims: &mut [Claim]) {
    let tenants = claims.len();
    let room = |claim: &Claim| claim.cap.saturating_sub(claim.floor).0;
    let per_weight = |claim: &Claim| room(claim) as f64 / f64::from(claim.weight.max(1));
    // The tenant with the smallest limit for its weight is full first.
    claims.sort_unstable_by(|a, b| {
        per_weight(a).total_cmp(&per_weight(b)).then(a.tenant.cmp(&b.tenant))
    });
    let mut left = u128::from(beyond.0);
    let mut weights: u128 = claims.iter().map(|claim| u128::from(claim.weight.max(1))).sum();
    for claim in claims.iter_mut() {
        claim.rule = Rule::Unprofiled { tenants };
        let weight = u128::from(claim.weight.max(1));
        let (part, room) = (left * weight / weights.max(1), u128::from(room(claim)));
        claim.pages = claim.floor + Pages(part.min(room) as u64);
        if part >= room {
            left -= room;
            weights -= weight;
        }
    }
}
