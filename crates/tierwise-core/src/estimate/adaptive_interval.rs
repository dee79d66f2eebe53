//! A scan interval that follows the workload: MULTI-CLOCK's section VII leaves this to future work,
//! so the rule is Tierwise's own.
//!
//! Frequent scans are worth their cost when pages are promoted and accessed again afterwards: then
//! the workload has moved to other pages, and a shorter interval gives them more time in the faster
//! tier. Frequent scans are not worth their cost when no page climbs, or when promoted pages are
//! not accessed again: then the promotions followed bursts that were over. At each scan:
//!
//! | since the last scan | next interval |
//! |---|---|
//! | pages were promoted and at least half of them have been accessed since | half |
//! | pages were promoted and fewer than half of them have been | double |
//! | none were promoted, but pages of a slower tier climb | the base interval, if it was longer |
//! | none were promoted and none climb | double |
//!
//! The interval always stays within the minimum and the maximum. Doubling and halving reach any
//! interval in a few scans.
//!
//! ```
//! use std::time::Duration;
//! use tierwise_core::estimate::AdaptiveInterval;
//! use tierwise_core::observe::Observation;
//! use tierwise_core::page::PageTable;
//! use tierwise_core::units::PageId;
//!
//! let second = Duration::from_secs(1);
//! let mut adaptive = AdaptiveInterval::new(second, second / 10, 10 * second);
//! assert_eq!(adaptive.next(0), 2 * second);   // no page climbs
//! assert_eq!(adaptive.next(7), second);       // seven pages climb
//! adaptive.promoted(PageId(3));
//! let mut obs = Observation::default();
//! obs.referenced.set(PageId(3));
//! adaptive.on_observation(&obs, &PageTable::default());
//! assert_eq!(adaptive.next(7), second / 2);   // it was promoted and is used
//! adaptive.promoted(PageId(3));
//! assert_eq!(adaptive.next(7), second);       // it was promoted and is not used
//! ```

use std::time::Duration;

use super::lru_scan::LruScan;
use crate::config::{ConfigError, Section};
use crate::observe::Observation;
use crate::page::{Flag, PageTable};
use crate::units::PageId;

/// Promoted pages followed in one interval: as many as one list's scan promotes at most, and enough
/// to know the share accessed again within a few per cent.
const SAMPLE: usize = 1024;

/// Chooses the next interval from the accesses to promoted pages.
#[derive(Debug, Clone)]
pub struct AdaptiveInterval {
    base: Duration,
    min: Duration,
    max: Duration,
    now: Duration,
    /// Pages promoted since the last scan and not accessed since.
    waiting: Vec<PageId>,
    promoted: usize,
}

impl AdaptiveInterval {
    /// Starts at `base`.
    pub fn new(base: Duration, min: Duration, max: Duration) -> Self {
        let waiting = Vec::with_capacity(SAMPLE);
        Self { base, min, max, now: base, waiting, promoted: 0 }
    }

    /// Reads `adaptive_interval`, `min_interval_ms` and `max_interval_ms`; `None` if it is off.
    ///
    /// # Errors
    /// The bounds do not contain the base interval.
    pub fn build(section: &Section<'_>, base: Duration) -> Result<Option<Self>, ConfigError> {
        let on = section.flag_or("adaptive_interval", false)?;
        if !on {
            let keys = ["min_interval_ms", "max_interval_ms"];
            section.refuse_ignored(&keys, "only adaptive_interval = true reads it")?;
        }
        // A tenth and ten times the published interval. These are far enough apart for an effect,
        // and near enough to keep the cost of scanning and the time to react within one order of
        // magnitude.
        let tenth = Duration::from_millis(100);
        let tenfold = Duration::from_secs(10);
        let min = LruScan::interval(section, "min_interval_ms", tenth.min(base))?;
        let max = LruScan::interval(section, "max_interval_ms", tenfold.max(base))?;
        let found = |d: Duration| format!("found {}; allowed: ", d.as_millis());
        if min > base {
            let problem = format!("{}at most interval_ms, {}", found(min), base.as_millis());
            return Err(section.error("min_interval_ms", problem));
        }
        if max < base {
            let problem = format!("{}at least interval_ms, {}", found(max), base.as_millis());
            return Err(section.error("max_interval_ms", problem));
        }
        Ok(on.then(|| Self::new(base, min, max)))
    }

    /// Records a successful promotion.
    pub fn promoted(&mut self, page: PageId) {
        if self.promoted < SAMPLE {
            self.promoted += 1;
            self.waiting.push(page);
        }
    }

    /// Records accesses to the promoted pages: their reference bits, or the mark that a supervised
    /// access leaves on a page that was unmarked when it was promoted.
    pub fn on_observation(&mut self, obs: &Observation, pages: &PageTable) {
        self.waiting
            .retain(|&page| !obs.referenced.contains(page) && !pages.flag(page, Flag::Referenced));
    }

    /// The interval after a scan in which `climbed` pages of slower tiers climbed.
    pub fn next(&mut self, climbed: u64) -> Duration {
        let accessed = self.promoted - self.waiting.len();
        let wanted = match (self.promoted, climbed) {
            (0, 0) => self.now * 2,
            (0, _) => self.now.min(self.base),
            (promoted, _) if 2 * accessed >= promoted => self.now / 2,
            _ => self.now * 2,
        };
        self.now = wanted.clamp(self.min, self.max);
        self.waiting.clear();
        self.promoted = 0;
        self.now
    }
}
