//! Comparison of a tenant's memory with its entitlement.
//!
//! A partition is enforced only while a tenant lacks its entitlement. Then tenants lose pages
//! beyond their entitlements: as many as are lacking and not free, in proportion to each tenant's
//! excess. If enough memory is free no tenant loses any, so a workload that grows between two
//! partitions keeps what it allocated.

use crate::share::Share;
use crate::units::Pages;

/// One tenant, in base pages of the fastest tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entitlement {
    /// Pages in slower tiers to which it is entitled here.
    pub(super) shortfall: Pages,
    /// Pages above the configured cap: they are always demoted.
    pub(super) above_cap: Pages,
    /// Pages beyond its partition and within its cap.
    pub(super) beyond: Pages,
    /// If it competes: pages above its floor and within its cap.
    pub(super) gives: Pages,
    /// If it competes: pages in slower tiers that it may hold here.
    pub(super) takes: Pages,
}

impl Entitlement {
    /// Compares a share with `held` pages here and `slower` ones in slower tiers.
    pub(super) fn of(share: &Share, held: Pages, slower: Pages) -> Self {
        let limit = share.cap.max(share.floor);
        let within = held.min(limit);
        let above_floor = within.saturating_sub(share.floor);
        let competes = !share.is_partition();
        let only = |applies: bool, pages: Pages| if applies { pages } else { Pages(0) };
        Self {
            shortfall: share.floor.saturating_sub(held).min(slower),
            above_cap: held.saturating_sub(limit),
            beyond: only(!competes, above_floor),
            gives: only(competes, above_floor),
            takes: only(competes, share.cap.saturating_sub(within.max(share.floor)).min(slower)),
        }
    }
}

/// Cuts the tenants' excess pages to `wanted` in all, in proportion. The parts are differences of a
/// rounded running sum, so that they add up exactly.
pub(super) fn share_out(beyond: &mut [u64], wanted: u64) {
    let all: u128 = beyond.iter().map(|&pages| u128::from(pages)).sum();
    let total = all.min(u128::from(wanted));
    let (mut sum, mut before) = (0, 0);
    for pages in beyond.iter_mut().filter(|pages| **pages > 0) {
        sum += u128::from(*pages);
        let until = total * sum / all;
        *pages = (until - before) as u64;
        before = until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(share: Share, held: u64, slower: u64) -> [u64; 5] {
        let its = Entitlement::of(&share, Pages(held), Pages(slower));
        [its.shortfall, its.above_cap, its.beyond, its.gives, its.takes].map(|pages| pages.0)
    }

    #[test]
    fn only_the_cap_is_a_limit() {
        let partition = Share::partition(Pages(30));
        assert_eq!(of(partition, 20, 50), [10, 0, 0, 0, 0]);
        assert_eq!(of(partition, 20, 5), [5, 0, 0, 0, 0]);
        assert_eq!(of(partition, 40, 0), [0, 0, 10, 0, 0]);
        assert_eq!(of(Share { cap: Pages(36), ..partition }, 40, 0), [0, 4, 6, 0, 0]);
        let capped = Share { floor: Pages(10), cap: Pages(36), ..Share::FREE };
        assert_eq!(of(capped, 40, 9), [0, 4, 0, 26, 0]);
        assert_eq!(of(capped, 30, 9), [0, 0, 0, 20, 6]);
        assert_eq!(of(capped, 4, 9), [6, 0, 0, 0, 9]);
    }

    #[test]
    fn demand_is_shared_in_proportion() {
        let shared_out = |mut beyond: [u64; 3], wanted| {
            share_out(&mut beyond, wanted);
            beyond
        };
        assert_eq!(shared_out([30, 0, 10], 0), [0, 0, 0]);
        assert_eq!(shared_out([30, 0, 10], 20), [15, 0, 5]);
        assert_eq!(shared_out([30, 0, 10], 7), [5, 0, 2]);
        assert_eq!(shared_out([30, 0, 10], 100), [30, 0, 10]);
    }
}
