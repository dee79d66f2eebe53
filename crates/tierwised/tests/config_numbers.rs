//! Every numeric key of the daemon's configuration refuses nonsense, and names file, line, key,
//! found and allowed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;

use serde_json::Value;
use tierwised::config::Config;

/// A numeric key: its table, whether zero is nonsense too, and the keys that the table requires.
type Row = (&'static str, &'static str, bool, &'static str);

const TENANT: &str = "name = \"a\"\npids = [1]\n";
const CRITICAL: &str = "name = \"a\"\npids = [1]\nclass = \"latency-critical\"\n";
const SERVICE: &str = "name = \"a\"\npids = [1]\nclass = \"latency-critical\"\nslo_ms = 2\n";
const TIER: &str = "name = \"a\"\nnodes = [0]\n";

const ROWS: &[Row] = &[
    ("", "block", true, ""),
    ("monitor", "sampling_ms", true, ""),
    ("monitor", "aggregation_ms", true, ""),
    ("monitor", "regions", true, ""),
    ("monitor", "interval_ms", true, ""),
    ("move", "rate", true, ""),
    ("move", "call_p99_ms", true, ""),
    ("move", "unmanaged_idle_s", false, ""),
    ("cpu", "budget_percent", true, ""),
    ("cpu", "cap_percent", true, ""),
    ("kernel", "numa_balancing", false, ""),
    ("kubernetes", "reserve_percent", false, ""),
    ("tier", "nodes", false, "name = \"a\"\n"),
    ("tier", "latency_ns", true, TIER),
    ("tier", "bandwidth_gbps", true, TIER),
    ("tenant", "pids", true, "name = \"a\"\n"),
    ("tenant", "slo_ms", true, CRITICAL),
    ("tenant", "full_load", true, SERVICE),
    ("tenant", "weight", true, TENANT),
    ("tenant", "floor", false, TENANT),
    ("tenant", "cap", false, TENANT),
];

/// Keys whose values are written as texts with a unit.
const AMOUNTS: &[&str] = &["block", "rate", "floor", "cap"];
const LISTS: &[&str] = &["nodes", "pids"];

const NONSENSE: &[&str] =
    &["-1", "nan", "inf", "9999999999", "99999999999999999999", "\"text\"", "true"];
const NONSENSE_AMOUNTS: &[&str] =
    &["\"-1GB\"", "\"nan\"", "\"inf\"", "\"1e400GB\"", "\"99999999TB\"", "\"-5%\""];

fn properties(table: &Value) -> impl Iterator<Item = (&String, &Value)> {
    table["properties"].as_object().into_iter().flatten()
}

fn resolve<'a>(schema: &'a Value, value: &'a Value) -> &'a Value {
    let pointer = value["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
    pointer.and_then(|pointer| schema.pointer(pointer)).unwrap_or(value)
}

/// Returns true if a value may be a number, a list of them, or an amount.
fn is_numeric(schema: &Value, value: &Value) -> bool {
    let reference = value["$ref"].as_str().unwrap_or_default();
    if reference.ends_with("/Amount") || reference.ends_with("/Limit") {
        return true;
    }
    let value = resolve(schema, value);
    let any = value["anyOf"].as_array().into_iter().flatten();
    let has = |kind: &str| {
        value["type"] == kind
            || value["type"].as_array().is_some_and(|all| all.iter().any(|one| one == kind))
    };
    let in_list = has("array") && is_numeric(schema, &value["items"]);
    has("integer") || has("number") || in_list || any.into_iter().any(|v| is_numeric(schema, v))
}

/// The numeric keys by table, from the schema that `tierwise config reference` prints too.
fn numeric_keys() -> BTreeSet<(String, String)> {
    let schema = Config::schema();
    let mut keys = BTreeSet::new();
    for (name, value) in properties(&schema) {
        let item = if value["type"] == "array" { &value["items"] } else { value };
        let table = resolve(&schema, item);
        if table["type"] == "object" {
            let numeric = properties(table).filter(|(_, value)| is_numeric(&schema, value));
            keys.extend(numeric.map(|(key, _)| (name.clone(), key.clone())));
        } else if is_numeric(&schema, value) {
            keys.insert((String::new(), name.clone()));
        }
    }
    keys
}

#[test]
fn every_numeric_key_has_a_row() {
    let rows: BTreeSet<(String, String)> =
        ROWS.iter().map(|row| (row.0.to_owned(), row.1.to_owned())).collect();
    assert_eq!(numeric_keys(), rows);
}

#[test]
fn every_numeric_key_refuses_nonsense() {
    let mut wrong = Vec::new();
    for &(table, key, zero, beside) in ROWS {
        let amounts = if AMOUNTS.contains(&key) { NONSENSE_AMOUNTS } else { &[] };
        let zero = zero.then_some(if AMOUNTS.contains(&key) { "\"0\"" } else { "0" });
        for found in NONSENSE.iter().chain(amounts).copied().chain(zero) {
            let value = if LISTS.contains(&key) { format!("[{found}]") } else { found.to_owned() };
            let head = match table {
                "" => String::new(),
                "tier" | "tenant" => format!("[[{table}]]\n"),
                _ => format!("[{table}]\n"),
            };
            let text = format!("{head}{beside}{key} = {value}\n");
            let place = format!("t.toml:{}: ", text.lines().count());
            let refusal = Config::parse("t.toml", &text);
            let message = refusal.map_or_else(|error| error.to_string(), |_| String::new());
            let names = message.starts_with(&place) && message.contains(&format!("{key}: "));
            if !names || !message.contains("found ") || !message.contains("allowed: ") {
                wrong.push(format!("[{table}] {key} = {value}: {message:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
