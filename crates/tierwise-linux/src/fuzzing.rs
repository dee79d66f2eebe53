//! Every parser of text that a tenant can influence, as a function of bytes, for the fuzz targets.
//!
//! Each parses, and asserts the properties that hold for all bytes.

use std::borrow::Cow;
use std::path::Path;

use bstr::ByteSlice;
use tierwise_core::units::Bytes;

use crate::cgroup::{MemoryEvents, MemoryPressure, MemoryStat, cpu, group, numa_stat};
use crate::damon::record::KdamondRecord;
use crate::damon::trace::RecordFormat;
use crate::file;
use crate::kernel_tiering::{VmstatCounters, idle_of};
use crate::migrate::page_cache::mglru;
use crate::mqueue::SchedulerMessage;
use crate::process::{Mounts, ProcessStat, maps, mounts};
use crate::qemu::{Dialogue, QmpError, QmpStep};
use crate::settings::Knob;
use crate::tenant::numa_maps;
use crate::topology::zoneinfo;

/// A parser of bytes.
pub type Parser = fn(&[u8]);

/// Every parser, by name.
pub const TARGETS: &[(&str, Parser)] = &[
    ("stat", stat),
    ("maps", maps),
    ("mountinfo", mountinfo),
    ("numa_maps", numa_maps),
    ("numa_stat", numa_stat),
    ("cgroup_procs", cgroup_procs),
    ("memory_stat", memory_stat),
    ("cpu_max", cpu_max),
    ("cpu_list", cpu_list),
    ("pressure", pressure),
    ("zoneinfo", zoneinfo),
    ("lru_gen", lru_gen),
    ("vmstat", vmstat),
    ("knob", knob),
    ("damon_record", damon_record),
    ("damon_trace", damon_trace),
    ("settings_state", settings_state),
    ("heat_state", heat_state),
    ("qmp", qmp),
    ("guest_name", guest_name),
    ("mqueue", mqueue),
];

/// Converts to text, for files whose content comes only from the kernel.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn path() -> &'static Path {
    Path::new("fuzzed")
}

/// `/proc/PID/stat`.
pub fn stat(bytes: &[u8]) {
    if let Some(stat) = ProcessStat::parse(bytes) {
        // Every count of ticks converts to CPU time.
        let _ = (stat.cpu_time(), stat.is_dead());
    }
}

/// `/proc/PID/maps`.
pub fn maps(bytes: &[u8]) {
    for line in bytes.lines() {
        if let Some(mapping) = maps::parse(line, &Mounts::default()) {
            assert!(mapping.start < mapping.end && mapping.bytes() > 0);
        }
    }
}

/// `/proc/PID/mountinfo`.
pub fn mountinfo(bytes: &[u8]) {
    for line in bytes.lines() {
        if let Some((_, kind)) = mounts::parse(line) {
            assert!(kind.len() < line.len() && !kind.contains(&b' '));
        }
    }
}

/// `/proc/PID/numa_maps`.
pub fn numa_maps(bytes: &[u8]) {
    let mut usage = Vec::new();
    for line in bytes.lines() {
        numa_maps::add_line(line, &mut usage);
    }
    assert_ascending(&usage);
}

/// The format of DAMON's tracepoint and, after a byte of zero, a page of its buffer.
pub fn damon_trace(bytes: &[u8]) {
    let (format, page) = bytes.split_once_str(b"\0").unwrap_or((bytes, b""));
    if let Some(format) = RecordFormat::parse(format) {
        let mut records = Vec::new();
        format.page(page, &mut records);
        assert!(records.len() <= page.len() / 4);
    }
}

/// `memory.numa_stat`. Page cache is part of the total.
pub fn numa_stat(bytes: &[u8]) {
    let (mut all, mut cache) = (Vec::new(), Vec::new());
    let answer = numa_stat::usage(path(), bytes, &mut all);
    assert_ascending(&all);
    if answer.is_ok() && numa_stat::page_cache(path(), bytes, &mut cache).is_ok() {
        let held = |node: u32| all.iter().find(|(n, _)| *n == node).map_or(0, |(_, b)| b.0);
        assert!(cache.iter().all(|(node, bytes)| bytes.0 <= held(*node)));
    }
}

/// `cgroup.procs`.
pub fn cgroup_procs(bytes: &[u8]) {
    assert!(bytes.lines().filter_map(group::pid).flatten().all(|pid| pid > 0));
}

/// `memory.stat`, `memory.events` and `cpu.stat`, which have one format.
pub fn memory_stat(bytes: &[u8]) {
    if let Ok(counters) = MemoryStat::parse(path(), bytes) {
        assert!(counters.pgdemote_kswapd <= counters.demoted());
    }
    let _ = (MemoryEvents::parse(path(), bytes), cpu::usage(path(), bytes));
}

/// `cpu.max`.
pub fn cpu_max(bytes: &[u8]) {
    if let Ok(Some(cpus)) = cpu::quota(path(), bytes) {
        assert!(cpus.is_finite() && cpus >= 0.0);
    }
}

/// A list of CPUs or nodes.
pub fn cpu_list(bytes: &[u8]) {
    if let Ok(count) = file::count(path(), bytes) {
        assert!(count <= 1 << 16);
        assert_eq!(file::list(path(), bytes).map_or(0, |list| list.len()), count);
    }
}

/// `memory.pressure`.
pub fn pressure(bytes: &[u8]) {
    let _ = MemoryPressure::parse(path(), bytes);
}

/// `/proc/zoneinfo`.
pub fn zoneinfo(bytes: &[u8]) {
    let text = text(bytes);
    if let Ok(nodes) = zoneinfo::watermarks(path(), &text) {
        assert!(nodes.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
    zoneinfo::per_cpu_lists(&text, |_, _| {});
    zoneinfo::withheld(&text, |_, _| {});
}

/// `lru_gen`. The generations of one group are also found for the root.
pub fn lru_gen(bytes: &[u8]) {
    let (mut of_one, mut all) = (Vec::new(), Vec::new());
    let mut one = mglru::Lines::new(|_: u64, name: &[u8]| mglru::below(name, b"/a"));
    let mut root = mglru::Lines::new(|_: u64, _: &[u8]| true);
    for line in bytes.lines() {
        assert_eq!(one.take(line, &mut of_one), root.take(line, &mut all));
    }
    assert!(of_one.len() <= all.len());
    assert_eq!(idle_of(&of_one, |_| true, |_, idle| idle).len(), of_one.len());
    assert_eq!(idle_of(&all, |_| false, |_, idle| idle).len(), all.len());
}

/// `/proc/vmstat`, as far as steering reads it.
pub fn vmstat(bytes: &[u8]) {
    if let Ok(counters) = VmstatCounters::parse(path(), bytes) {
        // Another line changes nothing.
        let more = [bytes, b"\nnr_ev\xffil -1"].concat();
        assert_eq!(VmstatCounters::parse(path(), &more).ok(), Some(counters));
    }
}

/// The content of a kernel setting's file: what it is read as can be written and read again.
pub fn knob(bytes: &[u8]) {
    for knob in Knob::ALL {
        if let Some(value) = knob.canonical(&text(bytes)) {
            assert_eq!(knob.canonical(&value), Some(value));
        }
    }
}

/// The state file of changed settings.
pub fn settings_state(bytes: &[u8]) {
    crate::settings::fuzz_state(bytes);
}

/// The state file of remembered heat.
pub fn heat_state(bytes: &[u8]) {
    // Whether it is refused does not matter here.
    let _ = crate::world::heat::file::parse(bytes);
}

/// The record of DAMON's threads: a record that was read is written unchanged.
pub fn damon_record(bytes: &[u8]) {
    if let Ok(record) = serde_json::from_slice::<KdamondRecord>(bytes) {
        let written = serde_json::to_vec(&record).unwrap_or_default();
        assert_eq!(serde_json::from_slice::<KdamondRecord>(&written).ok(), Some(record));
    }
}

/// QEMU's answers over its QMP socket: cut anywhere, with each command once.
pub fn qmp(bytes: &[u8]) {
    let talk = |piece: usize| {
        let (mut dialogue, mut sent) = (Dialogue::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            dialogue.take(piece)?;
            loop {
                match dialogue.step()? {
                    QmpStep::Read => break,
                    QmpStep::Send(command) => sent.push(command),
                    done @ QmpStep::Done(_) => return Ok((sent, done)),
                }
            }
        }
        Ok::<_, QmpError>((sent, QmpStep::Read))
    };
    let whole = talk(usize::MAX);
    match &whole {
        Ok((sent, _)) => assert!(sent.len() <= 3),
        Err(e) => assert!(e.to_string().len() < MAX_MESSAGE_LEN),
    }
    // Bytes beyond the limit may come before or after the line that ends the conversation.
    if bytes.len() <= crate::qemu::MAX_LEN {
        assert_eq!(whole, talk(7));
    }
}

/// A command line with the guest's name.
pub fn guest_name(bytes: &[u8]) {
    if let Some(name) = crate::tenant::guest_name(bytes) {
        assert!(name.len() <= bytes.len() && !name.contains(&0));
    }
}

/// A scheduler's message.
pub fn mqueue(bytes: &[u8]) {
    match SchedulerMessage::parse(&text(bytes)) {
        Ok(SchedulerMessage::Add { name, pid }) => assert!(pid > 0 && !name.is_empty()),
        Ok(SchedulerMessage::Remove { name }) => assert!(!name.is_empty()),
        Err(message) => assert!(message.len() < MAX_MESSAGE_LEN && !message.contains('\x1b')),
    }
}

/// Limit of a text about the bytes: two quotations, and words around them.
const MAX_MESSAGE_LEN: usize = 1500;

fn assert_ascending(usage: &[(u32, Bytes)]) {
    assert!(usage.windows(2).all(|pair| pair[0].0 < pair[1].0));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_break_a_parser(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), prop::sample::select(&b"0123456789 \n=-:N/,()"[..])],
                0..200
            ),
        ) {
            TARGETS.iter().for_each(|(_, target)| target(&bytes));
        }
    }
}
