//! The file in which the heat of memory outlives the daemon: JSON, of this boot, at most 4 MiB.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::HeatMemory;
use super::record::ProcessHeat;
use crate::error::{LinuxError, Result};
use crate::state_file::{self, Damage, MAX_LEN, StateFileContent};

/// Version of the layout below; a file of another version is moved aside.
const VERSION: u32 = 1;

/// Bytes of the text that all tenants' records may have: three quarters of the limit of a state
/// file, because lengths are estimated.
const MAX_TEXT: u64 = MAX_LEN / 4 * 3;

/// Estimated bytes of a record, of a mapping, and of a run in the file: the longest numbers that
/// occur, names and punctuation included.
const RECORD_BYTES: u64 = 512;
const MAPPING_BYTES: u64 = 160;
const RUN_BYTES: u64 = 18;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeatState {
    version: u32,
    boot_id: String,
    ticks: bool,
    processes: Vec<ProcessHeat>,
}

fn check(state: &HeatState) -> std::result::Result<(), String> {
    if state.version != VERSION {
        return Err(format!("found version {}; expected version {VERSION}", state.version));
    }
    state.processes.iter().try_for_each(ProcessHeat::check)
}

/// Reads the memory of an earlier daemon. A file that cannot be used is moved aside and reported,
/// and the memory is then empty, as it is for a file of another boot.
///
/// # Errors
/// The file exists but is not readable.
pub fn read(path: &Path, boot_id: &str) -> Result<(HeatMemory, Option<Damage>)> {
    let found = state_file::read::<HeatState>(path, "boot_id", boot_id, check)?;
    let mut memory = HeatMemory::default();
    let mut damage = None;
    match found {
        StateFileContent::Whole(state) => {
            (memory.ticks, memory.records) = (state.ticks, state.processes);
        }
        StateFileContent::Damaged(found) => damage = Some(found),
        StateFileContent::Nothing | StateFileContent::OtherBoot => {}
    }
    Ok((memory, damage))
}

/// Parses a file's content; for the fuzz targets.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn parse(bytes: &[u8]) -> std::result::Result<bool, String> {
    state_file::parse::<HeatState>(bytes, "boot_id", "this-boot", check).map(|s| s.is_some())
}

/// Writes the memory, readable by this user alone. Every tenant has an equal part of the file: of
/// one that needs more, the coldest runs are left out, and then the oldest records.
///
/// # Errors
/// The directory does not exist, is full, or is not writable.
pub fn write(path: &Path, boot_id: &str, memory: &HeatMemory) -> Result<()> {
    let mut processes = memory.records.clone();
    fit(&mut processes, MAX_TEXT);
    let state =
        HeatState { version: VERSION, boot_id: boot_id.into(), ticks: memory.ticks, processes };
    let mut text =
        serde_json::to_vec(&state).map_err(|e| LinuxError::file(path, "write", e.into()))?;
    text.push(b'\n');
    state_file::write(path, &text)
}

/// Cuts the records to these bytes. They are sorted by tenant, the newest first. Runs less than
/// half as hot as a tenant's hottest go first.
fn fit(processes: &mut Vec<ProcessHeat>, bytes: u64) {
    let tenants = processes.chunk_by(|a, b| a.tenant == b.tenant).count() as u64;
    let part = bytes / tenants.max(1);
    let mut kept = Vec::with_capacity(processes.len());
    for of_tenant in processes.chunk_by_mut(|a, b| a.tenant == b.tenant) {
        let runs = of_tenant.iter().flat_map(|p| p.mappings.iter().flat_map(|m| &m.runs.0));
        let hottest = runs.map(|run| run.heat).max().unwrap_or(0);
        let mut coldest = 1;
        while coldest < hottest / 2 && of_tenant.iter().map(length).sum::<u64>() > part {
            coldest += (coldest / 2).max(1);
            of_tenant.iter_mut().for_each(|process| process.drop_below(coldest));
        }
        let mut left = part;
        kept.extend(of_tenant.iter().map(|process| {
            let length = length(process);
            let fits = length <= left && !process.mappings.is_empty();
            left -= if fits { length } else { 0 };
            fits
        }));
    }
    let mut kept = kept.into_iter();
    processes.retain(|_| kept.next().unwrap_or(false));
}

fn length(process: &ProcessHeat) -> u64 {
    let mappings = process.mappings.iter();
    let mappings = mappings.map(|m| MAPPING_BYTES + RUN_BYTES * m.runs.0.len() as u64);
    RECORD_BYTES + process.tenant.len() as u64 + mappings.sum::<u64>()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::super::place::{Place, PlacedMapping};
    use super::super::record::{MappingHeat, Run, Runs};
    use super::*;
    use crate::process::{Process, Program};

    /// A process of a tenant with this many runs, of heat 1, 4, 16, 1, 4, 16, ...
    fn process(tenant: &str, pid: i32, runs: u64) -> ProcessHeat {
        let end = 0x1000 * (2 * runs + 2);
        let placed = PlacedMapping { place: Place::Anonymous(0), start: 0x1000, end, offset: 0 };
        let run = |i: u64| Run { first: 2 * i, pages: 1, heat: 1 << (2 * (i % 3)) };
        let mappings = vec![MappingHeat { placed, runs: Runs((0..runs).map(run).collect()) }];
        let (process, program) = (Process { pid, start_time: 1 }, Program(u64::MAX));
        ProcessHeat { tenant: tenant.into(), process, program, seen_ms: 5, mappings }
    }

    fn memory(processes: Vec<ProcessHeat>) -> HeatMemory {
        HeatMemory { records: processes, ticks: true, ..HeatMemory::default() }
    }

    #[test]
    fn written_memory_is_private_and_reads_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("heat.json");
        assert!(read(&path, "a").unwrap().0.records.is_empty());
        let written = memory(vec![process("batch", 8, 2), process("shop", 7, 3)]);
        write(&path, "a", &written).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let (found, damage) = read(&path, "a").unwrap();
        assert_eq!((found.records, found.ticks, damage), (written.records, true, None));
        let (found, damage) = read(&path, "b").unwrap();
        assert!(found.records.is_empty() && damage.is_none(), "of another boot");
    }

    #[test]
    fn hostile_file_is_named_and_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("heat.json");
        let valid = String::from_utf8({
            write(&path, "a", &memory(vec![process("shop", 7, 3)])).unwrap();
            fs::read(&path).unwrap()
        })
        .unwrap();
        let changed = |from: &str, to: &str| {
            assert!(valid.contains(from), "{valid}");
            valid.replace(from, to).into_bytes()
        };
        for (bytes, problem) in [
            (Vec::new(), "it is empty"),
            (b"\xff\x00{".to_vec(), "no JSON"),
            (vec![b'['; MAX_LEN as usize + 1], "more than"),
            (vec![b'['; 100_000], "no JSON"),
            (changed("\"version\":1", "\"version\":2"), "found version 2"),
            (changed("0.1.1", "0.1.fffff"), "FIRST.PAGES.HEAT"),
            (changed("4.1.10", "f0000.1.10"), "in a mapping of"),
            (changed("\"start\":4096", "\"start\":4097"), "whole pages"),
            (changed("\"pid\":7", "\"pid\":\"7\""), "invalid type"),
            (valid.as_bytes()[..valid.len() / 2].to_vec(), "cut"),
        ] {
            fs::write(&path, &bytes).unwrap();
            let (found, damage) = read(&path, "a").unwrap();
            let said = damage.unwrap().to_string();
            assert!(found.records.is_empty() && said.contains(problem), "{problem}: {said}");
            assert!(said.contains("heat.json: cannot be used"), "{said}");
            assert!(!path.exists());
        }
    }

    #[test]
    fn large_tenant_leaves_room_for_others() {
        let mut processes = vec![process("a", 1, 3), process("b", 2, 300), process("b", 3, 300)];
        let whole: Vec<u64> = processes.iter().map(length).collect();
        let all = processes.clone();
        fit(&mut processes, 4 * whole[1]);
        assert_eq!(processes, all);
        // Of the second tenant's runs the colder ones go, and then the older process.
        for (bytes, runs) in [(2 * (whole[1] + 100), vec![100, 100]), (2 * whole[1] / 2, vec![100])]
        {
            fit(&mut processes, bytes);
            assert_eq!(processes[0], all[0]);
            let of = |process: &ProcessHeat| process.mappings[0].runs.0.len();
            assert_eq!(processes[1..].iter().map(of).collect::<Vec<_>>(), runs);
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic() {
        for length in 0..40 {
            let text = &br#"{"boot_id":"this-boot","version":1,"processes":[]}"#[..length];
            assert!(parse(text).is_err());
        }
        assert_eq!(parse(br#"{"boot_id":"other"}"#), Ok(false));
    }
}
