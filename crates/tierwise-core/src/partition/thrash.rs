//! Thrash control (Equilibria, section IV-F). A fixed-size table has a sample of the recently
//! promoted pages. A page that is demoted while it is in the table and young is a thrash event of
//! its tenant. Every 5 s, the promotion of a tenant in its steady state whose events exceed a rate
//! is halved, and doubled back when they no longer do. A tenant is steady if its active pages and
//! its freed pages both change by less than a part of its memory per second.
//!
//! ```
//! use tierwise_core::partition::ThrashTable;
//! use tierwise_core::units::{PageId, Timestamp};
//! use std::time::Duration;
//!
//! let mut table = ThrashTable::default();
//! let sampled = (0..).map(PageId).find(|&page| ThrashTable::samples(page)).unwrap();
//! table.promoted(sampled, Timestamp(0));
//! let young = Duration::from_secs(2);
//! assert!(table.demoted(sampled, Timestamp(1_000_000_000), young));
//! assert!(!table.demoted(sampled, Timestamp(1_000_000_000), young), "counted once");
//! table.promoted(sampled, Timestamp(0));
//! assert!(!table.demoted(sampled, Timestamp(2_000_000_000), young), "it stayed long enough");
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

/// Slots of the table: 384 KiB, for 16 Ki sampled promotions. With one page in [`SAMPLE`] sampled,
/// a period of 5 s holds the promotions of 50 000 pages per second, as many as one core migrates.
const SLOTS: usize = 1 << 14;

/// One page in 16 is followed.
const SAMPLE: u64 = 16;

/// Pages promoted in this period.
#[derive(Debug, Clone)]
pub struct ThrashTable {
    slots: Vec<Option<(PageId, Timestamp)>>,
}

impl Default for ThrashTable {
    fn default() -> Self {
        Self { slots: vec![None; SLOTS] }
    }
}

/// The finaliser of splitmix64: neighbouring pages get unrelated slots.
fn hash(page: PageId) -> u64 {
    let x = u64::from(page.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 31)
}

impl ThrashTable {
    /// Returns true if a page is among those followed.
    pub fn samples(page: PageId) -> bool {
        hash(page).is_multiple_of(SAMPLE)
    }

    fn slot(&mut self, page: PageId) -> &mut Option<(PageId, Timestamp)> {
        &mut self.slots[(hash(page) / SAMPLE) as usize % SLOTS]
    }

    /// Records a promotion. The page replaces any other page in its slot.
    pub fn promoted(&mut self, page: PageId, now: Timestamp) {
        if Self::samples(page) {
            *self.slot(page) = Some((page, now));
        }
    }

    /// Records a demotion. Returns true if the page was promoted less than `resident` ago: a thrash
    /// event. It stands for 16 pages, as one page in 16 is followed.
    pub fn demoted(&mut self, page: PageId, now: Timestamp, resident: Duration) -> bool {
        if !Self::samples(page) {
            return false;
        }
        let slot = self.slot(page);
        let Some((_, at)) = slot.filter(|(known, _)| *known == page) else { return false };
        *slot = None;
        now.since(at) < resident
    }

    /// Ends a period.
    pub fn clear(&mut self) {
        self.slots.fill(None);
    }
}

/// The minimum of a tenant's promotion: a tenant whose pages all thrash still finds the few that do
/// not. Chosen, not measured: of the 50 000 pages per second that one core migrates it leaves 195,
/// fewer than the default `thrash_rate`. A larger minimum lets such a tenant thrash for ever; a
/// smaller one takes more periods to return.
const MIN: f64 = 1.0 / 256.0;

/// The time between two checks of thrash events (section IV-F).
const PERIOD: Duration = Duration::from_millis(PERIOD_MS);
const PERIOD_MS: u64 = 5000;

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
    /// Reads `thrash_control` (true), `thrash_resident_ms` (5000, the maximum: the table is emptied
    /// after each period and never reaches further back), `thrash_rate` (256 base pages per second:
    /// two migrations of each are a thousandth of a core) and `steady_change` (0.05 of the tenant's
    /// memory per second). The paper prints none of the last three.
    ///
    /// # Errors
    /// A parameter is outside its allowed range.
    pub(super) fn read(section: &Section<'_>) -> Result<Self, ConfigError> {
        let on = section.flag_or("thrash_control", true)?;
        if !on {
            let keys = ["thrash_resident_ms", "thrash_rate", "steady_change"];
            section.refuse_ignored(&keys, "thrash_control is false")?;
        }
        Ok(Self {
            on,
            resident: section.millis_or("thrash_resident_ms", PERIOD, 1..=PERIOD_MS)?,
            limit: section.number_or("thrash_rate", 256.0, 0.0..=1e9)?,
            steady_change: section.number_or("steady_change", 0.05, 0.0..=1.0)?,
            period: Ticker::new(Some(PERIOD)),
            last_period: Timestamp::ZERO,
            table: ThrashTable::default(),
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
            if outcome.from.is_some_and(|from| outcome.to < from) {
                self.table.promoted(outcome.page, now);
            } else if self.table.demoted(outcome.page, now, self.resident) {
                let events = SAMPLE * pages.frames(outcome.page);
                self.tenant_mut(pages.tenant(outcome.page)).events += events;
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
        self.table.clear();
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
    use crate::config::Document;

    #[test]
    fn residence_beyond_a_period_is_refused() {
        let read = |text: &str| {
            let document = Document::parse("t.toml", text).unwrap();
            ThrashControl::read(&document.root()).map(|control| control.resident)
        };
        assert_eq!(read("thrash_resident_ms = 5000").unwrap(), PERIOD);
        let error = read("thrash_resident_ms = 5001").unwrap_err().to_string();
        assert!(error.contains("found 5001; allowed: a whole number from 1 to 5000"), "{error}");
    }
}
