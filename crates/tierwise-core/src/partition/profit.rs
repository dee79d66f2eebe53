//! Profit control: detects tenants whose promotions do not pay. It follows promoted and demoted
//! pages in a fixed-size table and counts their samples. If the promoted pages are accessed far
//! less often than the demoted ones, the pages should have stayed where they were. A workload that
//! reads its memory in a circle makes the page that it just left seem hot, but returns to that page
//! last. Such a tenant's promotion is halved each second. It is doubled back when the pages that
//! still move pay, or are too few to tell.
//!
//! If samples are ticks ([`Observation::samples_are_ticks`]) promotion must be better than chance:
//! pages that were exchanged because their ticks happened to differ are used equally afterwards.
//!
//! ```
//! use tierwise_core::partition::{WORSE, pays};
//!
//! // (samples, page-seconds) of the promoted pages and of the demoted ones.
//! assert_eq!(pays((900.0, 100.0), (100.0, 100.0), WORSE), Some(true));
//! assert_eq!(pays((100.0, 100.0), (240.0, 100.0), WORSE), Some(false));
//! assert_eq!(pays((3.0, 100.0), (1.0, 100.0), WORSE), None, "too few to tell");
//! ```

use std::time::Duration;

use crate::migrate::MoveOutcome;
use crate::observe::Observation;
use crate::page::PageTable;
use crate::units::{PageId, TenantId, Timestamp};

/// Slots of the table: 256 KiB. Later moves replace earlier ones.
const SLOTS: usize = 1 << 14;

/// Promotion does not pay if promoted pages are accessed less than this part as often as demoted
/// ones. Reading in a circle has a ratio of 0.5 to 0.65 in its first rounds and less later. Graph
/// traversals, which exchanges serve well, have 0.6 to 1 for seconds, because their promoted pages
/// are accessed in bursts that are over when they are followed.
pub const WORSE: f64 = 0.5;

/// The same ratio for ticks. Pages that are used equally have 1; a hot set that moves has 3 and
/// more on DAMON's counts.
const NO_BETTER: f64 = 1.5;

/// The minimum number of samples for a decision: their standard deviation is a tenth of them.
const MIN_SAMPLES: f64 = 100.0;

/// The part of the counts that stays after each decision, once per second: a workload that loads
/// its data and then serves requests behaves differently within two seconds.
const MEMORY: f64 = 0.5;

/// The time for which a page is followed: an exchange that does not pay within it is not worth its
/// copies, and older moves do not count against present ones.
const FOLLOW: Duration = Duration::from_secs(5);

/// The factor per second by which promotion grows while there are too few samples to decide. So a
/// tenant whose exchanges do not pay makes just enough of them for a decision.
const RECOVERY: f64 = 2.0;

/// The minimum of a tenant's promotion, from which it grows again: eight halvings, so that it is
/// all back after eight seconds. Chosen, not measured. A larger minimum makes more exchanges that
/// do not pay; a smaller one takes longer to find that they pay again.
const MIN: f64 = 1.0 / 256.0;

/// Returns true if promotion paid, from samples and page-seconds of promoted and of demoted pages:
/// promoted ones have to be sampled more than `min_ratio` times as often as demoted ones. `None` if
/// there are too few samples to tell.
pub fn pays(promoted: (f64, f64), demoted: (f64, f64), min_ratio: f64) -> Option<bool> {
    let enough = promoted.0 + demoted.0 >= MIN_SAMPLES && promoted.1 > 0.0 && demoted.1 > 0.0;
    enough.then(|| promoted.0 / promoted.1 > min_ratio * demoted.0 / demoted.1)
}

/// A page that moved.
#[derive(Debug, Clone, Copy)]
struct Followed {
    page: PageId,
    tenant: TenantId,
    promoted: bool,
    at: Timestamp,
}

/// One side of a tenant's moves.
#[derive(Debug, Clone, Copy, Default)]
struct Side {
    /// Pages in the table.
    followed: u32,
    samples: f64,
    page_seconds: f64,
}

/// The state of one tenant.
#[derive(Debug, Clone, Copy)]
struct Tenant {
    /// The demoted pages, and the promoted ones.
    sides: [Side; 2],
    promotion: f64,
}

impl Tenant {
    const NEW: Self =
        Self { sides: [Side { followed: 0, samples: 0.0, page_seconds: 0.0 }; 2], promotion: 1.0 };

    fn judge(&mut self, seconds: f64, min_ratio: f64) {
        for side in &mut self.sides {
            side.page_seconds += f64::from(side.followed) * seconds;
        }
        let [demoted, promoted] = self.sides.map(|side| (side.samples, side.page_seconds));
        match pays(promoted, demoted, min_ratio) {
            Some(true) => self.promotion = (self.promotion * 2.0).min(1.0),
            Some(false) => self.promotion = (self.promotion / 2.0).max(MIN),
            None => self.promotion = (self.promotion * RECOVERY).min(1.0),
        }
        for side in &mut self.sides {
            side.samples *= MEMORY;
            side.page_seconds *= MEMORY;
        }
    }
}

/// Follows pages that moved.
#[derive(Debug, Clone)]
pub(super) struct Profit {
    slots: Vec<Option<Followed>>,
    tenants: Vec<Tenant>,
    ticks: bool,
    judged: Timestamp,
}

impl Default for Profit {
    fn default() -> Self {
        Self {
            slots: vec![None; SLOTS],
            tenants: Vec::new(),
            ticks: false,
            judged: Timestamp::ZERO,
        }
    }
}

impl Profit {
    fn tenant_mut(&mut self, tenant: TenantId) -> &mut Tenant {
        if self.tenants.len() <= tenant.index() {
            self.tenants.resize(tenant.index() + 1, Tenant::NEW);
        }
        &mut self.tenants[tenant.index()]
    }

    fn forget(&mut self, slot: usize) {
        if let Some(old) = self.slots[slot].take() {
            self.tenant_mut(old.tenant).sides[usize::from(old.promoted)].followed -= 1;
        }
    }

    /// Counts the samples of followed pages, and removes freed pages.
    pub(super) fn on_observation(&mut self, obs: &Observation) {
        if !obs.samples.is_empty() {
            self.ticks = obs.samples_are_ticks;
        }
        for sample in &obs.samples {
            let slot = sample.page.index() % SLOTS;
            if let Some(known) = self.slots[slot].filter(|known| known.page == sample.page) {
                self.tenant_mut(known.tenant).sides[usize::from(known.promoted)].samples += 1.0;
            }
        }
        for &page in &obs.freed {
            let slot = page.index() % SLOTS;
            if self.slots[slot].is_some_and(|known| known.page == page) {
                self.forget(slot);
            }
        }
    }

    /// Follows the pages that moved.
    pub(super) fn on_outcomes(
        &mut self,
        now: Timestamp,
        outcomes: &[MoveOutcome],
        pages: &PageTable,
    ) {
        for outcome in outcomes.iter().filter(|o| o.result.is_ok()) {
            let Some(from) = outcome.from else { continue };
            let slot = outcome.page.index() % SLOTS;
            self.forget(slot);
            let tenant = pages.tenant(outcome.page);
            let promoted = outcome.to < from;
            self.tenant_mut(tenant).sides[usize::from(promoted)].followed += 1;
            self.slots[slot] = Some(Followed { page: outcome.page, tenant, promoted, at: now });
        }
    }

    /// Decides for each tenant from the moves and samples since the last decision.
    pub(super) fn judge(&mut self, now: Timestamp) {
        let seconds = now.since(self.judged).as_secs_f64();
        self.judged = now;
        for slot in 0..SLOTS {
            if self.slots[slot].is_some_and(|known| now.since(known.at) > FOLLOW) {
                self.forget(slot);
            }
        }
        let min_ratio = if self.ticks { NO_BETTER } else { WORSE };
        self.tenants.iter_mut().for_each(|tenant| tenant.judge(seconds, min_ratio));
    }

    /// The part of its rate at which a tenant promotes.
    pub(super) fn promotion(&self, tenant: TenantId) -> f64 {
        self.tenants.get(tenant.index()).map_or(1.0, |t| t.promotion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Sample;
    use crate::page::{Attributes, PageKind};
    use crate::units::TierId;

    const TENANT: TenantId = TenantId(0);

    /// Promotes pages 0..50, demotes 50..100, and samples each page `promoted` or `demoted` times
    /// in each of `seconds`.
    fn after(seconds: u64, promoted: usize, demoted: usize) -> Profit {
        sampled(seconds, promoted, demoted, false)
    }

    fn sampled(seconds: u64, promoted: usize, demoted: usize, ticks: bool) -> Profit {
        let (mut profit, mut pages) = (Profit::default(), PageTable::default());
        let mut outcomes = Vec::new();
        for page in (0..100).map(PageId) {
            let to = TierId(u8::from(page.0 >= 50));
            pages.insert(
                page,
                Attributes { tenant: TENANT, tier: to, kind: PageKind::Anon, order: 0 },
            );
            outcomes.push(MoveOutcome { page, from: Some(TierId(1 - to.0)), to, result: Ok(()) });
        }
        profit.on_outcomes(Timestamp::ZERO, &outcomes, &pages);
        let mut obs = Observation { samples_are_ticks: ticks, ..Observation::default() };
        for page in 0..100 {
            let times = if page < 50 { promoted } else { demoted };
            let sample = Sample { page: PageId(page), tier: TierId(0), write: false };
            obs.samples.extend(std::iter::repeat_n(sample, times));
        }
        for second in 1..=seconds {
            profit.on_observation(&obs);
            profit.judge(Timestamp(second * 1_000_000_000));
        }
        profit
    }

    #[test]
    fn promotion_continues_where_pages_paid() {
        assert_eq!(after(10, 4, 1).promotion(TENANT), 1.0);
    }

    #[test]
    fn ticks_have_to_distinguish_pages() {
        assert_eq!(after(3, 4, 4).promotion(TENANT), 1.0);
        assert_eq!(sampled(3, 4, 4, true).promotion(TENANT), 0.125);
        assert_eq!(sampled(3, 8, 4, true).promotion(TENANT), 1.0);
    }

    #[test]
    fn unprofitable_promotion_halves_each_second() {
        assert_eq!(after(3, 2, 4).promotion(TENANT), 0.125);
        assert_eq!(after(5, 1, 4).promotion(TENANT), 1.0 / 32.0);
    }

    #[test]
    fn forgotten_losses_let_promotion_resume() {
        let mut profit = after(5, 1, 4);
        for second in 6..20 {
            profit.judge(Timestamp(second * 1_000_000_000));
        }
        assert_eq!(profit.promotion(TENANT), 1.0);
        assert!(profit.slots.iter().all(Option::is_none));
    }

    #[test]
    fn freed_page_is_not_followed() {
        let mut profit = after(1, 2, 2);
        let obs = Observation { freed: (0..100).map(PageId).collect(), ..Observation::default() };
        profit.on_observation(&obs);
        assert_eq!(profit.tenants[0].sides.map(|side| side.followed), [0, 0]);
    }
}
