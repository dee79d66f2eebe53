//! Steering: settings for a kernel that promotes pages by itself.
//!
//! With `kernel.numa_balancing` 2 the kernel poisons slow pages chunk by chunk, and promotes a page
//! at its hint fault if the page was accessed within the hot threshold after it was poisoned
//! (`kernel/sched/fair.c`, `task_numa_work` and `should_numa_migrate_memory`). kswapd demotes to
//! make room. This folder computes, once per second, whether the kernel scans, the threshold, and
//! the rate of promotions.
//!
//! **Victims.** A promotion displaces a page. Its gain is the difference between the accesses to
//! the two pages, so it depends on the idle time of the fast pages. MGLRU's generations show that
//! time ([`IdlePages`]). Where all fast pages are in use, no promotion gains, and no scan is made.
//! Between two generations pages are idle by chance, too: of pages that are accessed at random `r`
//! times per second, a part of `exp(-r t)` is not accessed within `t`, and of pages that a program
//! passes over in turn, those that it will reach next. So a page must be idle for longer than one
//! gap between two generations ([`confirmed`]), and the idle pages are counted once more if that
//! makes the difference. No time is lost where many pages were idle for one gap: a quarter in the
//! first series of scans ([`MANY`]), half in later ones ([`MOST`]).
//!
//! **Gap.** Two generations are [`LONG_GAP`] apart. Few pages may be idle for so long
//! ([`FEW_IDLE`]) although some are used much less than others, which a shorter gap shows. So the
//! next count is made with [`SHORT_GAP`], and those that follow, until one finds no victim. Pages
//! in use may be idle for the short gap by chance, so the first scan of such a series has few
//! places ([`scan::EVIDENCE`]), and its candidates show whether any are hot (`chance`). Each time
//! that the short gap finds no victim, or its series gains nothing, it is tried half as often.
//!
//! **Hot threshold.** A page that was accessed within `t` after it was poisoned is accessed some
//! `1 / t` times per second; one that was idle for `i` at most some `1 / i` times. A victim that
//! was idle for `i` when the scan began is idle for `i + t` at the hint fault. The threshold is at
//! most `i`, so that a promoted page is used at least twice as much, or `i / 4` with the short gap.
//! A series of scans starts with the shortest idle time, or the gap if it is hardly longer: a short
//! threshold distinguishes hot pages best from pages that were accessed by chance. With 0.42 s
//! instead of 0.3 s, 58 instead of 71 % of the pages that a scan of stairs promoted were in use.
//! While there are few candidates for many victims, the threshold grows by as much as candidates
//! are missing, two to eight times per scan, up to the longest idle time. Where as many pages are
//! idle as the tenants have slow ones, as on a machine with idle processes and page cache, there is
//! nothing to choose among candidates: the threshold is the time for which that many are idle.
//!
//! **Rate.** A pass promotes no more pages than there are victims. Promotions also use up a stock
//! that grows by as many pages per second as promotions and demotions may copy in [`MAX_COPYING`]
//! of a CPU, up to as many pages as the fast tier holds. So all pages of a workload
//! that changes its hot pages can be promoted at once. The kernel counts candidates against the
//! rate in the order of their faults. If a scan finds more than the rate allows, the threshold
//! falls in proportion, so that the hottest are promoted.
//!
//! **Chunk.** The kernel poisons the slow pages of a chunk of the address space at once. Where
//! there are few victims, the first chunk has enough pages for them, and the scan ends ([`scan`]).
//! How many are enough follows from the part of the poisoned pages that were candidates in the last
//! scan, and from the part of the tenants' pages that are slow. The kernel scans a chunk per second
//! at first (`numa_scan_period`), so the chunks of the first series are not small
//! ([`FIRST_CHUNK`]).
//!
//! **Room.** A candidate that finds no free page is lost for its scan, and wakes kswapd. So idle
//! pages are demoted before each scan, and during it ([`room`]).
//!
//! **Scans.** A hint fault costs more than most misses that a promotion saves. So the kernel scans
//! while scans gain more than they cost, and otherwise as rarely as [`scan`] computes.

mod chance;
mod gap;
mod rest;
mod room;
pub mod scan;
mod victims;

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::units::{Pages, Timestamp};
use gap::Gap;
pub use gap::{FEW_IDLE, LONG_GAP, SHORT_GAP};
use rest::ScanRest;
use room::PassView;
pub use scan::Judgement;
use scan::{Conditions, Counts, MAX_CANDIDATES, MIN_SLOW, Scanning, Step};
pub use victims::{
    IdlePages, MANY, MIN_IDLE, MIN_VICTIMS, MOST, PromotionVictims, confirmed, victims,
};
use victims::{certain, idle_for, idle_for_all, in_use, others_idle, total};

/// The kernel's default of the hot threshold (`sysctl_numa_balancing_hot_threshold`), and the
/// largest: pages that are accessed less often than once per second gain little.
pub const MAX_THRESHOLD: Duration = Duration::from_secs(1);

/// The kernel's unit of the hot threshold, and so its smallest value.
pub const MIN_THRESHOLD: Duration = Duration::from_millis(1);

/// The kernel's shortest time between two chunks of a thread (`MAX_SCAN_WINDOW`, for its default
/// chunk): an area of memory that a thread has not accessed is scanned in a call of its own. The
/// kernel keeps the time of scans below a thirty-second part of each thread's CPU time.
pub const PERIOD: Duration = Duration::from_millis(100);

/// The bounds of a chunk in base pages: the kernel's default (`sysctl_numa_balancing_scan_size`,
/// 256 MiB) and a sixty-fourth of it. The kernel poisons smaller chunks more often, so that a scan
/// takes as long.
pub const CHUNK: RangeInclusive<u64> = 1024..=65536;

/// The smallest chunk of the first series of scans: 64 MiB. The smallest of all took a B+ tree's
/// first scan two seconds, in which it poisoned 3,700 pages.
const FIRST_CHUNK: u64 = 16384;

/// The part of the slow pages that a first scan is expected to find hot: a quarter. The next scans
/// are planned by what the last one found. Chosen, not measured.
const EXPECTED_SHARE: f64 = 0.25;

/// The least part of the slow pages that is expected to be hot: below it, every chunk is the
/// largest.
const MIN_SHARE: f64 = 1.0 / 64.0;

/// The part of a CPU that copies may take in the long run.
pub const MAX_COPYING: f64 = 0.04;

/// The part of the tenants' slow pages that must be poisoned for the kernel to have begun to scan
/// them. Of Redis' clients it poisoned a sixth as many pages.
const SCANNED: f64 = 0.25;

/// The factor by which a threshold is shorter than a victim's idle time with the short gap. Pages
/// in use are idle for so short by chance, and only pages that are used much more are worth their
/// places: hot pages of a B+ tree are used twenty times as often as its cold ones, those of Redis
/// as often as other hot ones. Chosen, not measured.
const HOTTER: u32 = 4;

/// The time over which the kernel counts candidates against the rate
/// (`numa_promotion_rate_limit`).
const RATE_WINDOW: Duration = Duration::from_secs(1);

/// The copies after which their cost is known: the kernel demotes up to 256 pages at once
/// (`MAX_LRU_BATCH`).
const ENOUGH_COPIES: Pages = Pages(256);

/// The part of the victims below which candidates are few.
const FEW: f64 = 1.0 / 8.0;

/// The largest factor by which the threshold grows after one scan. A threshold that is too long for
/// one scan promotes pages that are accessed by chance; each further scan costs a fault per page.
const LONGER: f64 = 8.0;

/// The constant properties of a machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteeringCosts {
    /// Time by which a last-level miss is shorter in the fastest tier than in the slowest.
    pub saved: Duration,
    /// CPU time of migrating one base page.
    pub copy: Duration,
    /// CPU time of a hint fault, with its part of the scan.
    pub fault: Duration,
    /// CPUs of the machine.
    pub cpus: f64,
}

/// Counters and sizes that the kernel reports at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelReading {
    /// Base pages promoted since the machine started.
    pub promoted: u64,
    /// Base pages whose hint fault was within the hot threshold, since the machine started.
    pub candidates: u64,
    /// Base pages demoted since the machine started.
    pub demoted: u64,
    /// Hint faults since the machine started.
    pub faults: u64,
    /// Page table entries poisoned since the machine started.
    pub poisoned: u64,
    /// Base pages of the fastest tier that are free above the kernel's high watermark and the
    /// reserves of low zones, which promotions leave.
    pub free: Pages,
    /// Those of them that the kernel sees when it looks for room: pages on the CPUs' own lists are
    /// free, but not for `zone_watermark_ok`.
    pub available: Pages,
    /// Those of the free ones between the high and the promo watermark. Promotions may use them,
    /// and kswapd then demotes as many others.
    pub restored: Pages,
    /// Base pages of the tenants in the fastest tier.
    pub held: Pages,
    /// Base pages of the tenants in slower tiers.
    pub slow: Pages,
    /// All base pages of the fastest tier that the kernel can demote, by the time for which they
    /// are idle: zero for those in use.
    pub fast: Vec<IdlePages>,
    /// CPU time of counting idle pages since the last reading.
    pub counting: Duration,
}

/// The settings of the kernel's tiering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Course {
    /// True if the kernel scans, and so promotes.
    pub scans: bool,
    /// The hot threshold, in whole milliseconds.
    pub threshold: Duration,
    /// Base pages that the kernel poisons at once.
    pub chunk: Pages,
    /// The maximum of base pages promoted per second; `None` for no limit.
    pub rate: Option<Pages>,
    /// Time between two series of scans; zero within a series.
    pub pause: Duration,
}

/// Computes the course from readings: one per second, and several while the kernel scans.
#[derive(Debug, Clone)]
pub struct Steering {
    costs: SteeringCosts,
    threshold: Duration,
    victims: PromotionVictims,
    /// Those that are certainly victims.
    certain: Pages,
    /// All idle and free base pages.
    idle: Pages,
    /// The tenants' fast base pages in use.
    in_use: Pages,
    /// The idle fast base pages of no tenant.
    others_idle: Pages,
    /// The time for which pages are idle that could make way for all slow ones.
    idle_for_all: Option<Duration>,
    scanning: Scanning,
    /// The threshold of the present or last pass.
    scanned_with: Duration,
    /// The part of the scanned pages that were candidates in the last pass, 0 to 1.
    share: f64,
    /// The tenants' pages per slow one of them, at least 1.
    density: f64,
    /// The idle base pages to demote now.
    room: Pages,
    /// The time between the two generations of the next count.
    gap: Gap,
    /// The first series of scans has ended.
    has_scanned: bool,
    /// CPU time of counting idle pages for the present series.
    counting: Duration,
    last: Option<Last>,
    /// The start of the kernel's present second. It is known to one reading: it is assumed too late
    /// rather than too early, because a rate that allows too little loses a scan.
    second: Option<Last>,
    /// The stock: base pages that may be promoted at once. It is negative after a pass that began
    /// with less than it promoted.
    stock: f64,
    /// The places when the present pass started.
    granted: Pages,
    /// The candidates that the kernel had counted in its second when the present pass started.
    counted: u64,
    /// The room to make when the present scan begins, if the kernel rests before it.
    promised: Pages,
    /// The pages that may be promoted until then.
    ahead: Pages,
    rest: ScanRest,
    /// See [`Steering::scan_rests`].
    rests: Duration,
    /// Pages demoted by order, and the CPU time of that.
    copied: Pages,
    copying: Duration,
}

/// A part of the last reading.
#[derive(Debug, Clone, Copy)]
struct Last {
    at: Timestamp,
    promoted: u64,
    candidates: u64,
}

impl Last {
    /// True if the kernel's second that started then has ended.
    fn is_over(&self, now: Timestamp) -> bool {
        now.since(self.at) > RATE_WINDOW
    }
}

impl Steering {
    /// Starts without a scan: nothing is known of the fast pages yet.
    pub fn new(costs: SteeringCosts) -> Self {
        Self {
            costs,
            threshold: MIN_THRESHOLD,
            victims: PromotionVictims::default(),
            certain: Pages(0),
            idle: Pages(0),
            in_use: Pages(0),
            others_idle: Pages(0),
            idle_for_all: None,
            scanning: Scanning::new(costs),
            scanned_with: MIN_THRESHOLD,
            share: EXPECTED_SHARE,
            density: 1.0,
            room: Pages(0),
            gap: Gap::default(),
            has_scanned: false,
            counting: Duration::ZERO,
            last: None,
            second: None,
            stock: f64::INFINITY,
            granted: Pages(0),
            counted: 0,
            promised: Pages(0),
            ahead: Pages(0),
            rest: ScanRest::default(),
            rests: Duration::ZERO,
            copied: Pages(0),
            copying: Duration::ZERO,
        }
    }

    /// Returns the course by the last reading.
    pub fn course(&self) -> Course {
        let threshold = Duration::from_millis(self.threshold.as_millis() as u64);
        let (scans, pause) = (self.scanning.is_on(), self.scanning.pause());
        Course { scans, threshold, chunk: self.chunk(), rate: self.rate(), pause }
    }

    fn chunk(&self) -> Pages {
        let candidates = self.places().0.saturating_mul(MAX_CANDIDATES);
        // Fast pages of the chunk are passed over, and count for its size (`task_numa_work`).
        let wanted = (self.density * candidates as f64 / self.share.max(MIN_SHARE)) as u64;
        let least = if self.has_scanned { *CHUNK.start() } else { FIRST_CHUNK };
        Pages(wanted.clamp(least, *CHUNK.end()))
    }

    /// The poisoned pages that are a scan of the tenants' memory, and not of other processes'.
    fn scan_of(&self, reading: &KernelReading) -> u64 {
        ((reading.slow.0 as f64 * SCANNED) as u64).min(self.chunk().0 / 2)
    }

    /// The kernel counts all candidates of a second against the rate, those of the pass before too.
    fn rate(&self) -> Option<Pages> {
        let counted = if self.scanning.is_on() { self.counted } else { 0 };
        let most = if self.promised > Pages(0) { self.ahead } else { Pages(u64::MAX) };
        self.limit().map(|places| Pages(places.min(most).0.saturating_add(counted)))
    }

    /// The places, if promotions have a limit.
    fn limit(&self) -> Option<Pages> {
        self.growth().map(|_| self.places())
    }

    /// The victims that the stock allows to displace. They are the same for a whole pass, because
    /// the kernel counts all candidates of a second against the rate.
    fn places(&self) -> Pages {
        if let Some(free) = self.scanning.fills() {
            return free;
        }
        if self.scanning.is_on() { self.granted.min(self.victims.pages) } else { self.affordable() }
    }

    fn affordable(&self) -> Pages {
        let Some(growth) = self.growth() else { return self.victims.pages };
        Pages(growth.max(self.stock.min(1e15)) as u64).min(self.victims.pages)
    }

    /// The growth of the stock per second; `None` if copies cost nothing.
    fn growth(&self) -> Option<f64> {
        let pair = 2.0 * self.costs.copy.as_secs_f64();
        (pair > 0.0).then(|| MAX_COPYING / pair)
    }

    /// The judgement of the last pass; `None` before one.
    pub fn judgement(&self) -> Option<Judgement> {
        self.scanning.judgement()
    }

    /// Takes note that demoting so many cold pages took so much CPU time. Copies of pages that no
    /// cache holds take several times as long as those that can be measured beforehand.
    pub fn note_copies(&mut self, pages: Pages, took: Duration) {
        self.copied = Pages(self.copied.0.saturating_add(pages.0));
        self.copying += took;
        if self.copied >= ENOUGH_COPIES {
            self.costs.copy = self.copying.div_f64(self.copied.0 as f64);
            self.scanning.set_costs(self.costs);
        }
    }

    /// The costs, with that of a copy as it was measured last.
    pub fn costs(&self) -> SteeringCosts {
        self.costs
    }

    /// Returns true if the caller should count the idle pages now: a scan has ended, or the last
    /// count left it in doubt whether there are victims.
    pub fn wants_count(&self) -> bool {
        self.gap.is_in_doubt() || self.scanning.wants_count()
    }

    /// True if the kernel scans for so many slow base pages of the tenants. Without them no count
    /// of the idle pages can matter.
    pub fn may_promote(slow: Pages) -> bool {
        slow >= MIN_SLOW
    }

    /// Returns true within a series of scans. Counts of the idle pages are a part of its cost then.
    pub fn is_in_series(&self) -> bool {
        !self.scanning.is_paused()
    }

    /// The part of the machine's CPU time that counts of the idle pages may take.
    pub fn counting(&self) -> f64 {
        self.scanning.counting()
    }

    /// The time between the two generations of the next count of the idle pages.
    pub fn age_gap(&self) -> Duration {
        self.gap.time()
    }

    /// The time after which the caller should count the idle pages, if the last count found a
    /// change too early to follow it.
    pub fn recount(&self, now: Timestamp) -> Option<Duration> {
        self.scanning.recount(now)
    }

    /// The victims by the last count of the idle pages.
    pub fn victims(&self) -> PromotionVictims {
        self.victims
    }

    /// The idle base pages to demote now, so that candidates find free pages.
    pub fn room(&self) -> Pages {
        self.room
    }

    /// The time for which the kernel is expected to poison nothing although it is to scan; zero if
    /// its scan has begun, or may begin now.
    pub fn scan_rests(&self) -> Duration {
        self.rests
    }

    /// Handles a reading. `is_fresh` is true if its idle pages were counted since the last reading.
    /// Returns the course.
    pub fn update(&mut self, now: Timestamp, reading: &KernelReading, is_fresh: bool) -> Course {
        // While the kernel scans, its reclaim creates generations that show little.
        if is_fresh || !self.scanning.is_on() {
            self.victims = victims(reading, !self.has_scanned, self.gap.time());
            self.certain = certain(reading, self.gap.time());
            let free = reading.free.saturating_sub(reading.restored).0;
            self.idle = Pages(idle_for(reading, MIN_IDLE).saturating_add(free));
            self.in_use = in_use(reading);
            self.others_idle = others_idle(reading);
            self.idle_for_all = idle_for_all(reading);
        }
        if reading.slow > Pages(0) {
            self.density = 1.0 + reading.held.0 as f64 / reading.slow.0 as f64;
        }
        let is_certain = is_fresh && !self.counts_again(now, reading);
        if self.is_in_series() {
            self.counting = self.counting.saturating_add(reading.counting);
            if is_fresh {
                let for_all = self.threshold_for_all().min(self.bounds().1);
                self.threshold = self.threshold.max(for_all);
            }
        }
        let found = self.follow_counters(now, reading);
        let conditions = Conditions {
            free: reading.free.saturating_sub(reading.restored),
            idle: self.idle,
            in_use: self.in_use,
            places: self.places(),
            threshold: self.scanned_with,
            is_longer: self.threshold > self.scanned_with,
            fast: Pages(total(reading)),
            slow: reading.slow,
            counting: self.counting,
            doubts_heat: self.gap.is_short(),
            spare: self.spare(now, reading),
        };
        let counts = Counts::of(reading);
        let scan = self.scan_of(reading);
        self.rest.follow(now, counts.poisoned, scan, self.scanning.since());
        let was_on = self.scanning.is_on();
        let lost = self.scanning.without_room(self.limit());
        let was_paused = self.scanning.is_paused();
        let was_judged = is_certain && self.scanning.wants_count();
        let step = self.scanning.update(now, counts, &conditions, is_certain);
        self.has_scanned |= !was_paused && self.scanning.is_paused();
        if was_judged {
            self.counting = Duration::ZERO;
            if self.gap.is_short() && self.scanning.is_paused() {
                self.gap.follow_series(self.scanning.has_gained());
            }
        }
        self.follow_step(step);
        self.rests = self.rests_until_scan(now, counts, scan);
        self.set_room(
            now,
            reading,
            &PassView { was_on, is_first: step == Step::Started, lost, found },
        );
        self.course()
    }

    fn rests_until_scan(&self, now: Timestamp, counts: Counts, scan: u64) -> Duration {
        let begun = self.scanning.present(&counts).poisoned >= scan.max(1);
        let waits = self.scanning.since().filter(|_| !begun);
        waits.map_or(Duration::ZERO, |since| self.rest.until_scan(now, since))
    }

    /// Sets the next pass's threshold, and the part of the pages that it is expected to find hot.
    fn follow_step(&mut self, step: Step) {
        match step {
            Step::Started => {
                self.threshold = self.bounds().0;
                self.share = self.share.max(EXPECTED_SHARE);
            }
            Step::Ended { took, candidates, scanned } => {
                if scanned >= *CHUNK.start() {
                    self.share = (candidates as f64 / scanned as f64).min(1.0);
                }
                self.follow_candidates(took, candidates);
            }
            Step::None => {}
        }
    }

    /// Handles a count of the idle pages. Returns true if they are to be counted once more before
    /// anything follows from it.
    fn counts_again(&mut self, now: Timestamp, reading: &KernelReading) -> bool {
        let may_start = Self::may_promote(reading.slow) && self.scanning.may_start(now);
        let again =
            self.gap.follow_count(reading, self.victims, may_start, self.scanning.wants_count());
        if may_start && again {
            self.victims = PromotionVictims::default();
        }
        again
    }

    /// Follows the stock and the kernel's second. Returns the candidates since the last reading.
    fn follow_counters(&mut self, now: Timestamp, reading: &KernelReading) -> u64 {
        let &KernelReading { promoted, candidates, .. } = reading;
        let before = self.last.replace(Last { at: now, promoted, candidates });
        let Some(before) = before else { return 0 };
        let grown = self.growth().unwrap_or(f64::INFINITY) * now.since(before.at).as_secs_f64();
        let promoted = promoted.saturating_sub(before.promoted) as f64;
        // Before the first count nothing is known of the tier's size.
        let fast = total(reading);
        let most = if fast > 0 { fast.saturating_add(reading.free.0) as f64 } else { f64::MAX };
        self.stock = (self.stock + grown - promoted).clamp(-most, most);
        // The kernel's second starts with the first candidate after the last one has ended.
        let found = candidates.saturating_sub(before.candidates);
        if found > 0 && self.second.is_none_or(|second| second.is_over(now)) {
            self.second = Some(Last { at: now, ..before });
        }
        found
    }

    /// Sets the next pass's threshold by the candidates of a pass.
    fn follow_candidates(&mut self, took: Duration, candidates: u64) {
        let (shortest, longest) = self.bounds();
        let (before, found) = (self.threshold, candidates as f64);
        let per_second = found / took.as_secs_f64().max(1.0);
        let victims = self.victims.pages.0 as f64;
        let wanted = match self.limit() {
            Some(rate) if per_second > rate.0 as f64 => before.mul_f64(rate.0 as f64 / per_second),
            _ if found < victims * FEW => {
                before.mul_f64((victims * FEW / found).clamp(2.0, LONGER))
            }
            _ => before.max(shortest),
        };
        self.threshold = wanted.clamp(MIN_THRESHOLD, longest);
    }

    /// The first threshold of a series of passes, and the longest.
    fn bounds(&self) -> (Duration, Duration) {
        let free = (MAX_THRESHOLD, MAX_THRESHOLD);
        let Some((shortest, longest)) = self.victims.idle else { return free };
        let longest = self.bound(longest);
        let shortest = self.bound(self.of_gap(shortest)).max(self.threshold_for_all());
        (shortest.min(longest), longest)
    }

    /// The threshold where enough pages are idle to make way for all slow ones; the smallest where
    /// they are not.
    fn threshold_for_all(&self) -> Duration {
        self.idle_for_all.map_or(MIN_THRESHOLD, |idle| self.bound(self.of_gap(idle)))
    }

    /// The threshold for victims that were idle for so long.
    fn bound(&self, idle: Duration) -> Duration {
        let divisor = if self.gap.is_short() { HOTTER } else { 1 };
        (idle / divisor).clamp(MIN_THRESHOLD, MAX_THRESHOLD)
    }

    /// The second generation of a count may be late, and a count that is repeated takes two gaps. A
    /// page idle for three was so before.
    fn of_gap(&self, idle: Duration) -> Duration {
        let gap = self.gap.time();
        if idle < 3 * gap { idle.min(gap) } else { idle }
    }
}

#[cfg(test)]
mod tests;
