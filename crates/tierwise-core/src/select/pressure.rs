//! Whose pages go when a tier runs short: Equilibria's regulated demotion (section IV-D).
//!
//! Each tenant above its floor gives pages in proportion to how far it is above it (equation 1);
//! one below its floor gives none while others exceed theirs. When nobody exceeds a floor and the
//! tier still runs short, the floors do not fit, and all give in proportion to what they hold, as
//! the kernel breaks `memory.low` when nothing else is left.
//!
//! ```
//! use tierwise_core::select::demotion_scan;
//! use tierwise_core::units::Pages;
//!
//! // 120 GB held of which 80 are protected: a third of each of its lists is considered.
//! assert_eq!(demotion_scan(Pages(60), Pages(120), Pages(80)), Pages(20));
//! assert_eq!(demotion_scan(Pages(90), Pages(90), Pages(80)), Pages(10));
//! assert_eq!(demotion_scan(Pages(70), Pages(70), Pages(80)), Pages(0)); // exempt
//! ```

use super::turn::Turn;
use crate::stage::Scope;
use crate::units::{PageId, Pages, TenantId, TierId};

/// Equation 1 of Equilibria: how many pages of an LRU list of `n_lru` pages are considered for
/// demotion, if its tenant holds `n_cgroup` in the tier and `n_protection` of them are protected.
/// Base pages.
pub fn demotion_scan(n_lru: Pages, n_cgroup: Pages, n_protection: Pages) -> Pages {
    let over = n_cgroup.saturating_sub(n_protection);
    if n_cgroup == Pages(0) {
        return Pages(0);
    }
    Pages((u128::from(n_lru.0) * u128::from(over.0) / u128::from(n_cgroup.0)) as u64)
}

/// What [`Pressure::find`] may take, beside cold pages above the floors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing: a tenant above its own floor would promote.
    Wish,
    /// Hot pages above the floors: a tenant lacks what it is entitled to.
    Entitled,
    /// Those, and below the floors what is cold: the tier itself is short.
    Pressure,
}

/// Which pages of a tenant go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heat {
    Cold,
    Any,
}

/// Distributes a shortage over the tenants. Kept for its memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Pressure {
    /// What each tenant may still give.
    over: Vec<(TenantId, Pages)>,
}

impl Pressure {
    /// Adds to `out` pages of a tier until their base pages reach `wanted`.
    pub(super) fn find(
        &mut self,
        tier: TierId,
        wanted: Pages,
        need: Need,
        turn: &mut Turn<'_, '_>,
        out: &mut Vec<PageId>,
    ) {
        if turn.shares.is_empty() {
            turn.estimator.demotable(Scope::tier(tier), wanted, turn.ctx.pages, out);
            return;
        }
        self.over.clear();
        self.over.extend(turn.books.tenants().filter_map(|tenant| {
            let held = turn.books.held(tenant, tier);
            let scan = demotion_scan(held, held, turn.shares.of(tenant, tier).floor);
            (scan > Pages(0)).then_some((tenant, scan))
        }));
        let mut found = self.take(tier, wanted, Heat::Cold, turn, out);
        if need != Need::Wish && found < wanted {
            found += self.take(tier, wanted - found, Heat::Any, turn, out);
        }
        if need == Need::Pressure && found < wanted {
            self.over.clear();
            let books = &turn.books;
            self.over.extend(books.tenants().map(|tenant| (tenant, books.held(tenant, tier))));
            self.take(tier, wanted - found, Heat::Cold, turn, out);
        }
    }

    /// Takes from every tenant in proportion, then what is missing from whoever has more.
    fn take(
        &mut self,
        tier: TierId,
        wanted: Pages,
        heat: Heat,
        turn: &mut Turn<'_, '_>,
        out: &mut Vec<PageId>,
    ) -> Pages {
        let all: u64 = self.over.iter().map(|(_, over)| over.0).sum();
        let mut found = Pages(0);
        for proportional in [true, false] {
            for (tenant, over) in &mut self.over {
                let part = (u128::from(wanted.0) * u128::from(over.0)).div_ceil(all.max(1).into());
                let part = if proportional { Pages(part as u64) } else { *over };
                let limit = part.min(*over).min(wanted.saturating_sub(found));
                if limit == Pages(0) {
                    continue;
                }
                let from = out.len();
                let scope = Scope { tier, tenant: Some(*tenant) };
                match heat {
                    Heat::Cold => turn.estimator.demotable(scope, limit, turn.ctx.pages, out),
                    Heat::Any => turn.estimator.coldest(scope, limit, turn.ctx.pages, out),
                }
                let got = turn.frames(&out[from..]);
                found += got;
                *over = over.saturating_sub(got);
            }
        }
        found
    }
}
