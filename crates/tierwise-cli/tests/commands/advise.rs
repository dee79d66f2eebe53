use std::fs;

use serde_json::Value;

use crate::common::{Directory, TINY, keys, refused, succeeded};

fn advice(arguments: &[&str]) -> Value {
    let arguments = [&["advise", "--json", "--points", "5"], arguments].concat();
    serde_json::from_str(&succeeded(&arguments)).unwrap()
}

#[test]
fn answer_separates_enough_from_too_little() {
    let directory = Directory::new();
    let scenario = directory.write("tiny.toml", TINY);
    let advice = advice(&[&scenario, "--slowdown", "1.3"]);
    assert_eq!(
        keys(&advice),
        [
            "answer",
            "knee",
            "limits",
            "points",
            "policies",
            "policy",
            "resident_bytes",
            "scenario",
            "seed",
            "sentence"
        ]
    );
    let (enough, short) = (&advice["answer"]["fast_bytes"], &advice["answer"]["too_small_bytes"]);
    let points = advice["points"].as_array().unwrap();
    let meets = |size: &Value| &points.iter().find(|p| p["fast_bytes"] == *size).unwrap()["meets"];
    assert_eq!((meets(enough), meets(short)), (&Value::Bool(true), &Value::Bool(false)));
    let gap = enough.as_u64().unwrap() - short.as_u64().unwrap();
    // 400 pages are resident: 1 % of them are four.
    assert!(gap > 0 && gap <= 4 * 4096, "{advice}");
    assert_eq!(policies(&advice), ["static", "tierwise"]);
    for point in points {
        let considered = point["considered"].as_array().unwrap();
        let untouched = considered.iter().find(|its| its["policy"] == "static");
        let slowdown = |of: &Value| of["slowdown"].as_f64().unwrap();
        let loses = |its: &Value| its["meets"] == true && slowdown(its) < slowdown(point);
        assert!(!untouched.is_some_and(loses), "{point}");
        let within = point["tenants"][0]["slowdown"].as_f64().unwrap() <= 1.3;
        assert_eq!(point["meets"], within, "{point}");
    }
}

fn policies(advice: &Value) -> Vec<&str> {
    let all = advice["policies"].as_array().unwrap();
    all.iter().map(|its| its["policy"].as_str().unwrap()).collect()
}

/// AutoTiering pays for faults on fast pages too, so that it loses to doing nothing where all is
/// fast.
#[test]
fn a_policys_own_harm_does_not_answer() {
    let directory = Directory::new();
    let scenario = directory.write("tiny.toml", TINY);
    let found = advice(&[&scenario, "--policy", "autotiering-opm,tierwise"]);
    assert_eq!(policies(&found), ["static", "autotiering-opm", "tierwise"]);
    let enough = found["answer"]["fast_bytes"].as_u64().unwrap();
    for alone in found["policies"].as_array().unwrap() {
        assert!(alone["fast_bytes"].as_u64().is_none_or(|bytes| enough <= bytes), "{found}");
    }
    assert_eq!(found["policy"], found["answer"]["policy"]);
}

#[test]
fn advice_has_table_sentence_and_plot() {
    let directory = Directory::new();
    let scenario = directory.write("tiny.toml", TINY);
    let html = directory.name("advice.html");
    let out =
        succeeded(&["advise", &scenario, "--points", "5", "--slowdown", "w=1.4", "--html", &html]);
    for part in [
        "FAST MEMORY",
        "of fast memory are enough",
        "Limits: w 1.4 x.",
        "Considered: static",
        "knee",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let page = fs::read_to_string(html).unwrap();
    assert!(page.contains("<svg") && page.contains("slowdown against fast memory only"));
}

#[test]
fn a_trace_needs_no_scenario() {
    let directory = Directory::new();
    let lackey: String = (0..200_000u64)
        .map(|i| format!(" L {:x},8\n", 0x10_0000 + (i * 7919 % 64) * 4096))
        .collect();
    let lackey = directory.write("lackey.txt", &lackey);
    let trace = directory.name("a.twt");
    succeeded(&["trace", "import", &lackey, &trace]);
    let found = advice(&[&trace]);
    assert_eq!(found["scenario"], "a");
    assert_eq!(found["resident_bytes"], 64 * 4096);
    let message = refused(&["advise", &trace, &trace]);
    assert!(message.contains("there is already a trace"), "{message}");
    let slow = advice(&[&trace, "--machine", "dram-optane"]);
    assert_eq!(slow["resident_bytes"], found["resident_bytes"]);
    assert_ne!(slow["points"][0]["slowdown"], found["points"][0]["slowdown"]);
    for sized in [["--fast-share", "0.25"], ["--fast", "8MiB"]] {
        let message = refused(&[&["advise", &trace], &sized[..]].concat());
        assert!(message.contains("searches for the size of the fast memory"), "{message}");
    }
}

#[test]
fn a_machine_beside_a_scenario_is_refused() {
    let directory = Directory::new();
    let scenario = directory.write("tiny.toml", TINY);
    let message = refused(&["advise", &scenario, "--machine", "dram-optane"]);
    assert!(message.contains("--machine describes the machine of a bare trace"), "{message}");
}

#[test]
fn wrong_questions_are_refused() {
    let directory = Directory::new();
    let scenario = directory.write("tiny.toml", TINY);
    let message = refused(&["advise", &scenario, "--slowdown", "v=1.1"]);
    assert!(message.contains("no tenant is called \"v\""), "{message}");
    let message = refused(&["advise", &scenario, &scenario]);
    assert!(message.contains("one scenario, or traces only"), "{message}");
    let message = refused(&["advise", &scenario, "--policy", "fmem-all"]);
    assert!(message.contains("is a bound"), "{message}");
}
