use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{Directory, keys, refused, text, tierwise};

/// First touch holds a floor against later tenants, and never regains one from a hoarder. The
/// suite's findings follow from the policy's rules.
#[test]
fn first_touch_fails_before_the_hoarder() {
    let output = tierwise(&["conform", "static", "--json", "--check"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("floors were not held"));
    let report: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(
        keys(&report),
        ["grace_seconds", "left_out", "monitoring_seconds", "policies", "seed"]
    );
    let policy = &report["policies"][0];
    assert_eq!(keys(policy), ["floors", "held", "policy", "verdicts"]);
    let verdicts = policy["verdicts"].as_array().unwrap();
    assert_eq!(
        keys(&verdicts[0]),
        [
            "adversary",
            "breached_seconds",
            "deepest_breach_bytes",
            "floor_bytes",
            "held",
            "longest_breach_seconds",
            "slowdown",
            "victim"
        ]
    );
    let of = |name: &str| verdicts.iter().find(|v| v["adversary"] == name).unwrap();
    assert_eq!(of("late starter")["held"], true);
    let hoarder = of("idle hoarder");
    assert_eq!(hoarder["held"], false);
    assert_eq!(hoarder["deepest_breach_bytes"], hoarder["floor_bytes"]);
    assert!(hoarder["slowdown"].as_f64().unwrap() > 1.5, "{hoarder}");
    assert_eq!(documented("static"), verdicts.iter().map(row).collect::<Vec<_>>());
}

/// Adversary, victim, held and slowdown of a verdict, as `docs/conform.md` shows them.
fn row(verdict: &Value) -> [String; 4] {
    let name = |key: &str| verdict[key].as_str().unwrap().to_owned();
    let held = if verdict["held"] == true { "yes" } else { "no" }.to_owned();
    let slowdown = verdict["slowdown"].as_f64().unwrap();
    [name("adversary"), name("victim"), held, format!("{slowdown:.2} x")]
}

/// The rows of a policy's table in `docs/conform.md`.
fn documented(policy: &str) -> Vec<[String; 4]> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conform.md");
    let page = fs::read_to_string(file).unwrap();
    let heading = format!("## {policy}");
    let below = page.lines().skip_while(|line| *line != heading).skip(1);
    let section = below.take_while(|line| !line.starts_with("## "));
    let table = section.filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")).skip(1);
    let cells = table.map(|line| line.split(" | ").collect::<Vec<_>>());
    cells.map(|cells| [0, 1, 3, 6].map(|column| cells[column].to_owned())).collect()
}

#[test]
fn only_policies_are_put_to_the_test() {
    assert!(refused(&["conform", "equilibira"]).contains("did you mean \"equilibria\"?"));
    assert!(refused(&["conform", "oracle"]).contains("is a bound"));
    assert!(refused(&["conform", "static", "static"]).contains("named twice"));
    let directory = Directory::new();
    let broken = directory.write("broken.toml", "name = 5\n");
    assert_eq!(
        refused(&["conform", &broken]),
        format!("{broken}:1: name: found 5; allowed: a text in quotes")
    );
    assert_eq!(tierwise(&["conform"]).status.code(), Some(2));
}
