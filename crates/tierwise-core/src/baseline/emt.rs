//! EMT: pages of a Python program by the hotness of their objects (sections 5.2 to 6.2).
//!
//! The runtime samples its objects and sums up the hotness of each page's. It knows no other pages:
//! one is in its table from the first sample that finds a hot object there. Samples age by
//! equation 1. A round puts the pages into ten buckets of exponentially growing hotness and takes
//! the lowest bucket from which on the slow tier has fewer pages than the fast tier has colder
//! ones; one lower if slow pages are less eager than in the round before (section 6.1). It demotes
//! cold pages as far as hot ones need their memory, and promotes the hot ones. Above the eagerness
//! T a page is demoted the first time that a sample finds it cold, otherwise the second time
//! (section 6.2).
//!
//! Parameters: `samples` (8) between two rounds, the changes that EMT keeps of each object;
//! `pressure` ("1GiB"), the free fast memory below which it starts (`mem_pressure`, section 7.1);
//! the kernel's high watermark stays free. `weight`
//! (0.5) of the last sample, the paper's k, which it does not give: a half ages like MEMTIS's
//! halving; `eager_above` (-2.76), the paper's T, which it does not give: the value that
//! `tierwise.emt` was profiled to.

use std::collections::VecDeque;

use crate::config::{ConfigError, Section};
use crate::migrate::{Cause, ChargeTo, MigrationPlan, Move};
use crate::observe::{Observation, Signals};
use crate::page::PageTable;
use crate::policy::{PlanContext, Policy};
use crate::registry::BuildContext;
use crate::topology::WatermarkLevel;
use crate::units::{Bytes, PageId, Pages, TierId, Timestamp};

/// The paper's number of buckets.
const BUCKETS: usize = 10;

/// Rounds whose readings a z-score compares with. The paper says "recent"; `tierwise.emt` has as
/// many.
const REMEMBERED: usize = 16;

/// Samples in a row that find a page cold before lazy demotion.
const LAZY: u8 = 2;

/// A page's state.
#[derive(Debug, Clone, Copy, Default)]
struct PageState {
    /// It has had objects: only such pages count, and move.
    listed: bool,
    hotness: f64,
    /// Rounds in a row in which it was cold.
    cold: u8,
}

/// A reading over time (equation 3).
#[derive(Debug, Default)]
struct Series(VecDeque<f64>);

impl Series {
    /// The z-score of a value against those before it; zero while there are too few.
    fn z_score(&mut self, value: f64) -> f64 {
        let n = self.0.len() as f64;
        let mean = self.0.iter().sum::<f64>() / n.max(1.0);
        let squares: f64 = self.0.iter().map(|x| (x - mean) * (x - mean)).sum();
        let deviation = (squares / n.max(1.0)).sqrt();
        let score =
            if self.0.len() >= 2 && deviation > 0.0 { (value - mean) / deviation } else { 0.0 };
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(value);
        score
    }
}

/// The CPU's counters since the last round.
#[derive(Debug, Default)]
struct Counted {
    misses: f64,
    slow: f64,
    instructions: f64,
    since: Timestamp,
}

/// The policy.
#[derive(Debug)]
pub(super) struct Emt {
    samples: u32,
    pressure: Pages,
    weight: f64,
    eager_above: f64,
    pages: Vec<PageState>,
    /// Fast memory has run short.
    started: bool,
    /// Samples since the last round.
    taken: u32,
    counted: Counted,
    llc_miss: Series,
    bandwidth: Series,
    eagerness: f64,
}

impl Emt {
    /// Reads its parameters.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub(super) fn build(
        section: &Section<'_>,
        ctx: &BuildContext<'_>,
    ) -> Result<Self, ConfigError> {
        let pressure = section.bytes_or("pressure", Bytes(1 << 30))?;
        Ok(Self {
            samples: section.whole_or("samples", 8, 1..=1000)? as u32,
            pressure: pressure.in_pages(ctx.topology.page_size),
            weight: section.number_or("weight", 0.5, 0.01..=1.0)?,
            eager_above: section.number_or("eager_above", -2.76, -1000.0..=1000.0)?,
            pages: Vec::new(),
            started: false,
            taken: 0,
            counted: Counted::default(),
            llc_miss: Series::default(),
            bandwidth: Series::default(),
            eagerness: 0.0,
        })
    }

    fn state(&mut self, page: PageId) -> &mut PageState {
        if page.index() >= self.pages.len() {
            self.pages.resize(page.index() + 1, PageState::default());
        }
        &mut self.pages[page.index()]
    }

    /// Equation 1 for each sample.
    fn age(&mut self, obs: &Observation) {
        let kept = (1.0 - self.weight).powi(obs.object_samples as i32);
        self.pages.iter_mut().for_each(|page| page.hotness *= kept);
        for heat in &obs.object_heat {
            let weighted = self.weight * heat.hotness;
            let state = self.state(heat.page);
            state.listed = true;
            state.hotness += weighted;
        }
    }

    /// Equation 2: the share of pages that is fast, times the z-scores of the misses and of the
    /// bandwidth to the slow tier. Loads are not counted here, so the misses are per instruction; a
    /// z-score has no unit.
    fn eagerness(&mut self, now: Timestamp, fast_share: f64) -> f64 {
        let counted = std::mem::take(&mut self.counted);
        let seconds = now.since(counted.since).as_secs_f64();
        self.counted.since = now;
        let per = |count: f64, of: f64| if of > 0.0 { count / of } else { 0.0 };
        let misses = self.llc_miss.z_score(per(counted.misses, counted.instructions));
        fast_share * misses * self.bandwidth.z_score(per(counted.slow, seconds))
    }

    /// A round: threshold, demotion, promotion.
    fn round(&mut self, now: Timestamp, ctx: &mut PlanContext<'_>, plan: &mut MigrationPlan) {
        let slowest = ctx.topology.slowest();
        let (mut fast, mut slow) = ([0u64; BUCKETS], [0u64; BUCKETS]);
        for (page, state) in self.pages.iter().enumerate().filter(|(_, state)| state.listed) {
            match ctx.pages.tier(PageId(page as u32)) {
                Some(TierId::FASTEST) => fast[bucket(state.hotness)] += 1,
                Some(_) => slow[bucket(state.hotness)] += 1,
                None => {}
            }
        }
        let (in_fast, in_slow) = (fast.iter().sum::<u64>(), slow.iter().sum::<u64>());
        let share = in_fast as f64 / (in_fast + in_slow).max(1) as f64;
        let eagerness = self.eagerness(now, share);
        let h = threshold(&fast, &slow, eagerness, self.eagerness);
        self.eagerness = eagerness;
        let patience = if eagerness > self.eager_above { 1 } else { LAZY };
        let (hot, cold) = self.judge(h, patience, ctx.pages);
        let kept = ctx.topology.tier(TierId::FASTEST).watermarks.at(WatermarkLevel::High);
        let mut room = ctx.free(TierId::FASTEST).saturating_sub(kept);
        let mut cold = cold.into_iter();
        for page in hot {
            let frames = Pages(ctx.pages.frames(page));
            while room < frames {
                let Some(victim) = cold.next() else { return };
                room += Pages(ctx.pages.frames(victim));
                plan.moves.push(moved(victim, slowest, Cause::MakeRoom));
            }
            room -= frames;
            plan.moves.push(moved(page, TierId::FASTEST, Cause::Hot));
        }
    }

    /// The slow pages from bucket h on, hottest first, and the fast ones below it that were cold
    /// often enough, coldest first.
    fn judge(&mut self, h: usize, patience: u8, table: &PageTable) -> (Vec<PageId>, Vec<PageId>) {
        let (mut hot, mut cold) = (Vec::new(), Vec::new());
        for (page, state) in self.pages.iter_mut().enumerate().filter(|(_, state)| state.listed) {
            let page = PageId(page as u32);
            let Some(tier) = table.tier(page) else { continue };
            let is_hot = bucket(state.hotness) >= h;
            state.cold = if is_hot { 0 } else { state.cold.saturating_add(1) };
            if is_hot && tier != TierId::FASTEST {
                hot.push((state.hotness, page));
            } else if state.cold >= patience && tier == TierId::FASTEST {
                cold.push((state.hotness, page));
            }
        }
        hot.sort_by(|a, b| b.0.total_cmp(&a.0));
        cold.sort_by(|a, b| a.0.total_cmp(&b.0));
        let pages = |list: Vec<(f64, PageId)>| list.into_iter().map(|(_, page)| page).collect();
        (pages(hot), pages(cold))
    }
}

/// The bucket of a page: n holds hotness from 2^n to below 2^(n+1), the first also less, the last
/// also more.
fn bucket(hotness: f64) -> usize {
    if hotness < 2.0 { 0 } else { (hotness.log2() as usize).min(BUCKETS - 1) }
}

/// The bucket from which on pages are hot.
fn threshold(fast: &[u64; BUCKETS], slow: &[u64; BUCKETS], eager: f64, before: f64) -> usize {
    if fast.iter().all(|&pages| pages == 0) {
        // Nothing has to be demoted first.
        return 1;
    }
    let frees = |h: &usize| fast[..*h].iter().sum::<u64>() > slow[*h..].iter().sum::<u64>();
    let h = (0..=BUCKETS).find(frees).unwrap_or(BUCKETS);
    if eager < before { h.saturating_sub(1) } else { h }
}

/// EMT's own thread moves pages.
fn moved(page: PageId, to: TierId, cause: Cause) -> Move {
    Move { page, to, charge_to: ChargeTo::Background, cause }
}

impl Policy for Emt {
    fn signals(&self) -> Signals {
        Signals { objects: true, ..Signals::default() }
    }

    fn on_observation(&mut self, _: Timestamp, obs: &Observation, _: &mut PageTable) {
        for allocated in &obs.allocated {
            allocated.pages().for_each(|page| *self.state(page) = PageState::default());
        }
        for tenant in &obs.tenants {
            let misses = |all: &[u64]| all.iter().sum::<u64>() as f64;
            self.counted.misses += misses(&tenant.misses);
            self.counted.slow += misses(tenant.misses.get(1..).unwrap_or_default());
            self.counted.instructions += tenant.instructions as f64;
        }
        if obs.object_samples > 0 {
            self.age(obs);
            self.taken += obs.object_samples;
        }
    }

    fn next_wake(&self) -> Option<Timestamp> {
        None
    }

    fn plan(&mut self, now: Timestamp, ctx: &mut PlanContext<'_>, plan: &mut MigrationPlan) {
        self.started |= ctx.free(TierId::FASTEST) < self.pressure;
        if self.started && self.taken >= self.samples {
            self.taken = 0;
            self.round(now, ctx, plan);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Driven, SECOND};
    use super::*;
    use crate::observe::ObjectHotness;

    const EMT: &str = "algorithm = \"emt\"\nsamples = 1\npressure = \"64KiB\"";

    /// Ninety-six fast pages leave less than the watermark; the slow ones are 100 and above.
    fn full() -> Driven {
        let mut driven = Driven::new(EMT);
        driven.machine.allocated(0..96, 0).allocated(100..150, 1);
        driven
    }

    fn sample(driven: &mut Driven, heat: &[(u32, f64)]) {
        let heat =
            heat.iter().map(|&(page, hotness)| ObjectHotness { page: PageId(page), hotness });
        driven.machine.obs.object_heat.extend(heat);
        driven.machine.obs.object_samples = 1;
    }

    #[test]
    fn hot_pages_displace_the_coldest() {
        let mut driven = full();
        let mut heat: Vec<_> = (0..90).map(|page| (page, 100.0)).collect();
        // Nothing is known of the pages 90 and 91.
        heat.extend((92..96).map(|page| (page, 1.0)));
        heat.extend([(120, 50.0), (130, 200.0)]);
        sample(&mut driven, &heat);
        assert_eq!(driven.plan(SECOND), [(92, 1), (130, 0), (93, 1), (120, 0)]);
    }

    #[test]
    fn nothing_moves_without_sample_or_need() {
        assert_eq!(full().plan(SECOND), []);
        let mut driven = Driven::new(EMT);
        driven.machine.allocated(0..50, 0).allocated(100..110, 1);
        sample(&mut driven, &[(105, 100.0)]);
        assert_eq!(driven.plan(SECOND), [], "50 pages are free, and 16 are the pressure");
    }

    /// With as many hot pages in slow memory as cold ones in fast, a higher bucket is needed.
    #[test]
    fn threshold_keeps_promotions_below_what_demotion_frees() {
        let mut fast = [0; BUCKETS];
        (fast[0], fast[1], fast[9]) = (5, 3, 2);
        let mut slow = [0; BUCKETS];
        (slow[0], slow[2], slow[9]) = (20, 4, 2);
        assert_eq!(threshold(&fast, &slow, 1.0, 1.0), 2);
        assert_eq!(threshold(&fast, &slow, 0.5, 1.0), 1);
        assert_eq!(threshold(&[0; BUCKETS], &slow, 0.5, 1.0), 1);
        assert_eq!([0.0, 1.9, 2.0, 1023.0, 5000.0].map(bucket), [0, 0, 1, 9, 9]);
    }

    #[test]
    fn z_scores_compare_with_the_readings_before() {
        let mut series = Series::default();
        assert_eq!([1.0, 3.0, 4.0].map(|value| series.z_score(value)), [0.0, 0.0, 2.0]);
    }
}
