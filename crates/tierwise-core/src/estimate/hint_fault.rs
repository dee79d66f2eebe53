//! Hint faults over LRU lists, tenant by tenant: Equilibria's promotion candidates (section IV-E).
//! Equilibria is a patch of Linux 6.11 (section IV-G): it finds candidates as that kernel does, and
//! limits their rate.
//!
//! - Every `scan_period_ms` (1000), the next `scan_size` (2560 MiB, NUMA balancing's maximum per
//!   process and second, `MAX_SCAN_WINDOW`) of each tenant's memory outside the fastest tier is
//!   made inaccessible, so that its next access is a hint fault. The scan of a tenant whose
//!   promotion is slowed down is smaller in proportion: `p_scan` of equation 2. `p_base` is the
//!   size of a scan at the full rate: the scan size, or all of the tenant's slow memory. At the end
//!   of a tenant's pages its scan continues with the first. What a scan takes beyond its budget,
//!   because a page is larger, is left out of the next.
//! - A page that faults within `hot_threshold_ms` (1000) of its poisoning is a candidate for
//!   promotion by the faulting thread ([`crate::baseline::hot_threshold`]). While the fastest tier
//!   has `free_enough` (1 GiB) and a sixteenth of itself free, every page that faults is one
//!   (`pgdat_free_space_enough`). A candidate that is not promoted at once has to fault again.
//! - A hint fault does not touch the lists. A promoted page stays on the list where it was, which
//!   is the inactive one unless reclaim scanned it in its slow tier (`folio_migrate_flags`): it has
//!   the length of an inactive list to be accessed again. TPP's own kernel activates a page before
//!   it promotes it (section 5.3), which leaves it in fast memory for as long as all of that takes
//!   to replace.
//! - Demotion takes the old end of the inactive lists, as the kernel's reclaim does.

use std::time::Duration;

use super::lru_scan::LruScan;
use crate::baseline::hot_threshold::{HotThreshold, is_free_space_enough};
use crate::config::{ConfigError, Section};
use crate::lru::{End, LruList, LruLists};
use crate::migrate::{ChargeTo, MoveOutcome, PageRange};
use crate::observe::{HintFault, Observation, Signals};
use crate::page::PageTable;
use crate::pfra::Pfra;
use crate::policy::PlanContext;
use crate::registry::BuildContext;
use crate::share::Shares;
use crate::stage::{Estimator, Scope};
use crate::topology::Tier;
use crate::units::{Bytes, Hotness, PageId, Pages, TenantId, TierId, Timestamp};

/// Estimator by hint faults, with one scan per tenant. Hotness is 1 for an active page, else 0.
#[derive(Debug, Clone)]
pub struct HintFaultEstimator {
    lists: LruScan,
    scan_size: Bytes,
    period: Duration,
    hot: HotThreshold,
    free_enough: Bytes,
    page_size: Bytes,
    fast: Tier,
    /// The page where each tenant's scan continues.
    cursors: Vec<u32>,
    /// Base pages that each tenant's scan may still poison.
    left: Vec<u64>,
    /// Base pages that each tenant's last scan poisoned beyond its budget.
    overdrawn: Vec<u64>,
    /// Pages whose faults make them candidates, since the last observation.
    candidates: Vec<PageId>,
    updated: bool,
}

impl HintFaultEstimator {
    /// Reads its parameters.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub fn build(section: &Section<'_>, ctx: &BuildContext<'_>) -> Result<Self, ConfigError> {
        let second = Duration::from_secs(1);
        Ok(Self {
            lists: LruScan::new(Pfra::TWO_LISTS, 0, ctx.topology),
            scan_size: section.paged_or("scan_size", Bytes(2560 << 20))?,
            period: section.millis_or("scan_period_ms", second, 1..=60_000)?,
            hot: HotThreshold::read(section, ctx.topology.page_size)?,
            free_enough: section.bytes_or("free_enough", Bytes(1 << 30))?,
            page_size: ctx.topology.page_size,
            fast: ctx.topology.tier(TierId::FASTEST).clone(),
            cursors: Vec::new(),
            left: Vec::new(),
            overdrawn: Vec::new(),
            candidates: Vec::new(),
            updated: false,
        })
    }

    /// `should_numa_migrate_memory`.
    fn faulted(&mut self, now: Timestamp, fault: &HintFault, free: Pages, pages: &PageTable) {
        if pages.tier(fault.page).is_none_or(|tier| tier == TierId::FASTEST) {
            return;
        }
        let frames = Pages(pages.frames(fault.page));
        let enough = is_free_space_enough(free, &self.fast, self.free_enough, self.page_size);
        if enough {
            self.hot.reset();
        }
        if enough || self.hot.admits(now, fault.at.since(fault.poisoned_at), frames) {
            self.candidates.push(fault.page);
        }
    }

    /// Poisons the entries in a range, within the tenants' budgets.
    fn sweep(
        &mut self,
        from: u32,
        to: u32,
        first: bool,
        pages: &PageTable,
        out: &mut Vec<PageRange>,
    ) {
        for index in from..to {
            let page = PageId(index);
            if pages.tier(page).is_none_or(|tier| tier == TierId::FASTEST) {
                continue;
            }
            let tenant = pages.tenant(page).index();
            if tenant >= self.left.len() {
                continue; // The world has not reported the page's tenant.
            }
            let ahead = index >= self.cursors[tenant];
            if ahead != first || self.left[tenant] == 0 {
                continue;
            }
            let frames = pages.frames(page);
            self.overdrawn[tenant] += frames.saturating_sub(self.left[tenant]);
            self.left[tenant] = self.left[tenant].saturating_sub(frames);
            if self.left[tenant] == 0 {
                self.cursors[tenant] = index + 1;
            }
            match out.last_mut() {
                Some(run) if run.first.0 + run.count == index => run.count += 1,
                _ => out.push(PageRange { first: page, count: 1 }),
            }
        }
    }
}

impl Estimator for HintFaultEstimator {
    fn signals(&self) -> Signals {
        Signals { reference_bits: true, hint_faults: true, ..Signals::default() }
    }

    fn interval(&self) -> Option<Duration> {
        Some(self.period)
    }

    fn on_observation(&mut self, now: Timestamp, obs: &Observation, pages: &mut PageTable) {
        self.lists.on_observation(obs, pages);
        self.candidates.clear();
        let free = obs.free(TierId::FASTEST);
        for fault in &obs.hint_faults {
            self.faulted(now, fault, free, pages);
        }
    }

    fn on_outcomes(&mut self, _: Timestamp, outcomes: &[MoveOutcome], pages: &mut PageTable) {
        for outcome in outcomes {
            let promoted = outcome.from.is_some_and(|from| outcome.to < from);
            // Reclaim deactivates a page before it demotes it.
            let which =
                if promoted { LruLists::which(outcome.page, pages) } else { LruList::Inactive };
            self.lists.lru.on_outcome(outcome, which, End::Head, pages);
        }
    }

    fn update(&mut self, _: Timestamp, _: &mut PlanContext<'_>) {
        self.updated = true;
    }

    fn poison(&mut self, ctx: &PlanContext<'_>, shares: &Shares, out: &mut Vec<PageRange>) {
        if !std::mem::take(&mut self.updated) {
            return;
        }
        let base = self.scan_size.in_pages(ctx.topology.page_size).0;
        let tenants = ctx.tenants.len().max(self.cursors.len());
        self.cursors.resize(tenants, 0);
        self.overdrawn.resize(tenants, 0);
        self.left.clear();
        for (tenant, overdrawn) in self.overdrawn.iter_mut().enumerate() {
            let id = TenantId(tenant as u16);
            let slow = ctx.resident(id).saturating_sub(ctx.usage(id, TierId::FASTEST)).0;
            // A scan at the full rate poisons no page twice.
            let base = if ctx.tenants.len() > tenant { base.min(slow) } else { base };
            let scan = base as f64 * shares.of(id, TierId::FASTEST).promotion;
            let scan = scan.ceil() as u64;
            self.left.push(scan.saturating_sub(*overdrawn));
            *overdrawn = overdrawn.saturating_sub(scan);
        }
        let end = ctx.pages.len() as u32;
        let start = self.cursors.iter().copied().min().unwrap_or(0).min(end);
        self.sweep(start, end, true, ctx.pages, out);
        // A tenant with budget left reached the end of its pages: it continues with the first, up
        // to the page where it started.
        let started = self.cursors.clone();
        for (left, _) in self.left.iter_mut().zip(&started).filter(|(_, started)| **started == 0) {
            *left = 0;
        }
        let last = started.iter().copied().max().unwrap_or(0).min(end);
        self.sweep(0, last, false, ctx.pages, out);
        for (cursor, _) in self.cursors.iter_mut().zip(&self.left).filter(|(_, left)| **left > 0) {
            *cursor = 0;
        }
    }

    fn ready(&self) -> bool {
        !self.candidates.is_empty()
    }

    fn regulates(&self) -> bool {
        true
    }

    fn charge_to(&self) -> ChargeTo {
        ChargeTo::FaultingThread
    }

    fn promotable(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        let mut taken = Pages(0);
        for &page in &self.candidates {
            let fits = pages.tier(page) == Some(scope.tier)
                && scope.tenant.is_none_or(|tenant| tenant == pages.tenant(page));
            if fits && taken < limit && self.lists.lru.isolate(page, pages) {
                taken += Pages(pages.frames(page));
                out.push(page);
            }
        }
    }

    fn demotable(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        self.lists.demotable(scope, limit, pages, out);
    }

    fn coldest(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        self.lists.coldest(scope, limit, pages, out);
    }

    fn active(&self, tenant: TenantId) -> Pages {
        self.lists.active(tenant)
    }

    /// Returns 1 for a page on an active list, 0 for a page on an inactive list.
    fn hotness(&self, page: PageId, pages: &PageTable) -> Hotness {
        Hotness(u32::from(LruLists::which(page, pages) == LruList::Active))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::testing::PolicyFixture;
    use crate::config::Document;
    use crate::observe::{TenantReading, TierReading};
    use crate::share::{Rule, Share};

    struct Scanned {
        machine: PolicyFixture,
        estimator: HintFaultEstimator,
        shares: Shares,
    }

    impl Scanned {
        fn new(scan_size: &str) -> Self {
            let mut machine = PolicyFixture::new(2);
            let text = format!("scan_size = \"{scan_size}\"");
            let document = Document::parse("t.toml", &text).unwrap();
            let build = BuildContext::new(&machine.topology, 0);
            let estimator = HintFaultEstimator::build(&document.root(), &build).unwrap();
            let usage = vec![Pages(0), Pages(100)];
            machine.tenants = vec![TenantReading { usage, ..TenantReading::default() }];
            Self { machine, estimator, shares: Shares::default() }
        }

        fn scan(&mut self) -> Vec<(u32, u32)> {
            self.estimator.update(Timestamp(0), &mut self.machine.context());
            let mut out = Vec::new();
            self.estimator.poison(&self.machine.context(), &self.shares, &mut out);
            out.iter().map(|run| (run.first.0, run.count)).collect()
        }

        /// Pages that fault some milliseconds after they were poisoned, with `free` fast pages.
        /// Returns the candidates.
        fn faults(&mut self, faults: &[(u32, u64)], free: u64) -> Vec<PageId> {
            let at = Timestamp(9_000_000_000);
            let fault = |&(page, ms): &(u32, u64)| {
                let poisoned_at = Timestamp(at.0 - ms * 1_000_000);
                HintFault { page: PageId(page), poisoned_at, at, write: false }
            };
            let obs = &mut self.machine.obs;
            obs.hint_faults.extend(faults.iter().map(fault));
            let reading = |free| TierReading { free: Pages(free), ..TierReading::default() };
            obs.tiers = vec![reading(free), reading(0)];
            self.estimator.on_observation(at, obs, &mut self.machine.pages);
            self.machine.obs.clear();
            let mut out = Vec::new();
            let (scope, pages) = (Scope::tier(TierId(1)), &mut self.machine.pages);
            self.estimator.promotable(scope, Pages(9), pages, &mut out);
            out
        }
    }

    #[test]
    fn scan_resumes_and_wraps_around() {
        let mut scanned = Scanned::new("16KiB");
        scanned.machine.allocated(0..3, 0).allocated(3..13, 1);
        assert_eq!(scanned.scan(), [(3, 4)]);
        assert_eq!(scanned.scan(), [(7, 4)]);
        assert_eq!(scanned.scan(), [(11, 2), (3, 2)]);
        assert_eq!(scanned.scan(), [(5, 4)]);
    }

    #[test]
    fn a_slowed_tenant_has_less_scanned() {
        let mut scanned = Scanned::new("32KiB");
        scanned.machine.allocated(0..20, 1);
        let slow = Share { promotion: 0.25, ..Share::FREE };
        let tier = TierId::FASTEST;
        scanned.shares.set(Timestamp(0), TenantId(0), tier, slow, Rule::Configured);
        assert_eq!(scanned.scan(), [(0, 2)]);
    }

    #[test]
    fn overdrawn_budget_is_left_out_later() {
        let mut scanned = Scanned::new("16KiB");
        for page in 0..3 {
            scanned.machine.allocated_huge(page, 3, 1);
        }
        // Pages of eight base pages: one every second scan.
        assert_eq!(scanned.scan(), [(0, 1)]);
        assert_eq!(scanned.scan(), []);
        assert_eq!(scanned.scan(), [(1, 1)]);
    }

    #[test]
    fn early_fault_makes_a_candidate_once() {
        let mut scanned = Scanned::new("1MiB");
        scanned.machine.allocated(0..4, 1);
        assert_eq!(scanned.faults(&[(2, 999), (3, 1000)], 0), [PageId(2)]);
        assert!(scanned.estimator.ready());
        assert_eq!(scanned.faults(&[], 0), []);
        assert!(!scanned.estimator.ready());
    }

    #[test]
    fn every_fault_promotes_into_ample_free_memory() {
        let mut scanned = Scanned::new("1MiB");
        scanned.estimator.free_enough = Bytes(40 << 10);
        scanned.machine.allocated(0..4, 1);
        // 8 pages of watermark and 10.
        assert_eq!(scanned.faults(&[(2, 5000)], 18), []);
        assert_eq!(scanned.faults(&[(2, 5000)], 19), [PageId(2)]);
    }

    #[test]
    fn promoted_page_stays_on_its_list() {
        let mut scanned = Scanned::new("1MiB");
        scanned.machine.allocated(0..2, 1);
        scanned.faults(&[(0, 1)], 0);
        scanned.estimator.lists.lru.shift(PageId(1), LruList::Active, &mut scanned.machine.pages);
        for page in [PageId(0), PageId(1)] {
            scanned.machine.pages.set_tier(page, TierId(0));
            let moved = MoveOutcome { page, from: Some(TierId(1)), to: TierId(0), result: Ok(()) };
            scanned.estimator.on_outcomes(Timestamp(0), &[moved], &mut scanned.machine.pages);
        }
        let hotness = |page| scanned.estimator.hotness(page, &scanned.machine.pages).0;
        assert_eq!([0, 1].map(|page| hotness(PageId(page))), [0, 1]);
    }
}
