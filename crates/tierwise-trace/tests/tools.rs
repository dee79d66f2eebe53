//! Products of traces: parts, coarser windows, summaries and tables.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::traces::{file_of, open, read_all, sample, windows};
use proptest::prelude::*;
use tierwise_trace::cut::{Cut, Merge, WindowSelection};
use tierwise_trace::export::{ExportFormat, TraceTable, export};
use tierwise_trace::summary::summarize;
use tierwise_trace::{Allocation, Window};

proptest! {
    #[test]
    fn a_merge_keeps_every_count(windows in windows(), factor in 1u64..5) {
        let file = file_of(&windows);
        let mut merged = Merge::new(open(&file).unwrap(), factor);
        let (merged, error) = read_all(&mut merged);
        prop_assert!(error.is_none(), "{:?}", error);
        // A merged trace is a valid one again, with the same allocations.
        let again = file_of(&merged);
        let allocations = |windows: &[Window]| -> Vec<Allocation> {
            windows.iter().flat_map(|window| window.allocations.clone()).collect()
        };
        prop_assert_eq!(allocations(&merged), allocations(&windows));
        let stat = |file: &[u8]| summarize(&mut open(file).unwrap(), 0).unwrap();
        prop_assert_eq!(stat(&again).totals.instructions, stat(&file).totals.instructions);
        prop_assert_eq!(stat(&again).marks.len(), stat(&file).marks.len());
        let marked = |window: &&Window| !window.marks.is_empty();
        let marks = |windows: &[Window]| windows.iter().filter(marked).count();
        prop_assert_eq!(marks(&merged), marks(&windows));
    }

    #[test]
    fn cut_keeps_pages_living_then(windows in windows(), start in 0u64..8, length in 0u64..8) {
        let file = file_of(&windows);
        let selection = WindowSelection::Windows(start..start + length);
        let (cut, error) = read_all(&mut Cut::new(open(&file).unwrap(), selection));
        prop_assert!(error.is_none(), "{:?}", error);
        let expected: Vec<&Window> =
            windows.iter().skip(start as usize).take(length as usize).collect();
        prop_assert_eq!(cut.len(), expected.len());
        for (cut, whole) in cut.iter().zip(&expected) {
            prop_assert_eq!(cut.instructions, whole.instructions);
            prop_assert_eq!(cut.accesses.len(), whole.accesses.len());
            prop_assert_eq!(cut.unmaps.len(), whole.unmaps.len());
            let loads = |window: &Window| -> Vec<_> {
                window.accesses.iter().map(|a| a.loads).collect()
            };
            prop_assert_eq!(loads(cut), loads(whole));
        }
        let (again, error) = read_all(&mut open(&file_of(&cut)).unwrap());
        prop_assert!(error.is_none(), "{:?}", error);
        prop_assert_eq!(again, cut);
    }
}

#[test]
fn phase_is_cut_by_name() {
    let file = file_of(&sample());
    let phase = |name: &str| {
        read_all(&mut Cut::new(open(&file).unwrap(), WindowSelection::Phase(name.into()))).0
    };
    assert_eq!(phase("load"), sample()[..1]);
    assert_eq!(phase("none"), []);
    let run = phase("run");
    assert_eq!(run.len(), 1);
    // Pages 0 and 2 are still mapped after the load phase, page 1 is not; page 3 was allocated.
    let allocations: Vec<(u32, u64)> = run[0].allocations.iter().map(|b| (b.page, b.vpn)).collect();
    assert_eq!(allocations, [(0, 16), (1, 1 << 52), (2, 17)]);
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
    let directory = tempfile::tempdir().unwrap();
    let text = |table, name: &str| {
        let path = directory.path().join(name);
        let mut source = open(&file_of(&sample())).unwrap();
        let rows = export(&path, &mut source, table, ExportFormat::Csv, false).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().count() as u64, rows + 1);
        text
    };
    assert_eq!(
        text(TraceTable::Accesses, "accesses.csv"),
        "window,page,loads,stores,load_misses,store_misses,supervised,thread\n\
         0,0,5,4,3,2,0,0\n0,2,64,0,64,0,1,0\n1,0,1,0,0,0,0,1\n1,3,0,9,0,1,0,1\n"
    );
    assert_eq!(
        text(TraceTable::Windows, "windows.csv"),
        "window,instructions,operations,threads,allocations,touched,unmaps,marks\n\
         0,1000,3,1,3,2,1,load\n1,990,0,1,1,2,0,run\n"
    );
    assert_eq!(
        text(TraceTable::Pages, "pages.csv"),
        "page,vpn,kind,order,thread,allocated_in,lived_until\n\
         0,16,anon,0,0,0,2\n1,17,anon,0,0,0,0\n2,4503599627370496,anon,0,0,0,2\n3,17,anon,0,0,1,2\n"
    );
}

#[cfg(feature = "parquet")]
#[test]
fn a_parquet_table_is_read_back() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pages.parquet");
    let mut source = open(&file_of(&sample())).unwrap();
    assert_eq!(
        export(&path, &mut source, TraceTable::Pages, ExportFormat::Parquet, false).unwrap(),
        4
    );
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    let vpns: Vec<i64> = rows.iter().map(|row| row.get_long(1).unwrap()).collect();
    assert_eq!(vpns, [16, 17, 1 << 52, 17]);
    assert!(rows.iter().all(|row| row.get_string(2).unwrap() == "anon"));
}
