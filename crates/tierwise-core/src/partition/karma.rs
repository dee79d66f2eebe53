//! Karma's credits as a lender of dedicated memory (Vuppalapati et al., OSDI 2023, algorithm 1): a
//! tenant that lent memory when it did not need it may borrow when it does.
//!
//! Every tenant owns a part of the dedicated memory in proportion to its pages, its *fair share*.
//! The part `guaranteed` of its fair share belongs to the tenant on demand. The rest, and
//! guaranteed memory without demand, is lent. Each interval a tenant earns `1 - guaranteed` of its
//! fair share in credits; one credit is one page. A borrower pays one credit per page, and a lender
//! earns one per page of its guaranteed part that is taken. The borrower with the most credits is
//! served first, and the lender with the fewest lends first. So over time all tenants get the same.
//!
//! An outlier demands a step more than it has, and every other tenant a step less. Steps are as
//! large as Memstrata's, so the two differ only in the order in which tenants are served.
//!
//! Parameters: those of `memstrata`, and `guaranteed` (0.5, as in the paper's evaluation).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::dedicated::{Dedicated, DedicatedTenant};
use crate::config::{ConfigError, Section};
use crate::observe::{Observation, Signals};
use crate::page::PageTable;
use crate::policy::PlanContext;
use crate::registry::BuildContext;
use crate::share::{Rule, Shares};
use crate::stage::{Estimator, Partitioner};
use crate::units::Timestamp;

/// Units of pages per step. With so many, the division is as fair as with single pages, to one
/// hundredth of a step, and takes no longer for more memory.
const PARTS_OF_A_STEP: u64 = 100;

/// The demand and the credits of one tenant in a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ask {
    /// Base pages that belong to the tenant on demand.
    pub guaranteed: u64,
    /// Base pages that the tenant wants.
    pub demand: u64,
    /// Credits that the tenant can spend; one credit is one base page.
    pub credits: f64,
    /// The minimum and the maximum of the tenant's base pages after this round.
    pub limits: (u64, u64),
}

/// Runs one round of algorithm 1 over `capacity` pages, `unit` at a time. Returns the pages of each
/// tenant and updates the credits.
///
/// ```
/// use tierwise_core::partition::{Ask, share_by_credits};
///
/// // Both want more than their guaranteed 100 of 300 pages. More credits are served first.
/// let ask = |credits| Ask { guaranteed: 100, demand: 200, credits, limits: (0, 300) };
/// let mut asks = [ask(80.0), ask(20.0)];
/// let got = share_by_credits(&mut asks, 300, 1);
/// assert_eq!(got, [180, 120]);
/// assert_eq!([asks[0].credits, asks[1].credits], [0.0, 0.0]);
/// ```
pub fn share_by_credits(asks: &mut [Ask], capacity: u64, unit: u64) -> Vec<u64> {
    let own = |a: &Ask| a.demand.min(a.guaranteed).clamp(a.limits.0, a.limits.1);
    let mut got: Vec<u64> = asks.iter().map(own).collect();
    let mut left = capacity.saturating_sub(got.iter().sum());
    let mut lenders = Lenders::new(asks, &got);
    let shortfall = |ask: &Ask, got: u64| ask.demand.min(ask.limits.1).saturating_sub(got);
    let place = |i: usize, ask: &Ask, got: u64| {
        (shortfall(ask, got) > 0 && ask.credits >= 1.0).then(|| (order(ask.credits), Reverse(i)))
    };
    let all = asks.iter().zip(&got).enumerate();
    let mut borrowers: BinaryHeap<_> = all.filter_map(|(i, (a, &got))| place(i, a, got)).collect();
    while let Some((_, Reverse(i))) = borrowers.pop().filter(|_| left > 0) {
        let limit = shortfall(&asks[i], got[i]).min(left).min(asks[i].credits as u64);
        let pages = unit.max(1).min(limit);
        got[i] += pages;
        left -= pages;
        asks[i].credits -= pages as f64;
        lenders.reward(asks, pages);
        borrowers.extend(place(i, &asks[i], got[i]));
    }
    got
}

/// A key in the order of credits: non-negative floats have the same order as their bits.
fn order(credits: f64) -> u64 {
    credits.max(0.0).to_bits()
}

/// Tenants that want less than their guaranteed part. None of them borrows.
struct Lenders {
    /// By tenant: pages that it lends and that no tenant has taken yet.
    donated: Vec<u64>,
    /// The lenders with pages left: the one with the fewest credits first, of equals the first.
    poorest: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Lenders {
    fn new(asks: &[Ask], got: &[u64]) -> Self {
        let donated: Vec<u64> =
            asks.iter().zip(got).map(|(a, &got)| a.guaranteed.saturating_sub(got)).collect();
        let lends = (0..asks.len()).filter(|&i| donated[i] > 0);
        let poorest = lends.map(|i| Reverse((order(asks[i].credits), i))).collect();
        Self { donated, poorest }
    }

    /// Pays the lenders with the fewest credits for borrowed pages. Pages beyond the lenders' came
    /// from the shared part, for which no tenant earns.
    fn reward(&mut self, asks: &mut [Ask], pages: u64) {
        let mut left = pages;
        while left > 0 {
            let Some(Reverse((_, i))) = self.poorest.pop() else { return };
            let part = left.min(self.donated[i]);
            self.donated[i] -= part;
            asks[i].credits += part as f64;
            left -= part;
            if self.donated[i] > 0 {
                self.poorest.push(Reverse((order(asks[i].credits), i)));
            }
        }
    }
}

/// Partitioner that lends dedicated memory by Karma's credits.
pub struct Karma {
    common: Dedicated,
    guaranteed: f64,
    /// By tenant.
    credits: Vec<f64>,
}

impl Karma {
    /// Reads its parameters.
    ///
    /// # Errors
    /// A parameter is outside its allowed range, or the model cannot run and `fallback` is
    /// "refuse".
    pub fn build(section: &Section<'_>, ctx: &BuildContext<'_>) -> Result<Self, ConfigError> {
        let guaranteed = section.number_or("guaranteed", 0.5, 0.0..=1.0)?;
        Ok(Self { common: Dedicated::read(section, ctx)?, guaranteed, credits: Vec::new() })
    }

    /// Runs one round among the members.
    fn round(&mut self) {
        let members = &mut self.common.members;
        let capacity: u64 = members.iter().map(|m| m.dedicated).sum();
        let pages: u64 = members.iter().map(|m| m.pages).sum();
        let fair = |m: &DedicatedTenant| m.pages as f64 * capacity as f64 / pages.max(1) as f64;
        let limit = members.iter().map(|m| m.tenant.index() + 1).max().unwrap_or(0);
        self.credits.resize(limit.max(self.credits.len()), 0.0);
        let (credits, guaranteed, ratio) = (&self.credits, self.guaranteed, self.common.step_ratio);
        let ask = |m: &DedicatedTenant| {
            let step = (m.pages as f64 * ratio) as u64;
            let limits = (m.dedicated.saturating_sub(step), (m.dedicated + step).min(m.pages));
            Ask {
                guaranteed: (fair(m) * guaranteed) as u64,
                demand: if m.estimate.is_outlier { limits.1 } else { limits.0 },
                credits: credits[m.tenant.index()] + fair(m) * (1.0 - guaranteed),
                limits,
            }
        };
        let mut asks: Vec<Ask> = members.iter().map(ask).collect();
        let largest = asks.iter().map(|a| a.limits.1 - a.limits.0).max().unwrap_or(0);
        let mut got = share_by_credits(&mut asks, capacity, largest / PARTS_OF_A_STEP);
        keep(members, &asks, &mut got, capacity);
        for ((member, ask), got) in members.iter_mut().zip(&asks).zip(got) {
            self.credits[member.tenant.index()] = ask.credits;
            member.dedicated = got;
        }
    }
}

/// Leaves pages that no tenant wanted, or could pay for, with their present tenants.
fn keep(members: &[DedicatedTenant], asks: &[Ask], got: &mut [u64], capacity: u64) {
    let mut left = capacity.saturating_sub(got.iter().sum());
    for (i, member) in members.iter().enumerate() {
        let part = member.dedicated.saturating_sub(got[i]).min(left);
        got[i] += part;
        left -= part;
    }
    // Tenants that paid for more than was free return it, in the order of the list, down to their
    // minimum.
    let mut over = got.iter().sum::<u64>().saturating_sub(capacity);
    for (ask, got) in asks.iter().zip(got.iter_mut()) {
        let part = got.saturating_sub(ask.limits.0).min(over);
        *got -= part;
        over -= part;
    }
}

impl Partitioner for Karma {
    fn signals(&self) -> Signals {
        Dedicated::signals()
    }

    fn interval(&self) -> Option<Duration> {
        Some(self.common.interval)
    }

    fn on_observation(&mut self, _: Timestamp, obs: &Observation, _: &PageTable) {
        self.common.on_observation(obs);
    }

    fn partition(
        &mut self,
        now: Timestamp,
        ctx: &PlanContext<'_>,
        _: &dyn Estimator,
        shares: &mut Shares,
    ) {
        self.common.start(ctx);
        self.round();
        let credits = |m: &DedicatedTenant| self.credits[m.tenant.index()];
        self.common.end(now, shares, |m| Rule::Credited {
            outlier: m.estimate.is_outlier,
            credits: credits(m),
            strange: m.estimate.strange,
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    fn ask(guaranteed: u64, demand: u64, credits: f64) -> Ask {
        Ask { guaranteed, demand, credits, limits: (0, u64::MAX) }
    }

    /// Computed by hand: the second tenant lends its 60 guaranteed pages, and the first borrows and
    /// pays for them. The 40 shared pages cost 40 credits, which no tenant earns.
    #[test]
    fn lenders_earn_what_borrowers_pay() {
        let mut asks = [ask(60, 160, 200.0), ask(60, 0, 5.0)];
        assert_eq!(share_by_credits(&mut asks, 160, 1), [160, 0]);
        assert_eq!([asks[0].credits, asks[1].credits], [100.0, 65.0]);
    }

    #[test]
    fn tenant_without_credits_gets_guaranteed_part() {
        let mut asks = [ask(60, 160, 0.0), ask(60, 0, 0.0)];
        assert_eq!(share_by_credits(&mut asks, 160, 1), [60, 0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(2),
            ..ProptestConfig::default()
        })]

        #[test]
        fn allocation_exceeds_neither_demand_nor_supply(
            asks in prop::collection::vec((0u64..50, 0u64..300, 0.0f64..200.0), 1..12),
            spare in 0u64..500,
            unit in 1u64..20,
        ) {
            let mut asks: Vec<Ask> = asks.into_iter().map(|(g, d, c)| ask(g, d, c)).collect();
            let capacity = asks.iter().map(|a| a.guaranteed).sum::<u64>() + spare;
            let before: f64 = asks.iter().map(|a| a.credits).sum();
            let got = share_by_credits(&mut asks, capacity, unit);
            prop_assert!(got.iter().sum::<u64>() <= capacity);
            prop_assert!(asks.iter().all(|a| a.credits >= 0.0));
            prop_assert!(got.iter().zip(&asks).all(|(&got, a)| got <= a.demand));
            prop_assert!(got.iter().zip(&asks).all(|(&got, a)| got >= a.demand.min(a.guaranteed)));
            prop_assert!(asks.iter().map(|a| a.credits).sum::<f64>() <= before + 1e-6);
        }
    }
}
