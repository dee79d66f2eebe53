//! Counts and bins of pages: MEMTIS's page access histogram as data (Lee et al., SOSP 2023, section
//! 4; `mm/htmm_core.c` of its artifact), for [`super::Histogram`].
//!
//! A page with count `c` is in bin `floor(log2(c + 1))`, at most 15 (`get_idx`); a bin holds the
//! base pages of its pages, tier by tier. A new page has a count but is in no bin until it is first
//! counted or cooled.

use crate::lru::Isolation;
use crate::migrate::MoveOutcome;
use crate::page::{Flag, PageTable};
use crate::stage::Scope;
use crate::topology::Topology;
use crate::units::{PageId, Pages, TierId};

/// Bins of the histogram: the artifact's number (`get_idx` returns at most 15).
pub(super) const BINS: usize = 16;

/// Bit of a count: the page is in no bin yet.
const UNCOUNTED: u32 = 1 << 31;

/// Counts of pages and the histogram over them.
#[derive(Debug, Clone, Default)]
pub(super) struct PageBins {
    counts: Vec<u32>,
    /// Base pages by tier and bin.
    frames: [[u64; BINS]; Topology::MAX_TIERS],
}

/// The position of a page, for the ranks of [`PageBins::collect`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Binned {
    pub(super) bin: usize,
    /// True if the page is in the histogram.
    pub(super) counted: bool,
}

impl Binned {
    fn new(count: u32) -> Self {
        Self { bin: PageBins::bin(count & !UNCOUNTED), counted: count & UNCOUNTED == 0 }
    }
}

impl PageBins {
    /// Bytes of metadata per page.
    pub(super) const BYTES_PER_PAGE: usize = size_of::<u32>();

    /// The bin of a count.
    pub(super) fn bin(count: u32) -> usize {
        ((count.saturating_add(1)).ilog2() as usize).min(BINS - 1)
    }

    /// The page's count, in the histogram or not.
    pub(super) fn count(&self, page: PageId) -> u32 {
        self.counts.get(page.index()).copied().unwrap_or(UNCOUNTED) & !UNCOUNTED
    }

    fn is_counted(&self, page: PageId) -> bool {
        self.counts.get(page.index()).is_some_and(|count| count & UNCOUNTED == 0)
    }

    fn slot(&mut self, page: PageId) -> &mut u32 {
        if page.index() >= self.counts.len() {
            self.counts.resize(page.index() + 1, UNCOUNTED);
        }
        &mut self.counts[page.index()]
    }

    /// Adds a page with a count and in no bin. A page that is in the histogram already stays.
    pub(super) fn start(&mut self, page: PageId, count: u32) {
        if !self.is_counted(page) {
            *self.slot(page) = UNCOUNTED | count;
        }
    }

    /// Removes a page.
    pub(super) fn end(&mut self, page: PageId, tier: TierId, pages: &PageTable) {
        self.leave(page, tier, pages);
        *self.slot(page) = UNCOUNTED;
    }

    /// Adds to the count of a page in a tier.
    pub(super) fn add(&mut self, page: PageId, weight: u32, tier: TierId, pages: &PageTable) {
        let count = self.count(page).saturating_add(weight).min(UNCOUNTED - 1);
        self.leave(page, tier, pages);
        self.enter(page, count, tier, pages);
    }

    fn leave(&mut self, page: PageId, tier: TierId, pages: &PageTable) {
        if self.is_counted(page) {
            let bin = Self::bin(self.count(page));
            self.frames[tier.index()][bin] -= pages.frames(page);
        }
    }

    fn enter(&mut self, page: PageId, count: u32, tier: TierId, pages: &PageTable) {
        *self.slot(page) = count;
        self.frames[tier.index()][Self::bin(count)] += pages.frames(page);
    }

    /// Moves a page's frames to its new tier if the move succeeded.
    pub(super) fn on_outcome(&mut self, outcome: &MoveOutcome, pages: &PageTable) {
        if let (Ok(()), Some(from)) = (outcome.result, outcome.from)
            && self.is_counted(outcome.page)
        {
            let count = self.count(outcome.page);
            self.leave(outcome.page, from, pages);
            self.enter(outcome.page, count, outcome.to, pages);
        }
    }

    /// Halves every count, so that all pages sink by a bin. Uncounted pages enter the histogram.
    pub(super) fn halve(&mut self, pages: &PageTable) {
        self.frames = [[0; BINS]; Topology::MAX_TIERS];
        for index in 0..self.counts.len() {
            let page = PageId(index as u32);
            if let Some(tier) = pages.tier(page) {
                self.enter(page, self.count(page) / 2, tier, pages);
            }
        }
    }

    /// Base pages in a bin, over all tiers.
    pub(super) fn in_bin(&self, bin: usize) -> u64 {
        self.frames.iter().map(|tier| tier[bin]).sum()
    }

    /// Base pages of a tier by bin.
    pub(super) fn of_tier(&self, tier: TierId) -> &[u64; BINS] {
        &self.frames[tier.index()]
    }

    /// Adds the pages of a scope that have a rank, lowest rank first, until their base pages reach
    /// `limit`. Returns the base pages added. It takes two passes in memory order, and there is no
    /// list to keep.
    pub(super) fn collect(
        &self,
        scope: Scope,
        limit: Pages,
        rank: impl Fn(Binned) -> Option<usize>,
        isolated: &mut Isolation,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) -> Pages {
        let wanted = |(index, &count): (usize, &u32), pages: &PageTable| {
            let page = PageId(index as u32);
            let fits = pages.tier(page) == Some(scope.tier)
                && scope.tenant.is_none_or(|tenant| tenant == pages.tenant(page))
                && !pages.flag(page, Flag::Isolated);
            fits.then(|| rank(Binned::new(count)))
                .flatten()
                .map(|rank| (page, rank, pages.frames(page)))
        };
        let mut ranks = [0; BINS];
        for entry in self.counts.iter().enumerate() {
            if let Some((_, rank, frames)) = wanted(entry, pages) {
                ranks[rank] += frames;
            }
        }
        // The frames to take of each rank.
        let mut left = limit.0;
        for frames in &mut ranks {
            let take = left.min(*frames);
            left -= take;
            *frames = take;
        }
        let (from, mut taken) = (out.len(), 0);
        for entry in self.counts.iter().enumerate() {
            if let Some((page, rank, frames)) = wanted(entry, pages)
                && ranks[rank] > 0
            {
                ranks[rank] = ranks[rank].saturating_sub(frames);
                taken += frames;
                out.push(page);
                isolated.take(page, pages);
            }
        }
        let rank_of = |page: PageId| rank(Binned::new(self.counts[page.index()]));
        out[from..].sort_unstable_by_key(|&page| (rank_of(page), page));
        Pages(taken)
    }
}
