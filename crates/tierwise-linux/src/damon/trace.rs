//! Regions of kdamonds from their tracepoint `damon:damon_aggregated`
//! (include/trace/events/damon.h), through a trace instance of this process
//! (Documentation/trace/ftrace.rst, "Instances").
//!
//! The kernel writes regions into the instance's buffers at the end of each aggregation interval.
//! Reading them needs no command: it waits for no kdamond and takes no lock of DAMON's. A kdamond
//! that waits for its process therefore does not keep the others from being read. Reading costs one
//! record per region, where sysfs costs four files. The instance needs no capability, only access
//! to root's files; perf_event_open(2) needs `CAP_SYS_ADMIN` if `kernel.perf_event_paranoid` is
//! above 2, as on Debian's and Ubuntu's kernels.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use bstr::ByteSlice;

use super::regions::HostRegion;
use crate::bytes::parsed;
use crate::error::{LinuxError, Result};
use crate::file;
use crate::process::{Process, Reader};
use crate::roots::Roots;

/// KiB of all CPUs' buffers together: the regions that 16 kdamonds with 1,000 regions each report
/// in two aggregation intervals, at 56 bytes per record. They are read once per interval, and the
/// kernel keeps the newest. The kernel clears the buffers when the daemon starts: 8 MiB took an
/// emulated CPU 80 ms.
const BUFFERS_KIB: usize = 2 << 10;

/// Minimum KiB of one CPU's buffer: two intervals of one kdamond.
const MIN_BUFFER_KIB: usize = 128;

/// Prefix of an instance's name, before the process that made it.
const PREFIX: &str = "tierwise-";

/// Maximum bytes of a record that is read: the kernel's has 48.
const MAX_RECORD: usize = 256;

/// Offsets and sizes of the tracepoint's fields in its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordFormat {
    pid: usize,
    target: usize,
    nr_regions: usize,
    start: usize,
    end: usize,
    nr_accesses: usize,
    age: usize,
}

impl RecordFormat {
    /// Parses lines such as `field:unsigned long start; offset:24; size:8; signed:0;`.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
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
            pid: offset("common_pid", 4)?,
            target: offset("target_id", 8)?,
            nr_regions: offset("nr_regions", 4)?,
            start: offset("start", 8)?,
            end: offset("end", 8)?,
            nr_accesses: offset("nr_accesses", 4)?,
            age: offset("age", 4)?,
        })
    }

    /// Decodes a record.
    fn record(&self, time: u64, bytes: &[u8]) -> Option<TraceRecord> {
        let long = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
        let int = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let region = HostRegion {
            start: long(self.start)?,
            end: long(self.end)?,
            nr_accesses: int(self.nr_accesses)?,
            age: int(self.age)?,
        };
        let of = int(self.nr_regions)? as usize;
        let (thread, target) = (int(self.pid)?.cast_signed(), long(self.target)?);
        Some(TraceRecord { time, thread, target, region, of })
    }

    /// Decodes the records of a page of the ring buffer (kernel/trace/ring_buffer.c): the page's
    /// time, the length of its data, and events. An event starts with 5 bits of type and 27 bits of
    /// time since the last one.
    pub(crate) fn page(&self, page: &[u8], records: &mut Vec<TraceRecord>) {
        const PADDING: u32 = 29;
        const TIME_EXTEND: u32 = 30;
        const TIME_STAMP: u32 = 31;
        // The upper bits of the length flag overwritten events.
        const LENGTH: u64 = (1 << 20) - 1;
        let long = |at: usize| page.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
        let (Some(mut time), Some(length)) = (long(0), long(8)) else { return };
        let end = page.len().min(16 + (length & LENGTH) as usize);
        let int = |at: usize| {
            let bytes = page[..end].get(at..at + 4)?;
            bytes.try_into().ok().map(u32::from_ne_bytes)
        };
        let mut at = 16;
        while let Some(header) = int(at) {
            let (kind, delta) = (header & 31, u64::from(header >> 5));
            at += 4;
            time = time.wrapping_add(delta);
            match kind {
                // Nothing follows on this page.
                PADDING if delta == 0 => return,
                TIME_EXTEND | TIME_STAMP => {
                    let Some(more) = int(at) else { return };
                    let more = u64::from(more) << 27;
                    // A time stamp replaces the time; a time extension adds to it.
                    time = if kind == TIME_STAMP { more | delta } else { time.wrapping_add(more) };
                    at += 4;
                }
                PADDING | 0 => {
                    // The length comes first, and includes itself.
                    let Some(length) = int(at).filter(|&length| length >= 4) else { return };
                    let next = at + length as usize;
                    if kind == 0 {
                        let bytes = page[..end].get(at + 4..next).unwrap_or_default();
                        records.extend(self.record(time, bytes));
                    }
                    at = next;
                }
                words => {
                    let next = at + 4 * words as usize;
                    let bytes = page[..end].get(at..next).unwrap_or_default();
                    records.extend(self.record(time, bytes));
                    at = next;
                }
            }
        }
    }
}

/// A region that a kdamond's thread reported, and the number of its target's regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceRecord {
    /// Time in units of the trace clock.
    pub(crate) time: u64,
    thread: i32,
    /// Number of the target among the kdamond's.
    target: u64,
    region: HostRegion,
    of: usize,
}

/// Assembles records to one target's regions of one aggregation interval.
#[derive(Debug, Default)]
struct Assembler {
    /// Regions of the current interval.
    regions: Vec<HostRegion>,
    /// Regions of the last complete interval.
    whole: Vec<HostRegion>,
    fresh: bool,
}

impl Assembler {
    fn push(&mut self, region: HostRegion, of: usize) {
        // Regions ascend, so another interval has started, and records of the last one were lost.
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

/// Trace buffers of all kdamonds.
#[derive(Debug)]
pub struct TraceBuffers {
    /// The instance's directory.
    instance: PathBuf,
    format: RecordFormat,
    /// One file per CPU.
    cpus: Vec<File>,
    page: Vec<u8>,
    records: Vec<TraceRecord>,
    /// By kdamond thread and target.
    targets: HashMap<(i32, u64), Assembler>,
}

impl TraceBuffers {
    /// Makes an instance into which kdamonds report. Removes instances that killed processes left.
    ///
    /// # Errors
    /// tracefs does not exist or is not accessible, or the tracepoint has unknown fields.
    pub fn open(roots: &Roots) -> Result<Self> {
        let tracing = tracing(roots)?;
        // An instance that cannot be removed, because another program reads it, does no harm.
        if let Err(problem) = remove_left(roots) {
            tracing::warn!("{problem}");
        }
        let event = "events/damon/damon_aggregated";
        let path = tracing.join(event).join("format");
        let format =
            RecordFormat::parse(&file::bytes(&path)?).ok_or_else(|| LinuxError::Missing {
                what: format!("{}: the fields of the tracepoint are unknown", path.display()),
                remedy: "report the kernel's version to Tierwise".into(),
            })?;
        let own =
            Process::read(roots, rustix::process::getpid().as_raw_pid(), &mut Reader::default())?;
        let name = format!("{PREFIX}{}-{}", own.pid, own.start_time);
        let instance = tracing.join("instances").join(name);
        fs::create_dir(&instance).map_err(|e| LinuxError::file(&instance, "make", e))?;
        // Drop removes the instance from here on.
        let mut trace = Self {
            instance,
            format,
            cpus: Vec::new(),
            page: vec![0; rustix::param::page_size()],
            records: Vec::new(),
            targets: HashMap::new(),
        };
        let per_cpu = trace.instance.join("per_cpu");
        let failed = |e| LinuxError::file(&per_cpu, "list", e);
        for cpu in fs::read_dir(&per_cpu).map_err(failed)? {
            let path = cpu.map_err(failed)?.path().join("trace_pipe_raw");
            let opened = file::open(&path).map_err(|e| LinuxError::file(&path, "read", e))?;
            trace.cpus.push(opened);
        }
        let kib = (BUFFERS_KIB / trace.cpus.len().max(1)).max(MIN_BUFFER_KIB);
        file::write(&trace.instance.join("buffer_size_kb"), &kib.to_string())?;
        file::write(&trace.instance.join(event).join("enable"), "1")?;
        Ok(trace)
    }

    /// Reads the regions that these threads reported since the last call.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read(&mut self, threads: &[i32]) -> Result<()> {
        self.targets.retain(|(thread, _), _| threads.contains(thread));
        for cpu in &mut self.cpus {
            loop {
                match cpu.read(&mut self.page) {
                    Ok(0) => break,
                    Ok(length) => self.format.page(&self.page[..length], &mut self.records),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) => return Err(LinuxError::file(&self.instance, "read", e)),
                }
            }
        }
        // A kdamond may have moved to another CPU while it reported.
        self.records.sort_by_key(|record| record.time);
        for record in self.records.drain(..).filter(|record| threads.contains(&record.thread)) {
            let target = self.targets.entry((record.thread, record.target)).or_default();
            target.push(record.region, record.of);
        }
        Ok(())
    }

    /// Regions of one of a thread's targets in the last aggregation interval that has ended since
    /// the last call, ascending; `None` if none has.
    pub fn take(&mut self, thread: i32, target: u64) -> Option<&[HostRegion]> {
        let assembler = self.targets.get_mut(&(thread, target))?;
        std::mem::take(&mut assembler.fresh).then_some(&assembler.whole[..])
    }
}

impl Drop for TraceBuffers {
    fn drop(&mut self) {
        // An instance whose files are open cannot be removed.
        self.cpus.clear();
        if let Err(error) = fs::remove_dir(&self.instance) {
            tracing::warn!("{}: cannot remove: {error}", self.instance.display());
        }
    }
}

/// Directory of tracefs, if it has DAMON's tracepoint.
fn tracing(roots: &Roots) -> Result<PathBuf> {
    let places = ["kernel/tracing", "kernel/debug/tracing"].map(|name| roots.sys.join(name));
    let has = |tracing: &&PathBuf| tracing.join("events/damon/damon_aggregated").exists();
    places.iter().find(has).cloned().ok_or_else(|| LinuxError::Missing {
        what: format!("{} has no tracepoint damon:damon_aggregated", places[0].display()),
        remedy: "mount tracefs there, on a kernel built with CONFIG_FTRACE".into(),
    })
}

/// Removes the instances of processes that ended without doing so. Returns their names.
///
/// # Errors
/// The directory of instances cannot be listed, or one of them cannot be removed.
pub fn remove_left(roots: &Roots) -> Result<Vec<String>> {
    let Ok(tracing) = tracing(roots) else { return Ok(Vec::new()) };
    let (instances, mut removed) = (tracing.join("instances"), Vec::new());
    let failed = |e| LinuxError::file(&instances, "list", e);
    for entry in fs::read_dir(&instances).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if let Some(maker) = maker(&path).filter(|maker| !maker.is_alive(roots)) {
            fs::remove_dir(&path).map_err(|e| LinuxError::file(&path, "remove", e))?;
            removed.push(format!("{PREFIX}{}-{}", maker.pid, maker.start_time));
        }
    }
    Ok(removed)
}

/// Process that made an instance, if Tierwise made it.
fn maker(instance: &Path) -> Option<Process> {
    let name = instance.file_name()?.to_str()?.strip_prefix(PREFIX)?;
    let (pid, start_time) = name.split_once('-')?;
    Some(Process { pid: pid.parse().ok()?, start_time: start_time.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Format of Linux 6.12.
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

    fn format() -> RecordFormat {
        RecordFormat::parse(FORMAT.as_bytes()).unwrap()
    }

    /// A record of thread 70's target 2, one of nine regions.
    fn bytes(start: u64) -> Vec<u8> {
        let mut record = vec![0; 48];
        record[4..8].copy_from_slice(&70i32.to_ne_bytes());
        record[8..16].copy_from_slice(&2u64.to_ne_bytes());
        record[16..20].copy_from_slice(&9u32.to_ne_bytes());
        record[24..32].copy_from_slice(&start.to_ne_bytes());
        record[32..40].copy_from_slice(&(start + 4096).to_ne_bytes());
        record[40..44].copy_from_slice(&3u32.to_ne_bytes());
        record[44..48].copy_from_slice(&5u32.to_ne_bytes());
        record
    }

    fn record(time: u64, start: u64) -> TraceRecord {
        TraceRecord { time, thread: 70, target: 2, region: region(start), of: 9 }
    }

    #[test]
    fn records_are_read_by_their_format() {
        assert_eq!(format().record(1, &bytes(4096)), Some(record(1, 4096)));
        assert_eq!(format().record(1, &bytes(4096)[..47]), None);
        // A format of another kernel, which is not known.
        assert_eq!(RecordFormat::parse(FORMAT.replace("age", "old").as_bytes()), None);
        let wide =
            FORMAT.replace("nr_accesses;\toffset:40;\tsize:4", "nr_accesses;\toffset:40;\tsize:8");
        assert_eq!(RecordFormat::parse(wide.as_bytes()), None);
    }

    fn page(time: u64, flags: u64, events: &[u8]) -> Vec<u8> {
        let mut page = time.to_ne_bytes().to_vec();
        page.extend((events.len() as u64 | flags).to_ne_bytes());
        page.extend(events);
        page.resize(4096, 0xff);
        page
    }

    fn event(kind: u32, delta: u32, rest: &[u8]) -> Vec<u8> {
        [&(kind | delta << 5).to_ne_bytes(), rest].concat()
    }

    #[test]
    fn pages_hold_every_kind_of_event() {
        let long = [&52u32.to_ne_bytes()[..], &bytes(8192)].concat();
        let events = [
            event(12, 5, &bytes(4096)),
            // 10 + (2 << 27) time units later.
            event(30, 10, &2u32.to_ne_bytes()),
            event(0, 1, &long),
            // A discarded event.
            event(29, 3, &[&8u32.to_ne_bytes()[..], &[1; 4]].concat()),
            event(31, 7, &1u32.to_ne_bytes()),
            event(12, 0, &bytes(12288)),
        ]
        .concat();
        let mut records = Vec::new();
        // Older events were overwritten.
        format().page(&page(100, 1 << 31, &events), &mut records);
        let late = 100 + 5 + 10 + (2 << 27) + 1;
        let stamped = (1 << 27) + 7;
        assert_eq!(records, [record(105, 4096), record(late, 8192), record(stamped, 12288)]);
        // No event beyond the length, or beyond the bytes read, is decoded.
        records.clear();
        format().page(&page(100, 0, &events)[..16 + 51], &mut records);
        format().page(&[], &mut records);
        assert_eq!(records, []);
    }

    #[test]
    fn instances_are_named_after_their_maker() {
        let made = maker(Path::new("/instances/tierwise-7-99"));
        assert_eq!(made, Some(Process { pid: 7, start_time: 99 }));
        assert_eq!(maker(Path::new("/instances/other-7-99")), None);
        assert_eq!(maker(Path::new("/instances/tierwise-7")), None);
    }

    proptest! {
        /// Regions belong to one interval, for any loss of records.
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
        fn no_format_makes_it_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            RecordFormat::parse(&text);
        }

        #[test]
        fn no_page_makes_it_panic(page in prop::collection::vec(any::<u8>(), 0..200)) {
            format().page(&page, &mut Vec::new());
        }
    }
}
