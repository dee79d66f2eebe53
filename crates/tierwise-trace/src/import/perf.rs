//! Reads the output of `perf script -F pid,tid,time,period,event,addr,data_src` for a recording
//! with data addresses: `perf mem record`, `perf c2c record`, or `perf record -d`.
//!
//! ```text
//! 3102/3102 16104.055540: 1 cpu/mem-loads,ldlat=30/P: 7f8ac6f7f110 5080144 |OP LOAD|LVL L1 hit|
//! ```
//!
//! A sample stands for as many accesses as its period. It is a store if its source says so
//! ("OP STORE"), or else if its event's name has "store" in it. It is a hit if its source says that
//! a cache had the line ("LVL L1 hit"), and else a miss: memory, an unknown source, or none.
//! (tools/perf/util/mem-events.c, `perf_script__meminfo_scnprintf`.)
//!
//! Skipped are samples without an address, and of kernel memory, which no policy moves.

use std::io::BufRead;

use super::ImportProblem;
use super::lines::{LineProblem, decimal, for_each, hexadecimal, seconds};
use super::windows::{PageCounts, WindowBuilder};

/// Start of the kernel's addresses, on x86-64 and AArch64.
const KERNEL: u64 = 1 << 63;

/// Reads samples to the end of the input.
pub(super) fn read(
    input: &mut dyn BufRead,
    windows: &mut WindowBuilder<'_>,
) -> Result<(), ImportProblem> {
    for_each(input, &mut |line| {
        let Some(sample) = parse(line)? else { return Ok(()) };
        windows.at(sample.ns)?;
        match sample.address {
            0 => windows.skip("samples without an address"),
            KERNEL.. => windows.skip("samples of the kernel's memory"),
            address => windows.count(sample.process, address, sample.counts())?,
        }
        Ok(())
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    process: u64,
    ns: u64,
    period: u64,
    address: u64,
    store: bool,
    miss: bool,
}

impl Sample {
    fn counts(&self) -> PageCounts {
        // A period of 0 is that of an event that perf could not program; the sample is one access.
        let accesses = u32::try_from(self.period.max(1)).unwrap_or(u32::MAX);
        let misses = if self.miss { accesses } else { 0 };
        match self.store {
            true => PageCounts { stores: accesses, store_misses: misses, ..PageCounts::default() },
            false => PageCounts { loads: accesses, load_misses: misses, ..PageCounts::default() },
        }
    }
}

/// Parses a line; an empty one and a comment have no sample.
fn parse(line: &[u8]) -> Result<Option<Sample>, LineProblem> {
    let line = std::str::from_utf8(line).map_err(|_| "not text")?;
    if line.trim().is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (line, source) = match line.split_once('|') {
        Some((line, source)) => (line, Some(source)),
        None => (line, None),
    };
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [process, time, period, event, address, rest @ ..] = &words[..] else {
        return Err("fewer than process, time, period, event and address".into());
    };
    // An instruction's address and its symbol follow without -F, in place of the data's address.
    if rest.len() > usize::from(source.is_some()) {
        return Err("more than an address and its source".into());
    }
    let (process, thread) = process.split_once('/').ok_or("no process and thread (PID/TID)")?;
    decimal(thread, "the thread is no number")?;
    let (time, event) = (time.strip_suffix(':'), event.strip_suffix(':'));
    let event = event.ok_or("no colon after the event")?;
    let source = source.filter(|source| !source.starts_with("OP N/A"));
    Ok(Some(Sample {
        process: decimal(process, "the process is no number")?,
        ns: seconds(time.ok_or("no colon after the time")?)?,
        period: decimal(period, "the period is no number")?,
        address: hexadecimal(address)?,
        store: source.map_or(event.contains("store"), |source| source.starts_with("OP STORE")),
        miss: !source.is_some_and(is_hit),
    }))
}

/// True if a sample's source says that a cache had the line: `OP LOAD|LVL L3 or L3 hit|SNP None`.
fn is_hit(source: &str) -> bool {
    let level = source.split('|').find_map(|part| part.strip_prefix("LVL "));
    let Some(level) = level.and_then(|level| level.trim_end().strip_suffix("hit")) else {
        return false;
    };
    let memory = ["RAM", "PMEM", "CXL", "I/O", "Uncached"];
    let cache = ["L1", "L2", "L3", "L4", "LFB", "ache", "MHB"];
    !memory.iter().any(|name| level.contains(name)) && cache.iter().any(|name| level.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(line: &str) -> Option<Sample> {
        parse(line.as_bytes()).ok().flatten()
    }

    #[test]
    fn source_distinguishes_hits_and_stores() {
        let line = |event: &str, source: &str| {
            let line = format!(" 7/8  1.5:   100 {event}: 7f00  5080144 |{source}");
            sample(&line).map(|sample| (sample.store, sample.miss)).unwrap()
        };
        let loads = "cpu/mem-loads,ldlat=30/P";
        for (event, source, expected) in [
            (loads, "OP LOAD|LVL L1 or L1 hit|SNP None|TLB L1 hit|LCK No", (false, false)),
            (loads, "OP LOAD|LVL LFB or LFB hit|SNP None", (false, false)),
            (loads, "OP LOAD|LVL Local RAM or RAM hit|SNP Miss", (false, true)),
            (loads, "OP LOAD|LVL Remote Cache (1 hop) hit|SNP HitM", (false, false)),
            (loads, "OP LOAD|LVL L3 miss|SNP None", (false, true)),
            (loads, "OP LOAD|LVL CXL hit|SNP None", (false, true)),
            ("cpu/mem-stores/P", "OP STORE|LVL L1 hit|SNP N/A", (true, false)),
            ("cpu/mem-stores/P", "OP N/A|LVL N/A or N/A|SNP N/A", (true, true)),
            ("ibs_op//", "OP STORE|LVL N/A|SNP N/A", (true, true)),
        ] {
            assert_eq!(line(event, source), expected, "{source}");
        }
    }

    #[test]
    fn periods_are_weights_of_samples() {
        let sample = sample("7/8 1.000001: 10007 mem-stores: ffff8000").unwrap();
        assert_eq!((sample.process, sample.ns), (7, 1_000_001_000));
        assert_eq!((sample.counts().stores, sample.counts().store_misses), (10_007, 10_007));
        assert_eq!(sample.counts().loads, 0);
    }

    #[test]
    fn other_fields_are_refused() {
        assert_eq!(sample("# captured on: Wed"), None);
        for line in [
            // perf script without -F: an instruction's address and its symbol.
            "python3 31025 16104.055540:  1 page-faults:  7f8ac6f65b70 _start+0x0 (/usr/lib/ld.so)",
            "7/7 16104.05: 1 page-faults: 7f8ac6f65b70 _start+0x0",
            "7/7 16104.05 1 page-faults: 7f8ac6f65b70",
            "7 16104.05: 1 page-faults: 7f8ac6f65b70",
            "7/7 16104.05: page-faults: 7f8ac6f65b70",
        ] {
            assert!(parse(line.as_bytes()).is_err(), "{line}");
        }
    }
}
