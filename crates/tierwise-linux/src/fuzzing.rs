//! Every parser of text that a tenant can influence, as a function of bytes: what the fuzz targets
//! call.
//!
//! Each parses, and asserts what holds whatever the bytes are.

use std::borrow::Cow;
use std::path::Path;

use bstr::ByteSlice;
use tierwise_core::units::Bytes;

use crate::cgroup::{Events, MemoryStat, Pressure, cpu, group, numa_stat};
use crate::damon::record::Record;
use crate::damon::trace::Format;
use crate::file;
use crate::kernel_tiering::{Counters, Demotable};
use crate::migrate::page_cache::mglru;
use crate::mqueue::Message;
use crate::process::{Mounts, Stat, maps, mounts};
use crate::qemu::{Dialogue, QmpError, Step};
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
    ("qmp", qmp),
    ("guest_name", guest_name),
    ("mqueue", mqueue),
];

/// What of the bytes is text, for files in which nobody has a part but the kernel.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn path() -> &'static Path {
    Path::new("fuzzed")
}

/// `/proc/PID/stat`.
pub fn stat(bytes: &[u8]) {
    if let Some(stat) = Stat::parse(bytes) {
        // CPU time of any count of ticks can be told.
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
    if let Some(format) = Format::parse(format) {
        let mut records = Vec::new();
        format.page(page, &mut records);
        assert!(records.len() <= page.len() / 4);
    }
}

/// `memory.numa_stat`. Page cache is a part of all.
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
    let _ = (Events::parse(path(), bytes), cpu::usage(path(), bytes));
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
    let _ = Pressure::parse(path(), bytes);
}

/// `/proc/zoneinfo`.
pub fn zoneinfo(bytes: &[u8]) {
    let text = text(bytes);
    if let Ok(nodes) = zoneinfo::watermarks(path(), &text) {
        assert!(nodes.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
    zoneinfo::per_cpu_lists(&text, |_, _| {});
}

/// `lru_gen`. What is found of one group is found of the root too.
pub fn lru_gen(bytes: &[u8]) {
    let (mut of_one, mut all) = (Vec::new(), Vec::new());
    let mut one = mglru::Lines::new(|name: &[u8]| mglru::below(name, b"/a"));
    let mut root = mglru::Lines::new(|_: &[u8]| true);
    for line in bytes.lines() {
        assert_eq!(one.take(line, &mut of_one), root.take(line, &mut all));
    }
    assert!(of_one.len() <= all.len());
    let (one, all) = (Demotable::of(&of_one), Demotable::of(&all));
    assert!(one.pages <= all.pages && (all.idle.is_none() || all.pages.0 > 0));
}

/// `/proc/vmstat`, as far as steering reads it.
pub fn vmstat(bytes: &[u8]) {
    if let Ok(counters) = Counters::parse(path(), bytes) {
        // Another line changes nothing.
        let more = [bytes, b"\nnr_ev\xffil -1"].concat();
        assert_eq!(Counters::parse(path(), &more).ok(), Some(counters));
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

/// The record of DAMON's threads, and that what was read is written the same.
pub fn damon_record(bytes: &[u8]) {
    if let Ok(record) = serde_json::from_slice::<Record>(bytes) {
        let written = serde_json::to_vec(&record).unwrap_or_default();
        assert_eq!(serde_json::from_slice::<Record>(&written).ok(), Some(record));
    }
}

/// What QEMU says over its QMP socket: however it is cut, and each command once.
pub fn qmp(bytes: &[u8]) {
    let talk = |piece: usize| {
        let (mut dialogue, mut sent) = (Dialogue::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            dialogue.take(piece)?;
            loop {
                match dialogue.step()? {
                    Step::Read => break,
                    Step::Send(command) => sent.push(command),
                    done @ Step::Done(_) => return Ok((sent, done)),
                }
            }
        }
        Ok::<_, QmpError>((sent, Step::Read))
    };
    let whole = talk(usize::MAX);
    match &whole {
        Ok((sent, _)) => assert!(sent.len() <= 3),
        Err(e) => assert!(e.to_string().len() < MAX_SAID),
    }
    // Bytes beyond what is taken may come before or after the line that ends the conversation.
    if bytes.len() <= crate::qemu::MAX_LEN {
        assert_eq!(whole, talk(7));
    }
}

/// A command line, of which the guest's name is read.
pub fn guest_name(bytes: &[u8]) {
    if let Some(name) = crate::tenant::guest_name(bytes) {
        assert!(name.len() <= bytes.len() && !name.contains(&0));
    }
}

/// A scheduler's message.
pub fn mqueue(bytes: &[u8]) {
    match Message::parse(&text(bytes)) {
        Ok(Message::Add { name, pid }) => assert!(pid > 0 && !name.is_empty()),
        Ok(Message::Remove { name }) => assert!(!name.is_empty()),
        Err(said) => assert!(said.len() < MAX_SAID && !said.contains('\x1b')),
    }
}

/// Longest text that is said of bytes: two quotations, and words around them.
const MAX_SAID: usize = 1500;

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
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(&b"0123456789 \
                \n\
                =-:N/,()"[..])], 0..200),
        ) {
            TARGETS.iter().for_each(|(_, target)| target(&bytes));
        }
    }
}
