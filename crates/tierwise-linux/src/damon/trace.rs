//! A kdamond's regions from its tracepoint `damon:damon_aggregated`
//! (include/trace/events/damon.h), through perf_event_open(2).
//!
//! The kernel writes them into a ring at the end of each aggregation interval. Reading the ring
//! commands nothing: it waits for no kdamond and takes no lock of DAMON's, so that one kdamond that
//! waits for its process keeps no other from being read. It also costs one record per region, where
//! sysfs costs four files.

use std::io;
use std::path::PathBuf;

use bstr::ByteSlice;
use perf_event::events::Tracepoint;
use perf_event::{Builder, SampleFlag, Sampler};

use super::regions::HostRegion;
use crate::bytes::parsed;
use crate::file;
use crate::roots::Roots;

/// Bytes of a kdamond's ring: some 7,000 records of 72 bytes. With the most regions that are
/// configured by default (1,000) these are seven aggregation intervals, more than lie between two
/// readings.
const RING: usize = 512 << 10;

/// `PERF_RECORD_SAMPLE` of linux/perf_event.h.
const PERF_RECORD_SAMPLE: u32 = 9;

/// The largest record that is read: the kernel's has 48 bytes beside the size that stands first.
const MAX_RECORD: usize = 256;

/// Where the tracepoint's fields stand in its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    id: u64,
    nr_regions: usize,
    start: usize,
    end: usize,
    nr_accesses: usize,
    age: usize,
}

impl Format {
    /// Reads it from tracefs. Without tracefs, or where it is not as this needs it, there is none.
    pub fn read(roots: &Roots) -> Option<Self> {
        let tracing = ["kernel/tracing", "kernel/debug/tracing"].map(|name| roots.sys.join(name));
        let event = |tracing: &PathBuf| tracing.join("events/damon/damon_aggregated");
        let directory = tracing.iter().map(event).find(|event| event.join("id").exists())?;
        let id = file::value(&directory.join("id"), "a number").ok()?;
        Self::parse(id, &file::bytes(&directory.join("format")).ok()?)
    }

    /// Reads lines such as `field:unsigned long start; offset:24; size:8; signed:0;`.
    pub(crate) fn parse(id: u64, text: &[u8]) -> Option<Self> {
        let offset = |name: &str, size: usize| {
            let line = text.lines().find(|line| {
                let field = line.trim_ascii_start().strip_prefix(b"field:");
                let declared = field.and_then(|field| field.split_once_str(";"));
                declared.is_some_and(|(declared, _)| {
                    declared.rsplit_str(" ").next() == Some(name.as_bytes())
                })
            })?;
            let number = |key: &str| {
                let (_, rest) = line.split_once_str(key)?;
                parsed::<usize>(rest.split_once_str(";")?.0)
            };
            let fits = number("size:")? == size;
            number("offset:").filter(|offset| fits && *offset <= MAX_RECORD - size)
        };
        Some(Self {
            id,
            nr_regions: offset("nr_regions", 4)?,
            start: offset("start", 8)?,
            end: offset("end", 8)?,
            nr_accesses: offset("nr_accesses", 4)?,
            age: offset("age", 4)?,
        })
    }

    /// The region of a record, and of how many it is one.
    pub(crate) fn region(&self, record: &[u8]) -> Option<(HostRegion, usize)> {
        let long = |at: usize| record.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
        let int = |at: usize| record.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let region = HostRegion {
            start: long(self.start)?,
            end: long(self.end)?,
            nr_accesses: int(self.nr_accesses)?,
            age: int(self.age)?,
        };
        Some((region, int(self.nr_regions)? as usize))
    }
}

/// Puts records together to the regions of one aggregation interval.
#[derive(Debug, Default)]
struct Assembler {
    /// Of the interval at hand.
    regions: Vec<HostRegion>,
    /// Of the last whole one.
    whole: Vec<HostRegion>,
    fresh: bool,
}

impl Assembler {
    fn push(&mut self, region: HostRegion, of: usize) {
        // Regions ascend: another interval has started, and records of this one were lost.
        if self.regions.last().is_some_and(|last| region.start < last.end) {
            self.regions.clear();
        }
        self.regions.push(region);
        if self.regions.len() >= of {
            std::mem::swap(&mut self.regions, &mut self.whole);
            self.regions.clear();
            self.fresh = true;
        }
    }
}

/// The ring of one kdamond.
pub struct Trace {
    sampler: Sampler,
    format: Format,
    assembler: Assembler,
}

/// perf-event2's sampler has no Debug.
impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace").field("assembler", &self.assembler).finish_non_exhaustive()
    }
}

impl Trace {
    /// Opens the ring of a kdamond's thread.
    ///
    /// # Errors
    /// The kernel refuses: `CAP_PERFMON` is missing, or the thread has ended.
    pub fn open(format: Format, thread: i32) -> io::Result<Self> {
        let mut builder = Builder::new(Tracepoint::with_id(format.id));
        // The tracepoint is in the kernel: left out there, it would never be seen.
        builder.observe_pid(thread).any_cpu().exclude_kernel(false).exclude_hv(false);
        let mut counter = builder.sample(SampleFlag::RAW).sample_period(1).build()?;
        counter.enable()?;
        Ok(Self { sampler: counter.sampled(RING)?, format, assembler: Assembler::default() })
    }

    /// The regions of the last aggregation interval that ended since the last call, ascending;
    /// `None` if none has.
    pub fn take(&mut self) -> Option<&[HostRegion]> {
        while let Some(record) = self.sampler.next_record() {
            if record.ty() != PERF_RECORD_SAMPLE {
                continue;
            }
            let (mut bytes, mut length) = ([0; MAX_RECORD], 0);
            // One or two pieces, where the ring's end falls within the record.
            for piece in record.data() {
                let part = piece.len().min(MAX_RECORD - length);
                bytes[length..length + part].copy_from_slice(&piece[..part]);
                length += part;
            }
            // The size of what follows stands first.
            let raw = bytes[..length].get(4..).unwrap_or_default();
            if let Some((region, of)) = self.format.region(raw) {
                self.assembler.push(region, of);
            }
        }
        std::mem::take(&mut self.assembler.fresh).then_some(&self.assembler.whole[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Linux 6.12's.
    const FORMAT: &str = "name: damon_aggregated
ID: 563
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:unsigned long target_id;\toffset:8;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_regions;\toffset:16;\tsize:4;\tsigned:0;
\tfield:unsigned long start;\toffset:24;\tsize:8;\tsigned:0;
\tfield:unsigned long end;\toffset:32;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_accesses;\toffset:40;\tsize:4;\tsigned:0;
\tfield:unsigned int age;\toffset:44;\tsize:4;\tsigned:0;

print fmt: \"target_id=%lu nr_regions=%u %lu-%lu: %u %u\"
";

    fn region(start: u64) -> HostRegion {
        HostRegion { start, end: start + 4096, nr_accesses: 3, age: 5 }
    }

    #[test]
    fn records_are_read_by_their_format() {
        let format = Format::parse(563, FORMAT.as_bytes()).unwrap();
        let mut record = vec![0; 48];
        record[16..20].copy_from_slice(&9u32.to_ne_bytes());
        record[24..32].copy_from_slice(&4096u64.to_ne_bytes());
        record[32..40].copy_from_slice(&8192u64.to_ne_bytes());
        record[40..44].copy_from_slice(&3u32.to_ne_bytes());
        record[44..48].copy_from_slice(&5u32.to_ne_bytes());
        assert_eq!(format.region(&record), Some((region(4096), 9)));
        assert_eq!(format.region(&record[..47]), None);
        // Another kernel's, which this does not know.
        assert_eq!(Format::parse(1, FORMAT.replace("age", "old").as_bytes()), None);
        let wide =
            FORMAT.replace("nr_accesses;\toffset:40;\tsize:4", "nr_accesses;\toffset:40;\tsize:8");
        assert_eq!(Format::parse(1, wide.as_bytes()), None);
    }

    proptest! {
        /// Whatever records are lost, what is given is of one interval.
        #[test]
        fn regions_are_of_one_interval(
            intervals in prop::collection::vec(1usize..6, 1..8),
            lost in prop::collection::vec(any::<bool>(), 48),
        ) {
            let mut assembler = Assembler::default();
            let mut lost = lost.into_iter();
            for (number, &count) in intervals.iter().enumerate() {
                let mut kept = 0;
                for i in 0..count {
                    if !lost.next().unwrap_or(false) {
                        let age = number as u32;
                        let region = HostRegion { age, ..region(i as u64 * 4096) };
                        assembler.push(region, count);
                        kept += 1;
                    }
                }
                if std::mem::take(&mut assembler.fresh) {
                    let ascend = assembler.whole.is_sorted();
                    prop_assert!(ascend && assembler.whole.len() >= count);
                } else {
                    prop_assert!(kept < count);
                }
            }
        }

        #[test]
        fn no_format_panics(text in prop::collection::vec(any::<u8>(), 0..200)) {
            Format::parse(1, &text);
        }
    }
}
