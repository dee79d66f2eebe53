//! The accesses that a page has to expect, learned from what became of pages like it.
//!
//! A count says how often a page was accessed. A move pays by the accesses that come. The two
//! differ: of many pages that are used alike, those with the most samples had them by chance, and a
//! page that was read once from end to end is not read again.
//!
//! Pages are alike if they are in the same bin and either rise (most of their count is of this
//! ageing interval) or fall. At each ageing every page's class at the last ageing is compared with
//! its accesses since. Their mean is what such a page has to expect in an interval, whatever the
//! reason, so chance and burstiness are in it. The classes in which the pages are now say what they
//! have to expect in the intervals after that: the classes are a Markov chain. Its horizon is as
//! long as the tenant was observed, at most [`HORIZON`]: the future is not assumed to be longer
//! than the past.
//!
//! Of the pages that rise, or of those that fall, a higher bin never has the worse outlook: bins of
//! which the higher has fewer accesses are joined (pool adjacent violators: Barlow and others,
//! Statistical Inference under Order Restrictions, 1972). So pages that are read in a circle are
//! alike, and none is exchanged for another.
//!
//! What became of others is known an interval late. A slow page that rises expects at least the
//! lower bound of its own rate, for one interval.
//!
//! The same means say how many accesses a tenant's hottest pages serve ([`Outlook::curve`]). Its
//! counts do not: pages that are all used alike have a few counts and many zeros while samples are
//! rare, as if a few pages served everything. No page is judged by the counts that ranked it.

use std::time::Duration;

use super::tenant_histogram::{BINS, TenantHistogram};
use crate::page::PageTable;
use crate::steer::scan::MISSES_PER_ACCESS;
use crate::units::{PageId, Pages, TenantId, TierId, Timestamp};

/// Classes of pages: each bin, falling and rising.
const CLASSES: usize = 2 * BINS;

/// Maximum intervals ahead: half a minute of the ageing interval of `tierwise`, four seconds.
/// MTAT's programs exchange 10 GB in 25 to 45 s, so that few promoted pages stay for a minute. With
/// 15, a minute, two of these programs copy a sixth more, and the slower one is 0.3 to 0.5 %
/// slower; 6 and 7 are like 8 (docs/tenants.md).
const HORIZON: usize = 8;

/// The part of the observed pages that stays at each interval: five intervals are averaged. What
/// became of pages in one phase does not hold for a minute. At 0.5, two intervals, SSSP of MTAT
/// predicts 2.7 times the accesses that come in the minute after a move, here 1.2 times as many
/// (docs/tenants.md).
const MEMORY: f32 = 0.8;

/// Minimum of base pages of a class for its own mean. Pages of a class with fewer are like those of
/// the next lower bin.
const MIN_PAGES: f32 = 1.0;

/// Standard deviations of the square root of a count between the count and its lower bound. Of some
/// hundred pages that are used alike, the one with the most samples is that far from the mean.
const DEVIATIONS: f64 = 2.5;

/// Standard deviation of the square root of a count (Poisson).
const DEVIATION: f64 = 0.5;

/// Minimum part of an interval from which a rate is computed: a slice of `tierwise`, a tenth of a
/// second of four.
const MIN_PASSED: f64 = 1.0 / 40.0;

/// The weight at which all sums are scaled down: far from the largest number, and rarely reached.
const MAX_WEIGHT: f32 = (1_u64 << 40) as f32;

/// One tenant's pages, by their class at the last ageing.
///
/// A new observation weighs more than the last, instead of the last less than before: most classes
/// are empty, and what is in them need not be touched.
#[derive(Debug, Clone)]
struct Observed {
    /// The weight of the present observation in the sums.
    weight: f32,
    /// Base pages of each class.
    pages: [f32; CLASSES],
    /// Accesses of one base page of each, summed up.
    accesses: [f32; CLASSES],
    /// Base pages by the class before and the class after the interval.
    became: Vec<[f32; CLASSES]>,
    intervals: usize,
    /// The last ageing, and the outlook's intervals that it ended.
    aged: Timestamp,
    steps: u32,
    /// If samples are ticks: the checks before the last ageing.
    checks: u64,
    expected: Option<[f32; CLASSES]>,
    /// Base pages of each bin at the last ageing.
    present: [f32; BINS],
    /// The bins as classes, hottest first; empty before the first evidence.
    curve: Vec<(Pages, f64)>,
}

impl Observed {
    fn new() -> Self {
        let none = [0.0; CLASSES];
        let became = vec![none; CLASSES];
        Self {
            weight: 1.0,
            pages: none,
            accesses: none,
            became,
            intervals: 0,
            aged: Timestamp::ZERO,
            steps: 1,
            checks: 0,
            expected: None,
            present: [0.0; BINS],
            curve: Vec::with_capacity(BINS),
        }
    }

    /// Gives what was observed so far [`MEMORY`] of its weight.
    fn forget(&mut self) {
        self.present = [0.0; BINS];
        self.weight /= MEMORY;
        if self.weight > MAX_WEIGHT {
            let rows = self.became.iter_mut().chain([&mut self.pages, &mut self.accesses]);
            rows.for_each(|row| row.iter_mut().for_each(|n| *n /= self.weight));
            self.weight = 1.0;
        }
    }

    fn add(&mut self, was: usize, after: usize, frames: f32, accesses: f32) {
        let weighed = frames * self.weight;
        self.pages[was] += weighed;
        self.accesses[was] += accesses * weighed;
        self.became[was][after] += weighed;
    }

    fn has_enough(&self, class: usize) -> bool {
        self.pages[class] >= MIN_PAGES * self.weight
    }

    /// The class whose pages a class's pages are like: itself, or the next lower one with enough
    /// pages, that of falling pages if none of rising pages has them; else the lowest with enough.
    fn like(&self, class: usize) -> Option<usize> {
        let lower = |class: usize| {
            let mut classes = (class % 2..=class).rev().step_by(2);
            classes.find(|&class| self.has_enough(class))
        };
        let any = || self.known().next();
        lower(class).or_else(|| lower(class & !1)).or_else(any)
    }

    /// Computes the accesses to expect.
    fn foresee(&mut self) {
        self.intervals += 1;
        let like: [Option<usize>; CLASSES] = std::array::from_fn(|class| self.like(class));
        let mut ahead = [0.0; CLASSES];
        let chain = self.chain(&like);
        let horizon = (HORIZON / self.steps.max(1) as usize).max(1);
        for _ in 0..self.intervals.min(horizon) {
            let mut next = [0.0; CLASSES];
            for class in self.known() {
                let became = chain[class].iter().zip(&ahead);
                let later: f32 = became.map(|(part, ahead)| part * ahead).sum();
                next[class] = self.accesses[class] / self.pages[class] + later;
            }
            ahead = next;
        }
        let mut expected = like.map(|like| like.map_or(0.0, |like| ahead[like]));
        join(&mut expected, 0, |class| self.pages[class]);
        join(&mut expected, 1, |class| self.pages[class]);
        self.expected = Some(expected);
    }

    /// Computes the accesses that the pages of each bin have to expect in the next interval. A
    /// higher bin never expects less.
    fn draw_curve(&mut self) {
        self.curve.clear();
        let mut expected = [0.0; CLASSES];
        let both = |of: &[f32; CLASSES], class: usize| of[class] + of[class + 1];
        let pages = |class| both(&self.pages, class);
        let mut lower = None;
        for class in (0..CLASSES).step_by(2) {
            if pages(class) >= MIN_PAGES * self.weight {
                lower = Some(both(&self.accesses, class) / pages(class));
            }
            expected[class] = lower.unwrap_or(0.0);
        }
        if lower.is_none() {
            return;
        }
        join(&mut expected, 0, pages);
        let bins = (0..BINS).rev().filter(|&bin| self.present[bin] > 0.0);
        let class = |bin: usize| (Pages(self.present[bin] as u64), f64::from(expected[2 * bin]));
        self.curve.extend(bins.map(class));
    }

    /// The part of each known class's pages that became each known class. The others are like one
    /// of them, and have no row.
    fn chain(&self, like: &[Option<usize>; CLASSES]) -> [[f32; CLASSES]; CLASSES] {
        let mut chain = [[0.0; CLASSES]; CLASSES];
        for class in self.known() {
            for (became, like) in self.became[class].iter().zip(like) {
                if let Some(like) = *like {
                    chain[class][like] += became / self.pages[class];
                }
            }
        }
        chain
    }

    /// The classes with enough pages.
    fn known(&self) -> impl Iterator<Item = usize> + '_ {
        (0..CLASSES).filter(|&class| self.has_enough(class))
    }
}

/// Joins the falling (0) or rising (1) classes, of so many pages, until none has a better outlook
/// than a higher one: a class joins those below it while their mean is higher.
fn join(outlook: &mut [f32; CLASSES], side: usize, pages_of: impl Fn(usize) -> f32) {
    for bin in 1..BINS {
        let (mut sum, mut pages) = (0.0, 0.0);
        for first in (0..=bin).rev() {
            let class = 2 * first + side;
            if first < bin && outlook[class] <= sum / pages {
                break;
            }
            let weight = pages_of(class).max(f32::MIN_POSITIVE);
            sum += outlook[class] * weight;
            pages += weight;
            let joined = (first..=bin).map(|bin| 2 * bin + side);
            let mean = sum / pages;
            if first < bin {
                joined.for_each(|class| outlook[class] = mean);
            }
        }
    }
}

/// A page at the last ageing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// It is newer than that.
    New,
    /// Its count before it was halved, and whether it rose.
    Was { count: u16, rose: bool },
}

impl Before {
    /// The part of the present count that is older than the last ageing.
    fn carried(self) -> u16 {
        match self {
            Self::New => 0,
            Self::Was { count, .. } => count / 2,
        }
    }
}

/// The meaning of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum SampleMeaning {
    /// One of this many last-level misses.
    Misses(f64),
    /// One check found an access.
    Tick,
}

/// What pages have to expect, for every tenant.
#[derive(Debug, Clone)]
pub(super) struct Outlook {
    before: Vec<Before>,
    tenants: Vec<Observed>,
    /// If samples are ticks: all checks so far.
    checks: u64,
    interval: Duration,
    now: Timestamp,
}

impl Outlook {
    /// Bytes per page.
    #[cfg(test)]
    pub(super) const BYTES_PER_PAGE: usize = size_of::<Before>();

    /// An outlook without evidence. `interval` is the shortest time between two ageings.
    pub(super) fn new(interval: Duration) -> Self {
        let now = Timestamp::ZERO;
        Self { before: Vec::new(), tenants: Vec::new(), checks: 0, interval, now }
    }

    /// Adds a new page.
    pub(super) fn start(&mut self, page: PageId, pages: &PageTable) {
        if self.before.len() <= page.index() {
            self.before.resize(page.index() + 1, Before::New);
        }
        self.before[page.index()] = Before::New;
        let tenant = pages.tenant(page).index();
        if self.tenants.len() <= tenant {
            self.tenants.resize_with(tenant + 1, Observed::new);
        }
    }

    /// Records the time of an observation and the checks that it contains.
    pub(super) fn observe(&mut self, now: Timestamp, checks: u32) {
        self.now = now;
        self.checks = self.checks.saturating_add(u64::from(checks));
    }

    /// Compares every page's count with the one at the last ageing. `is_counted` is false for
    /// numbers that are no page. `ended` returns the intervals since a tenant's last ageing, or
    /// `None` if the tenant is not aged now; its pages must not be counted then.
    pub(super) fn age(
        &mut self,
        counts: &[u16],
        meaning: SampleMeaning,
        is_counted: impl Fn(PageId) -> bool,
        ended: impl Fn(TenantId) -> Option<u32>,
        pages: &PageTable,
    ) {
        for (index, observed) in self.tenants.iter_mut().enumerate() {
            if let Some(steps) = ended(TenantId(index as u16)) {
                observed.steps = steps;
                observed.forget();
            }
        }
        for (index, (before, &count)) in self.before.iter_mut().zip(counts).enumerate() {
            let page = PageId(index as u32);
            if !is_counted(page) {
                continue;
            }
            let fresh = count.saturating_sub(before.carried());
            let is_rising = fresh > before.carried();
            let after = class(count, is_rising, page, pages);
            let last = std::mem::replace(before, Before::Was { count, rose: is_rising });
            let frames = pages.frames(page) as f32;
            let observed = &mut self.tenants[pages.tenant(page).index()];
            observed.present[after / 2] += frames;
            let Before::Was { count: was, rose } = last else { continue };
            let checks = checks_since(observed.checks, self.checks);
            let accesses = accesses(f64::from(fresh), meaning, checks, pages.frames(page));
            let was = class(was, rose, page, pages);
            observed.add(was, after, frames, accesses as f32);
        }
        for (index, observed) in self.tenants.iter_mut().enumerate() {
            if ended(TenantId(index as u16)).is_some() {
                observed.foresee();
                observed.draw_curve();
                (observed.checks, observed.aged) = (self.checks, self.now);
            }
        }
    }

    /// A tenant's base pages at the last ageing, hottest first, and the accesses that one page of
    /// each class has to expect in the next interval; empty without evidence.
    pub(super) fn curve(&self, tenant: TenantId) -> &[(Pages, f64)] {
        self.tenants.get(tenant.index()).map_or(&[], |observed| &observed.curve)
    }

    /// Accesses that one base page of a page has to expect; `None` without evidence.
    pub(super) fn of(
        &self,
        page: PageId,
        count: u16,
        meaning: SampleMeaning,
        pages: &PageTable,
    ) -> Option<f64> {
        let carried = self.before.get(page.index())?.carried();
        let fresh = f64::from(count.saturating_sub(carried));
        let observed = self.tenants.get(pages.tenant(page).index())?;
        let interval = self.interval * observed.steps;
        let passed = self.now.since(observed.aged).as_secs_f64() / interval.as_secs_f64();
        let passed = passed.clamp(MIN_PASSED, 1.0);
        let is_rising = fresh > f64::from(carried) * passed;
        let expected = observed.expected?;
        let learned = f64::from(expected[class(count, is_rising, page, pages)]);
        if !is_rising || pages.tier(page) == Some(TierId::FASTEST) {
            return Some(learned);
        }
        let lower = (fresh.sqrt() - DEVIATIONS * DEVIATION).max(0.0).powi(2);
        let checks = checks_since(observed.checks, self.checks);
        let own = accesses(lower, meaning, checks, pages.frames(page)) / passed;
        Some(learned.max(own))
    }
}

fn checks_since(before: u64, now: u64) -> u32 {
    u32::try_from(now.saturating_sub(before)).unwrap_or(u32::MAX)
}

fn class(count: u16, is_rising: bool, page: PageId, pages: &PageTable) -> usize {
    2 * TenantHistogram::bin(count, pages.order(page)) + usize::from(is_rising)
}

/// Accesses of one base page of a page with `samples` samples.
///
/// A check finds one access of a page or many in its time. If they are independent of each other,
/// the share of the checks that found none is `exp(-n)` for `n` accesses per check. If every check
/// found one, as many count as if the next one had not. An access is [`MISSES_PER_ACCESS`] misses
/// of each base page.
fn accesses(samples: f64, meaning: SampleMeaning, checks: u32, frames: u64) -> f64 {
    match meaning {
        SampleMeaning::Misses(period) => samples * period / frames as f64,
        SampleMeaning::Tick if checks == 0 => 0.0,
        SampleMeaning::Tick => {
            let checks = f64::from(checks);
            let missed = (checks - samples).max(checks / (checks + 1.0));
            checks * (checks / missed).ln() * MISSES_PER_ACCESS
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Attributes, PageKind};

    const SECOND: u64 = 1_000_000_000;
    const MISSES: SampleMeaning = SampleMeaning::Misses(200.0);

    /// A hundred pages in slow memory and their counts, aged once per second.
    struct Aged {
        outlook: Outlook,
        pages: PageTable,
        counts: Vec<u16>,
        meaning: SampleMeaning,
        seconds: u64,
    }

    impl Aged {
        fn new(meaning: SampleMeaning) -> Self {
            let (mut outlook, mut pages) =
                (Outlook::new(Duration::from_secs(1)), PageTable::default());
            let (tenant, tier) = (TenantId(0), TierId(1));
            let attributes = Attributes { tenant, tier, kind: PageKind::Anon, order: 0 };
            for page in (0..100).map(PageId) {
                pages.insert(page, attributes);
                outlook.start(page, &pages);
            }
            Self { outlook, pages, counts: vec![0; 100], meaning, seconds: 0 }
        }

        /// Samples a page as often as `samples` says, then ages.
        fn second(&mut self, checks: u32, samples: impl Fn(usize) -> u16) {
            self.seconds += 1;
            self.outlook.observe(Timestamp(self.seconds * SECOND), checks);
            self.sample(samples);
            self.outlook.age(&self.counts, self.meaning, |_| true, |_| Some(1), &self.pages);
            self.counts.iter_mut().for_each(|count| *count /= 2);
        }

        fn sample(&mut self, samples: impl Fn(usize) -> u16) {
            self.counts.iter_mut().enumerate().for_each(|(page, count)| *count += samples(page));
        }

        fn of(&self, page: u32) -> f64 {
            let count = self.counts[page as usize];
            self.outlook.of(PageId(page), count, self.meaning, &self.pages).unwrap()
        }
    }

    #[test]
    fn first_interval_has_no_outlook() {
        let aged = Aged::new(MISSES);
        assert_eq!(aged.outlook.of(PageId(0), 9, MISSES, &aged.pages), None);
        assert_eq!(aged.outlook.of(PageId(100), 9, MISSES, &aged.pages), None);
    }

    #[test]
    fn steady_pages_expect_their_rate() {
        let mut aged = Aged::new(MISSES);
        (0..40).for_each(|_| aged.second(0, |page| if page < 10 { 8 } else { 0 }));
        aged.outlook.observe(Timestamp(41 * SECOND), 0);
        // Eight samples of 200 misses in each second of the horizon.
        aged.sample(|page| if page < 10 { 8 } else { 0 });
        let horizon = HORIZON as f64;
        assert!((aged.of(0) - horizon * 1600.0).abs() < 1.0, "{}", aged.of(0));
        assert_eq!(aged.of(50), 0.0);
    }

    #[test]
    fn horizon_is_no_longer_than_the_past() {
        let mut aged = Aged::new(MISSES);
        (0..3).for_each(|_| aged.second(0, |page| if page < 10 { 8 } else { 0 }));
        aged.outlook.observe(Timestamp(4 * SECOND), 0);
        aged.sample(|page| if page < 10 { 8 } else { 0 });
        assert!(aged.of(0) <= 3.0 * 1600.0, "{}", aged.of(0));
        assert!(aged.of(0) >= 1600.0, "{}", aged.of(0));
    }

    /// A tenth of the pages is read each second, one tenth after the other. A page that was just
    /// read is read again later than any other.
    #[test]
    fn circle_makes_all_pages_alike() {
        let mut aged = Aged::new(MISSES);
        for second in 0..40 {
            aged.second(0, |page| if page / 10 == second % 10 { 8 } else { 0 });
        }
        // The pages of the last second, and those of the second that is next.
        let (read, next) = (aged.of(95), aged.of(5));
        assert!(read <= next * 1.01, "{read} against {next}");
    }

    /// Every page has the same chance of one to four samples.
    #[test]
    fn differences_by_chance_promise_little() {
        let mut aged = Aged::new(MISSES);
        // Bits of a product with the golden ratio, far from its end.
        let chance = |page: usize, second: usize| {
            ((page * 977 + second * 7919) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62
        };
        for second in 0..40 {
            aged.second(0, |page| 1 + chance(page, second) as u16);
        }
        let all: Vec<f64> = (0..100).map(|page| aged.of(page)).collect();
        let (most, least) =
            all.iter().fold((0.0_f64, f64::MAX), |(max, min), &x| (max.max(x), min.min(x)));
        // Four times as many samples by chance are a quarter more to expect, at most.
        assert!(most < 1.25 * least, "{most} against {least}");
    }

    /// A tenth of the pages, by chance others each second, has the second's ten samples.
    #[test]
    fn rare_samples_make_no_hot_pages() {
        let mut aged = Aged::new(MISSES);
        for second in 0..40 {
            let step = [3, 7, 9, 11, 13, 17][second % 6];
            let hit: Vec<usize> = (0..10).map(|i| (second * 37 + i * step) % 100).collect();
            aged.second(0, |page| u16::from(hit.contains(&page)));
        }
        let curve = aged.outlook.curve(TenantId(0));
        let all: f64 = curve.iter().map(|&(pages, each)| pages.0 as f64 * each).sum();
        let (hottest, each) = curve[0];
        assert_eq!(curve.iter().map(|&(pages, _)| pages.0).sum::<u64>(), 100);
        let (served, held) = (hottest.0 as f64 * each / all, hottest.0 as f64 / 100.0);
        assert!(served < 2.0 * held, "{curve:?}");
        let sampled = aged.counts.iter().filter(|&&count| count > 0).count();
        assert!(sampled < 20, "{sampled} of the pages have all the counts");
    }

    #[test]
    fn curve_has_the_rates_of_steady_pages() {
        let mut aged = Aged::new(MISSES);
        assert_eq!(aged.outlook.curve(TenantId(0)), []);
        (0..40).for_each(|_| aged.second(0, |page| if page < 10 { 8 } else { 1 }));
        let curve = aged.outlook.curve(TenantId(0));
        assert_eq!(curve.iter().map(|class| class.0.0).collect::<Vec<_>>(), [10, 90]);
        for ((_, each), rate) in curve.iter().zip([1600.0, 200.0]) {
            assert!((each - rate).abs() < 1e-3 * rate, "{curve:?}");
        }
    }

    #[test]
    fn new_heat_counts_by_its_lower_bound() {
        let mut aged = Aged::new(MISSES);
        (0..10).for_each(|_| aged.second(0, |_| 0));
        aged.outlook.observe(Timestamp(10 * SECOND + SECOND / 4), 0);
        aged.sample(|page| [1, 9][usize::from(page == 0)]);
        // (3 - 1.25)^2 samples in a quarter of a second; one sample proves nothing.
        assert!((aged.of(0) - 1.75 * 1.75 * 200.0 * 4.0).abs() < 1e-6, "{}", aged.of(0));
        assert_eq!(aged.of(1), 0.0);
        aged.pages.set_tier(PageId(0), TierId(0));
        assert_eq!(aged.of(0), 0.0, "a fast page is judged by pages like it");
    }

    #[test]
    fn ticks_become_accesses_by_their_gaps() {
        let each = |samples| accesses(samples, SampleMeaning::Tick, 100, 512) / MISSES_PER_ACCESS;
        // Half of the checks found an access: 0.69 accesses per check and base page.
        assert!((each(50.0) - 100.0 * 2.0_f64.ln()).abs() < 1e-9);
        // All did: as if the next had not.
        assert!((each(100.0) - 100.0 * 101.0_f64.ln()).abs() < 1e-9);
        assert_eq!(accesses(9.0, SampleMeaning::Tick, 0, 1), 0.0);
        assert_eq!(accesses(4.0, MISSES, 0, 2), 400.0);
    }

    #[test]
    fn page_costs_four_more_bytes() {
        assert_eq!(Outlook::BYTES_PER_PAGE, 4);
    }
}
