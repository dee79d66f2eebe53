//! Detects tenants whose pages are used in bursts, so that their last access says more than how
//! often they were accessed.
//!
//! Counts of seconds find pages that are used at steady rates. A program that works on one part of
//! its memory after the other uses each page for a moment, and counts find it when the moment is
//! over. Which of the two a program does can be measured: both orders are tried on one page in
//! [`PART`], as in a cache whose size is that tenant's part of the fast memory (Waldspurger and
//! others, FAST 2015: a sample of the pages has the hit ratio of all).
//!
//! - *By recency*: a page with a sample enters, and the page without a sample for the longest time
//!   leaves (LRU). Copies are not made at once, so that of the samples in the observation in which
//!   the page enters, only those count that come a slice later.
//! - *By frequency*: the pages with the largest counts are in it, as far as the counts before the
//!   sample say. It is charged no copies.
//!
//! At each ageing the two are compared. Recency orders a tenant's pages while the misses that it
//! saves are worth more than all of its copies, by the copies' measured time. A service with an SLO
//! keeps its counts: its share follows from how often its pages are used, not when.

use std::time::Duration;

use crate::lists::{ListId, PageLists};
use crate::observe::Sample;
use crate::page::PageTable;
use crate::policy::PlanContext;
use crate::units::{PageId, TenantId, TierId, Timestamp};

/// One page in this many is tried. Chosen, not measured: the thousands of pages of a program leave
/// hundreds, of which some samples each tell one order from the other. A smaller part costs less
/// memory and finds small programs out later.
const PART: u32 = 8;

/// Pages in the fast memory of a tenant's part below which nothing is concluded: with fewer, one
/// page more or less changes the hits by a tenth.
const MIN_FAST: u64 = 10;

/// The part of the evidence that stays at each ageing, as the part of a count does.
const MEMORY: f64 = 0.5;

/// Counts below 2^BINS are told apart by their magnitude, as those of the histogram are.
const BINS: usize = 1 + u16::BITS as usize;

/// What became of one tenant's samples.
#[derive(Debug, Clone, Default)]
struct Trial {
    /// Pages of the part by their count's bin.
    bins: [u64; BINS],
    /// Pages of the part that would be fast.
    fast: u64,
    by_recency: f64,
    by_frequency: f64,
    /// Pages that entered the cache by recency.
    entered: f64,
    recent: bool,
}

impl Trial {
    fn pages(&self) -> u64 {
        self.bins.iter().sum()
    }

    /// The chance that a page with a count in this bin is among the most counted.
    fn among_most_counted(&self, bin: usize) -> f64 {
        let above: u64 = self.bins[bin + 1..].iter().sum();
        let left = self.fast.saturating_sub(above) as f64;
        (left / self.bins[bin].max(1) as f64).min(1.0)
    }
}

/// The part of the pages on which both orders are tried.
#[derive(Debug, Clone, Default)]
pub(super) struct Bursts {
    tenants: Vec<Trial>,
    counts: Vec<u16>,
    /// The observation in which each page entered the cache by recency.
    entered: Vec<u32>,
    /// Each tenant's cache by recency.
    caches: PageLists,
    observations: u32,
    observed: Timestamp,
    /// The part of an observation's time that follows the copies of its start.
    later: f64,
}

impl Bursts {
    /// The page's place in the part.
    fn place(page: PageId) -> Option<PageId> {
        page.0.is_multiple_of(PART).then_some(PageId(page.0 / PART))
    }

    fn trial(&mut self, tenant: TenantId) -> &mut Trial {
        if self.tenants.len() <= tenant.index() {
            self.tenants.resize_with(tenant.index() + 1, Trial::default);
        }
        &mut self.tenants[tenant.index()]
    }

    /// Returns true while recency orders this tenant's pages.
    pub(super) fn recent(&self, tenant: TenantId) -> bool {
        self.tenants.get(tenant.index()).is_some_and(|trial| trial.recent)
    }

    /// Returns true while recency orders any tenant's pages.
    pub(super) fn any_recent(&self) -> bool {
        self.tenants.iter().any(|trial| trial.recent)
    }

    /// Adds a new page.
    pub(super) fn start(&mut self, page: PageId, tenant: TenantId) {
        let Some(place) = Self::place(page) else { return };
        if self.counts.len() <= place.index() {
            self.counts.resize(place.index() + 1, 0);
            self.entered.resize(place.index() + 1, 0);
        }
        self.counts[place.index()] = 0;
        self.trial(tenant).bins[0] += 1;
    }

    /// Removes a freed page.
    pub(super) fn end(&mut self, page: PageId, tenant: TenantId) {
        let Some(place) = Self::place(page) else { return };
        let bin = bin(self.counts[place.index()]);
        self.trial(tenant).bins[bin] -= 1;
        if self.caches.contains(place) {
            self.caches.remove(cache_of(tenant), place, 1);
        }
    }

    /// Starts an observation. `slice` is the time after which a page's copy is made.
    pub(super) fn observe(&mut self, now: Timestamp, slice: Duration) {
        let passed = now.since(self.observed).as_secs_f64().max(1e-9);
        self.later = (1.0 - slice.as_secs_f64() / passed).max(0.0);
        self.observed = now;
        self.observations = self.observations.wrapping_add(1);
    }

    /// Tries both orders on a sample of a page that was started.
    pub(super) fn sample(&mut self, sample: &Sample, pages: &PageTable) {
        let Some(place) = Self::place(sample.page) else { return };
        let (tenant, index) = (pages.tenant(sample.page), place.index());
        let (count, cache) = (self.counts[index], cache_of(tenant));
        let (mut hit, mut enters) = (1.0, false);
        if self.caches.contains(place) {
            if self.entered[index] == self.observations {
                hit = self.later;
            }
            self.caches.remove(cache, place, 1);
        } else {
            (hit, enters) = (0.0, true);
            self.entered[index] = self.observations;
        }
        self.caches.push_head(cache, place, 1);
        let trial = &mut self.tenants[tenant.index()];
        while self.caches.len(cache) > trial.fast.max(1)
            && let Some(oldest) = self.caches.tail(cache)
        {
            self.caches.remove(cache, oldest, 1);
        }
        trial.by_recency += hit;
        trial.entered += f64::from(u8::from(enters));
        trial.by_frequency += trial.among_most_counted(bin(count));
        trial.bins[bin(count)] -= 1;
        trial.bins[bin(count.saturating_add(1))] += 1;
        self.counts[index] = count.saturating_add(1);
    }

    /// Compares both orders, with so many misses per sample, and halves the counts. `fast_part` is
    /// the part of each tenant's memory that is fast.
    pub(super) fn age(
        &mut self,
        period: f64,
        fast_part: impl Fn(TenantId) -> f64,
        is_counted: impl Fn(PageId) -> bool,
        ctx: &PlanContext<'_>,
    ) {
        let latency = |tier: TierId| ctx.topology.tier(tier).load_latency.as_secs_f64();
        let saved = latency(ctx.topology.slowest()) - latency(TierId::FASTEST);
        let frames = |pages: f64, all: u64| pages * all as f64;
        for (i, trial) in self.tenants.iter_mut().enumerate() {
            let tenant = TenantId(i as u16);
            let per_page = ctx.resident(tenant).0 / (trial.pages() * u64::from(PART)).max(1);
            let gain = (trial.by_recency - trial.by_frequency) * period * saved;
            // A page that comes needs one that goes: two copies.
            let copies = frames(2.0 * trial.entered, per_page.max(1));
            let paid = ctx.move_cost.map(|cost| copies * cost.as_secs_f64());
            let has_slo = ctx.specs.get(i).is_some_and(|spec| spec.slo.is_some());
            let enough = trial.fast >= MIN_FAST && trial.fast < trial.pages();
            trial.recent = !has_slo && enough && paid.is_some_and(|paid| gain > paid);
            trial.fast = (trial.pages() as f64 * fast_part(tenant)) as u64;
            trial.by_recency *= MEMORY;
            trial.by_frequency *= MEMORY;
            trial.entered *= MEMORY;
            trial.bins = [0; BINS];
        }
        for (index, count) in self.counts.iter_mut().enumerate() {
            let page = PageId(index as u32 * PART);
            if is_counted(page) {
                *count /= 2;
                self.tenants[ctx.pages.tenant(page).index()].bins[bin(*count)] += 1;
            }
        }
    }
}

/// The list of a tenant's pages in the cache by recency.
fn cache_of(tenant: TenantId) -> ListId {
    ListId(u32::from(tenant.0))
}

fn bin(count: u16) -> usize {
    count.checked_ilog2().map_or(0, |log| 1 + log as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::testing::PolicyFixture;
    use crate::tenant::TenantSpec;
    use crate::units::Pages;

    /// A program of 1,600 pages, a quarter of which are fast, with a sample of a page of the part
    /// in each millisecond.
    struct Tried {
        machine: PolicyFixture,
        bursts: Bursts,
        now: u64,
    }

    impl Tried {
        fn new(move_cost: Option<Duration>) -> Self {
            let mut machine = PolicyFixture::new(2);
            machine.free = vec![Pages(1600); 2];
            machine.allocated_by(0, 0..400, 0).allocated_by(0, 400..1600, 1);
            machine.move_cost = move_cost;
            let mut bursts = Bursts::default();
            (0..1600).for_each(|page| bursts.start(PageId(page), TenantId(0)));
            Self { machine, bursts, now: 0 }
        }

        /// Runs four seconds, in which `used` names the page of the part that is used.
        fn interval(&mut self, used: impl Fn(u64) -> u32) -> bool {
            for _ in 0..40 {
                self.now += 100;
                let slice = Duration::from_millis(20);
                self.bursts.observe(Timestamp(self.now * 1_000_000), slice);
                for i in self.now - 100..self.now {
                    let page = PageId(used(i) % 200 * PART);
                    let sample = Sample { page, tier: TierId(0), write: false };
                    self.bursts.sample(&sample, &self.machine.pages);
                }
            }
            self.bursts.age(200.0, |_| 0.25, |_| true, &self.machine.context());
            self.bursts.recent(TenantId(0))
        }

        fn decided(&mut self, used: impl Fn(u64) -> u32) -> bool {
            (0..4).map(|_| self.interval(&used)).last().unwrap()
        }
    }

    /// Bits of a product with the golden ratio.
    fn chance(i: u64) -> u32 {
        (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32
    }

    /// Half a second each on forty pages, then on the next forty.
    fn burst(i: u64) -> u32 {
        (i / 500) as u32 * 40 + chance(i) % 40
    }

    const CHEAP: Option<Duration> = Some(Duration::from_nanos(100));

    #[test]
    fn bursts_are_ordered_by_recency() {
        assert!(Tried::new(CHEAP).decided(burst));
    }

    #[test]
    fn steady_use_is_ordered_by_frequency() {
        let steady = |i: u64| if i % 4 < 3 { chance(i) % 50 } else { chance(i) % 200 };
        assert!(!Tried::new(CHEAP).decided(steady));
        assert!(!Tried::new(CHEAP).decided(chance), "all alike");
    }

    #[test]
    fn dear_copies_keep_order_by_frequency() {
        assert!(!Tried::new(Some(Duration::from_millis(1))).decided(burst));
        assert!(!Tried::new(None).decided(burst), "copies of unknown cost");
    }

    #[test]
    fn service_with_slo_keeps_its_counts() {
        let mut tried = Tried::new(CHEAP);
        let slo = Some(Duration::from_millis(20));
        tried.machine.specs.push(TenantSpec { slo, ..TenantSpec::new("service") });
        assert!(!tried.decided(burst));
    }

    #[test]
    fn steady_use_ends_order_by_recency() {
        let mut tried = Tried::new(CHEAP);
        assert!(tried.decided(burst));
        assert!(!tried.decided(|i| if i % 4 < 3 { chance(i) % 50 } else { chance(i) % 200 }));
    }
}
