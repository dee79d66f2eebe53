//! A signal to the recording process. It is a test program of its own, because the signal reaches
//! every recording in the process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{ONE_WINDOW, finish, prepare};
use rustix::process::{Signal, getpid, kill_process};
use tierwise_trace::record::record;

#[test]
fn terminated_recording_is_complete_until_signal() {
    let (directory, options) = prepare("wait");
    assert_eq!(options.window_instructions, ONE_WINDOW, "far from full when the signal comes");
    let report = directory.path().join("report");
    // The program reports its region once it has written its pages, and then waits for the signal.
    let teller = std::thread::spawn(move || {
        while !std::fs::read_to_string(&report).is_ok_and(|text| text.ends_with('\n')) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        kill_process(getpid(), Signal::TERM).unwrap();
    });
    let summary = record(&options, |_| {}).unwrap();
    teller.join().unwrap();
    assert!(!summary.status.success(), "{:?}", summary.status);
    let trace = finish(directory, &options.out, summary);
    for vpn in (trace.vpn("area")..).take(5) {
        assert_eq!(trace.only(vpn).stores, 1, "the current window is in the trace");
    }
}
