use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{Directory, refused, succeeded, text, tierwise};
use crate::machine::MachineFixture;

#[test]
fn example_configuration_shows_the_defaults() {
    let directory = Directory::new();
    let file = directory.write("example.toml", &succeeded(&["config", "example"]));
    let out = succeeded(&["config", "check", "--file-only", &file]);
    let (good, unchecked) = out.split_once('\n').unwrap();
    assert_eq!(good, format!("{file}: good"));
    assert_eq!(
        unchecked,
        "Not checked: floors and access monitoring: --file-only; run `tierwise doctor --config \
         FILE` on the machine that it is for\n"
    );
}

/// Returns `doctor`'s finding of a check, and true if it is good.
fn doctor(machine: &MachineFixture, file: &str, name: &str) -> (bool, String) {
    let output = tierwise(&["doctor", "--root", machine.root(), "--config", file, "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == name).unwrap();
    (check["status"] == "ok", check["found"].as_str().unwrap().to_owned())
}

#[test]
fn check_and_doctor_agree() {
    let directory = Directory::new();
    let big = "[[tenant]]\nname = \"a\"\ncgroup = \"a.slice\"\nfloor = \"80GB\"\n";
    let paddr = "[monitor]\nsource = \"damon-paddr\"\n";
    let idle = "[monitor]\nsource = \"idle-bitmap\"\n";
    for (i, content) in ["", big, "policy = \"tpp\"\n", paddr, idle].iter().enumerate() {
        let file = directory.write(&format!("{i}.toml"), content);
        for machine in
            [MachineFixture::able("hmat-two-tier"), MachineFixture::copy("hmat-two-tier")]
        {
            let output = tierwise(&["config", "check", "--root", machine.root(), &file]);
            let printed = text(&output.stdout) + &text(&output.stderr);
            let (fits, found) = doctor(&machine, &file, "policy and floors");
            assert_eq!(
                output.status.code(),
                Some(if fits { 0 } else { 2 }),
                "{content}: {printed}"
            );
            assert!(printed.contains(&found), "{content}: {found}\n{printed}");
            if fits {
                let (_, found) = doctor(&machine, &file, "access monitoring");
                let reported = found.split_once(": ").map_or(found.as_str(), |(_, why)| why);
                assert!(printed.contains(reported), "{content}: {found}\n{printed}");
            }
        }
    }
}

#[test]
fn check_and_doctor_agree_on_page_cache() {
    let directory = Directory::new();
    let content = "[move]\npage_cache = true\npromote_page_cache = true\n";
    let file = directory.write("t.toml", content);
    let machine = MachineFixture::copy("hmat-two-tier");
    let printed = succeeded(&["config", "check", "--root", machine.root(), &file]);
    for key in ["page_cache", "promote_page_cache"] {
        let (good, found) = doctor(&machine, &file, key);
        assert!(!good, "{key}: {found}");
        let line = format!("On this machine: move.{key} has no effect: {found}");
        assert!(printed.contains(&line), "{line}\n{printed}");
    }
}

#[test]
fn simulator_only_policy_is_refused_live() {
    let directory = Directory::new();
    let file = directory.write("t.toml", "dry_run = true\npolicy = \"flat-memstrata\"\n");
    let printed = refused(&["config", "check", "--file-only", &file]);
    assert!(printed.starts_with(&format!("{file}:2: policy: ")), "{printed}");
    assert!(printed.contains("memstrata"), "{printed}");
}

#[test]
fn what_could_not_be_checked_is_reported() {
    let (machine, directory) = (MachineFixture::able("one-node"), Directory::new());
    let file = directory.write("t.toml", "");
    let out = succeeded(&["config", "check", "--root", machine.root(), &file]);
    assert!(
        out.starts_with(&format!("{file}: good\nNot checked: floors and access monitoring")),
        "{out}"
    );
    assert!(out.contains("all memory is on node 0"), "{out}");
    assert!(!out.contains("On this machine:"), "{out}");
}

#[test]
fn non_toml_file_is_refused_in_words() {
    let directory = Directory::new();
    let parent = directory.name("");
    let printed = refused(&["config", "check", &parent]);
    assert_eq!(printed, format!("{parent}: it is a directory; name a file in it"));
    fs::write(directory.path("binary"), [0xff, 0x00]).unwrap();
    let printed = refused(&["config", "check", &directory.name("binary")]);
    assert!(printed.ends_with(": it is no TOML file: it is not UTF-8 text"), "{printed}");
}

#[test]
fn what_differs_from_the_defaults_is_reported() {
    let directory = Directory::new();
    let file =
        directory.write("own.toml", "policy = \"multi-clock\"\n[cpu]\nbudget_percent = 2.0\n");
    let out = succeeded(&["config", "check", &file, "--json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    let differs = ["policy: \"tierwise\" -> \"multi-clock\"", "cpu.budget_percent: 1.0 -> 2.0"];
    assert_eq!(value["differs"], serde_json::json!(differs));
}

#[test]
fn mistakes_name_file_line_and_key() {
    let directory = Directory::new();
    let file = directory.write("wrong.toml", "policy = \"tpp\"\nstat = \"/x\"\n");
    let printed = refused(&["config", "check", &file]);
    assert!(
        printed.starts_with(&format!("{file}:2: stat: no such key; did you mean \"state\"?")),
        "{printed}"
    );
    let printed = refused(&["config", "check", &directory.name("absent.toml")]);
    assert!(printed.contains("cannot be read: No such file"), "{printed}");
}

#[test]
fn the_schema_is_json_schema() {
    let value: Value = serde_json::from_str(&succeeded(&["config", "schema"])).unwrap();
    assert!(value["$schema"].as_str().unwrap().contains("json-schema.org"));
    assert_eq!(value["properties"]["policy"]["default"], "tierwise");
}

#[test]
fn configuration_reference_is_up_to_date() {
    let page = succeeded(&["config", "reference"]);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    if std::env::var_os("TIERWISE_BLESS").is_some() {
        fs::write(&file, &page).unwrap();
    }
    let known = fs::read_to_string(&file).unwrap();
    assert!(
        page == known,
        "docs/config.md is stale; write it again: tierwise config reference > docs/config.md"
    );
}

#[test]
fn a_file_without_end_is_refused() {
    let message = refused(&["config", "check", "--file-only", "/dev/zero"]);
    assert!(message.contains("/dev/zero: cannot be read: it is larger than 4 MiB"), "{message}");
}

#[test]
fn pipe_without_writer_is_refused() {
    let directory = Directory::new();
    let pipe = directory.name("pipe.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let message = refused(&["config", "check", "--file-only", &pipe]);
    assert!(message.contains("pipe.toml: cannot be read: it is a FIFO"), "{message}");
    let config = directory.write("c.toml", &format!("policy = \"{pipe}\"\n"));
    let message = refused(&["config", "check", "--file-only", &config]);
    assert!(message.contains("pipe.toml:1: cannot be read: it is a FIFO"), "{message}");
}
