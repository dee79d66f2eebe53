use serde_json::Value;

use crate::common::{Directory, keys, text, tierwise};
use crate::machine::MachineFixture;

/// A configuration whose socket has no listener, so that no daemon of this machine is asked.
fn config(directory: &Directory, more: &str) -> String {
    let socket = directory.name("control.sock");
    directory.write("tierwised.toml", &format!("{more}\n[control]\nsocket = \"{socket}\"\n"))
}

/// Exit code, and the report.
fn doctor(machine: &MachineFixture, config: &str) -> (Option<i32>, Value) {
    let before = machine.content();
    let output = tierwise(&["doctor", "--root", machine.root(), "--config", config, "--json"]);
    assert!(machine.content() == before, "doctor wrote something");
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code(), report.unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr))))
}

fn find<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().unwrap();
    checks
        .iter()
        .find(|check| check["name"] == name)
        .unwrap_or_else(|| panic!("{name}: {report:#}"))
}

fn remedy<'a>(report: &'a Value, name: &str) -> &'a str {
    find(report, name)["remedy"].as_str().unwrap()
}

#[test]
fn complete_machine_can_be_managed() {
    let (machine, directory) = (MachineFixture::able("hmat-two-tier"), Directory::new());
    let (code, report) = doctor(&machine, &config(&directory, ""));
    assert_eq!((code, &report["can"]), (Some(0), &Value::from("manage")), "{report:#}");
    assert_eq!(keys(&report), ["can", "checks"]);
    let tiers = find(&report, "memory tiers")["found"].as_str().unwrap();
    assert!(tiers.starts_with("fastest first: memory_tier"), "{tiers}");
    assert!(tiers.contains("ns firmware"), "{tiers}");
    assert_eq!(
        find(&report, "access monitoring")["found"].as_str().unwrap().split(" because").next(),
        Some("damon-vaddr,")
    );
    assert_eq!(find(&report, "kdamonds")["status"], "ok");
    assert_eq!(find(&report, "memory.reclaim")["status"], "ok");
    assert_eq!(find(&report, "idle bitmap")["status"], "missing");
    assert_eq!(find(&report, "tierwised")["status"], "note");
}

#[test]
fn one_node_can_only_be_observed() {
    let (machine, directory) = (MachineFixture::able("one-node"), Directory::new());
    let (code, report) = doctor(&machine, &config(&directory, ""));
    assert_eq!((code, &report["can"]), (Some(1), &Value::from("observe")));
    let tiers = find(&report, "memory tiers");
    assert_eq!(
        (&tiers["status"], &tiers["found"]),
        (&"missing".into(), &"all memory is on node 0".into())
    );
}

#[test]
fn flat_machine_gets_tiers_from_the_configuration() {
    let (machine, directory) = (MachineFixture::able("flat-two-node"), Directory::new());
    let (code, report) = doctor(&machine, &config(&directory, ""));
    assert_eq!(code, Some(1));
    let lines = remedy(&report, "memory tiers").split_once('\n').unwrap().1.to_owned();
    let (code, report) = doctor(&machine, &config(&directory, &lines));
    assert_eq!(code, Some(0), "{report:#}");
}

#[test]
fn no_monitoring_source_means_nothing_works() {
    let (machine, directory) = (MachineFixture::copy("hmat-two-tier"), Directory::new());
    let (code, report) = doctor(&machine, &config(&directory, ""));
    assert_eq!((code, &report["can"]), (Some(1), &Value::from("nothing")));
    assert!(remedy(&report, "DAMON vaddr").contains("CONFIG_DAMON_SYSFS"));
    assert!(remedy(&report, "privileges").contains("sudo"));
}

#[test]
fn whoever_holds_damon_is_named() {
    let (machine, directory) = (MachineFixture::able("cxl-three-tier"), Directory::new());
    machine.put("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "1\n");
    machine.put("sys/kernel/mm/damon/admin/kdamonds/0/state", "on\n");
    machine.put("sys/kernel/mm/damon/admin/kdamonds/0/pid", "77\n");
    machine.put("proc/77/comm", "kdamond.0\n");
    let (_, report) = doctor(&machine, &config(&directory, ""));
    assert_eq!(find(&report, "kdamonds")["found"], "in use: 0 (on, thread 77 kdamond.0)");
    assert!(remedy(&report, "damon_stat").contains("release_damon = true"));
    let (_, report) = doctor(&machine, &config(&directory, "[kernel]\nrelease_damon = true"));
    assert_eq!(find(&report, "damon_stat")["status"], "note");
}

#[test]
fn cgroup_v1_stops_only_group_tenants() {
    let (machine, directory) = (MachineFixture::able("cgroup-v1"), Directory::new());
    let (code, report) = doctor(&machine, &config(&directory, ""));
    assert_eq!(code, Some(0), "{report:#}");
    let (code, report) =
        doctor(&machine, &config(&directory, "[[tenant]]\nname = \"a\"\ncgroup = \"a.slice\""));
    assert_eq!(code, Some(1));
    assert!(find(&report, "cgroup v2 memory")["found"].as_str().unwrap().contains("cgroup v1"));
}

#[test]
fn invalid_configuration_is_reported() {
    let (machine, directory) = (MachineFixture::able("hmat-two-tier"), Directory::new());
    let (code, report) = doctor(&machine, &directory.write("wrong.toml", "polcy = \"tpp\"\n"));
    assert_eq!(code, Some(1));
    let found = find(&report, "configuration")["found"].as_str().unwrap();
    assert!(found.contains("did you mean \"policy\"?"), "{found}");

    let tenant = "[[tenant]]\nname = \"a\"\ncgroup = \"absent.slice\"\nfloor = \"80GB\"";
    let (code, report) = doctor(&machine, &config(&directory, tenant));
    assert_eq!(code, Some(1));
    let found = find(&report, "policy and floors")["found"].as_str().unwrap();
    assert!(found.contains("add up to"), "{found}");
    assert_eq!(find(&report, "tenant")["remedy"], "tierwised waits for it");

    let (code, report) = doctor(&machine, &config(&directory, "policy = \"flat-memstrata\""));
    assert_eq!(code, Some(1));
    let found = find(&report, "policy and floors")["found"].as_str().unwrap();
    assert!(found.contains("memstrata") && found.contains("would run here"), "{found}");
}

#[test]
fn doctor_table_aligns_and_colours_switch_off() {
    let (machine, directory) = (MachineFixture::able("one-node"), Directory::new());
    let config = config(&directory, "");
    let arguments = ["doctor", "--root", machine.root(), "--config", &config];
    let output = tierwise(&arguments);
    let table = text(&output.stdout);
    assert!(!table.contains('\u{1b}'), "{table}");
    let column = table.lines().next().unwrap().find("FOUND").unwrap();
    for line in table.lines().filter(|line| !line.is_empty()) {
        assert!(line[..column].ends_with("  "), "{line}\n{table}");
    }
    let message = text(&output.stderr);
    assert!(message.contains("could only observe here; missing: memory tiers"), "{message}");
    let coloured = tierwise(&[&arguments[..], &["--color", "always"]].concat());
    assert!(text(&coloured.stdout).contains("\u{1b}["));
}
