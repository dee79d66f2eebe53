//! Pages that may be exchanged, of one tenant or of several that compete.

use crate::select::pass::Pass;
use crate::stage::Scope;
use crate::units::{Hotness, PageId, Pages, TenantId, TierId};

/// The minimum of base pages searched for per competing tenant, so that a tenant with few pages is
/// considered; a search for so few costs less than a move.
const MIN_ASKED: u64 = 32;

/// A tenant whose pages are candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CandidateTenant {
    /// The tenant; `None` for all together.
    pub(super) tenant: Option<TenantId>,
    /// Base pages that it may give.
    pub(super) gives: Pages,
    /// Base pages that it may take.
    pub(super) takes: Pages,
}

impl CandidateTenant {
    /// The pages of all tenants, without limit.
    pub(super) const ALL: Self =
        Self { tenant: None, gives: Pages(u64::MAX), takes: Pages(u64::MAX) };

    /// Makes a tenant within its own partition, whose own victims make room for its promotions.
    pub(super) const fn alone(tenant: TenantId, limit: Pages) -> Self {
        Self { tenant: Some(tenant), gives: limit, takes: limit }
    }
}

/// Candidates of the last search. The value is used again, which keeps its memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Candidates {
    /// Pages of slower tiers, hottest first if they are of one tier.
    pub(super) hot: Vec<PageId>,
    /// Pages of the upper tier, coldest first.
    pub(super) cold: Vec<PageId>,
    /// Candidates of this slice that were not hot enough for their target tier.
    pub(super) rejected: Vec<PageId>,
}

impl Candidates {
    /// Finds up to about `limit` base pages of a tier that can leave it.
    pub(super) fn find_cold(
        &mut self,
        members: &[CandidateTenant],
        tier: TierId,
        limit: Pages,
        pass: &mut Pass<'_, '_>,
    ) {
        self.cold.clear();
        let all = members.iter().map(|m| u128::from(m.gives.0)).sum();
        for member in members {
            let limit = part(member.gives, all, limit, members.len());
            let scope = Scope { tier, tenant: member.tenant };
            pass.estimator.coldest(scope, limit, pass.ctx.pages, &mut self.cold);
        }
        if members.len() > 1 {
            self.cold.sort_unstable_by_key(|&page| (pass.hotness(page), page));
        }
    }

    /// Finds promotion candidates for `upper`, up to about `limit` base pages, from the nearest
    /// slower tier first.
    pub(super) fn find_hot(
        &mut self,
        members: &[CandidateTenant],
        upper: TierId,
        limit: Pages,
        pass: &mut Pass<'_, '_>,
    ) {
        self.hot.clear();
        let all = members.iter().map(|m| u128::from(m.takes.0)).sum();
        for member in members {
            let mut limit = part(member.takes, all, limit, members.len());
            for tier in pass.ctx.topology.ids().filter(|&tier| tier > upper) {
                let (from, scope) = (self.hot.len(), Scope { tier, tenant: member.tenant });
                pass.estimator.promotable(scope, limit, pass.ctx.pages, &mut self.hot);
                limit = limit.saturating_sub(pass.frames(&self.hot[from..]));
            }
        }
        if members.len() > 1 {
            let hottest_first = |&page: &PageId| (std::cmp::Reverse(pass.hotness(page)), page);
            self.hot.sort_unstable_by_key(hottest_first);
        }
    }

    /// Keeps the hot pages from index `first` on for exchanges in slower tiers.
    pub(super) fn reject(&mut self, first: usize) {
        self.rejected.extend_from_slice(&self.hot[first..]);
    }

    /// Moves the rejected pages in tiers slower than `upper` to `hot`, hottest first.
    pub(super) fn take_rejected(&mut self, upper: TierId, pass: &Pass<'_, '_>) {
        self.hot.clear();
        let below = |page: &PageId| pass.ctx.pages.tier(*page).is_some_and(|tier| tier > upper);
        self.hot.extend(self.rejected.extract_if(.., |page| below(page)));
        self.hot.sort_unstable_by_key(|&page| (std::cmp::Reverse(pass.hotness(page)), page));
    }

    /// Adds up to `limit` base pages of a tenant that were not found accessed, from the nearest
    /// slower tier first: a share is filled whether the pages are hot or not.
    pub(super) fn fill(&mut self, tenant: TenantId, mut limit: Pages, pass: &mut Pass<'_, '_>) {
        for tier in pass.ctx.topology.ids().skip(1) {
            let (from, scope) = (self.hot.len(), Scope { tier, tenant: Some(tenant) });
            if limit > Pages(0) {
                pass.estimator.coldest(scope, limit, pass.ctx.pages, &mut self.hot);
            }
            limit = limit.saturating_sub(pass.frames(&self.hot[from..]));
        }
    }

    /// Returns the number of coldest pages, from index `first` on, that free `frames` base pages.
    /// Each of them is colder than `than`; `None` if there are too few.
    pub(super) fn colder(
        &self,
        first: usize,
        frames: Pages,
        than: Hotness,
        pass: &Pass<'_, '_>,
    ) -> Option<usize> {
        let (mut found, mut pages) = (Pages(0), 0);
        for &page in &self.cold[first..] {
            if found >= frames || pass.hotness(page) >= than {
                break;
            }
            found += pass.frames(&[page]);
            pages += 1;
        }
        (found >= frames).then_some(pages)
    }
}

/// The base pages to search for in one of several members: twice its part, as the others' pages may
/// not be worth taking.
fn part(of: Pages, all: u128, limit: Pages, members: usize) -> Pages {
    if members <= 1 {
        return of.min(limit);
    }
    let part = 2 * u128::from(limit.0) * u128::from(of.0) / all.max(1);
    Pages(MIN_ASKED.saturating_add(part as u64)).min(of)
}
