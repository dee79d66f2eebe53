//! Whether a tenant's promotions pay: pages that were promoted and pages that were demoted are
//! followed in a fixed-size table, and the samples that name them are counted. Where the ones are
//! accessed far less often than the others, the pages should have stayed where they were: a program
//! that reads its memory in a circle makes the page that it just left look hot, and it is the last
//! that it will come back to. Such a tenant's promotion is halved each second, and doubled back
//! when the pages that still move are the right ones or too few to tell.
//!
//! Where samples are ticks ([`Observation::samples_are_ticks`]) promotion has to bring more than
//! chance does: pages that were exchanged because their ticks happened to differ are used alike
//! afterwards.
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

/// Slots: 384 KiB. Pages that move later take the place of those that moved before.
const SLOTS: usize = 1 << 14;

/// Promotion does not pay where what was promoted is accessed less than this part as often as what
/// was demoted. Reading in a circle shows 0.5 to 0.65 in its first rounds and less later; graph
/// traversals, which exchanges serve well, 0.6 to 1 for seconds on end, because what they promote
/// is accessed in bursts that are over when it is followed.
pub const WORSE: f64 = 0.5;

/// The same of ticks. Used alike is 1; a hot set that moves shows 3 and more on DAMON's counts.
const NO_BETTER: f64 = 1.5;

/// With fewer samples nothing is judged: their standard deviation is a tenth of them.
const MIN_SAMPLES: f64 = 100.0;

/// What is left of the counts after each judgement, once a second: a program that loads its data
/// and then serves requests from them is a different one within two seconds.
const MEMORY: f64 = 0.5;

/// How long a page is followed: an exchange that does not pay within this time is not worth its
/// copies, and what was true before is not held against what moves now.
const FOLLOW: Duration = Duration::from_secs(5);

/// What a tenant of whom there is too little to tell dares more each second. A tenant whose
/// exchanges do not pay so makes just as many as it takes to tell.
const DARING: f64 = 2.0;

/// Halvings end here; from there it dares again.
const MIN: f64 = 1.0 / 256.0;

/// Whether promotion paid, from samples and page-seconds of promoted and of demoted pages: the ones
/// have to be sampled more than `least` times as often as the others. `None` if there are too few
/// to tell.
pub fn pays(promoted: (f64, f64), demoted: (f64, f64), least: f64) -> Option<bool> {
    let seen = promoted.0 + demoted.0 >= MIN_SAMPLES && promoted.1 > 0.0 && demoted.1 > 0.0;
    seen.then(|| promoted.0 / promoted.1 > least * demoted.0 / demoted.1)
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

/// What is known of one tenant.
#[derive(Debug, Clone, Copy)]
struct Tenant {
    /// Of the demoted pages, and of the promoted ones.
    sides: [Side; 2],
    promotion: f64,
}

impl Tenant {
    const NEW: Self =
        Self { sides: [Side { followed: 0, samples: 0.0, page_seconds: 0.0 }; 2], promotion: 1.0 };

    fn judge(&mut self, seconds: f64, least: f64) {
        for side in &mut self.sides {
            side.page_seconds += f64::from(side.followed) * seconds;
        }
        let [demoted, promoted] = self.sides.map(|side| (side.samples, side.page_seconds));
        match pays(promoted, demoted, least) {
            Some(true) => self.promotion = (self.promotion * 2.0).min(1.0),
            Some(false) => self.promotion = (self.promotion / 2.0).max(MIN),
            None => self.promotion = (self.promotion * DARING).min(1.0),
        }
        for side in &mut self.sides {
            side.samples *= MEMORY;
            side.page_seconds *= MEMORY;
        }
    }
}

/// Follows what moved.
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

    /// Counts the samples of pages that are followed, and forgets those that are gone.
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

    /// Follows what moved.
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

    /// Whose promotions paid since the last judgement.
    pub(super) fn judge(&mut self, now: Timestamp) {
        let seconds = now.since(self.judged).as_secs_f64();
        self.judged = now;
        for slot in 0..SLOTS {
            if self.slots[slot].is_some_and(|known| now.since(known.at) > FOLLOW) {
                self.forget(slot);
            }
        }
        let least = if self.ticks { NO_BETTER } else { WORSE };
        self.tenants.iter_mut().for_each(|tenant| tenant.judge(seconds, least));
    }

    /// At which part of its rate a tenant promotes.
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

    /// Promotes pages 0..50, demotes 50..100, and samples each page of the two so often in each of
    /// `seconds`.
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
    fn ticks_have_to_tell_pages_apart() {
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
