//! MTAT's access histograms (Kim et al., Middleware 2025, sections 3.3.2 and 4): sampled accesses
//! counted page by page, and for each tenant a histogram of its pages in fast memory, one of those
//! in slow memory, and the two together.
//!
//! - *Count.* A sample adds one to its page's count. Bins double, from `2^0` to `2^n`: a page with
//!   count `c` is in bin `floor(log2(c))`; pages without samples are below all of these.
//! - *Age.* At the partition interval (one minute, section 4) all counts are halved, so that all
//!   pages sink by a bin. An interval without access monitoring halves nothing: it has no
//!   information about any page.
//! - *List.* Each bin links its pages (section 4), the most recently binned first. A search for
//!   pages to promote or demote takes as many steps as it finds pages, for any number of pages and
//!   tenants. Ageing is the one pass over all counts.
//!
//! If samples are ticks ([`Observation::samples_are_ticks`]), counts of equally used pages differ
//! by chance, and two pages would be exchanged repeatedly. The square root of a count has the same
//! standard deviation, a half, for all counts (Poisson). So pages are compared by the roots of
//! their counts, and a page of the fastest tier is exchanged only for a page whose root is larger
//! by [`BEYOND_CHANCE`]. The order of a page is left out: a tick finds any part of a page used or
//! unused, so that a huge page gets no more ticks than a base page that is used as often.
//!
//! The counts of an earlier engine ([`Observation::remembered`]) count as if they had just been
//! sampled. So they age, and fresh samples outweigh them within a few ageing intervals.
//!
//! A service's requests draw their keys anew, so that its counts say more the longer they are kept,
//! while programs have phases. With `service_ageing_interval_ms` the counts of tenants with an SLO
//! are halved more rarely: after one interval of the others, after two, after four, and so on up to
//! that time.
//!
//! With `bursts`, a tenant whose pages are used for a moment each ([`super::bursts`]) is aged
//! `HASTE` times as often. Nearly all of its pages are then in the lowest bin, from which the page
//! goes first that has had no sample for the longest time. Nothing is foreseen for such a tenant.
//!
//! Every page with a sample is a promotion candidate; promotion starts in the highest bin. Demotion
//! starts in the lowest bin. No threshold separates the two: the tenant's share does.
//!
//! ```
//! use tierwise_core::estimate::TenantHistogram;
//!
//! // Base pages; the pages of the lowest bin have no samples.
//! let bins = [0, 1, 2, 3, 4, 1000].map(|count| TenantHistogram::bin(count, 0));
//! assert_eq!(bins, [0, 10, 11, 11, 12, 19]);
//! // A huge page of 512 base pages with 512 samples is as hot as a base page with one.
//! assert_eq!(TenantHistogram::bin(512, 9), TenantHistogram::bin(1, 0));
//! ```
//!
//! The paper leaves open how a huge page's count compares with a base page's. Here bins are of
//! samples per base page, so that a huge page with as many samples as a base page is at most nine
//! bins below it.
//!
//! A page costs [`TenantHistogram::BYTES_PER_PAGE`] bytes beside the page table's four: eight of
//! links and two of count, which therefore ends at 65535, in the highest bin. The sum is fourteen.

use std::time::Duration;

use super::bursts::Bursts;
use super::outlook::{Outlook, SampleMeaning};
use super::sample_period::SamplePeriod;
use crate::config::{ConfigError, Section};
use crate::lists::{ListId, PageLists};
use crate::lru::Isolation;
use crate::migrate::MoveOutcome;
use crate::observe::{Observation, Signals};
use crate::page::{Flag, PageTable};
use crate::policy::PlanContext;
use crate::stage::{Estimator, Scope};
use crate::tenant::TenantSpec;
use crate::ticker::Ticker;
use crate::topology::Topology;
use crate::units::{Hotness, PageId, Pages, TenantId, TierId, Timestamp};

/// log2 of the base pages of the huge page to which bins are relative (`HPAGE_PMD_ORDER`).
const HUGE_ORDER: u8 = 9;

/// Bins: one for pages without samples, one for each power of two that a count can reach, and as
/// many below them for the base pages of a huge page.
pub(super) const BINS: usize = 1 + u16::BITS as usize + HUGE_ORDER as usize;

/// The minimum difference between the square roots of two counts of ticks: five standard deviations
/// of a root. Of some hundred slow pages and as many fast pages that are used alike, the hottest
/// slow page and the coldest fast page are each two and a half standard deviations from the common
/// mean.
const BEYOND_CHANCE: f64 = 2.5;

/// Agings of a tenant that is used in bursts, per ageing of the others. With four seconds it is a
/// tenth of a second, in which a page that is used for a moment has most of its samples. Tuned on
/// `scenarios/optane.toml`.
const HASTE: u32 = 40;

/// The part of an ageing interval after which a page that enters has been copied: a short slice of
/// the selector.
const COPIED: u32 = 200;

/// Steps of a root: fine enough to distinguish 18 from 17.
const ROOT_STEPS: f64 = 64.0;

/// MTAT's estimator: each tenant's histograms, and one list of pages per bin.
#[derive(Debug, Clone)]
pub struct TenantHistogram {
    counts: Vec<u16>,
    lists: PageLists,
    /// One more than the largest tenant so far.
    tenants: u16,
    interval: Duration,
    ageing: Ticker,
    /// True if accesses were monitored since the last ageing.
    updated: bool,
    ticks: bool,
    period: SamplePeriod,
    isolated: Isolation,
    outlook: Option<Outlook>,
    bursts: Option<Bursts>,
    /// The ageing of tenants that are used in bursts.
    quick: Ticker,
    /// Ageing intervals after which a service's counts are halved.
    slowness: u32,
    /// By tenant: the ageing intervals so far.
    aged: Vec<u32>,
    /// By tenant: the ageing intervals that end now; `None` if its counts are not halved now.
    ended: Vec<Option<u32>>,
}

impl TenantHistogram {
    /// Bytes of metadata per page, beside the page table's.
    pub const BYTES_PER_PAGE: usize = size_of::<u16>() + PageLists::BYTES_PER_PAGE;

    /// Reads `ageing_interval_ms` (60000), `service_ageing_interval_ms` (the same: of tenants with
    /// an SLO), `interval_ms` (500, the time between two checks of the sampler and of the ageing),
    /// `outlook` (false: learn what pages have to expect),
    /// `bursts` (false: find out which tenants are used in bursts) and the sampler's parameters.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub fn build(section: &Section<'_>) -> Result<Self, ConfigError> {
        let range = 1..=3_600_000;
        let ageing =
            section.millis_or("ageing_interval_ms", Duration::from_secs(60), range.clone())?;
        let services = section.millis_or("service_ageing_interval_ms", ageing, range)?;
        Ok(Self {
            counts: Vec::new(),
            lists: PageLists::default(),
            tenants: 0,
            interval: section.millis_or("interval_ms", Duration::from_millis(500), 1..=60_000)?,
            ageing: Ticker::new(Some(ageing)),
            updated: false,
            ticks: false,
            period: SamplePeriod::read(section)?,
            isolated: Isolation::default(),
            outlook: section.flag_or("outlook", false)?.then(|| Outlook::new(ageing)),
            bursts: section.flag_or("bursts", false)?.then(Bursts::default),
            quick: Ticker::new(Some(ageing / HASTE)),
            slowness: slowness(services, ageing),
            aged: Vec::new(),
            ended: Vec::new(),
        })
    }

    /// The bin of a page with a count and an order (log2 of its base pages).
    pub fn bin(count: u16, order: u8) -> usize {
        match count.checked_ilog2() {
            None => 0,
            Some(log) => 1 + log as usize + usize::from(HUGE_ORDER.saturating_sub(order)),
        }
    }

    /// Base pages of a tenant in a tier, by bin: the histogram of its fast or of its slow memory.
    pub fn of(&self, tenant: TenantId, tier: TierId) -> impl Iterator<Item = Pages> {
        (0..BINS).map(move |bin| Pages(self.lists.frames(list(tenant, tier, bin))))
    }

    fn count(&self, page: PageId) -> u16 {
        self.counts.get(page.index()).copied().unwrap_or(0)
    }

    fn bin_of(&self, page: PageId, pages: &PageTable) -> usize {
        Self::bin(self.count(page), pages.order(page))
    }

    fn start(&mut self, page: PageId, pages: &PageTable) {
        let Some(tier) = pages.tier(page) else { return };
        if self.lists.contains(page) {
            return;
        }
        if page.index() >= self.counts.len() {
            self.counts.resize(page.index() + 1, 0);
        }
        self.counts[page.index()] = 0;
        if let Some(outlook) = &mut self.outlook {
            outlook.start(page, pages);
        }
        let tenant = pages.tenant(page);
        if let Some(bursts) = &mut self.bursts {
            bursts.start(page, tenant);
        }
        if self.tenants <= tenant.0 {
            self.tenants = tenant.0.saturating_add(1);
            // Creates the last of the tenant's lists, so that no later sample allocates memory.
            let last = list(tenant, TierId(Topology::MAX_TIERS as u8 - 1), BINS - 1);
            self.lists.push_head(last, page, 0);
            self.lists.remove(last, page, 0);
        }
        self.lists.push_head(list(tenant, tier, 0), page, pages.frames(page));
    }

    /// Takes a page off its list in a tier.
    fn leave(&mut self, page: PageId, tier: TierId, pages: &PageTable) {
        let on = list(pages.tenant(page), tier, self.bin_of(page, pages));
        self.lists.remove(on, page, pages.frames(page));
    }

    fn join(&mut self, page: PageId, tier: TierId, pages: &PageTable) {
        let on = list(pages.tenant(page), tier, self.bin_of(page, pages));
        self.lists.push_head(on, page, pages.frames(page));
    }

    fn recount(&mut self, page: PageId, count: u16, pages: &PageTable) {
        let Some(tier) = pages.tier(page) else { return };
        if self.lists.contains(page) {
            self.leave(page, tier, pages);
            self.counts[page.index()] = count;
            self.join(page, tier, pages);
        }
    }

    /// Halves every count of the tenants that are used in bursts, or of the others. Skips pages
    /// without samples, the majority.
    fn age(&mut self, in_bursts: bool, pages: &PageTable) {
        for index in 0..self.counts.len() {
            let (page, count) = (PageId(index as u32), self.counts[index]);
            let tenant = pages.tenant(page);
            let is_due = self.in_bursts(tenant) == in_bursts
                && (in_bursts || self.ended[tenant.index()].is_some());
            if count > 0 && is_due {
                self.recount(page, count / 2, pages);
            }
        }
    }

    /// Decides whose counts are halved at this ageing: those of a service after one interval, after
    /// two, after four, and so on up to `slowness`.
    fn decide(&mut self, ctx: &PlanContext<'_>) {
        self.aged.resize(self.aged.len().max(usize::from(self.tenants)), 0);
        self.ended.resize(self.aged.len(), None);
        for (index, (aged, ended)) in self.aged.iter_mut().zip(&mut self.ended).enumerate() {
            *aged = aged.wrapping_add(1);
            let is_service = ctx.specs.get(index).is_some_and(TenantSpec::has_slo);
            let slowness = if is_service { self.slowness } else { 1 };
            let is_due = *aged % slowness == 0 || (*aged < slowness && aged.is_power_of_two());
            *ended = is_due.then(|| if *aged > slowness { slowness } else { (*aged / 2).max(1) });
        }
    }

    /// Learns from the counts before they are halved.
    fn learn(&mut self, ctx: &PlanContext<'_>) {
        let meaning = self.meaning();
        if let Some(mut bursts) = self.bursts.take() {
            let fast_part = |tenant| {
                let frames = |tier| self.of(tenant, TierId(tier as u8)).map(|pages| pages.0).sum();
                let tiers: [u64; Topology::MAX_TIERS] = std::array::from_fn(frames);
                tiers[0] as f64 / tiers.iter().sum::<u64>().max(1) as f64
            };
            // A tick finds any use of a page in its time, and bursts look like steady use.
            let period = if self.ticks { 0.0 } else { f64::from(self.period.now()) };
            bursts.age(period, fast_part, |page| self.lists.contains(page), ctx);
            self.bursts = Some(bursts);
        }
        let (lists, bursts, ended) = (&self.lists, &self.bursts, &self.ended);
        let ended = |tenant: TenantId| ended.get(tenant.index()).copied().flatten();
        let recent = |tenant| bursts.as_ref().is_some_and(|bursts| bursts.recent(tenant));
        if let Some(outlook) = &mut self.outlook {
            let is_counted = |page| {
                let tenant = ctx.pages.tenant(page);
                lists.contains(page) && !recent(tenant) && ended(tenant).is_some()
            };
            outlook.age(&self.counts, meaning, is_counted, ended, ctx.pages);
        }
    }

    /// Returns true if any tenant is used in bursts.
    fn hurries(&self) -> bool {
        self.bursts.as_ref().is_some_and(Bursts::any_recent)
    }

    fn meaning(&self) -> SampleMeaning {
        let period = f64::from(self.period.now());
        if self.ticks { SampleMeaning::Tick } else { SampleMeaning::Misses(period) }
    }

    /// Names pages of one list, the newest or the oldest first, until `limit` base pages are named.
    fn name(
        &mut self,
        list: ListId,
        newest_first: bool,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) -> Pages {
        let mut named = Pages(0);
        let mut at = if newest_first { self.lists.newest(list) } else { self.lists.tail(list) };
        while let Some(page) = at.filter(|_| named < limit) {
            if !pages.flag(page, Flag::Isolated) {
                self.isolated.take(page, pages);
                named += Pages(pages.frames(page));
                out.push(page);
            }
            at = if newest_first { self.lists.older(page) } else { self.lists.newer(page) };
        }
        named
    }

    /// Names pages bin by bin, in each bin tenant by tenant.
    fn collect(
        &mut self,
        scope: Scope,
        bins: impl Iterator<Item = usize>,
        newest_first: bool,
        mut limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        let tenants = match scope.tenant {
            None => 0..self.tenants,
            Some(TenantId(tenant)) => tenant..tenant.saturating_add(1),
        };
        for bin in bins {
            for tenant in tenants.clone() {
                if limit == Pages(0) {
                    return;
                }
                let list = list(TenantId(tenant), scope.tier, bin);
                let named = self.name(list, newest_first, limit, pages, out);
                limit = limit.saturating_sub(named);
            }
        }
    }
}

/// The number of ageings in a longer interval, rounded down to a power of two.
fn slowness(longer: Duration, ageing: Duration) -> u32 {
    let times = longer.as_nanos() / ageing.as_nanos().max(1);
    1 << times.max(1).ilog2()
}

/// A tenant's pages of one bin in one tier.
fn list(tenant: TenantId, tier: TierId, bin: usize) -> ListId {
    let histogram = tenant.index() * Topology::MAX_TIERS + tier.index();
    ListId((histogram * BINS + bin) as u32)
}

impl Estimator for TenantHistogram {
    fn signals(&self) -> Signals {
        Signals { sample_period: self.period.now(), ..Signals::default() }
    }

    fn sparse_period(&self) -> Option<u32> {
        Some(self.period.longest())
    }

    fn interval(&self) -> Option<Duration> {
        let quick = self.quick.interval().filter(|_| self.hurries());
        Some(quick.map_or(self.interval, |quick| quick.min(self.interval)))
    }

    fn on_observation(&mut self, now: Timestamp, obs: &Observation, pages: &mut PageTable) {
        self.isolated.put_back(pages);
        self.updated |= !obs.bits_unread;
        if let Some(outlook) = &mut self.outlook {
            outlook.observe(now, obs.checks);
        }
        if !obs.samples.is_empty() || !obs.remembered.is_empty() {
            self.ticks = obs.samples_are_ticks;
        }
        for page in obs.allocated.iter().flat_map(|allocated| allocated.pages()) {
            self.start(page, pages);
        }
        for remembered in &obs.remembered {
            self.recount(remembered.page, remembered.heat, pages);
        }
        self.period.count(obs.samples.len());
        if let Some(bursts) = &mut self.bursts {
            bursts.observe(now, self.ageing.interval().unwrap_or_default() / COPIED);
        }
        for sample in &obs.samples {
            if let Some(bursts) = &mut self.bursts
                && self.lists.contains(sample.page)
            {
                bursts.sample(sample, pages);
            }
            let count = self.count(sample.page).saturating_add(1);
            self.recount(sample.page, count, pages);
        }
        for &page in &obs.freed {
            if let Some(tier) = pages.tier(page)
                && self.lists.contains(page)
            {
                self.leave(page, tier, pages);
                if let Some(bursts) = &mut self.bursts {
                    bursts.end(page, pages.tenant(page));
                }
            }
        }
    }

    fn on_outcomes(&mut self, _: Timestamp, outcomes: &[MoveOutcome], pages: &mut PageTable) {
        for outcome in outcomes {
            if let (Ok(()), Some(from)) = (outcome.result, outcome.from)
                && self.lists.contains(outcome.page)
            {
                self.leave(outcome.page, from, pages);
                self.join(outcome.page, outcome.to, pages);
            }
        }
    }

    fn update(&mut self, now: Timestamp, ctx: &mut PlanContext<'_>) {
        self.period.adjust(now);
        if self.quick.take(now) && self.hurries() {
            self.age(true, ctx.pages);
        }
        if self.ageing.take(now) && std::mem::take(&mut self.updated) {
            self.decide(ctx);
            self.learn(ctx);
            self.age(false, ctx.pages);
        }
    }

    fn promotable(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        self.collect(scope, (1..BINS).rev(), true, limit, pages, out);
    }

    fn demotable(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        self.collect(scope, 0..BINS, false, limit, pages, out);
    }

    /// Returns the page's bin. If samples are ticks, returns the root of the page's count in steps
    /// of 1/64, with `BEYOND_CHANCE` added in the fastest tier.
    fn hotness(&self, page: PageId, pages: &PageTable) -> Hotness {
        if !self.ticks {
            return Hotness(self.bin_of(page, pages) as u32);
        }
        let stays = pages.tier(page) == Some(TierId::FASTEST);
        let beyond = if stays { BEYOND_CHANCE } else { 0.0 };
        Hotness(((f64::from(self.count(page)).sqrt() + beyond) * ROOT_STEPS) as u32)
    }

    fn heat(&self, page: PageId) -> u16 {
        self.count(page)
    }

    fn outlook(&self, page: PageId, pages: &PageTable) -> Option<f64> {
        // Ticks say too little about misses for a refusal: hotness alone decides there.
        let is_recent = self.in_bursts(pages.tenant(page));
        let outlook = self.outlook.as_ref().filter(|_| !self.ticks && !is_recent)?;
        outlook.of(page, self.count(page), self.meaning(), pages)
    }

    /// Of a tenant that is used in bursts nothing is foreseen, and its exchanges pay all the same:
    /// the trial of the two orders charges it every copy.
    fn foresees(&self) -> bool {
        self.outlook.is_some() && !self.ticks
    }

    fn in_bursts(&self, tenant: TenantId) -> bool {
        self.bursts.as_ref().is_some_and(|bursts| bursts.recent(tenant))
    }

    fn accessed_below(&self, tenant: TenantId, tier: TierId) -> Option<Pages> {
        let slower = (tier.index() + 1..Topology::MAX_TIERS).map(|tier| TierId(tier as u8));
        Some(slower.flat_map(|tier| self.of(tenant, tier).skip(1)).sum())
    }

    /// Adds the unified histogram: the middle of each bin, in accesses per base page since the
    /// counts started, which ageing halves.
    fn curve(&self, tenant: TenantId, out: &mut Vec<(Pages, f64)>) {
        for bin in (0..BINS).rev() {
            let tiers = (0..Topology::MAX_TIERS).map(|tier| TierId(tier as u8));
            let pages: u64 = tiers.map(|tier| self.lists.frames(list(tenant, tier, bin))).sum();
            if pages > 0 {
                let log = bin as i32 - 1 - i32::from(HUGE_ORDER);
                let samples = if bin == 0 { 0.0 } else { 1.5 * f64::from(log).exp2() };
                out.push((Pages(pages), samples * f64::from(self.period.now())));
            }
        }
    }

    /// Adds the bins at the last ageing, with the pages that are newer as the coldest.
    fn expected_curve(&self, tenant: TenantId, out: &mut Vec<(Pages, f64)>) {
        let learned = self.outlook.as_ref().filter(|_| !self.ticks);
        let learned = learned.map_or(&[][..], |outlook| outlook.curve(tenant));
        let Some(&(_, coldest)) = learned.last() else { return };
        let tiers = (0..Topology::MAX_TIERS).map(|tier| TierId(tier as u8));
        let all: u64 = tiers.flat_map(|tier| self.of(tenant, tier)).map(|pages| pages.0).sum();
        let known: u64 = learned.iter().map(|&(pages, _)| pages.0).sum();
        out.extend_from_slice(learned);
        out.extend((all > known).then(|| (Pages(all - known), coldest)));
    }
}

#[cfg(test)]
mod tests;
