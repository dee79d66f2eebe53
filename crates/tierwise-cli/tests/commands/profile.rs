use std::fs;

use serde_json::Value;

use crate::common::{Directory, TINY, keys, refused, succeeded};

#[test]
fn more_fast_memory_is_more_throughput() {
    let directory = Directory::new();
    let scenario = directory.write("tiny.toml", TINY);
    let out = succeeded(&["profile", &scenario, "--points", "3", "--json"]);
    let profiles: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(keys(&profiles[0]), ["name", "points", "source"]);
    let points = profiles[0]["points"].as_array().unwrap();
    let sizes: Vec<u64> = points.iter().map(|p| p["fast_bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [0, 200 << 10, 400 << 10]);
    let rate = |i: usize| points[i]["throughput"].as_f64().unwrap();
    assert!(rate(0) < rate(2), "{points:?}");
}

#[test]
fn scenario_can_name_profile_files() {
    let directory = Directory::new();
    let scenario = directory.write("tiny.toml", TINY);
    let (out, html) = (directory.name("profiles"), directory.name("profile.html"));
    let arguments =
        ["profile", &scenario, "--points", "3", "--workload", "w", "--out", &out, "--html", &html];
    assert!(succeeded(&arguments).contains("FAST MEMORY"));
    assert_eq!(directory.files(), ["profile.html", "profiles", "tiny.toml"]);
    let page = fs::read_to_string(&html).unwrap();
    assert!(page.contains("<svg") && page.contains("fast memory in KiB"));
    let named = TINY.replace("dilation = 50", "dilation = 50\nprofile = \"profiles/w.json\"");
    let named = directory.write("named.toml", &named);
    succeeded(&["compare", &named, "--policies", "static"]);
    let torn =
        fs::read_to_string(directory.path("profiles/w.json")).unwrap().replace("points", "pints");
    fs::write(directory.path("profiles/w.json"), torn).unwrap();
    assert!(refused(&["compare", &named, "--policies", "static"]).contains("tierwise profile"));
}

#[test]
fn wrong_profiles_are_refused() {
    let directory = Directory::new();
    let scenario = directory.write("tiny.toml", TINY);
    let message = refused(&["profile", &scenario, "--workload", "v"]);
    assert!(message.contains("no workload is called \"v\""), "{message}");
    let message = refused(&["profile", &scenario, "--policy", "oracle"]);
    assert!(message.contains("is a bound"), "{message}");
    let critical = TINY.replace("dilation = 50", "dilation = 50\nclass = \"latency-critical\"");
    let critical = directory.write("critical.toml", &critical);
    assert!(refused(&["profile", &critical]).contains("no workload is best-effort"));
    assert!(refused(&["profile", &critical, "--workload", "w"]).contains("latency-critical"));
}
