//! The memory that a request touches, from a recording: the units are the pages of the trace. The
//! popularity of each is in proportion to its misses in the measured phase. A request has as many
//! misses as the phase had per operation, less those that prefetchers take from it.

use tierwise_trace::Window;

use super::alias::AliasTable;
use super::error::{RequestError, within};
use super::mix::{Mix, Popularity, RequestKind, UnitGroup};

/// A page accessed by every operation and missed by fewer than this share of them is in the caches
/// all the time. Chosen, not measured. With a larger share, pages that requests often miss have
/// their reference bits set at all times; with a smaller one, the stack and the globals seem idle
/// between two misses.
const CACHED: f64 = 0.1;

/// The maximum part of the lines that prefetchers bring in time: they start after a miss, and a
/// page has 64 lines.
pub const MAX_PREFETCHED: f64 = 0.99;

/// A recording as a service.
#[derive(Debug, Clone, Copy)]
pub struct ServiceRecording<'a> {
    /// All its windows.
    pub windows: &'a [Window],
    /// The mark of the phase that serves requests.
    pub mark: &'a str,
    /// Misses that come together on one page, on average: a design figure of the program's data
    /// structures.
    pub lines_together: f64,
    /// The part of them that the processor's prefetchers bring in time, 0 to below 1: the cache
    /// model of a recording has none.
    pub prefetched: f64,
    /// Units to make of the recorded pages; 0 for one each. Page i of n becomes unit
    /// `i * units / n`.
    pub units: u32,
}

/// Accesses of a recorded page in the measured phase.
#[derive(Debug, Clone, Copy, Default)]
struct RecordedPage {
    resident: bool,
    accesses: u64,
    loads: u64,
    stores: u64,
}

impl Mix {
    /// Makes a mix of one kind of request, without CPU time.
    ///
    /// # Errors
    /// The recording counts no operations or misses in the phase, or `lines_together` is below one.
    pub fn recorded(recording: &ServiceRecording<'_>) -> Result<Self, RequestError> {
        let lines = recording.lines_together;
        within("lines_together", lines, 1.0..=64.0, "1 to 64, the lines of a page")?;
        within("prefetched", recording.prefetched, 0.0..=MAX_PREFETCHED, "0 to 0.99")?;
        let missed = lines * (1.0 - recording.prefetched);
        let none = |what| RequestError::Recording { what, mark: recording.mark.to_owned() };
        let (recorded, operations) = survey(recording);
        let misses: u64 = recorded.iter().map(|s| s.loads + s.stores).sum();
        if operations == 0 {
            return Err(none("no operations"));
        }
        if misses == 0 {
            return Err(none("no misses"));
        }
        let pages: Vec<RecordedPage> = recorded.into_iter().filter(|s| s.resident).collect();
        let units = if recording.units == 0 { pages.len() as u32 } else { recording.units };
        let unit = |page: usize| (page as u64 * u64::from(units) / pages.len() as u64) as u32;
        let mut weights = vec![0.0; units as usize];
        let mut cached = Vec::new();
        for (i, page) in pages.iter().enumerate() {
            let missed = (page.loads + page.stores) as f64;
            weights[unit(i) as usize] += missed;
            if page.accesses >= operations && missed < CACHED * operations as f64 {
                cached.push(unit(i));
            }
        }
        cached.dedup();
        let stores: u64 = pages.iter().map(|s| s.stores).sum();
        let store_share = stores as f64 / misses as f64;
        let group = UnitGroup {
            name: "pages",
            touches: misses as f64 / operations as f64 / lines,
            loads: missed * (1.0 - store_share),
            stores: missed * store_share,
            prefetched: lines * recording.prefetched,
            units: Popularity::Weighted { first: 0, table: AliasTable::new(&weights) },
        };
        let kind = RequestKind { name: "operation", share: 1.0, cpu_ns: 0.0, groups: vec![group] };
        Ok(Self { units, kinds: vec![kind], cached })
    }
}

/// Every page of the recording, and the operations of the measured phase.
fn survey(recording: &ServiceRecording<'_>) -> (Vec<RecordedPage>, u64) {
    let mut recorded: Vec<RecordedPage> = Vec::new();
    let (mut serving, mut operations) = (false, 0);
    for window in recording.windows {
        serving |= window.marks.iter().any(|mark| mark == recording.mark);
        for allocation in &window.allocations {
            let index = allocation.page as usize;
            recorded.resize(recorded.len().max(index + 1), RecordedPage::default());
            recorded[index].resident = true;
        }
        if !serving {
            for &page in &window.unmaps {
                recorded[page as usize].resident = false;
            }
            continue;
        }
        operations += window.operations;
        for access in &window.accesses {
            let page = &mut recorded[access.page as usize];
            page.accesses += u64::from(access.loads) + u64::from(access.stores);
            page.loads += u64::from(access.load_misses);
            page.stores += u64::from(access.store_misses);
        }
    }
    (recorded, operations)
}
