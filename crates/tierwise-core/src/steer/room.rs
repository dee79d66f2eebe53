//! Room for promotions: the idle pages to demote.
//!
//! A candidate that finds no free page is lost for its scan, and it wakes kswapd, which is slower
//! than the faults and demotes up to the high watermark's number of pages, wanted or not
//! (`kswapd_shrink_node`). So idle pages are demoted before each scan, as many as it is expected to
//! find candidates by the part of the last one, and at least as many as found no room in it. During
//! a scan as many are demoted as the next reading is expected to show, which is what the last one
//! showed. Free pages count, except those on the CPUs' own lists, which the kernel does not see.
//! Pages that may be idle by chance are not demoted ahead: no scan may find others for their
//! places. With the short gap all may be. There the first pass has few places, whole units of the
//! rate, and room for as many, so that no candidate is left without a page: kswapd demoted a fifth
//! of PageRank's fast pages for candidates that were none.
//!
//! Where the kernel rests before a later pass (`super::rest`), little room is made ahead, and the
//! rate allows no more than is free. What is left is made when the scan begins, or when it should.
//! Before the first pass all is made: it found 7,700 hot pages of stairs within a reading, and 250
//! places. Room of other processes' idle pages is all made ahead, too: the tenants lose nothing. A
//! series that ends leaves no room: free pages that nothing is promoted to are lost fast memory.
//! What kswapd leaves free is filled by a scan within the pause.

use super::scan::{self, Counts};
use super::victims::total;
use super::{KernelReading, Steering};
use crate::units::{Pages, Timestamp};

/// The kernel's unit of the rate, a megabyte per second.
pub(super) const RATE_UNIT: Pages = Pages(256);

/// The pass that a reading shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassView {
    /// It goes on, and has not just started.
    pub was_on: bool,
    /// It is the first of its series.
    pub is_first: bool,
    /// Candidates of the pass before that found no free page.
    pub lost: Pages,
    /// Candidates since the last reading.
    pub found: u64,
}

impl Steering {
    /// Sets the pages to demote now.
    pub(super) fn set_room(&mut self, now: Timestamp, reading: &KernelReading, pass: &PassView) {
        self.room = Pages(0);
        if !self.scanning.is_on() {
            self.promised = Pages(0);
        } else if self.scanning.fills().is_some() {
            self.count_second(now, reading);
        } else {
            self.scanned_with = self.threshold;
            let wanted = if pass.was_on {
                self.room_within(now, reading, pass.found)
            } else {
                let wanted = self.grant(now, reading, pass.is_first).max(pass.lost);
                self.promised = Pages(0);
                if pass.is_first { wanted } else { self.room_ahead(now, reading, wanted) }
            };
            let idle = if self.scanning.is_by_chance() {
                RATE_UNIT
            } else if self.gap.is_short() {
                // Places and the rate limit what doubtful candidates displace.
                self.victims.pages
            } else {
                self.certain
            };
            self.room = wanted.min(idle).saturating_sub(reading.available);
        }
    }

    /// The free pages that a scan can fill in a pause: whole units of the rate, so that no
    /// candidate is left without a page, if the scan begins at once and pays.
    pub(super) fn spare(&self, now: Timestamp, reading: &KernelReading) -> Pages {
        let pages = whole_units(reading.available);
        let pays = scan::fill_pays(&self.costs, self.share, self.threshold);
        let is_wanted = reading.slow > Pages(0) && pays && self.rest.is_over(now);
        if is_wanted { pages } else { Pages(0) }
    }

    /// The room for a later pass of a series, which is expected to promote so many pages: all, or a
    /// little if the kernel rests before the scan. The rate then allows what is free.
    fn room_ahead(&mut self, now: Timestamp, reading: &KernelReading, wanted: Pages) -> Pages {
        if self.rest.is_over(now) || wanted <= self.others_idle {
            return wanted;
        }
        self.promised = wanted;
        self.ahead = whole_units(reading.available).max(RATE_UNIT);
        wanted.min(RATE_UNIT)
    }

    /// The room within a pass that has found so many candidates since the last reading. What was
    /// promised is due when the rest is over: hot pages of a B+ tree have their faults within a
    /// reading.
    fn room_within(&mut self, now: Timestamp, reading: &KernelReading, found: u64) -> Pages {
        let pass = self.scanning.present(&Counts::of(reading));
        let mut wanted = Pages(found);
        let has_begun = pass.poisoned >= self.scan_of(reading).max(1);
        if self.promised > Pages(0) && (has_begun || self.rest.is_over(now)) {
            wanted = wanted.max(std::mem::take(&mut self.promised));
            self.count_second(now, reading);
        }
        wanted.min(Pages(self.granted.0.saturating_sub(pass.promoted)))
    }

    /// Takes note of the candidates that the kernel has counted in its second.
    fn count_second(&mut self, now: Timestamp, reading: &KernelReading) {
        let second = self.second.filter(|second| !second.is_over(now));
        self.counted =
            second.map_or(0, |second| reading.candidates.saturating_sub(second.candidates));
    }

    /// Grants a pass its places. Returns the base pages that it is expected to promote.
    fn grant(&mut self, now: Timestamp, reading: &KernelReading, is_first: bool) -> Pages {
        self.granted = self.affordable();
        if is_first && self.gap.is_short() {
            let few = Pages((total(reading) as f64 * scan::EVIDENCE) as u64);
            self.granted = self.granted.min(whole_units(few).max(RATE_UNIT));
            self.count_second(now, reading);
            return self.granted;
        }
        if self.scanning.is_by_chance() {
            self.granted = self.granted.min(whole_units(reading.available).max(RATE_UNIT));
        }
        self.count_second(now, reading);
        Pages((reading.slow.0 as f64 * self.share) as u64).min(self.granted)
    }
}

/// So many pages as whole units of the rate.
fn whole_units(pages: Pages) -> Pages {
    Pages(pages.0 / RATE_UNIT.0 * RATE_UNIT.0)
}
