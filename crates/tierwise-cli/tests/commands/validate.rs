use std::fs;

use serde_json::{Value, json};

use crate::common::{Directory, refused, succeeded};

/// A recording with a mark where the work starts, and one where it ends.
const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/memcached-ycsb-c.twt");

fn run(policy: &str, seconds: f64) -> Value {
    let point = |at: f64, misses: [u64; 2]| {
        let free_mib = 8.0;
        json!({"seconds": at, "fast_mib": 40.0, "free_mib": free_mib, "user_misses": misses})
    };
    json!({
        "policy": policy, "seconds": seconds, "user_misses": [600_000, 400_000],
        "migrated_pages": 0,
        "promoted_pages": 0, "demoted_pages": 0, "kernel_cpu_s": 0.0, "daemon_cpu_s": 0.0,
        "resident_mib": 120.0, "fast_mib_at_start": 40.0,
        "watermarks_mib": {"min": 6.0, "low": 8.0, "high": 10.0, "promo": 12.0},
        "course": [point(0.0, [0, 0]), point(seconds, [600_000, 400_000])],
    })
}

fn record(runs: &[Value]) -> Value {
    json!([{
        "program": "store", "about": "a store", "kernel": "7",
        "guest": {"cpus": 1, "latency_ns": [90, 220]}, "granule_kib": 256, "runs": runs,
    }])
}

/// Validates a record, with a recording of its program beside it.
fn arguments(directory: &Directory, record: &Value) -> [String; 4] {
    fs::copy(TRACE, directory.path("store.twt")).unwrap();
    let file = directory.write("record.json", &record.to_string());
    ["validate".to_owned(), file, "--traces".to_owned(), directory.name("")]
}

fn refusal(record: &Value) -> String {
    let directory = Directory::new();
    let arguments = arguments(&directory, record);
    refused(&arguments.each_ref().map(String::as_str))
}

#[test]
fn guest_and_simulator_stand_side_by_side() {
    let directory = Directory::new();
    let runs = [run("all-fast", 6.0), run("first-touch", 9.0), run("damon-migrate", 8.0)];
    let [command, file, option, traces] = arguments(&directory, &record(&runs));
    let printed = succeeded(&[&command, &file, &option, &traces, "--json"]);
    let read: Value = serde_json::from_str(&printed).unwrap();
    let program = &read["programs"][0];
    assert_eq!(program["not_simulated"], json!(["damon-migrate"]));
    let policy = &program["policies"][0];
    assert_eq!((&policy["policy"], &policy["recipe"]), (&json!("first-touch"), &json!("static")));
    assert_eq!(policy["guest"]["slowdown"], 1.5);
    assert_eq!(policy["guest"]["fast_share"], 0.6);
    let course = policy["guest"]["course"].as_array().unwrap().iter();
    assert!(course.clone().all(|share| (share.as_f64().unwrap() - 0.6).abs() < 1e-4), "{policy}");
    assert_eq!(course.len(), 10);
    let simulated = &policy["simulated"];
    let slowdown = simulated["slowdown"].as_f64().unwrap();
    assert!(slowdown > 1.0 && slowdown < 220.0 / 90.0, "{simulated}");
    assert_eq!(simulated["course"].as_array().unwrap().len(), 10);
    let error = program["errors"]["slowdown_worst"].as_f64().unwrap();
    assert!((error - (slowdown / 1.5 - 1.0).abs()).abs() < 1e-12, "{program}");

    let table = succeeded(&[&command, &file, &option, &traces]);
    assert!(table.contains("first-touch") && table.contains("Kendall's tau"), "{table}");
}

/// The kernel can take others' page cache; the daemon cannot.
#[test]
fn page_cache_of_others_is_replayed() {
    let directory = Directory::new();
    let runs = ["all-fast", "kernel-tiering", "multi-clock"].map(|policy| {
        let mut run = run(policy, 6.0);
        run["course"][0]["file_mib"] = json!(20.0);
        run
    });
    let [command, file, option, traces] = arguments(&directory, &record(&runs));
    let printed = succeeded(&[&command, &file, &option, &traces, "--json"]);
    let read: Value = serde_json::from_str(&printed).unwrap();
    let policies = read["programs"][0]["policies"].as_array().unwrap();
    for simulated in policies.iter().map(|policy| &policy["simulated"]) {
        assert!(simulated["slowdown"].as_f64().unwrap() > 1.0, "{simulated}");
    }
    let demoted = &policies[0]["simulated"]["demoted"];
    assert!(demoted.as_f64().unwrap() > 0.0, "{policies:?}");
}

#[test]
fn impossible_records_are_refused() {
    let bound = run("all-fast", 6.0);
    let message = refusal(&record(&[run("first-touch", 9.0)]));
    assert!(message.contains("\"store\": has no run of \"all-fast\""), "{message}");
    let message = refusal(&record(&[bound.clone(), run("first-touch", -9.0)]));
    assert!(message.contains("run 2 (\"first-touch\"): seconds: found -9"), "{message}");
    let mut other = run("first-touch", 9.0);
    other["watermarks_mib"]["min"] = json!(9.0);
    let message = refusal(&record(&[bound.clone(), other]));
    assert!(message.contains("ascending order"), "{message}");
    let mut other = record(std::slice::from_ref(&bound));
    other[0]["program"] = json!("../store");
    let message = refusal(&other);
    assert!(message.contains("program: found \"../store\""), "{message}");
    let message = refusal(&json!({"program": 1}));
    assert!(message.contains("record.json:1: is no record of the lab"), "{message}");
}

#[test]
fn missing_recording_is_named() {
    let mut other = record(&[run("all-fast", 6.0)]);
    other[0]["program"] = json!("graph");
    let message = refusal(&other);
    assert!(message.contains("graph.twt"), "{message}");
    assert!(message.contains("tierlab record --program graph"), "{message}");
}
