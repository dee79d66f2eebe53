//! The pages that promotions may displace: free ones, and those that are idle.

use std::cmp::Reverse;
use std::time::Duration;

use super::{KernelReading, LONG_GAP, MAX_THRESHOLD};
use crate::units::Pages;

/// The part of the fast tier's pages that must be idle for a promotion to find a victim: a
/// sixteenth. The few pages that are idle in a tier in use do not justify a scan.
pub const MIN_VICTIMS: f64 = 1.0 / 16.0;

/// The idle time from which a page is a victim; a page with less is in use. The kernel may create
/// two generations within a shorter time, which show nothing.
pub const MIN_IDLE: Duration = Duration::from_millis(50);

/// The part of the fast tier's pages from which on pages that were idle for a short time count as
/// victims in the first series of scans: a quarter. Pages that are accessed at random five times
/// per second leave less idle within 0.3 s. Chosen, not measured.
pub const MANY: f64 = 0.25;

/// The same part in later series: half. A program that passes over its pages every 0.4 s leaves a
/// third idle within 0.3 s, and one whose hot pages have moved away leaves more.
pub const MOST: f64 = 0.5;

/// The idle time from which a page is certainly a victim: longer than one gap, and shorter than
/// from one count of the idle pages to the end of the next, which is two gaps. The kernel keeps
/// four generations, so pages that were idle before, too, cannot be told from these.
pub fn confirmed(gap: Duration) -> Duration {
    gap * 4 / 3
}

/// Pages of the fastest tier that nothing has accessed for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdlePages {
    /// The minimum time for which they are idle.
    pub idle: Duration,
    /// Base pages.
    pub pages: Pages,
    /// They are a tenant's.
    pub is_own: bool,
}

/// The pages that promotions may displace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PromotionVictims {
    /// Base pages, free pages included.
    pub pages: Pages,
    /// Two idle times: the minimum of all victims, and the minimum of the idlest [`MIN_VICTIMS`] of
    /// the fast tier. `None` if all are free.
    pub idle: Option<(Duration, Duration)>,
}

/// The victims that a reading shows: free pages that kswapd does not restore, and pages that are
/// idle for longer than the gap ([`confirmed`]), or for [`MIN_IDLE`] if these are [`MANY`] in the
/// first series of scans or [`MOST`] in later ones. There are none if all of these are less than
/// [`MIN_VICTIMS`] of the fast tier.
///
/// ```
/// use std::time::Duration;
/// use tierwise_core::steer::{IdlePages, KernelReading, LONG_GAP, victims};
/// use tierwise_core::units::Pages;
///
/// let ms = Duration::from_millis;
/// let of = |idle, pages| IdlePages { idle: ms(idle), pages: Pages(pages), is_own: true };
/// let fast = vec![of(0, 800), of(100, 150), of(2000, 40), of(9000, 40)];
/// let found = victims(&KernelReading { fast, ..KernelReading::default() }, true, LONG_GAP);
/// // 230 of 1030 pages are idle, less than a quarter.
/// assert_eq!((found.pages, found.idle), (Pages(80), Some((ms(100), ms(2000)))));
///
/// let fast = vec![of(0, 800), of(100, 250), of(2000, 40), of(9000, 40)];
/// let found = victims(&KernelReading { fast, ..KernelReading::default() }, true, LONG_GAP);
/// assert_eq!((found.pages, found.idle), (Pages(330), Some((ms(100), ms(2000)))));
/// ```
pub fn victims(reading: &KernelReading, is_first: bool, gap: Duration) -> PromotionVictims {
    let many = total(reading) as f64 * if is_first { MANY } else { MOST };
    let is_certain = idle_for(reading, MIN_IDLE) as f64 >= many;
    victims_idle_for(reading, if is_certain { MIN_IDLE } else { confirmed(gap) })
}

/// The pages that are hardly idle by chance: those idle for longer than the gap, or with the long
/// gap all, if they are [`MOST`] of the fast tier.
pub(super) fn certain(reading: &KernelReading, gap: Duration) -> Pages {
    let are_most = idle_for(reading, MIN_IDLE) as f64 >= total(reading) as f64 * MOST;
    let is_most = gap == LONG_GAP && are_most;
    let idle = idle_for(reading, if is_most { MIN_IDLE } else { confirmed(gap) });
    Pages(idle.saturating_add(reading.free.saturating_sub(reading.restored).0))
}

/// The victims if pages are victims that are idle for `least`. The shortest idle time is that of
/// all idle pages: a short threshold distinguishes hot pages best, whichever they displace. It is
/// not that of a few pages, which other control groups may have.
pub(super) fn victims_idle_for(reading: &KernelReading, least: Duration) -> PromotionVictims {
    let enough = (total(reading) as f64 * MIN_VICTIMS).max(1.0);
    let mut idle: Vec<&IdlePages> =
        reading.fast.iter().filter(|c| c.idle >= MIN_IDLE && c.pages > Pages(0)).collect();
    idle.sort_by_key(|class| Reverse(class.idle));
    let shortest = shortest(&idle, enough);
    let classes = idle.iter().filter(|class| class.idle >= least);
    // Free pages are idle for longest.
    let mut pages = reading.free.saturating_sub(reading.restored).0;
    let mut long = (pages as f64 >= enough).then_some(2 * MAX_THRESHOLD);
    for class in classes {
        pages = pages.saturating_add(class.pages.0);
        if long.is_none() && pages as f64 >= enough {
            long = Some(class.idle);
        }
    }
    match long {
        None => PromotionVictims::default(),
        Some(long) => {
            PromotionVictims { pages: Pages(pages), idle: shortest.map(|short| (short, long)) }
        }
    }
}

/// The idle time of the pages that are idle for the shortest time, as soon as they are `enough`.
/// The longest of all if they are not, and `None` without idle pages. `idle` starts with the
/// longest time.
fn shortest(idle: &[&IdlePages], enough: f64) -> Option<Duration> {
    let mut pages = 0_u64;
    let found = idle.iter().rev().find(|class| {
        pages = pages.saturating_add(class.pages.0);
        pages as f64 >= enough
    });
    found.or(idle.first()).map(|class| class.idle)
}

/// The pages of the fast tier that are idle for a time.
pub(super) fn idle_for(reading: &KernelReading, time: Duration) -> u64 {
    let classes = reading.fast.iter().filter(|class| class.idle >= time);
    classes.fold(0, |sum, class| class.pages.0.saturating_add(sum))
}

/// The tenants' pages of the fast tier that are in use.
pub(super) fn in_use(reading: &KernelReading) -> Pages {
    let classes = reading.fast.iter().filter(|class| class.is_own && class.idle < MIN_IDLE);
    Pages(classes.fold(0, |sum, class| class.pages.0.saturating_add(sum)))
}

/// The idle pages of no tenant in the fast tier.
pub(super) fn others_idle(reading: &KernelReading) -> Pages {
    let classes = reading.fast.iter().filter(|class| !class.is_own && class.idle >= MIN_IDLE);
    Pages(classes.fold(0, |sum, class| class.pages.0.saturating_add(sum)))
}

/// The longest time for which as many pages are idle or free as the tenants have slow ones: each
/// slow page that is accessed within it is worth a place. `None` if fewer are idle.
pub(super) fn idle_for_all(reading: &KernelReading) -> Option<Duration> {
    let mut idle: Vec<&IdlePages> = reading.fast.iter().filter(|c| c.idle >= MIN_IDLE).collect();
    idle.sort_by_key(|class| Reverse(class.idle));
    let mut pages = reading.free.saturating_sub(reading.restored).0;
    if pages >= reading.slow.0 {
        return Some(MAX_THRESHOLD);
    }
    let found = idle.iter().find(|class| {
        pages = pages.saturating_add(class.pages.0);
        pages >= reading.slow.0
    });
    found.map(|class| class.idle)
}

/// All pages of the fast tier that the kernel can demote.
pub(super) fn total(reading: &KernelReading) -> u64 {
    reading.fast.iter().fold(0, |sum, class| class.pages.0.saturating_add(sum))
}
