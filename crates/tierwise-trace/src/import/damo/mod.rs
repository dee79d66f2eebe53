//! Reads what DAMON found: records of damo (json_compressed, json and perf_script), and
//! DAMON's tracepoint `damon:damon_aggregated` as perf, trace-cmd or tracefs print it.
//!
//! DAMON checks one page of each region every sampling interval, and assumes that the pages of a
//! region are alike. Over an aggregation interval it counts the checks that found the region
//! accessed (`nr_accesses`). So a region gives each of its pages `nr_accesses` loads, each of which
//! counts as a miss: the model of `tierwise record-live`. A record lacks what `record-live` adds:
//! which pages of a region are resident. All pages of a region that was found accessed count as
//! resident, and no page of one that never was.

mod json;
mod text;

use std::io::{BufRead, BufReader};

use super::windows::WindowBuilder;
use super::{ImportProblem, PAGE_SHIFT};

/// A region in which accesses were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Region {
    start: u64,
    end: u64,
    nr_accesses: u32,
}

impl Region {
    /// Adds the region's accesses to its pages.
    fn add(self, target: u64, windows: &mut WindowBuilder<'_>) -> Result<(), ImportProblem> {
        let first = self.start >> PAGE_SHIFT;
        let end = self.end.div_ceil(1 << PAGE_SHIFT);
        windows.run(target, first, end.saturating_sub(first), self.nr_accesses)
    }
}

/// Reads a record to the end of the input.
pub(super) fn read(
    input: &mut dyn BufRead,
    windows: &mut WindowBuilder<'_>,
) -> Result<(), ImportProblem> {
    match input.fill_buf()?.first() {
        // A zlib stream with the usual window.
        Some(0x78) => {
            json::read(&mut BufReader::new(flate2::bufread::ZlibDecoder::new(input)), windows)
        }
        Some(b'[' | b'{') => json::read(input, windows),
        _ => text::read(input, windows),
    }
}
