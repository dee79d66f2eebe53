//! The import of recordings that other tools made, in `foreign/` (make.sh there makes them again),
//! and of hostile ones; and the export for libCacheSim.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::windows_of;
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use tierwise_trace::cache::parse_geometry;
use tierwise_trace::export::export_oracle_general;
use tierwise_trace::import::{
    ImportError, ImportFormat, ImportOptions, Imported, import, unpacked,
};
use tierwise_trace::reader::TraceReader;
use tierwise_trace::writer::{TraceWriter, WriterOptions};
use tierwise_trace::{Allocation, PageAccess, PageBacking, Window};

fn options() -> ImportOptions {
    ImportOptions {
        command: vec!["foreign".into()],
        window_instructions: 1 << 30,
        llc: Some(parse_geometry("4KiB/4").unwrap()),
        interval: Duration::from_secs(1),
        instructions_per_ns: 2.0,
        instructions_per_access: 100,
        max_memory: 1 << 30,
        writer: WriterOptions::default(),
    }
}

fn foreign(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign").join(name)
}

fn imported(
    format: ImportFormat,
    name: &str,
    bytes: &[u8],
    options: &ImportOptions,
) -> Result<(Imported, Vec<Window>), ImportError> {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out.twt");
    let result = import(format, bytes, Path::new(name), &out, options);
    assert_eq!(out.exists(), result.is_ok());
    result.map(|imported| (imported, windows_of(&out)))
}

fn refused(format: ImportFormat, bytes: &[u8]) -> String {
    imported(format, "in", bytes, &options()).unwrap_err().to_string()
}

/// The import of a recording of `foreign/`, whose format is detected.
fn of_file(name: &str, expected: ImportFormat) -> (Imported, Vec<Window>) {
    let mut bytes = Vec::new();
    let file = fs::File::open(foreign(name)).unwrap();
    unpacked(file, Path::new(name)).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(ImportFormat::detect(Path::new(name), &bytes), expected, "{name}");
    imported(expected, name, &bytes, &options()).unwrap()
}

fn rows(windows: &[Window]) -> impl Iterator<Item = &PageAccess> {
    windows.iter().flat_map(|window| &window.accesses)
}

fn loads(windows: &[Window]) -> u64 {
    rows(windows).map(|row| u64::from(row.loads)).sum()
}

/// The virtual page number of each page.
fn vpns(windows: &[Window]) -> BTreeMap<u32, u64> {
    windows.iter().flat_map(|window| &window.allocations).map(|a| (a.page, a.vpn)).collect()
}

#[test]
fn champsim_and_lackey_agree_on_one_run() {
    let (_, lackey) = of_file("walk.lackey", ImportFormat::Lackey);
    let (_, champsim) = of_file("walk.champsimtrace.xz", ImportFormat::Champsim);
    assert_eq!(lackey, champsim);
    // walk.c: six rounds over 64 pages, each with its own stride, read and write one byte a page.
    let touched: u32 = (1..=6).map(|stride| 64u32.div_ceil(stride)).sum();
    let sums = rows(&lackey).fold((0, 0), |sum, row| (sum.0 + row.loads, sum.1 + row.stores));
    assert!(sums.0 >= touched && sums.1 >= touched, "{sums:?}");
    let lines = fs::read_to_string(foreign("walk.lackey")).unwrap();
    let executed = lines.lines().filter(|line| line.starts_with('I')).count() as u64;
    assert_eq!(lackey.iter().map(|window| window.instructions).sum::<u64>(), executed);
    assert!(lackey[0].allocations.len() >= 64);
    // Each round reads another line of a page, and writes the line that it has read.
    assert!(rows(&lackey).all(|row| row.load_misses > 0 && row.store_misses == 0));
}

#[test]
fn cpu_trace_of_ramulator_is_counted() {
    let (_, windows) = of_file("simple-o3.trace", ImportFormat::RamulatorCpu);
    let text = fs::read_to_string(foreign("simple-o3.trace")).unwrap();
    let words = || text.lines().map(|line| line.split(' ').map(|w| w.parse::<u64>().unwrap()));
    let executed: u64 = words().map(|mut line| line.next().unwrap() + 1).sum();
    assert_eq!(windows.iter().map(|window| window.instructions).sum::<u64>(), executed);
    assert_eq!((loads(&windows), text.lines().count()), (500, 500));
    let pages: BTreeSet<u64> = words().flat_map(|line| line.skip(1).map(|a| a / 4096)).collect();
    assert_eq!(vpns(&windows).into_values().collect::<BTreeSet<_>>(), pages);
}

#[test]
fn memory_trace_misses_with_every_access() {
    let text = b"LD 0x12340\nST 74560\n\nLD 0x2000 # again\n0x2000 W\n";
    let (imported, windows) = imported(ImportFormat::Ramulator, "in", text, &options()).unwrap();
    assert_eq!((imported.totals.pages, imported.totals.instructions), (2, 400));
    let row = |page| PageAccess {
        page,
        loads: 1,
        stores: 1,
        load_misses: 1,
        store_misses: 1,
        supervised: 0,
        thread: 0,
    };
    assert_eq!(windows[0].accesses, [row(0), row(1)]);
    let message = refused(ImportFormat::Ramulator, b"LD 0x10\nR 0,0,1,2\n");
    assert!(message.starts_with("in:2: \"R 0,0,1,2\"") && message.contains("ReadWriteTrace"));
}

#[test]
fn samples_of_perf_weigh_their_periods() {
    let (imported, windows) = of_file("faults.perf", ImportFormat::PerfScript);
    let text = fs::read_to_string(foreign("faults.perf")).unwrap();
    let words = || text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let periods: u64 = words().map(|line| line[2].parse::<u64>().unwrap()).sum();
    assert!(periods > words().count() as u64);
    assert_eq!(loads(&windows), periods);
    assert!(rows(&windows).all(|row| row.load_misses == row.loads && row.stores == 0));
    let addresses = words()
        .map(|line| u64::from_str_radix(line[4], 16).unwrap() >> 12)
        .collect::<BTreeSet<_>>();
    assert_eq!(vpns(&windows).into_values().collect::<BTreeSet<_>>(), addresses);
    assert!(imported.skipped.is_empty());
    // The run took less than a second.
    assert_eq!((windows.len(), windows[0].instructions), (1, 2_000_000_000));
}

#[test]
fn kernel_and_lost_addresses_are_counted() {
    let text = b"7/7 1.0: 5 loads: 1000\n8/8 1.1: 5 loads: 1000\n7/7 1.2: 5 loads: 0\n\
                 7/7 9.5: 5 mem-stores: ffff888000000000\n7/7 0.5: 5 mem-stores: 1008\n";
    let (imported, windows) = imported(ImportFormat::PerfScript, "in", text, &options()).unwrap();
    assert_eq!(
        imported.skipped,
        ["1 samples without an address", "1 samples of the kernel's memory"]
    );
    // Two processes have a page at the same address.
    assert_eq!(vpns(&windows), BTreeMap::from([(0, 1), (1, 1)]));
    // From 1 to 2 s, to 9 s as one window, and the rest; the time before is in the last.
    let instructions: Vec<u64> = windows.iter().map(|window| window.instructions).collect();
    assert_eq!(instructions, [2_000_000_000, 14_000_000_000, 2_000_000_000]);
    assert_eq!((windows[2].accesses[0].page, windows[2].accesses[0].stores), (0, 5));
}

#[test]
fn other_forms_of_perf_name_theirs() {
    // perf's own file, and what it prints of one without -F.
    for input in ["PERFILE2h\0\0\u{1}", "java 7 1.5: 87 mem-loads: 7ffe10 5080144 |OP LOAD|\n"] {
        let format = ImportFormat::detect(Path::new("in"), input.as_bytes());
        let message = refused(format, input.as_bytes());
        assert!(message.contains("perf script -F pid,tid,time"), "{message}");
    }
}

/// Mean loads of a page in the hot part, and in the rest of the recorded region.
fn hot_and_cold(windows: &[Window]) -> (f64, f64) {
    let truth: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(foreign("stairs.truth")).unwrap()).unwrap();
    let page = |key: &str| truth[key].as_u64().unwrap() >> 12;
    let (start, hot) = (page("start"), page("hot_start"));
    let vpns = vpns(windows);
    let (mut in_hot, mut in_cold) = (0.0, 0.0);
    for row in rows(windows) {
        match vpns[&row.page] {
            vpn if (hot..hot + page("hot_bytes")).contains(&vpn) => in_hot += f64::from(row.loads),
            vpn if (start..start + page("bytes")).contains(&vpn) => in_cold += f64::from(row.loads),
            _ => {}
        }
    }
    let hot_pages = page("hot_bytes") as f64;
    (in_hot / hot_pages, in_cold / (page("bytes") as f64 - hot_pages))
}

#[test]
fn damo_records_show_the_hot_part() {
    for name in ["stairs.damo", "stairs-perf-script.damo", "stairs-tracefs.txt"] {
        let (imported, windows) = of_file(name, ImportFormat::Damo);
        assert!((7..=10).contains(&imported.totals.windows), "{name}: {:?}", imported.totals);
        let (hot, cold) = hot_and_cold(&windows);
        assert!(hot > 4.0 * cold, "{name}: {hot} {cold}");
    }
}

#[test]
fn damo_json_is_the_same_unpacked() {
    let packed = fs::read(foreign("stairs.damo")).unwrap();
    let mut json = Vec::new();
    flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut json).unwrap();
    assert_eq!(ImportFormat::detect(Path::new("a"), &json), ImportFormat::Damo);
    let of = |bytes: &[u8]| imported(ImportFormat::Damo, "in", bytes, &options()).unwrap();
    assert_eq!(of(&packed), of(&json));
    let cut = &json[..json.len() / 2];
    let message = refused(ImportFormat::Damo, cut);
    let line = cut.iter().filter(|&&byte| byte == b'\n').count() + 1;
    assert!(message.starts_with(&format!("in:{line}: ")), "{message}");
}

#[test]
fn damon_regions_sum_within_a_window() {
    let line = |time: f64, range: &str, accesses: u32| {
        let event = "damon:damon_aggregated: target_id=0 nr_regions=2";
        format!("k 1 [0] {time}: {event} {range}: {accesses} 0\n")
    };
    let text = [
        line(1.0, "4096-16384", 3),
        line(1.0, "16384-1099511627776", 0),
        line(1.5, "8192-12288", 2),
        line(2.5, "8192-12288", 1),
    ]
    .concat();
    let (_, windows) = imported(ImportFormat::Damo, "in", text.as_bytes(), &options()).unwrap();
    let counts = |window: &Window| window.accesses.iter().map(|row| row.loads).collect::<Vec<_>>();
    // The cold terabyte has no pages.
    assert_eq!(windows.iter().map(counts).collect::<Vec<_>>(), [vec![3, 5, 3], vec![1]]);
}

/// Time, object, size and next request of each record.
fn requests(bytes: &[u8]) -> Vec<(u32, u64, u32, i64)> {
    let records = bytes.chunks_exact(24).map(|r| {
        (
            u32::from_le_bytes(r[..4].try_into().unwrap()),
            u64::from_le_bytes(r[4..12].try_into().unwrap()),
            u32::from_le_bytes(r[12..16].try_into().unwrap()),
            i64::from_le_bytes(r[16..].try_into().unwrap()),
        )
    });
    records.collect()
}

#[test]
fn objects_of_libcachesim_are_pages() {
    let (imported, windows) = of_file("zipf.oracleGeneral", ImportFormat::OracleGeneral);
    let requests = requests(&fs::read(foreign("zipf.oracleGeneral")).unwrap());
    assert_eq!((requests.len(), windows.len()), (1200, 10));
    let pages = |size: u32| u64::from(size.div_ceil(4096));
    let objects: BTreeMap<u64, u64> = requests.iter().map(|r| (r.1, pages(r.2))).collect();
    assert_eq!(imported.totals.pages, objects.values().sum::<u64>());
    for (second, window) in windows.iter().enumerate() {
        let expected = requests.iter().filter(|r| r.0 as usize == second).map(|r| pages(r.2));
        assert_eq!(loads(std::slice::from_ref(window)), expected.sum::<u64>());
    }
}

/// Writes windows of a second that touch these pages. Returns the trace and its touched pages.
fn touching(windows: &[BTreeSet<u32>], path: &Path) -> Vec<BTreeSet<u64>> {
    let mut header = common::traces::header();
    header.window_instructions = 1_000_000_000;
    let mut writer = TraceWriter::create(path, &header, WriterOptions::default()).unwrap();
    let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
    for touched in windows {
        let mut window = Window { instructions: 1_000_000_000, ..Window::default() };
        for &vpn in touched {
            let next = numbers.len() as u32;
            let page = *numbers.entry(vpn).or_insert_with(|| {
                let kind = PageBacking::Anon;
                let vpn = vpn.into();
                window.allocations.push(Allocation { page: next, vpn, kind, order: 0, thread: 0 });
                next
            });
            window.accesses.push(common::traces::access(page, [9, 1, 0, 0], 0, 0));
        }
        window.accesses.sort_by_key(|access| access.page);
        writer.push(&window).unwrap();
    }
    writer.finish().unwrap();
    let pages = |touched: &BTreeSet<u32>| {
        touched.iter().map(|vpn| u64::from(numbers[vpn])).collect::<BTreeSet<u64>>()
    };
    windows.iter().map(pages).collect()
}

proptest! {
    /// Which window touches which page survives, and each request names the next of its page.
    #[test]
    fn exported_requests_come_back_as_touches(
        windows in vec(btree_set(0u32..40, 1..20), 1..12)
    ) {
        let directory = tempfile::tempdir().unwrap();
        let [trace, out] = ["a.twt", "a.oracleGeneral"].map(|name| directory.path().join(name));
        let touched = touching(&windows, &trace);
        let mut reader = TraceReader::open(&trace).unwrap();
        let written = export_oracle_general(&out, &mut reader, 1.0, false).unwrap();
        let bytes = fs::read(&out).unwrap();
        let requests = requests(&bytes);
        prop_assert_eq!(written, requests.len() as u64);
        for (at, request) in requests.iter().enumerate() {
            let later = requests[at + 1..].iter().position(|other| other.1 == request.1);
            let next = later.map_or(-1, |later| (at + 1 + later) as i64);
            prop_assert_eq!((request.3, request.2), (next, 4096));
        }
        let exported: Vec<BTreeSet<u64>> = (0..windows.len() as u32)
            .map(|second| requests.iter().filter(|r| r.0 == second).map(|r| r.1).collect())
            .collect();
        prop_assert_eq!(&exported, &touched);
        let format = ImportFormat::OracleGeneral;
        let (back, again) = imported(format, "in", &bytes, &options()).unwrap();
        prop_assert_eq!(back.totals.windows, windows.len() as u64);
        let sizes: Vec<usize> = again.iter().map(|window| window.accesses.len()).collect();
        let expected: Vec<usize> = touched.iter().map(BTreeSet::len).collect();
        prop_assert_eq!(sizes, expected);
    }
}

/// Instructions without an access, the address of a load, and that of a store.
type Step = (u8, u64, Option<u64>);

/// A run as the text of lackey, of a CPU trace of Ramulator, and as ChampSim's instructions.
fn spellings(run: &[Step]) -> (String, String, Vec<u8>) {
    let (mut lackey, mut ramulator, mut champsim) = (String::new(), String::new(), Vec::new());
    for &(before, load, store) in run {
        lackey += &"I  401000,3\n".repeat(usize::from(before) + 1);
        lackey += &format!(" L {load:08x},1\n");
        ramulator += &format!("{before} {load}");
        if let Some(store) = store {
            lackey += &format!(" S {store:08x},1\n");
            ramulator += &format!(" {store}");
        }
        ramulator += "\n";
        champsim.extend(vec![0; 64 * usize::from(before)]);
        let mut record = [0; 64];
        record[16..24].copy_from_slice(&store.unwrap_or(0).to_le_bytes());
        record[32..40].copy_from_slice(&load.to_le_bytes());
        champsim.extend(record);
    }
    (lackey, ramulator, champsim)
}

proptest! {
    #[test]
    fn three_spellings_of_a_run_agree(
        run in vec((0u8..9, 1u64..100_000, proptest::option::of(1u64..100_000)), 1..60)
    ) {
        let (lackey, ramulator, champsim) = spellings(&run);
        let of = |format, bytes: &[u8]| imported(format, "in", bytes, &options()).unwrap();
        let expected = of(ImportFormat::Lackey, lackey.as_bytes());
        prop_assert_eq!(&of(ImportFormat::RamulatorCpu, ramulator.as_bytes()), &expected);
        prop_assert_eq!(&of(ImportFormat::Champsim, &champsim), &expected);
        prop_assert_eq!(loads(&expected.1), run.len() as u64);
    }
}

#[test]
fn packed_inputs_are_unpacked_by_name() {
    let text = fs::read(foreign("walk.lackey")).unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gz, &text).unwrap();
    let zst = zstd::bulk::compress(&text, 1).unwrap();
    for (name, packed) in [("a.gz", gz.finish().unwrap()), ("a.zst", zst), ("a", text.clone())] {
        let mut read = Vec::new();
        unpacked(&packed[..], Path::new(name)).unwrap().read_to_end(&mut read).unwrap();
        assert_eq!(read, text, "{name}");
        let mut input = unpacked(&packed[..packed.len() / 2], Path::new(name)).unwrap();
        let cut = input.read_to_end(&mut Vec::new());
        assert_eq!(cut.is_err(), name != "a", "{name}");
    }
}

#[test]
fn foreign_records_are_named_by_offset() {
    let mut record = [0; 128];
    record[64 + 8] = 7;
    let message = refused(ImportFormat::Champsim, &record);
    assert!(message.starts_with("in: at byte 64: the mark of a branch is 7"), "{message}");
    let message = refused(ImportFormat::Champsim, &record[..100]);
    assert!(message.starts_with("in: at byte 64: the input ends within a record"), "{message}");
    let mut request = [0; 48];
    request[40..].copy_from_slice(&(-7i64).to_le_bytes());
    let message = refused(ImportFormat::OracleGeneral, &request);
    assert!(message.starts_with("in: at byte 24: the next request has the number -7"), "{message}");
}

#[test]
fn memory_of_a_few_bytes_is_limited() {
    let damon = b"k 1 [0] 1.0: damon_aggregated: target_id=0 nr_regions=1 0-1099511627776: 3 0\n";
    let message = refused(ImportFormat::Damo, damon);
    assert!(message.contains("more than 1073741824 bytes") && message.contains("--max-memory"));
    let objects: Vec<u8> = (0..1000u64)
        .flat_map(|object| {
            let size = (1u32 << 30).to_le_bytes();
            [&[0; 4][..], &object.to_le_bytes(), &size, &[255; 8]].concat()
        })
        .collect();
    assert!(refused(ImportFormat::OracleGeneral, &objects).contains("--max-memory"));
    let text = b"7/7 1.0: 1 loads: 1000\n7/7 9999999999.0: 1 loads: 1000\n";
    let message = refused(ImportFormat::PerfScript, text);
    assert!(message.starts_with("in:2: ") && message.contains("a century"), "{message}");
}

#[test]
fn inputs_without_a_record_are_refused() {
    for format in [
        ImportFormat::Champsim,
        ImportFormat::Damo,
        ImportFormat::OracleGeneral,
        ImportFormat::PerfScript,
        ImportFormat::Ramulator,
        ImportFormat::RamulatorCpu,
    ] {
        let message = refused(format, b"");
        assert!(message.contains("no instruction and no access in it"), "{message}");
    }
    assert!(refused(ImportFormat::Damo, b"[]").contains("no access in it"));
}
