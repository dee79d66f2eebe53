//! The file format: what is written is read back, and damage is told from data wherever it strikes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Cursor;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use tierwise_trace::cut::{Cut, Merge, Selection};
use tierwise_trace::format::{PREAMBLE_BYTES, window_codec};
use tierwise_trace::reader::TraceReader;
use tierwise_trace::summary::summarize;
use tierwise_trace::writer::{TraceWriter, WriterOptions, write_trace};
use tierwise_trace::{
    Birth, Header, PageAccess, PageKind, ThreadShare, TraceError, Window, WindowSource,
};

fn header() -> Header {
    Header {
        command: vec!["program".into(), "--with".into(), "arguments".into()],
        host: "a test".into(),
        page_size: 4096,
        window_instructions: 1000,
        cache: tierwise_trace::cache::DEFAULT,
    }
}

fn access(page: u32, counts: [u32; 4], supervised: u16, thread: u16) -> PageAccess {
    let [loads, stores, load_misses, store_misses] = counts;
    PageAccess { page, loads, stores, load_misses, store_misses, supervised, thread }
}

/// What one window may be made of; pages are chosen among the living when windows are put together.
#[derive(Debug, Clone)]
struct Plan {
    births: Vec<(u64, bool, u8, u16)>,
    touched: Vec<(prop::sample::Index, [u32; 4], u16, u16)>,
    unmapped: Vec<prop::sample::Index>,
    threads: std::collections::BTreeMap<u16, u32>,
    marks: Vec<String>,
    operations: u64,
}

fn plan() -> impl Strategy<Value = Plan> {
    let birth = (any::<u64>(), any::<bool>(), 0u8..=9, any::<u16>());
    let touch = (any::<prop::sample::Index>(), any::<[u32; 4]>(), any::<u16>(), any::<u16>());
    (
        vec(birth, 0..20),
        vec(touch, 0..30),
        vec(any::<prop::sample::Index>(), 0..4),
        btree_map(any::<u16>(), any::<u32>(), 0..4),
        vec("\\PC{0,12}", 0..2),
        any::<u64>(),
    )
        .prop_map(|(births, touched, unmapped, threads, marks, operations)| Plan {
            births,
            touched,
            unmapped,
            threads,
            marks,
            operations,
        })
}

fn windows() -> impl Strategy<Value = Vec<Window>> {
    vec(plan(), 0..8).prop_map(|plans| {
        let (mut living, mut next) = (Vec::new(), 0u32);
        plans.into_iter().map(|plan| realise(plan, &mut living, &mut next)).collect()
    })
}

fn realise(plan: Plan, living: &mut Vec<u32>, next: &mut u32) -> Window {
    let mut window = Window { operations: plan.operations, marks: plan.marks, ..Window::default() };
    for (thread, instructions) in plan.threads {
        window.threads.push(ThreadShare { thread, instructions: instructions.into() });
        window.instructions += u64::from(instructions);
    }
    for (vpn, file, order, thread) in plan.births {
        let kind = if file { PageKind::File } else { PageKind::Anon };
        window.births.push(Birth { page: *next, vpn, kind, order, thread });
        living.push(*next);
        *next += 1;
    }
    if !living.is_empty() {
        for (index, counts, supervised, thread) in plan.touched {
            window.accesses.push(access(*index.get(living), counts, supervised, thread));
        }
        window.accesses.sort_by_key(|access| access.page);
        window.accesses.dedup_by_key(|access| access.page);
    }
    for index in plan.unmapped {
        if !living.is_empty() {
            window.unmaps.push(living.swap_remove(index.index(living.len())));
        }
    }
    window.unmaps.sort_unstable();
    window
}

fn file_of(windows: &[Window]) -> Vec<u8> {
    let mut writer = TraceWriter::new(
        "test",
        Vec::new(),
        &header(),
        WriterOptions { level: 1, overwrite: false },
    )
    .unwrap();
    windows.iter().for_each(|window| writer.push(window).unwrap());
    writer.finish().unwrap().0
}

fn open(bytes: &[u8]) -> Result<TraceReader<Cursor<Vec<u8>>>, TraceError> {
    TraceReader::new("test", Cursor::new(bytes.to_vec()))
}

/// Every window up to the end or the first error.
fn read_all(source: &mut dyn WindowSource) -> (Vec<Window>, Option<TraceError>) {
    let mut windows = Vec::new();
    let mut window = Window::default();
    loop {
        match source.next_window(&mut window) {
            Ok(true) => windows.push(window.clone()),
            Ok(false) => return (windows, None),
            Err(error) => return (windows, Some(error)),
        }
    }
}

/// Two windows with every kind of content.
fn sample() -> Vec<Window> {
    let birth = |page, vpn| Birth { page, vpn, kind: PageKind::Anon, order: 0, thread: 0 };
    let first = Window {
        instructions: 1000,
        operations: 3,
        threads: vec![ThreadShare { thread: 0, instructions: 1000 }],
        births: vec![birth(0, 16), birth(1, 17), birth(2, 1 << 52)],
        accesses: vec![access(0, [5, 4, 3, 2], 0, 0), access(2, [64, 0, 64, 0], 1, 0)],
        unmaps: vec![1],
        marks: vec!["load".into()],
    };
    let second = Window {
        instructions: 990,
        threads: vec![ThreadShare { thread: 1, instructions: 990 }],
        births: vec![birth(3, 17)],
        accesses: vec![access(0, [1, 0, 0, 0], 0, 1), access(3, [0, 9, 0, 1], 0, 1)],
        marks: vec!["run".into()],
        ..Window::default()
    };
    vec![first, second]
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(windows in windows()) {
        let mut reader = open(&file_of(&windows)).unwrap();
        prop_assert_eq!(reader.header(), &header());
        let (read, error) = read_all(&mut reader);
        prop_assert!(error.is_none(), "{:?}", error);
        prop_assert_eq!(&read, &windows);
        reader.rewind().unwrap();
        prop_assert_eq!(read_all(&mut reader).0, windows);
    }

    #[test]
    fn arbitrary_window_data_never_panics(bytes in vec(any::<u8>(), 0..400), pages in 0u64..50) {
        let mut window = Window::default();
        let _ = window_codec::decode(&bytes, pages, &mut window);
        prop_assert!(window.births.len() + window.accesses.len() + window.unmaps.len() <= bytes.len());
    }

    #[test]
    fn a_merge_keeps_every_count(windows in windows(), factor in 1u64..5) {
        let file = file_of(&windows);
        let mut merged = Merge::new(open(&file).unwrap(), factor);
        let (merged, error) = read_all(&mut merged);
        prop_assert!(error.is_none(), "{:?}", error);
        // A merged trace is a valid one again, with the same births.
        let again = file_of(&merged);
        let births = |windows: &[Window]| -> Vec<Birth> {
            windows.iter().flat_map(|window| window.births.clone()).collect()
        };
        prop_assert_eq!(births(&merged), births(&windows));
        let stat = |file: &[u8]| summarize(&mut open(file).unwrap(), 0).unwrap();
        prop_assert_eq!(stat(&again).totals.instructions, stat(&file).totals.instructions);
        prop_assert_eq!(stat(&again).marks.len(), stat(&file).marks.len());
        let marked = |window: &&Window| !window.marks.is_empty();
        prop_assert_eq!(merged.iter().filter(marked).count(), windows.iter().filter(marked).count());
    }

    #[test]
    fn a_cut_is_a_trace_of_the_pages_that_live_then(windows in windows(), start in 0u64..8, length in 0u64..8) {
        let file = file_of(&windows);
        let selection = Selection::Windows(start..start + length);
        let (cut, error) = read_all(&mut Cut::new(open(&file).unwrap(), selection));
        prop_assert!(error.is_none(), "{:?}", error);
        let expected: Vec<&Window> =
            windows.iter().skip(start as usize).take(length as usize).collect();
        prop_assert_eq!(cut.len(), expected.len());
        for (cut, whole) in cut.iter().zip(&expected) {
            prop_assert_eq!(cut.instructions, whole.instructions);
            prop_assert_eq!(cut.accesses.len(), whole.accesses.len());
            prop_assert_eq!(cut.unmaps.len(), whole.unmaps.len());
            let loads = |window: &Window| window.accesses.iter().map(|a| a.loads).collect::<Vec<_>>();
            prop_assert_eq!(loads(cut), loads(whole));
        }
        let (again, error) = read_all(&mut open(&file_of(&cut)).unwrap());
        prop_assert!(error.is_none(), "{:?}", error);
        prop_assert_eq!(again, cut);
    }
}

#[test]
fn a_trace_cut_off_at_any_byte_is_told_and_its_windows_are_usable() {
    let windows = sample();
    let file = file_of(&windows);
    let mut usable = Vec::new();
    for length in 0..file.len() {
        let error = match open(&file[..length]) {
            Err(error) => error,
            Ok(mut reader) => {
                let (read, error) = read_all(&mut reader);
                assert_eq!(read, windows[..read.len()]);
                usable.push(read.len());
                error.expect("an end frame is missing")
            }
        };
        let TraceError::Corrupt { offset, reason, good_windows, .. } = error else {
            panic!("{error}");
        };
        assert!(offset <= length as u64, "offset {offset} of {length}");
        assert!(reason.contains("the trace ends here"), "{reason}");
        assert!(offset > 0 || length < PREAMBLE_BYTES as usize);
        assert_eq!(good_windows, usable.last().copied().unwrap_or(0) as u64);
    }
    assert!(usable.is_sorted() && usable.contains(&0) && usable.contains(&2));
}

#[test]
fn any_changed_byte_is_noticed() {
    let windows = sample();
    let file = file_of(&windows);
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 0x20;
        let error = match open(&damaged) {
            Err(error) => error,
            Ok(mut reader) => {
                let (read, error) = read_all(&mut reader);
                assert_eq!(read, windows[..read.len()], "byte {at}");
                error.unwrap_or_else(|| panic!("byte {at} was changed unnoticed"))
            }
        };
        let TraceError::Corrupt { offset, .. } = error else { panic!("{error}") };
        assert!(offset <= at as u64, "byte {at}, error at {offset}");
    }
}

#[test]
fn bytes_after_the_end_are_noticed() {
    let mut file = file_of(&sample());
    file.push(0);
    let error = read_all(&mut open(&file).unwrap()).1.unwrap().to_string();
    assert!(error.contains("after the end"), "{error}");
}

#[test]
fn a_growing_trace_is_followed() {
    let windows = sample();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("growing.twt");
    let mut writer = TraceWriter::create(&path, &header(), WriterOptions::default()).unwrap();
    let mut reader = TraceReader::open(&path).unwrap();
    let mut window = Window::default();
    for expected in &windows {
        assert!(reader.next_window(&mut window).is_err(), "nothing there yet");
        writer.push(expected).unwrap();
        assert!(reader.next_window(&mut window).unwrap());
        assert_eq!(&window, expected);
    }
    assert!(reader.next_window(&mut window).is_err());
    writer.finish().unwrap();
    assert!(!reader.next_window(&mut window).unwrap());
}

#[test]
fn windows_that_break_a_rule_are_refused() {
    let good = sample();
    let refused = |change: fn(&mut Window), expected: &str| {
        let mut writer =
            TraceWriter::new("test", Vec::new(), &header(), WriterOptions::default()).unwrap();
        writer.push(&good[0]).unwrap();
        let mut window = good[1].clone();
        change(&mut window);
        let message = writer.push(&window).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
        assert!(message.contains("window 1"), "{message}");
    };
    refused(|w| w.births[0].page = 7, "page 7 is born where page 3 is next");
    refused(|w| w.births[0].order = 40, "order 40");
    refused(|w| w.accesses[1].page = 4, "page 4 is in accesses and was never born");
    refused(|w| w.accesses.swap(0, 1), "does not ascend");
    refused(|w| w.accesses.insert(1, access(1, [0; 4], 0, 0)), "page 1 is touched after its unmap");
    refused(|w| w.unmaps.push(1), "page 1 is unmapped a second time");
    refused(|w| w.threads.push(w.threads[0]), "threads of a window must ascend");
}

#[test]
fn other_files_and_other_versions_are_refused() {
    let refusal = |bytes: &[u8]| open(bytes).err().unwrap().to_string();
    assert!(refusal(b"\x7fELF and more bytes").contains("not a trace"));
    let mut newer = file_of(&sample());
    newer[8] = 9;
    let message = refusal(&newer);
    assert!(message.contains("version 9") && message.contains("knows version 1"), "{message}");
}

#[test]
fn files_are_not_replaced_unless_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.twt");
    std::fs::write(&path, "precious").unwrap();
    let mut source = open(&file_of(&sample())).unwrap();
    let refused = write_trace(&path, &mut source, WriterOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("--force"), "{refused}");
    assert!(TraceWriter::create(&path, &header(), WriterOptions::default()).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    let options = WriterOptions { overwrite: true, ..WriterOptions::default() };
    let totals = write_trace(&path, &mut source, options).unwrap();
    assert_eq!(totals.windows, 2);
    assert_eq!(read_all(&mut TraceReader::open(&path).unwrap()).0, sample());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing left beside it");
}

#[test]
fn a_phase_is_cut_out_by_its_name() {
    let file = file_of(&sample());
    let phase =
        |name: &str| read_all(&mut Cut::new(open(&file).unwrap(), Selection::Phase(name.into()))).0;
    assert_eq!(phase("load"), sample()[..1]);
    assert_eq!(phase("none"), []);
    let run = phase("run");
    assert_eq!(run.len(), 1);
    // Pages 0 and 2 lived on from the load phase, page 1 did not; page 3 was born.
    let births: Vec<(u32, u64)> = run[0].births.iter().map(|b| (b.page, b.vpn)).collect();
    assert_eq!(births, [(0, 16), (1, 1 << 52), (2, 17)]);
    assert_eq!(run[0].accesses.iter().map(|a| a.page).collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn a_summary_adds_up() {
    let summary = summarize(&mut open(&file_of(&sample())).unwrap(), 2).unwrap();
    assert_eq!((summary.loads, summary.stores), (70, 13));
    assert_eq!((summary.load_misses, summary.store_misses, summary.supervised), (67, 3, 1));
    assert_eq!((summary.anon_pages, summary.file_pages), (4, 0));
    assert_eq!(summary.peak_resident_pages, 3);
    assert_eq!(summary.operations, 3);
    assert_eq!(summary.marks, [(0, "load".into()), (1, "run".into())]);
    assert_eq!(summary.threads.into_iter().collect::<Vec<_>>(), [(0, 1000), (1, 990)]);
    assert_eq!(summary.windows[0].touched_pages, 2);
    let top: Vec<(u32, u64)> = summary.top_pages.iter().map(|p| (p.page, p.misses)).collect();
    assert_eq!(top, [(2, 64), (0, 5)]);
}

#[test]
fn tables_have_a_row_for_everything() {
    use tierwise_trace::export::{Format, Table, export};
    let folder = tempfile::tempdir().unwrap();
    let text = |table, name: &str| {
        let path = folder.path().join(name);
        let mut source = open(&file_of(&sample())).unwrap();
        let rows = export(&path, &mut source, table, Format::Csv, false).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().count() as u64, rows + 1);
        text
    };
    assert_eq!(
        text(Table::Accesses, "accesses.csv"),
        "window,page,loads,stores,load_misses,store_misses,supervised,thread\n\
         0,0,5,4,3,2,0,0\n0,2,64,0,64,0,1,0\n1,0,1,0,0,0,0,1\n1,3,0,9,0,1,0,1\n"
    );
    assert_eq!(
        text(Table::Windows, "windows.csv"),
        "window,instructions,operations,threads,births,touched,unmaps,marks\n\
         0,1000,3,1,3,2,1,load\n1,990,0,1,1,2,0,run\n"
    );
    assert_eq!(
        text(Table::Pages, "pages.csv"),
        "page,vpn,kind,order,thread,born_in,lived_until\n\
         0,16,anon,0,0,0,2\n1,17,anon,0,0,0,0\n2,4503599627370496,anon,0,0,0,2\n3,17,anon,0,0,1,2\n"
    );
}
