//! Keys that only some workloads read. Elsewhere they would have no effect, which a reader of the
//! file cannot know: they are refused.

use tierwise_core::config::{ConfigError, Section};

use crate::scenario::{Class, WorkloadSource, WorkloadSpec};

/// Patterns of key-value stores.
const YCSB: &[&str] = &["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-f", "ycsb-w"];

/// Patterns with a hot range.
const HOT: &[&str] = &["moving-hot-set", "phase-change"];

/// Patterns whose accesses are drawn one by one and are loads or stores by a ratio: the operations
/// of a key-value store determine their writes.
const MIXED: &[&str] =
    &["uniform", "zipf", "latest", "sequential", "moving-hot-set", "phase-change", "pointer-chase"];

/// A generator's key, and the patterns that read it.
const OF_PATTERNS: [(&str, &[&str]); 11] = [
    ("write_ratio", MIXED),
    ("exact", &["uniform", "zipf"]),
    ("zipf_exponent", &["zipf", "latest"]),
    ("scrambled", &["zipf"]),
    ("head_pages_per_window", &["latest"]),
    ("accesses_per_page", &["sequential"]),
    ("hot_fraction", HOT),
    ("hot_access_share", HOT),
    ("motion", &["moving-hot-set"]),
    ("dwell_windows", &["moving-hot-set"]),
    ("change_windows", &["phase-change"]),
];

/// Keys of a workload that shape recorded or generated windows, of which a service has none.
const OF_WINDOWS: [&str; 12] = [
    "merge",
    "dilation",
    "scale",
    "threads",
    "footprint",
    "loops",
    "run_from",
    "measure_from",
    "measure_to",
    "huge_pages",
    "client_share",
    "leaves_memory",
];

/// Refuses keys of a generator that its pattern does not read.
pub(super) fn generator(section: &Section<'_>, pattern: &str) -> Result<(), ConfigError> {
    let ignored = |(key, patterns): &(&str, &[&str])| {
        !patterns.contains(&pattern) && section.keys().any(|k| k == *key)
    };
    if let Some((key, patterns)) = OF_PATTERNS.iter().find(|row| ignored(row)) {
        return Err(section.error(key, not_read(pattern, patterns)));
    }
    if !YCSB.contains(&pattern) && section.keys().any(|key| key == "record_bytes") {
        return Err(section.error("record_bytes", not_read(pattern, YCSB)));
    }
    Ok(())
}

fn not_read(pattern: &str, patterns: &[&str]) -> String {
    format!(
        "the pattern \"{pattern}\" does not read it, only {} does; remove it, or take another \
         pattern",
        patterns.join(", ")
    )
}

/// Refuses keys of a workload that its source does not read.
pub(super) fn workload(section: &Section<'_>, workload: &WorkloadSpec) -> Result<(), ConfigError> {
    let has = |key: &str| section.keys().any(|k| k == key);
    if has("after") && has("start_s") {
        let problem = "it starts when the workload named by after ends, so start_s would be \
                       ignored; keep one of the two";
        return Err(section.error("start_s", problem));
    }
    match &workload.source {
        WorkloadSource::Trace(_) => {}
        WorkloadSource::Generator(..) if has("merge") => {
            let problem = "it joins a trace's windows, and a generator has none that are recorded; \
                           give generator.accesses_per_window instead";
            return Err(section.error("merge", problem));
        }
        WorkloadSource::Generator(..) => {}
        WorkloadSource::Service(_) if has("after") => {
            let problem = "a service does not read it: its requests arrive at times that are \
                           counted from its start; give start_s";
            return Err(section.error("after", problem));
        }
        WorkloadSource::Service(_) => {
            if let Some(key) = OF_WINDOWS.into_iter().find(|key| has(key)) {
                let instead = match key {
                    "footprint" => "write it under [workload.service]",
                    "threads" => "write servers under [workload.service]",
                    _ => "remove it",
                };
                let problem = format!("a service does not read it: it has no windows; {instead}");
                return Err(section.error(key, problem));
            }
            return Ok(());
        }
    }
    if workload.class == Class::BestEffort && has("slo_ms") {
        let problem = "a best-effort tenant is judged by its throughput, and its SLO would be \
                       ignored; write class = \"latency-critical\" beside it, or remove slo_ms";
        return Err(section.error("slo_ms", problem));
    }
    Ok(())
}
