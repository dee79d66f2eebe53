//! `tierwise trace import` and `export` of other tools' formats.

use std::fs;

use serde_json::Value;

use crate::common::{Directory, refused, succeeded};

const FOREIGN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tierwise-trace/tests/foreign");

#[test]
fn each_foreign_recording_becomes_a_trace() {
    let directory = Directory::new();
    for (name, tool) in [
        ("walk.lackey", "valgrind lackey output"),
        ("walk.champsimtrace.xz", "a ChampSim trace"),
        ("simple-o3.trace", "a Ramulator CPU trace"),
        ("faults.perf", "perf script output"),
        ("stairs.damo", "a DAMON record"),
        ("zipf.oracleGeneral", "a libCacheSim oracleGeneral trace"),
    ] {
        let trace = directory.name(&format!("{name}.twt"));
        succeeded(&["trace", "import", &format!("{FOREIGN}/{name}"), &trace]);
        let info: Value =
            serde_json::from_str(&succeeded(&["trace", "info", &trace, "--json"])).unwrap();
        let host = info[0]["header"]["host"].as_str().unwrap();
        assert!(host.starts_with(&format!("imported from {tool}, ")), "{name}: {host}");
    }
}

#[test]
fn damo_recording_can_be_compared() {
    let directory = Directory::new();
    let trace = directory.name("a.twt");
    succeeded(&["trace", "import", &format!("{FOREIGN}/stairs.damo"), &trace]);
    let arguments = ["compare", &trace, "--policies", "static,tierwise", "--fast", "12MiB"];
    assert!(succeeded(&arguments).contains("FAST HITS"));
}

#[test]
fn named_format_is_read_strictly() {
    let directory = Directory::new();
    let text = directory.write("a.txt", "3 4096 8192\n");
    let out = directory.name("a.twt");
    let message = refused(&["trace", "import", &text, &out, "--format", "perf-script"]);
    assert!(message.contains("a.txt:1: ") && message.contains("perf script -F"), "{message}");
    assert_eq!(directory.files(), ["a.txt"]);
    succeeded(&["trace", "import", &text, &out, "--format", "ramulator-cpu", "--llc", "none"]);
}

#[test]
fn requests_are_exported_by_their_ending() {
    let directory = Directory::new();
    let (trace, out) = (directory.name("a.twt"), directory.name("a.oracleGeneral"));
    succeeded(&["trace", "import", &format!("{FOREIGN}/zipf.oracleGeneral"), &trace]);
    let message = refused(&["trace", "export", &trace, "-o", &out, "--table", "pages"]);
    assert!(message.contains("oracleGeneral has none"), "{message}");
    succeeded(&["trace", "export", &trace, "-o", &out]);
    assert_eq!(fs::metadata(&out).unwrap().len() % 24, 0);
}
