//! A made-up recording replays in the simulator.

use std::time::Duration;

use tierwise_core::recipe::Recipe;
use tierwise_linux::damon::HostRegion;
use tierwise_linux::monitor::{AccessReport, ProcessRegion};
use tierwise_linux::process::{AddressRange, Process};
use tierwise_linux::roots::Roots;
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::Scenario;
use tierwise_trace::reader::TraceReader;
use tierwise_trace::writer::{TraceWriter, WriterOptions};
use tierwise_trace::{Window, WindowSource};

use super::header::{header, instructions};
use super::project::{PAGE_SIZE, RecordedPages, Resident};

const PAGES: u64 = 400;
const HOT: u64 = 100;
const WINDOWS: usize = 60;
const SECOND: Duration = Duration::from_secs(1);

/// A process whose last pages are hot.
fn report() -> (AccessReport, Vec<Resident>) {
    let process = Process { pid: 7, start_time: 1 };
    let region = |from: u64, to: u64, nr_accesses| ProcessRegion {
        process,
        region: HostRegion { start: from * PAGE_SIZE, end: to * PAGE_SIZE, nr_accesses, age: 0 },
    };
    let regions = vec![region(0, PAGES - HOT, 0), region(PAGES - HOT, PAGES, 90)];
    let report = AccessReport {
        sampled: vec![process],
        regions,
        max_accesses: 100,
        ..AccessReport::default()
    };
    let ranges = vec![AddressRange { start: 0, end: PAGES * PAGE_SIZE, huge: false }];
    (report, vec![Resident { process, ranges }])
}

/// Writes the trace, as the live part does.
fn record(directory: &std::path::Path) {
    let roots = Roots::under(directory);
    let header = header(&roots, vec!["live".into()], SECOND, Duration::from_millis(10));
    let path = directory.join("live.twt");
    let mut writer = TraceWriter::create(&path, &header, WriterOptions::default()).unwrap();
    let (mut projection, mut window) = (RecordedPages::default(), Window::default());
    let (report, resident) = report();
    for _ in 0..WINDOWS {
        projection.window(&report, &resident, instructions(SECOND), &mut window);
        writer.push(&window).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn replayed_recording_shows_its_hot_set() {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path());
    let text = "name = \"live\"\n\
                summary = \"x\"\n\
                [machine]\n\
                preset = \"dram-cxl\"\n\
                fast_share = 0.5\n\
                [[workload]]\n\
                name = \"w\"\n\
                trace = \"live.twt\"\n\
                measure_from = \"run\"\n";
    let scenario = Scenario::parse("live.toml", text, directory.path()).unwrap();
    let prepared = Prepared::load(scenario).unwrap();
    let fast = |policy: &str| {
        let recipe = Recipe::named(policy).unwrap();
        let options = RunOptions { check: true, ..RunOptions::default() };
        run(&prepared, &recipe, &options, &mut |_| ()).unwrap().result.fast_access_ratio
    };
    let (fixed, moved) = (fast("static"), fast("multi-clock"));
    // First touch filled the fast half with the cold pages, which come first.
    assert!(fixed < 0.1, "static: {fixed}");
    assert!(moved > 0.7, "multi-clock: {moved}");
}

#[test]
fn header_names_access_unit_and_keeps_time() {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path());
    let mut reader = TraceReader::open(&directory.path().join("live.twt")).unwrap();
    let header = reader.header().clone();
    assert!(header.host.contains("an access is one check"), "{}", header.host);
    assert!(header.host.contains("checks every 10ms, summed up every 1s"), "{}", header.host);
    assert_eq!(header.window_instructions, 2_300_000_000);
    let (mut windows, mut window) = (0, Window::default());
    while reader.next_window(&mut window).unwrap() {
        assert_eq!(window.marks.is_empty(), windows != 1);
        windows += 1;
    }
    assert_eq!(windows, WINDOWS);
}
