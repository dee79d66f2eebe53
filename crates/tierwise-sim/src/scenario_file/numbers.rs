//! Every number of a scenario file, with the most likely mistake. The mistake is refused, and the
//! intended value is suggested.

use std::collections::BTreeSet;
use std::path::Path;

use crate::scenario::Scenario;

/// The likeliest mistake in a key's value, and the text that the refusal then suggests.
type Slip = Option<(&'static str, &'static str)>;

const PERCENT: Slip = Some(("33", "0.33"));
const SECONDS: Slip = Some(("\"20s\"", "20"));
/// No suggestion: other rules may forbid it, and a size has no unit that is read differently.
const NONE: Slip = None;

/// Every numeric key by its table.
const NUMBERS: &[(&str, &str, Slip)] = &[
    ("", "duration_s", SECONDS),
    ("machine", "instruction_ns", Some(("0.0005", "0.5"))),
    ("machine", "watermark_scale_factor", Some(("-10", "10"))),
    ("machine", "cpus", Some(("-2", "2"))),
    ("machine", "page_size", NONE),
    ("machine", "granule", NONE),
    ("machine", "fast", NONE),
    ("machine", "slow", NONE),
    ("machine", "fast_share", PERCENT),
    ("tier", "capacity", NONE),
    ("tier", "share", PERCENT),
    ("tier", "load_ns", Some(("0.09", "90"))),
    ("tier", "store_ns", Some(("0.09", "90"))),
    ("tier", "read_gbps", Some(("-30", "30"))),
    ("tier", "write_gbps", Some(("-30", "30"))),
    ("tier", "channels", Some(("-2", "2"))),
    ("tier", "reserve", NONE),
    ("tier", "page_cache", NONE),
    ("damon", "sampling_ms", Some(("-5", "5"))),
    ("damon", "aggregation_ms", Some(("-100", "100"))),
    ("damon", "min_regions", Some(("-10", "10"))),
    ("damon", "max_regions", Some(("-1000", "1000"))),
    ("hardware", "ratio", Some(("-1", "1"))),
    ("hardware", "dedicated_share", PERCENT),
    ("budget", "bandwidth_mbps", Some(("-200", "200"))),
    ("costs", "scan_pte_ns", Some(("-5", "5"))),
    ("costs", "clear_bit_ns", Some(("-5", "5"))),
    ("costs", "list_page_ns", Some(("-5", "5"))),
    ("costs", "wake_ns", Some(("\"17us\"", "17000"))),
    ("costs", "damon_check_ns", Some(("-5", "5"))),
    ("costs", "damon_wake_ns", Some(("-5", "5"))),
    ("costs", "damon_region_ns", Some(("-5", "5"))),
    ("costs", "daemon_start_ns", Some(("-5", "5"))),
    ("costs", "daemon_round_ns", Some(("-5", "5"))),
    ("costs", "daemon_process_ns", Some(("-5", "5"))),
    ("costs", "daemon_block_ns", Some(("-5", "5"))),
    ("costs", "shootdown_ns", Some(("\"2us\"", "2000"))),
    ("costs", "batch_pages", Some(("-8", "8"))),
    ("costs", "poison_ns", Some(("-5", "5"))),
    ("costs", "hint_fault_ns", Some(("\"1us\"", "1000"))),
    ("costs", "sample_ns", Some(("-5", "5"))),
    ("costs", "sample_read_ns", Some(("-5", "5"))),
    ("costs", "mark_object_ns", Some(("-5", "5"))),
    ("costs", "sample_object_ns", Some(("-5", "5"))),
    ("costs", "migrate_page_ns", Some(("\"2us\"", "2000"))),
    ("costs", "copy_bytes_per_ns", Some(("-5", "5"))),
    ("workload", "start_s", SECONDS),
    ("workload", "stop_s", SECONDS),
    ("workload", "slo_ms", Some(("0.02", "20"))),
    ("workload", "weight", Some(("-100", "100"))),
    ("workload", "floor", PERCENT),
    ("workload", "cap", PERCENT),
    ("workload", "merge", Some(("-2", "2"))),
    ("workload", "dilation", Some(("-2", "2"))),
    ("workload", "scale", Some(("-2", "2"))),
    ("workload", "threads", Some(("-2", "2"))),
    ("workload", "footprint", NONE),
    ("workload", "loops", Some(("-2", "2"))),
    ("workload", "memory_level_parallelism", Some(("-2", "2"))),
    ("workload", "client_share", PERCENT),
    ("generator", "footprint", NONE),
    ("generator", "order", Some(("-9", "9"))),
    ("generator", "accesses_per_window", Some(("-100", "100"))),
    ("generator", "instructions_per_access", Some(("-3", "3"))),
    ("generator", "windows", Some(("-10", "10"))),
    ("generator", "write_ratio", PERCENT),
    ("generator", "file_fraction", PERCENT),
    ("generator", "seed", Some(("-1", "1"))),
    ("generator", "zipf_exponent", Some(("99", "0.99"))),
    ("generator", "head_pages_per_window", Some(("-1", "1"))),
    ("generator", "accesses_per_page", Some(("-1", "1"))),
    ("generator", "hot_fraction", PERCENT),
    ("generator", "hot_access_share", PERCENT),
    ("generator", "dwell_windows", Some(("-1", "1"))),
    ("generator", "change_windows", NONE),
    ("generator", "record_bytes", Some(("-100", "100"))),
    ("service", "max_per_second", Some(("-100", "100"))),
    ("service", "footprint", NONE),
    ("service", "servers", Some(("-4", "4"))),
    ("service", "lines_together", Some(("-8", "8"))),
    ("service", "prefetched", Some(("-0.5", "0.5"))),
    ("service", "item_bytes", Some(("-1100", "1100"))),
    ("service", "load", Some(("80", "0.8"))),
    ("service", "peak", Some(("-2", "2"))),
    ("service", "burst_s", SECONDS),
    ("service", "pause_s", SECONDS),
    ("service", "curve_s", NONE),
    ("service", "curve_load", NONE),
];

/// The files that read a scenario, with the tables that each reads.
const SOURCES: &[(&str, &[&str])] = &[
    (include_str!("mod.rs"), &["", "budget"]),
    (include_str!("machine.rs"), &["machine", "tier", "damon"]),
    (include_str!("hardware.rs"), &["hardware"]),
    (include_str!("workload.rs"), &["workload"]),
    (include_str!("generator.rs"), &["generator"]),
    (include_str!("service.rs"), &["service"]),
    (include_str!("../costs.rs"), &["costs"]),
];

/// Functions that read numbers: what follows the first quotation mark after one of these is a key.
const READERS: &[&str] = &[
    ".whole(",
    ".whole_or(",
    ".wholes(",
    ".number(",
    ".number_or(",
    ".numbers(",
    ".millis_or(",
    ".bytes(",
    ".bytes_or(",
    ".limits(",
    " seconds(",
    "SizeKeys::read(",
];

/// Functions that read sizes; the last also reads a share.
const SIZE_READERS: &[&str] = &[".bytes(", ".bytes_or(", "SizeKeys::read("];

/// The keys that a source reads by these readers.
fn read_in<'a>(source: &'a str, readers: &[&str]) -> BTreeSet<&'a str> {
    let mut keys = BTreeSet::new();
    for reader in readers {
        for (at, _) in source.match_indices(reader) {
            let call = source[at..].split_once(')').map_or("", |(call, _)| call);
            let quoted = call.split('"').skip(1).step_by(2);
            // A size may be written by two keys.
            keys.extend(quoted.take(if reader.starts_with("SizeKeys") { 2 } else { 1 }));
        }
    }
    keys
}

#[test]
fn every_number_stands_in_the_table() {
    for (source, tables) in SOURCES {
        let listed: BTreeSet<&str> =
            NUMBERS.iter().filter(|(table, ..)| tables.contains(table)).map(|row| row.1).collect();
        assert_eq!(
            read_in(source, READERS),
            listed,
            "the table of numbers differs from the keys that {tables:?} reads"
        );
    }
}

/// A scenario whose `table` has one more line.
fn scenario(table: &str, line: &str) -> String {
    let at = |name: &str| if name == table { line } else { "" };
    let tiers = format!("[[machine.tier]]\nname = \"a\"\n{}\n", at("tier"));
    let machine = match table {
        "tier" => tiers,
        "hardware" => format!("preset = \"dram-cxl\"\n[machine.hardware]\n{line}\n"),
        "damon" => {
            format!("preset = \"dram-cxl\"\nfast_share = 0.3\n[machine.damon]\n{line}\n")
        }
        "machine" => format!("preset = \"dram-cxl\"\n{line}\n"),
        _ => "preset = \"dram-cxl\"\nfast_share = 0.3\n".to_owned(),
    };
    let runs = match table {
        "service" => format!("[workload.service]\narrivals = \"bursty\"\n{line}\n"),
        _ => format!("[workload.generator]\npattern = \"zipf\"\n{}\n", at("generator")),
    };
    format!(
        "{}\n\
         name = \"s\"\n\
         summary = \"s\"\n\
         [costs]\n\
         {}\n\
         [budget]\n\
         {}\n\
         [machine]\n\
         {machine}[[workload]]\n\
         name = \"w\"\n\
         {}\n\
         {runs}",
        at(""),
        at("costs"),
        at("budget"),
        at("workload")
    )
}

/// Keys without which the table is refused before this one is read.
fn beside(table: &str, key: &str) -> &'static str {
    match (table, key) {
        ("tier", "share") => "",
        ("tier", "load_ns") => "share = 0.5\n",
        ("tier", "store_ns") => "share = 0.5\nload_ns = 90\nread_gbps = 30\n",
        ("tier", "write_gbps" | "channels" | "reserve" | "page_cache") => {
            "share = 0.5\nload_ns = 90\nread_gbps = 30\n"
        }
        ("tier", _) => "share = 0.5\nload_ns = 90\n",
        ("machine", key) if key != "fast_share" => "fast_share = 0.3\n",
        ("service", "footprint") => "max_per_second = 100\n",
        ("service", "lines_together" | "prefetched") => {
            "max_per_second = 100\nfootprint = \"8MiB\"\ntrace = \"a.twt\"\n"
        }
        ("service", "servers" | "item_bytes") => "max_per_second = 100\nfootprint = \"8MiB\"\n",
        ("service", "load" | "peak" | "burst_s" | "pause_s") => "preset = \"redis\"\n",
        _ => "",
    }
}

#[test]
fn likely_slips_name_the_intended_value() {
    let mut wrong = Vec::new();
    for (table, key, slip) in NUMBERS {
        let Some((found, meant)) = slip else { continue };
        let mut text = scenario(table, &format!("{}{key} = {found}", beside(table, key)));
        if ["servers", "item_bytes", "lines_together", "prefetched"].contains(key) {
            text = text.replace("name = \"w\"\n", "name = \"w\"\nslo_ms = 20\n");
        }
        let message = Scenario::parse("s.toml", &text, Path::new(".")).map(drop);
        let message = message.map_or_else(|error| error.to_string(), |()| "accepted".to_owned());
        let suggests = message.ends_with(&format!("; did you mean {meant}?"));
        if !(message.contains(&format!("{key}: found ")) && suggests) {
            wrong.push(format!("[{table}] {key} = {found}: {message}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn sizes_beyond_any_memory_are_refused() {
    // The first is a byte more than 4096 TiB.
    let too_large = ["4503599627370497", "0x10000000000001", "\"4097TiB\""];
    let mut wrong = Vec::new();
    for (source, tables) in SOURCES {
        let sizes = read_in(source, SIZE_READERS);
        let of_source = NUMBERS.iter().filter(|row| tables.contains(&row.0));
        for (table, key, _) in of_source.filter(|row| sizes.contains(row.1)) {
            if key.ends_with("share") {
                continue;
            }
            for found in too_large {
                let text = scenario(table, &format!("{}{key} = {found}", beside(table, key)));
                let message = Scenario::parse("s.toml", &text, Path::new(".")).map(drop);
                let message =
                    message.map_or_else(|error| error.to_string(), |()| "accepted".to_owned());
                let limit = "; allowed: a size above zero, up to 4096TiB";
                if !(message.contains(&format!("{key}: found ")) && message.contains(limit)) {
                    wrong.push(format!("[{table}] {key} = {found}: {message}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
