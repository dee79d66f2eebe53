//! Records recorder/tests/known.c and checks the trace.
#![allow(dead_code, reason = "each test program uses its part of this module")]

pub mod traces;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

use tempfile::TempDir;
use tierwise_trace::reader::TraceReader;
use tierwise_trace::record::{RecordOptions, RecordSummary, record};
use tierwise_trace::{Allocation, PageAccess, Window, WindowSource};

/// The window length with which all instructions are in one window, unless a test needs more.
pub const ONE_WINDOW: u64 = 1 << 30;

/// The source tree's recorder directory.
pub fn recorder_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recorder")
}

/// Runs a tool that the tests need; a missing one fails the test and names the package to install.
pub fn run(command: &mut Command, install: &str) {
    let status = command.status();
    let program = command.get_program().to_string_lossy().into_owned();
    match status {
        Ok(status) => assert!(status.success(), "{program} failed: {status}"),
        Err(e) => panic!("{program}: {e}; this test needs it: apt-get install {install}"),
    }
}

/// Compiles a C source with the given flags.
pub fn compile(source: &Path, flags: &[&str], directory: &Path) -> PathBuf {
    let program = directory.join(source.file_stem().unwrap());
    let mut gcc = Command::new("gcc");
    run(gcc.args(flags).arg("-o").arg(&program).arg(source), "gcc libc6-dev");
    program
}

/// A recorded scenario of known.c.
pub struct Recorded {
    pub summary: RecordSummary,
    pub windows: Vec<Window>,
    /// The program's report: the address of each region.
    pub regions: HashMap<String, u64>,
    _directory: TempDir,
}

/// The directory, program and options for a scenario.
pub fn prepare(scenario: &str) -> (TempDir, RecordOptions) {
    static PLUGIN: Once = Once::new();
    PLUGIN.call_once(|| {
        run(Command::new("make").args(["-s", "-C"]).arg(recorder_directory()), "make gcc")
    });
    let directory = tempfile::tempdir().unwrap();
    let source = recorder_directory().join("tests/known.c");
    let program = compile(&source, &["-O1", "-pthread"], directory.path());
    let file = directory.path().join("file");
    std::fs::write(&file, vec![7u8; 4 * 4096]).unwrap();
    let report = directory.path().join("report");
    let command = [&program, Path::new(scenario), &report, &file];
    let command = command.map(Into::into).to_vec();
    let mut options = RecordOptions::new(command, directory.path().join("out.twt"));
    options.window_instructions = ONE_WINDOW;
    (directory, options)
}

/// Records a scenario; `adjust` may change the options.
pub fn recorded(scenario: &str, adjust: impl FnOnce(&mut RecordOptions)) -> Recorded {
    let (directory, mut options) = prepare(scenario);
    adjust(&mut options);
    let summary = record(&options, |_| {}).unwrap_or_else(|e| panic!("{e}"));
    finish(directory, &options.out, summary)
}

/// Reads a recording and the program's own report.
pub fn finish(directory: TempDir, out: &Path, summary: RecordSummary) -> Recorded {
    let report = std::fs::read_to_string(directory.path().join("report")).unwrap_or_default();
    let regions = report.lines().filter_map(|line| line.split_once(' '));
    let regions = regions.map(|(name, at)| (name.to_owned(), at.parse().unwrap())).collect();
    Recorded { summary, windows: windows_of(out), regions, _directory: directory }
}

/// Every window of a trace.
pub fn windows_of(path: &Path) -> Vec<Window> {
    let mut reader = TraceReader::open(path).unwrap();
    let mut windows = Vec::new();
    let mut window = Window::default();
    while reader.next_window(&mut window).unwrap() {
        windows.push(window.clone());
    }
    windows
}

impl Recorded {
    /// First virtual page of a region.
    pub fn vpn(&self, region: &str) -> u64 {
        self.regions[region] >> 12
    }

    /// The allocations at a virtual page, in order.
    pub fn allocations_at(&self, vpn: u64) -> Vec<Allocation> {
        let allocations = self.windows.iter().flat_map(|window| &window.allocations);
        allocations.filter(|allocation| allocation.vpn == vpn).copied().collect()
    }

    /// A page's counts, over all windows.
    pub fn counts(&self, page: u32) -> PageAccess {
        let mut sum = PageAccess {
            page,
            loads: 0,
            stores: 0,
            load_misses: 0,
            store_misses: 0,
            supervised: 0,
            thread: 0,
        };
        let rows = self.windows.iter().flat_map(|window| &window.accesses);
        for row in rows.filter(|row| row.page == page) {
            sum.loads += row.loads;
            sum.stores += row.stores;
            sum.load_misses += row.load_misses;
            sum.store_misses += row.store_misses;
            sum.supervised += row.supervised;
            sum.thread = row.thread;
        }
        sum
    }

    /// The counts of the one page ever allocated at a virtual page.
    pub fn only(&self, vpn: u64) -> PageAccess {
        let allocations = self.allocations_at(vpn);
        assert_eq!(allocations.len(), 1, "allocations at {vpn:#x}: {allocations:?}");
        self.counts(allocations[0].page)
    }

    /// Returns true if a page was unmapped.
    pub fn is_unmapped(&self, page: u32) -> bool {
        self.windows.iter().any(|window| window.unmaps.contains(&page))
    }
}
