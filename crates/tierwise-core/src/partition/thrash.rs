//! Thrash control (Equilibria, section IV-F). A fixed-size table has a sample of the recently
//! promoted pages. A page that is demoted while it is in the table and young is a thrash event of
//! its tenant. At the end of every period of 5 s, the promotion of a tenant in its steady state
//! whose events exceed a rate is halved, and doubled back when they no longer do. A tenant is
//! steady if its active pages and its freed pages both change by less than a part of its memory per
//! second.
//!
//! The paper empties the table at the end of each period. A page that is promoted in one period and
//! demoted in the next is then no event, and a `t_resident` longer than a period has no effect.
//! Here the end of a period removes only the records that are too old to become events. So the
//! table has no blind time, and every `t_resident` means what it says.
//!
//! ```
//! use tierwise_core::partition::ThrashTable;
//! use tierwise_core::units::{PageId, Pages, Timestamp};
//! use std::time::Duration;
//!
//! let mut table = ThrashTable::new(1024);
//! let sampled = (0..).map(PageId).find(|&page| ThrashTable::samples(page, Pages(1))).unwrap();
//! let (at, young) = (Timestamp, Duration::from_secs(2));
//! table.promoted(sampled, Pages(1), at(0));
//! assert!(table.demoted(sampled, Pages(1), at(1_000_000_000), young));
//! assert!(!table.demoted(sampled, Pages(1), at(1_000_000_000), young), "counted once");
//! table.promoted(sampled, Pages(1), at(0));
//! assert!(!table.demoted(sampled, Pages(1), at(2_000_000_000), young), "it stayed long enough");
//! // A large page stands for itself.
//! assert!((0..99).all(|page| ThrashTable::samples(PageId(page), Pages(512))));
//! ```

use std::time::Duration;

use crate::config::{ConfigError, Section};
use crate::migrate::MoveOutcome;
use crate::observe::Observation;
use crate::page::PageTable;
use crate::policy::PlanContext;
use crate::share::Rule;
use crate::stage::Estimator;
use crate::ticker::Ticker;
use crate::units::{PageId, Pages, TenantId, Timestamp};

/// The default number of slots: 1 MiB. With one base page in [`SAMPLE`] followed, 200 000
/// promotions per second, twice the paper's rate (section III-F), leave 62 500 records in 5 s: half
/// of the slots. A recipe with a longer residence needs more of them.
const SLOTS: u64 = 1 << 17;

/// The largest table that a recipe can ask for: 128 MiB.
const MAX_SLOTS: u64 = 1 << 24;

/// One base page in 16 is followed. A page of 16 base pages or more is always followed. With one in
/// 64, graph-sssp-urand's few events a second are judged by chance, and it is 0.1 to 1 % slower.
const SAMPLE: u64 = 16;

/// A page and the time of its promotion, in eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Record {
    page: PageId,
    /// Milliseconds, modulo 2^32 (49 days).
    at_ms: u32,
}

impl Record {
    /// No page has this number: a page table has fewer entries.
    const EMPTY: Self = Self { page: PageId(u32::MAX), at_ms: 0 };

    fn millis(now: Timestamp) -> u32 {
        (now.0 / 1_000_000) as u32
    }

    fn age(self, now: Timestamp) -> Duration {
        Duration::from_millis(Self::millis(now).wrapping_sub(self.at_ms).into())
    }
}

/// The pages promoted recently, as far as they are followed.
#[derive(Debug, Clone)]
pub struct ThrashTable {
    slots: Vec<Record>,
}

/// The finaliser of splitmix64: neighbouring pages get unrelated slots.
fn hash(page: PageId) -> u64 {
    let x = u64::from(page.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 31)
}

impl ThrashTable {
    /// Makes an empty table. The number of slots is at least one.
    pub fn new(slots: usize) -> Self {
        Self { slots: vec![Record::EMPTY; slots.max(1)] }
    }

    /// The base pages for which a page of `frames` base pages stands, if it is followed.
    fn weight(frames: Pages) -> u64 {
        frames.0.max(SAMPLE)
    }

    /// Returns true if a page of `frames` base pages is among those followed: one in as many as
    /// make 16 base pages.
    pub fn samples(page: PageId, frames: Pages) -> bool {
        hash(page).is_multiple_of(SAMPLE.div_ceil(frames.0.max(1)))
    }

    fn slot(&mut self, page: PageId) -> &mut Record {
        let slots = self.slots.len() as u64;
        &mut self.slots[((hash(page) / SAMPLE) % slots) as usize]
    }

    /// Records a promotion. The page replaces any other page in its slot.
    pub fn promoted(&mut self, page: PageId, frames: Pages, now: Timestamp) {
        if Self::samples(page, frames) {
            *self.slot(page) = Record { page, at_ms: Record::millis(now) };
        }
    }

    /// Records a demotion. Returns true if the page was promoted less than `resident` ago: a thrash
    /// event.
    pub fn demoted(
        &mut self,
        page: PageId,
        frames: Pages,
        now: Timestamp,
        resident: Duration,
    ) -> bool {
        if !Self::samples(page, frames) {
            return false;
        }
        let slot = self.slot(page);
        let found = slot.page == page && slot.age(now) < resident;
        if slot.page == page {
            *slot = Record::EMPTY;
        }
        found
    }

    /// Removes the records of promotions that were at least `resident` ago.
    pub fn forget(&mut self, now: Timestamp, resident: Duration) {
        let old = |slot: &&mut Record| slot.age(now) >= resident;
        self.slots.iter_mut().filter(old).for_each(|slot| *slot = Record::EMPTY);
    }
}

/// The minimum of a tenant's promotion: a tenant whose pages all thrash still finds the few that do
/// not. Chosen, not measured: of the paper's 100 000 promotions per second it leaves 24, of the 655
/// 360 that the kernel's scan makes possible 160, both fewer than the default `thrash_rate`. A
/// larger minimum lets such a tenant thrash for ever; a smaller one takes more periods to return.
const MIN: f64 = 1.0 / 4096.0;

/// The time between two checks of thrash events, and the time within which a demotion makes a
/// promotion a thrash event (section IV-F; the paper prints the former).
const PERIOD: Duration = Duration::from_secs(5);

/// The longest period and residence in a recipe: an hour.
const MAX_MS: u64 = 3_600_000;

/// The state of one tenant.
#[derive(Debug, Clone, Copy)]
struct Tenant {
    events: u64,
    events_before: u64,
    freed: Pages,
    active_before: Pages,
    promotion: f64,
    rule: Option<Rule>,
}

impl Tenant {
    const NEW: Self = Self {
        events: 0,
        events_before: 0,
        freed: Pages(0),
        active_before: Pages(0),
        promotion: 1.0,
        rule: None,
    };

    /// Handles the end of a period.
    fn judge(&mut self, steady: bool, rate: f64, limit: f64) {
        if rate > limit && steady {
            self.promotion = (self.promotion / 2.0).max(MIN);
            self.rule = Some(Rule::Thrashing { rate, limit, promotion: self.promotion });
        } else if rate <= limit && self.promotion < 1.0 {
            self.promotion = (self.promotion * 2.0).min(1.0);
            self.rule = Some(Rule::Recovering { promotion: self.promotion });
        }
    }
}

/// The thrash events of each tenant, and the part of its rate at which it promotes because of them.
#[derive(Debug, Clone)]
pub(super) struct ThrashControl {
    on: bool,
    resident: Duration,
    limit: f64,
    steady_change: f64,
    period: Ticker,
    last_period: Timestamp,
    table: ThrashTable,
    tenants: Vec<Tenant>,
}

impl ThrashControl {
    /// Reads `thrash_control` (true), `thrash_period_ms` (5000), `thrash_resident_ms` (5000),
    /// `thrash_slots` (131072, of eight bytes), `thrash_rate` (256 base pages per second: two
    /// migrations of each are a thousandth of a core) and `steady_change` (0.05 of the tenant's
    /// memory per second). The paper prints only the period.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub(super) fn read(section: &Section<'_>) -> Result<Self, ConfigError> {
        let on = section.flag_or("thrash_control", true)?;
        if !on {
            let keys = [
                "thrash_period_ms",
                "thrash_resident_ms",
                "thrash_slots",
                "thrash_rate",
                "steady_change",
            ];
            section.refuse_ignored(&keys, "thrash_control is false")?;
        }
        let period = section.millis_or("thrash_period_ms", PERIOD, 1..=MAX_MS)?;
        let slots = section.whole_or("thrash_slots", SLOTS, 1..=MAX_SLOTS)?;
        Ok(Self {
            on,
            resident: section.millis_or("thrash_resident_ms", PERIOD, 1..=MAX_MS)?,
            limit: section.number_or("thrash_rate", 256.0, 0.0..=1e9)?,
            steady_change: section.number_or("steady_change", 0.05, 0.0..=1.0)?,
            period: Ticker::new(Some(period)),
            last_period: Timestamp::ZERO,
            table: ThrashTable::new(slots as usize),
            tenants: Vec::new(),
        })
    }

    fn tenant_mut(&mut self, tenant: TenantId) -> &mut Tenant {
        if self.tenants.len() <= tenant.index() {
            self.tenants.resize(tenant.index() + 1, Tenant::NEW);
        }
        &mut self.tenants[tenant.index()]
    }

    /// Counts the pages that tenants freed.
    pub(super) fn on_observation(&mut self, obs: &Observation, pages: &PageTable) {
        for &page in obs.freed.iter().filter(|&&page| pages.tier(page).is_some()) {
            let frames = Pages(pages.frames(page));
            self.tenant_mut(pages.tenant(page)).freed += frames;
        }
    }

    /// Follows promotions, and counts those that were demoted again soon.
    pub(super) fn on_outcomes(
        &mut self,
        now: Timestamp,
        outcomes: &[MoveOutcome],
        pages: &PageTable,
    ) {
        for outcome in outcomes.iter().filter(|o| o.result.is_ok()) {
            let (page, frames) = (outcome.page, Pages(pages.frames(outcome.page)));
            if outcome.from.is_some_and(|from| outcome.to < from) {
                self.table.promoted(page, frames, now);
            } else if self.table.demoted(page, frames, now, self.resident) {
                self.tenant_mut(pages.tenant(page)).events += ThrashTable::weight(frames);
            }
        }
    }

    /// At the end of a period, halves the promotion of tenants that thrash in their steady state,
    /// and doubles it for tenants that no longer do.
    pub(super) fn judge(
        &mut self,
        now: Timestamp,
        ctx: &PlanContext<'_>,
        estimator: &dyn Estimator,
    ) {
        if !self.on || !self.period.take(now) {
            return;
        }
        let seconds = now.since(self.last_period).as_secs_f64().max(1e-9);
        self.last_period = now;
        self.table.forget(now, self.resident);
        let (limit, steady_change) = (self.limit, self.steady_change);
        for tenant in 0..ctx.tenants.len() {
            let id = TenantId(tenant as u16);
            let (active, resident) = (estimator.active(id), ctx.resident(id).0.max(1) as f64);
            let t = self.tenant_mut(id);
            let changed = active.0.abs_diff(t.active_before.0) as f64 / resident / seconds;
            let freed = t.freed.0 as f64 / resident / seconds;
            let rate = (t.events - t.events_before) as f64 / seconds;
            t.judge(changed < steady_change && freed < steady_change, rate, limit);
            (t.events_before, t.active_before, t.freed) = (t.events, active, Pages(0));
        }
    }

    /// The part of its rate at which a tenant promotes, and the rule if that is not all of it.
    pub(super) fn promotion(&self, tenant: TenantId) -> (f64, Option<Rule>) {
        let t = self.tenants.get(tenant.index()).copied().unwrap_or(Tenant::NEW);
        (t.promotion, t.rule.filter(|_| t.promotion < 1.0))
    }

    /// Returns a tenant's thrash events so far, in base pages.
    pub(super) fn events(&self, tenant: TenantId) -> u64 {
        self.tenants.get(tenant.index()).map_or(0, |t| t.events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::testing::PolicyFixture;
    use crate::config::Document;
    use crate::estimate;
    use crate::observe::TenantReading;
    use crate::registry::BuildContext;
    use crate::units::TierId;

    const SECOND: u64 = 1_000_000_000;

    fn control(text: &str) -> Result<ThrashControl, ConfigError> {
        let document = Document::parse("t.toml", text).unwrap();
        ThrashControl::read(&document.root())
    }

    /// Promotes `rate` pages per second in rounds of 10 ms, demotes each `residence_ms` later, and
    /// ends periods of 5 s. Returns the control after `seconds`.
    fn thrashed(text: &str, rate: u32, residence_ms: u64, seconds: u64) -> ThrashControl {
        let mut control = control(text).unwrap();
        let (round, mut machine) = (rate / 100, PolicyFixture::new(2));
        machine.free = vec![Pages(1 << 30); 2];
        let pages = (residence_ms / 10 + 2) as u32 * round;
        machine.allocated(0..pages, 0);
        machine.tenants = vec![TenantReading::default()];
        let document = Document::parse("t.toml", "").unwrap();
        let build = BuildContext::new(&machine.topology, 0);
        let row = estimate::TABLE.iter().find(|row| row.name == "none").unwrap();
        let estimator = (row.build)(&document.root(), &build).unwrap();
        let [fast, slow] = [TierId(0), TierId(1)];
        for step in 0..seconds * 100 {
            let now = Timestamp(step * 10_000_000);
            let moves = |step: u64, from, to| {
                (0..round).map(move |i| {
                    let page = PageId((step as u32).wrapping_mul(round).wrapping_add(i) % pages);
                    MoveOutcome { page, from: Some(from), to, result: Ok(()) }
                })
            };
            let mut outcomes: Vec<_> = moves(step, slow, fast).collect();
            if let Some(old) = step.checked_sub(residence_ms / 10) {
                outcomes.extend(moves(old, fast, slow));
            }
            control.on_outcomes(now, &outcomes, &machine.pages);
            control.judge(now, &machine.context(), estimator.as_ref());
        }
        control
    }

    /// Section III-F's rate of single pages, and half as much again.
    #[test]
    fn events_are_counted_at_the_papers_rates() {
        for rate in [100_000, 150_000] {
            let control = thrashed("", rate, 2200, 10);
            let expected = f64::from(rate) * (10.0 - 2.2);
            let counted = control.events(TenantId(0)) as f64 / expected;
            // Promotions that share a slot hide one another: 100 000 / 16 * 2.2 s in 131 072 slots.
            assert!((0.8..1.02).contains(&counted), "{counted} of the events at {rate} per second");
            assert_eq!(control.promotion(TenantId(0)).0, 0.5, "of two periods one had events");
        }
    }

    /// The same rate with the recipe's residence and slots: 187 500 records in 524 288 slots.
    #[test]
    fn events_are_counted_for_half_a_minute() {
        let text = "thrash_resident_ms = 30000\nthrash_slots = 524288";
        let control = thrashed(text, 100_000, 20_000, 25);
        let counted = control.events(TenantId(0)) as f64 / (100_000.0 * 5.0);
        assert!((0.75..1.02).contains(&counted), "{counted} of the events");
    }

    #[test]
    fn residence_may_exceed_a_period() {
        let slow = |resident: u64| {
            let text = format!("thrash_resident_ms = {resident}\nthrash_slots = 1048576");
            thrashed(&text, 20_000, 12_000, 20).events(TenantId(0))
        };
        assert_eq!(slow(12_000), 0, "each page stays for 12 s");
        let counted = slow(12_100) as f64 / (20_000.0 * 8.0);
        assert!((0.9..1.05).contains(&counted), "{counted} of the events");
    }

    #[test]
    fn small_table_loses_most_events() {
        let counted = thrashed("thrash_slots = 64", 20_000, 2000, 5).events(TenantId(0)) as f64;
        assert!(counted < 0.1 * 20_000.0 * 3.0, "{counted}");
    }

    #[test]
    fn promotion_is_halved_once_a_period() {
        for (period, halved) in [(1000, 8), (5000, 1), (20_000, 0)] {
            let text = format!("thrash_period_ms = {period}");
            let promotion = thrashed(&text, 10_000, 1000, 10).promotion(TenantId(0)).0;
            assert_eq!(promotion, 0.5f64.powi(halved), "a period of {period} ms");
        }
    }

    #[test]
    fn keys_name_what_they_allow() {
        let error = control("thrash_resident_ms = 3600001").map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("found 3600001; allowed: a whole number from 1 to"), "{error}");
        assert_eq!(control("thrash_resident_ms = 30000").unwrap().resident.as_secs(), 30);
    }

    #[test]
    fn time_of_a_record_survives_its_wrap() {
        let mut table = ThrashTable::new(16);
        let page = (0..).map(PageId).find(|&page| ThrashTable::samples(page, Pages(1))).unwrap();
        // A second before and after 2^32 ms.
        let turn = (1u64 << 32) * 1_000_000;
        table.promoted(page, Pages(1), Timestamp(turn - SECOND));
        table.forget(Timestamp(turn), Duration::from_secs(3));
        let young = Duration::from_millis(2500);
        assert!(table.demoted(page, Pages(1), Timestamp(turn + SECOND), young));
    }
}
