//! Every numeric key of a recipe refuses nonsense, and names file, key, found and allowed.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tierwise_core::config::ConfigError;
use tierwise_core::learn::{Learning, Null};
use tierwise_core::recipe::Recipe;
use tierwise_core::registry::BuildContext;
use tierwise_core::topology::{Tier, Topology, Watermarks};
use tierwise_core::units::{Bandwidth, Bytes, Pages};
use tierwise_core::{baseline, estimate, partition, select};

/// Keys that hold a text or a switch.
const TEXTS: &[&str] = &[
    "algorithm",
    "best_effort",
    "model",
    "placement",
    "adaptive_interval",
    "background_demotion",
    "thrash_control",
    "outlook",
    "bursts",
    "threaded",
];

/// Values that no key takes, as TOML.
const NONSENSE: &[&str] = &["-1", "nan", "inf", "-inf", "99999999999999999999", "\"text\"", "true"];

/// Keys of products of z-scores, which have any sign.
const SIGNED: &[&str] = &["eager_above"];

/// Calls with which stages read numbers: the text after one of these is a key.
const READERS: &[&str] = &[
    "section.whole(\"",
    "section.whole_or(\"",
    ".whole(\"",
    "section.wholes(\"",
    "section.number(\"",
    "section.number_or(\"",
    "section.numbers(\"",
    "section.millis_or(\"",
    "section.bytes(\"",
    "section.bytes_or(\"",
    "section.paged_or(\"",
    "section.limits(\"",
    "section.limit_or_none(\"",
];

/// Calls with which stages read sizes.
const SIZE_READERS: &[&str] = &["section.bytes(\"", "section.bytes_or(\"", "section.paged_or(\""];

/// Calls with which stages read sizes that they count in pages.
const PAGED_READERS: &[&str] = &["section.paged_or(\""];

/// Sizes of less than a page, as TOML.
const TOO_SMALL: &[&str] = &["16", "4095", "\"1KiB\""];

/// Sizes that are larger than any memory, as TOML: the first is a byte more than 4096 TiB.
const TOO_LARGE: &[&str] = &["4503599627370497", "0x10000000000001", "\"4097TiB\""];

/// Lines without which an algorithm does not read all of its keys.
fn beside(algorithm: &str) -> &'static str {
    match algorithm {
        "pairs" => "placement = \"hotness\"\n",
        "multi-clock" => "adaptive_interval = true\n",
        _ => "",
    }
}

/// Every stage with its algorithms.
fn algorithms() -> Vec<(&'static str, &'static str)> {
    let policies = baseline::TABLE.iter().map(|row| ("policy", row.name));
    // "external" has no numbers, and is refused without a program that supplies it.
    let estimators = estimate::TABLE.iter().filter(|row| row.name != "external");
    let estimators = estimators.map(|row| ("estimator", row.name));
    let partitioners = partition::TABLE.iter().map(|row| ("partitioner", row.name));
    let selectors = select::TABLE.iter().map(|row| ("selector", row.name));
    policies.chain(estimators).chain(partitioners).chain(selectors).collect()
}

fn build(stage: &str, algorithm: &str, line: &str) -> Result<(), ConfigError> {
    let text = format!(
        "name = \"r\"\nsummary = \"r\"\nsource = \"r\"\n[{stage}]\nalgorithm = \
         \"{algorithm}\"\n{}{line}\n",
        beside(algorithm)
    );
    let tier = |name: &str| Tier {
        name: name.to_owned(),
        capacity: Pages(1 << 18),
        watermarks: Watermarks {
            min: Pages(1 << 10),
            low: Pages(2 << 10),
            high: Pages(3 << 10),
            promo: Pages(4 << 10),
        },
        load_latency: Duration::from_nanos(100),
        store_latency: Duration::from_nanos(100),
        bandwidth: Bandwidth(10_000_000_000),
    };
    let topology = Topology { page_size: Bytes(4096), tiers: vec![tier("fast"), tier("slow")] };
    let learning: Arc<dyn Learning> = Arc::new(Null);
    let context = BuildContext { topology: &topology, seed: 0, learning: Some(&learning) };
    Recipe::parse("r.toml", &text)?.build(&context).map(drop)
}

/// The keys that an algorithm knows, from its refusal of an unknown one.
fn keys(stage: &str, algorithm: &str) -> Vec<String> {
    let refusal = build(stage, algorithm, "zzzzzzzzzzzzzzzz = 1").unwrap_err().problem;
    let known = refusal.strip_prefix("unknown key; allowed: ").unwrap();
    known.split(", ").map(str::to_owned).collect()
}

/// Adds the keys that the sources of a directory read by these readers.
fn read_in(directory: &Path, readers: &[&str], keys: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_in(&path, readers, keys);
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        for reader in readers {
            let found = source.split(reader).skip(1);
            keys.extend(found.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
        }
    }
}

/// The keys that all stages read by these readers.
fn read_by(readers: &[&str]) -> BTreeSet<String> {
    let mut read = BTreeSet::new();
    for stage in ["baseline", "estimate", "partition", "select"] {
        read_in(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("../tierwise-core/src").join(stage),
            readers,
            &mut read,
        );
    }
    read
}

#[test]
fn every_number_of_a_stage_is_reached() {
    let read = read_by(READERS);
    let reached: BTreeSet<String> =
        algorithms().into_iter().flat_map(|(stage, algorithm)| keys(stage, algorithm)).collect();
    let missing: Vec<&String> = read.difference(&reached).collect();
    assert!(missing.is_empty(), "keys that no row reaches: {missing:?}");
    assert!(read.len() > 30, "the readers are called otherwise now: {read:?}");
}

#[test]
fn every_number_of_a_recipe_refuses_nonsense() {
    let mut wrong = Vec::new();
    let sizes = read_by(SIZE_READERS);
    let paged = read_by(PAGED_READERS);
    assert!(!sizes.is_empty() && !paged.is_empty(), "sizes are read otherwise now");
    for (stage, algorithm) in algorithms() {
        for key in keys(stage, algorithm) {
            if TEXTS.contains(&key.as_str()) {
                continue;
            }
            let too_large = if sizes.contains(&key) { TOO_LARGE } else { &[] };
            let too_small = if paged.contains(&key) { TOO_SMALL } else { &[] };
            let is_sense = |found: &&&str| SIGNED.contains(&key.as_str()) && **found == "-1";
            let nonsense = NONSENSE.iter().filter(|found| !is_sense(found));
            for found in nonsense.chain(too_large).chain(too_small) {
                let refusal = build(stage, algorithm, &format!("{key} = {found}"));
                let message = refusal.map_or_else(|error| error.to_string(), |()| String::new());
                let place = format!(
                    "r.toml:{}: {stage}.{key}: found ",
                    if beside(algorithm).is_empty() { 6 } else { 7 }
                );
                if !message.starts_with(&place) || !message.contains("; allowed: ") {
                    wrong.push(format!("[{stage}] {algorithm}: {key} = {found}: {message:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
