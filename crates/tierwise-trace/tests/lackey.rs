//! The import of Valgrind's lackey: exact on a text computed by hand, with errors that name wrong
//! lines, and in agreement with the recorder on a program that does the same under both.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{ONE_WINDOW, compile, prepare, recorder_directory, run, windows_of};
use tierwise_trace::cache::parse_geometry;
use tierwise_trace::import::{ImportError, ImportFormat, ImportOptions, import};
use tierwise_trace::record::record;
use tierwise_trace::writer::WriterOptions;
use tierwise_trace::{PageAccess, Window};

fn options(window: u64, llc: &str) -> ImportOptions {
    ImportOptions {
        command: vec!["known".into()],
        window_instructions: window,
        llc: Some(parse_geometry(llc).unwrap()),
        interval: Duration::from_secs(1),
        instructions_per_ns: 1.0,
        instructions_per_access: 1,
        max_memory: 1 << 30,
        writer: WriterOptions::default(),
    }
}

fn imported(text: &str, options: &ImportOptions) -> Result<Vec<Window>, ImportError> {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out.twt");
    let name = Path::new("trace.txt");
    let result = import(ImportFormat::Lackey, text.as_bytes(), name, &out, options);
    assert_eq!(out.exists(), result.is_ok());
    result.map(|_| windows_of(&out))
}

fn row(page: u32, loads: u32, stores: u32, load_misses: u32, store_misses: u32) -> PageAccess {
    PageAccess { page, loads, stores, load_misses, store_misses, supervised: 0, thread: 0 }
}

#[test]
fn a_text_worked_by_hand() {
    let text = "==1== Lackey\n\
                I  00401000,3\n L 00001000,8\n\
                I  00401003,3\n S 00001ffc,8\n\
                I  00401006,3\n M 00001000,4\n";
    let windows = imported(text, &options(2, "1KiB/16")).unwrap();
    assert_eq!(windows.len(), 2);
    assert_eq!((windows[0].instructions, windows[1].instructions), (2, 1));
    assert_eq!(windows[0].allocations.iter().map(|b| b.vpn).collect::<Vec<_>>(), [1, 2]);
    // The store crosses from page 1 into page 2: it counts in both, and misses a line in each.
    assert_eq!(windows[0].accesses, [row(0, 1, 1, 1, 1), row(1, 0, 1, 0, 1)]);
    assert_eq!(windows[1].accesses, [row(0, 1, 1, 0, 0)]);
}

#[test]
fn a_wrong_line_is_named() {
    let error = imported("I  00401000,3\n L 10,8\n L nonsense\n", &options(10, "1KiB/16"));
    let message = error.unwrap_err().to_string();
    assert!(message.starts_with("trace.txt:3: \" L nonsense\""), "{message}");
    assert!(message.contains("--tool=lackey"), "{message}");
}

/// Returns counts by page in order of allocation, without distinguishing the pages of the stack
/// (whose place differs).
fn counts(windows: &[Window]) -> Vec<PageAccess> {
    assert_eq!(windows.len(), 1);
    windows[0].accesses.clone()
}

/// The stated tolerance is zero: without a C library, both emulators execute the same instructions,
/// pages are numbered in order of allocation, and the caches are indexed by those numbers.
#[test]
fn recorder_and_lackey_agree() {
    let (directory, mut recording) = prepare("counts");
    let flags = ["-O1", "-static", "-nostdlib", "-fno-stack-protector", "-mno-sse"];
    let program = compile(&recorder_directory().join("tests/bare.c"), &flags, directory.path());
    recording.command = vec![program.clone().into()];
    recording.llc = parse_geometry("16KiB/4").unwrap();
    record(&recording, |_| {}).unwrap();
    let recorded = windows_of(&recording.out);

    let log = directory.path().join("lackey.txt");
    let to = format!("--log-file={}", log.display());
    let mut valgrind = Command::new("valgrind");
    run(valgrind.args(["--tool=lackey", "--trace-mem=yes", &to]).arg(&program), "valgrind");
    let text = std::fs::read_to_string(&log).unwrap();
    let imported = imported(&text, &options(ONE_WINDOW, "16KiB/4")).unwrap();

    assert_eq!(recorded[0].instructions, imported[0].instructions);
    assert!(recorded[0].allocations.len() >= 64, "{}", recorded[0].allocations.len());
    assert_eq!(counts(&recorded), counts(&imported));
    assert!(counts(&recorded).iter().any(|row| row.load_misses > 0 && row.store_misses > 0));
}
