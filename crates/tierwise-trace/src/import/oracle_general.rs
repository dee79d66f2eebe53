//! Reads and writes libCacheSim's oracleGeneral: requests of 24 bytes, little-endian
//! (`oracleGeneral` of libCacheSim/doc/quickstart_traceAnalyzer.md and its
//! traceReader/customizedReader/oracle/oracleGeneralBin.h).
//!
//! | byte | content |
//! |---|---|
//! | 0 | time in seconds |
//! | 4 | the object's number |
//! | 12 | the object's size in bytes |
//! | 16 | number of the next request of the object, or -1 |
//!
//! A request reads its whole object. Objects have no addresses: each gets pages of its own, in the
//! order of first requests, rounded up to whole pages. An object that grows moves to new pages. The
//! next request is not needed: a trace is replayed in order.

use std::collections::HashMap;
use std::io::BufRead;

use super::lines::LineProblem;
use super::records::{for_each, word};
use super::windows::WindowBuilder;
use super::{ImportProblem, PAGE_SHIFT};

/// Bytes of a request.
const RECORD: usize = 24;

/// Reads requests to the end of the input.
pub(super) fn read(
    input: &mut dyn BufRead,
    windows: &mut WindowBuilder<'_>,
) -> Result<(), ImportProblem> {
    let mut objects = Objects::default();
    for_each::<RECORD>(input, &mut |offset, record| {
        let [time, size] = [0, 12].map(|at| word(&[&record[at..at + 4], &[0; 4]].concat(), 0));
        let (object, next) = (word(record, 4), word(record, 16).cast_signed());
        if next < -1 {
            let reason = format!("the next request has the number {next}");
            return Err(ImportProblem::Record(offset, reason));
        }
        windows.at(time * 1_000_000_000).map_err(|problem| match problem {
            LineProblem::Form(reason) => ImportProblem::Record(offset, reason.to_owned()),
            LineProblem::Other(problem) => problem,
        })?;
        if size == 0 {
            windows.skip("requests of objects without a size");
            return Ok(());
        }
        let pages = size.div_ceil(1 << PAGE_SHIFT);
        let first = objects.first_page(object, pages);
        windows.run(0, first, pages, 1)
    })
}

/// The pages of the objects so far.
#[derive(Debug, Default)]
struct Objects {
    /// First page, and number of pages.
    places: HashMap<u64, (u64, u64)>,
    next: u64,
}

impl Objects {
    fn first_page(&mut self, object: u64, pages: u64) -> u64 {
        let place = self.places.entry(object).or_insert((self.next, 0));
        if place.1 < pages {
            *place = (self.next, pages);
            self.next += pages;
        }
        place.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_pages_of_their_own() {
        let mut objects = Objects::default();
        assert_eq!(
            [(7, 2), (9, 1), (7, 1), (7, 3), (9, 1)].map(|(o, n)| objects.first_page(o, n)),
            [0, 2, 0, 3, 2]
        );
    }
}
