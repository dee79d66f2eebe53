use std::fs;

use serde_json::Value;

use crate::common::{Directory, TINY, keys, refused, succeeded};

/// Records a run of the tiny scenario, stretched to some seconds so that policies observe it, and
/// returns where it is.
fn recorded(directory: &Directory, policy: &str, name: &str) -> String {
    let scenario = directory.write("tiny.toml", &TINY.replace("dilation = 50", "dilation = 2000"));
    let file = directory.name(name);
    succeeded(&["simulate", &scenario, "--policy", policy, "--record-run", &file]);
    file
}

fn story(run: &str, more: &[&str]) -> Value {
    let arguments = [&["explain", "--tenant", "w", "--json", run], more].concat();
    serde_json::from_str(&succeeded(&arguments)).unwrap()
}

#[test]
fn packed_and_plain_records_agree() {
    let directory = Directory::new();
    let plain = recorded(&directory, "multi-clock", "run.json");
    let packed = recorded(&directory, "multi-clock", "run.json.zst");
    assert_eq!(directory.files(), ["run.json", "run.json.zst", "tiny.toml"]);
    let text = fs::read_to_string(directory.path("run.json")).unwrap();
    let record: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(record["version"], 1);
    assert_eq!(story(&plain, &[]), story(&packed, &[]));
}

#[test]
fn packed_record_unpacks_to_a_bounded_size() {
    let directory = Directory::new();
    let packed = recorded(&directory, "multi-clock", "run.json.zst");
    let text = zstd::decode_all(fs::File::open(&packed).unwrap()).unwrap();
    // Blanks between two keys: the record stays one.
    let at = text.iter().position(|&byte| byte == b',').unwrap() + 1;
    let wide = [&text[..at], &vec![b' '; 64 << 20], &text[at..]].concat();
    fs::write(&packed, zstd::encode_all(wide.as_slice(), 3).unwrap()).unwrap();
    let message = refused(&["explain", "--tenant", "w", &packed]);
    assert!(message.contains("it unpacks to more than 128 times its size"), "{message}");
}

#[test]
fn every_move_is_counted_and_printed() {
    let directory = Directory::new();
    let run = recorded(&directory, "multi-clock", "run.json");
    let scenario = directory.name("tiny.toml");
    let compared = succeeded(&["compare", &scenario, "--policies", "multi-clock", "--json"]);
    let compared: Value = serde_json::from_str(&compared).unwrap();
    let promotions = compared["results"][0]["promotions"].as_u64().unwrap();
    assert!(promotions > 0);
    let reported = story(&run, &[]);
    let done = reported["moves"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|m| m["direction"] == "promotion" && m["outcome"] == "done");
    assert_eq!(done.map(|m| m["moves"].as_u64().unwrap()).sum::<u64>(), promotions);
    let record: Value = serde_json::from_str(&fs::read_to_string(&run).unwrap()).unwrap();
    assert_eq!(record["moves_left_out"], 0);
    let kept = record["moves"].as_array().unwrap().iter();
    let kept = kept.filter(|m| m["from"] == 1 && m["to"] == 0 && m["outcome"] == "done");
    assert_eq!(kept.count() as u64, promotions);
}

#[test]
fn the_keys_are_the_documented_ones() {
    let directory = Directory::new();
    let reported = story(&recorded(&directory, "equilibria", "run.json"), &["--page", "7"]);
    assert_eq!(
        keys(&reported),
        [
            "ended_seconds",
            "holdings",
            "moves",
            "moves_left_out",
            "page",
            "policy",
            "scenario",
            "seconds",
            "seed",
            "shares",
            "tenant"
        ]
    );
    assert_eq!(keys(&reported["page"]), ["events", "page", "verdict"]);
    let share = &reported["shares"][0];
    assert_eq!(
        keys(share),
        ["at_seconds", "cap_bytes", "floor_bytes", "numbers", "promotion", "rule", "tier", "words"]
    );
    assert!(!share["words"].as_str().unwrap().is_empty());
}

#[test]
fn page_history_ends_at_its_last_tier() {
    let directory = Directory::new();
    let run = recorded(&directory, "multi-clock", "run.json");
    let record: Value = serde_json::from_str(&fs::read_to_string(&run).unwrap()).unwrap();
    let page = record["moves"][0]["page"].as_u64().unwrap().to_string();
    let reported = story(&run, &["--page", &page]);
    let events = reported["page"]["events"].as_array().unwrap();
    assert_eq!(events[0]["event"], "mapped");
    let mut lies_in = events[0]["to"].clone();
    for event in events.iter().skip(1).filter(|e| e["outcome"] == "done") {
        assert_eq!(event["from"], lies_in, "{events:?}");
        lies_in = event["to"].clone();
    }
    let out = succeeded(&["explain", "--tenant", "w", "--page", &page, &run]);
    assert!(out.contains("reported as mapped in") && out.contains("It was promoted"), "{out}");
}

#[test]
fn unmoved_page_is_explained() {
    let directory = Directory::new();
    let run = recorded(&directory, "static", "run.json");
    // The fast tier has a quarter of the 400 pages, in the order of allocation.
    let fast = succeeded(&["explain", "--tenant", "w", "--page", "0", &run]);
    assert!(fast.contains("That is the fastest tier."), "{fast}");
    let slow = succeeded(&["explain", "--tenant", "w", "--page", "399", &run]);
    assert!(slow.contains("static planned no move of any page in this run."), "{slow}");
    assert!(slow.contains("not what was accessed"), "{slow}");
}

#[test]
fn what_is_not_there_cannot_be_explained() {
    let directory = Directory::new();
    let run = recorded(&directory, "static", "run.json");
    let message = refused(&["explain", "--tenant", "ww", &run]);
    assert!(message.contains("did you mean \"w\"? (there are w)"), "{message}");
    let message = refused(&["explain", "--tenant", "w", "--page", "400", &run]);
    assert_eq!(message, "\"w\" has no page 400; allowed: 0 to 399");
    let message = refused(&["explain", "--tenant", "w", &directory.name("tiny.toml")]);
    assert!(message.contains("not a recorded run"), "{message}");
    let old = fs::read_to_string(&run).unwrap().replacen("\"version\":1", "\"version\":99", 1);
    let message = refused(&["explain", "--tenant", "w", &directory.write("old.json", &old)]);
    assert!(message.contains("version 99"), "{message}");
    let scenario = directory.name("tiny.toml");
    let oracle = ["simulate", &scenario, "--policy", "oracle", "--record-run", &run];
    assert!(refused(&oracle).contains("computed, not run"));
}
