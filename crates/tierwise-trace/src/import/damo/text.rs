//! DAMON's tracepoint as text, one region per line (here each in two):
//!
//! ```text
//! kdamond.0  4452 [000] 82877.315633: damon:damon_aggregated: target_id=0 nr_regions=17 \
//!     140731667070976-140731668037632: 0 3
//! kdamond.0-129062 [005] ..... 101005.778382: damon_aggregated: target_id=0 nr_regions=11 \
//!     8360624128-8371830784: 0 974
//! ```
//!
//! (include/trace/events/damon.h.) The first is of `perf script`, and of damo's perf_script; the
//! second of `trace-cmd report`, and of a file `trace` of tracefs. Lines of other events are
//! skipped.

use std::io::BufRead;

use super::super::ImportProblem;
use super::super::lines::{LineProblem, decimal, for_each, seconds};
use super::super::windows::WindowBuilder;
use super::Region;

/// Reads lines to the end of the input.
pub(super) fn read(
    input: &mut dyn BufRead,
    windows: &mut WindowBuilder<'_>,
) -> Result<(), ImportProblem> {
    for_each(input, &mut |line| {
        let Some((ns, target, region)) = parse(line)? else { return Ok(()) };
        windows.at(ns)?;
        Ok(region.add(target, windows)?)
    })
}

/// The time in nanoseconds, the target and the region of a line of the event.
fn parse(line: &[u8]) -> Result<Option<(u64, u64, Region)>, LineProblem> {
    let line = std::str::from_utf8(line).map_err(|_| "not text")?;
    if line.trim().is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let mut words = line.split_ascii_whitespace();
    let mut time = None;
    let event = loop {
        let word = words.next().ok_or("no event")?;
        // The first word may be a process's name that ends in a colon.
        match word.strip_suffix(':') {
            Some(event) if time.is_some() => break event,
            Some(stamp) => time = seconds(stamp).ok(),
            None => {}
        }
    };
    if event.rsplit(':').next() != Some("damon_aggregated") {
        return Ok(None);
    }
    let (mut target, mut range) = (None, None);
    for word in words.by_ref() {
        if let Some(id) = word.strip_prefix("target_id=") {
            target = Some(decimal(id, "the target is no number")?);
        } else if let Some(found) = word.strip_suffix(':') {
            range = found.split_once('-');
            break;
        }
    }
    let (start, end) = range.ok_or("no region START-END:")?;
    let nr_accesses = words.next().ok_or("no number of accesses after the region")?;
    // damo marks the end of a record by an empty region of -1 accesses.
    let nr_accesses = if nr_accesses == "-1" { "0" } else { nr_accesses };
    const NO_REGION: &str = "the region's ends are no numbers";
    let region = Region {
        start: decimal(start, NO_REGION)?,
        end: decimal(end, NO_REGION)?,
        nr_accesses: decimal(nr_accesses, "nr_accesses is no number")?
            .try_into()
            .map_err(|_| "nr_accesses is above 4294967295")?,
    };
    if region.end < region.start {
        return Err("the region ends before it starts".into());
    }
    let target = target.ok_or("no target_id=")?;
    Ok(Some((time.unwrap_or_default(), target, region)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_each_printer_are_read() {
        let region = Region { start: 4096, end: 12288, nr_accesses: 3 };
        for head in [
            "kdamond.0  4452 [000] 5.25: damon:damon_aggregated:",
            "kdamond.0-129062 [005] ..... 5.250: damon_aggregated:    ",
            "<...>-129062 [000] 5.250000: damon_aggregated:",
            "kdamond.x xxxx xxxx 5.250000: damon:damon_aggregated:",
        ] {
            let line = format!("{head} target_id=2 nr_regions=9 4096-12288: 3 974");
            let read = parse(line.as_bytes()).ok().flatten();
            assert_eq!(read, Some((5_250_000_000, 2, region)), "{head}");
        }
    }

    #[test]
    fn other_events_are_skipped_and_others_refused() {
        let skipped = parse(b"k 1 [0] 5.25: damon:damon_monitor_intervals_tune: sample_us=80000");
        assert!(matches!(skipped, Ok(None)));
        for end in ["1-2:", "2-1: 3 4", "1-2 3 4", "a-2: 3 4", "1-2: x 4", "1-2: 4294967296 4"] {
            let line = format!("k 1 [0] 5.25: damon_aggregated: target_id=2 nr_regions=9 {end}");
            assert!(parse(line.as_bytes()).is_err(), "{end}");
        }
        assert!(parse(b"what is this").is_err());
    }
}
