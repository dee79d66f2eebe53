//! The metrics: well-formed, exact, and documented.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::client::get;
use super::start;
use crate::http::metrics::METRICS;
use crate::http::reference;

fn text() -> String {
    let (server, _views) = start();
    let answer = get(&server, "/metrics");
    assert!(
        answer
            .header("content-type")
            .unwrap()
            .starts_with("application/openmetrics-text; version=1.0.0")
    );
    answer.body
}

/// The name and the labels of a sample, and its value.
fn sample(line: &str) -> (String, Vec<(String, String)>, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?}"));
    let value = value.parse().unwrap_or_else(|_| panic!("{line:?}"));
    let Some((name, rest)) = series.split_once('{') else { return (series.into(), vec![], value) };
    let mut rest = rest.strip_suffix('}').unwrap_or_else(|| panic!("{line:?}"));
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (key, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line:?}"));
        let (label, after) = unquoted(after).unwrap_or_else(|| panic!("{line:?}"));
        labels.push((key.into(), label));
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    (name.into(), labels, value)
}

/// A label's value up to its closing quote, and what follows.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut label = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((label, &text[at + 1..])),
            '\\' => label.push(match characters.next()?.1 {
                'n' => '\n',
                other @ ('\\' | '"') => other,
                _ => return None,
            }),
            other => label.push(other),
        }
    }
    None
}

#[test]
fn every_metric_line_is_well_formed() {
    let text = text();
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    let mut types = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(comment) = line.strip_prefix("# ") {
            let [what, name, value] = comment.splitn(3, ' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            match what {
                "HELP" => assert!(value.ends_with('.'), "{line}"),
                "TYPE" => assert!(types.insert(name, value).is_none(), "{line}: twice"),
                "UNIT" => assert!(name.ends_with(&format!("_{value}")), "{line}"),
                _ => panic!("{line}"),
            }
            continue;
        }
        let (name, labels, value) = sample(line);
        let family = name.strip_suffix("_total").or(name.strip_suffix("_info")).unwrap_or(&name);
        let kind = types.get(family).unwrap_or_else(|| panic!("{line}: no type"));
        let suffix = &name[family.len()..];
        assert_eq!(
            (*kind, suffix),
            (
                *kind,
                match *kind {
                    "counter" => "_total",
                    "info" => "_info",
                    _ => "",
                }
            )
        );
        assert!(value >= 0.0 && value.is_finite(), "{line}");
        assert!(seen.insert((name, labels)), "{line}: twice");
    }
}

#[test]
fn metrics_match_view_with_escaped_names() {
    let text = text();
    for line in [
        "tierwise_build_info{version=\"1.2.3\"} 1",
        "tierwise_mode{mode=\"dry-run\"} 1",
        "tierwise_mode{mode=\"manage\"} 0",
        "tierwise_uptime_seconds 12.5",
        "tierwise_rounds_total 7",
        "tierwise_demote_fail_total{reason=\"busy\"} 3",
        // More than a float can hold exactly.
        "tierwise_tier_capacity_bytes{tier=\"slow\"} 1152921504606846977",
        "tierwise_tier_load_latency_seconds{tier=\"fast\"} 9e-8",
        "tierwise_tenant_usage_bytes{tenant=\"shop\",tier=\"slow\"} 60",
        "tierwise_tenant_floor_bytes{tenant=\"a \\\"b\\\"\\\\c/d\\n<e>\",tier=\"fast\"} 30",
        "tierwise_tenant_demote_success_total{tenant=\"shop\",tier=\"slow\"} 9",
        "tierwise_tenant_p99_seconds{tenant=\"shop\"} 0.0025",
        "tierwise_tenant_usage_bytes{tenant=\"shop/web-0/db\",tier=\"fast\",namespace=\"shop\",\
         pod=\"web-0\",container=\"db\"} 40",
        "tierwise_tenant_info{tenant=\"shop/web-0/db\",class=\"best-effort\",namespace=\"shop\",\
         pod=\"web-0\",container=\"db\",qos_class=\"Burstable\",memory_class=\"gold\"} 1",
        "tierwise_tenant_info{tenant=\"shop\",class=\"best-effort\"} 1",
        "tierwise_tenant_floor_asked_bytes{tenant=\"shop/web-0/db\",namespace=\"shop\",\
         pod=\"web-0\",container=\"db\"} 50",
        "tierwise_pods 3",
        "tierwise_nri_slowest_answer_seconds 0.00025",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    // Unknown values are absent rather than zero.
    for name in ["tenant_cap_bytes{", "tenant_slo_seconds{", "promote_fail_total{reason"] {
        assert!(!text.contains(&format!("tierwise_{name}")), "{name}");
    }
}

#[test]
fn metrics_documentation_is_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    if std::env::var_os("TIERWISE_BLESS").is_some() {
        std::fs::write(&file, reference()).unwrap();
    }
    let page = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        page == reference(),
        "docs/metrics.md is stale; write it again: TIERWISE_BLESS=1 cargo test -p tierwised"
    );
    assert_eq!(page.lines().filter(|line| line.starts_with("| `")).count(), METRICS.len());
}
