use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{Folder, refused, succeeded};

#[test]
fn the_example_is_good_and_says_the_defaults() {
    let folder = Folder::new();
    let file = folder.write("example.toml", &succeeded(&["config", "example"]));
    assert_eq!(succeeded(&["config", "check", &file]), format!("{file}: good\n"));
}

#[test]
fn what_differs_from_the_defaults_is_told() {
    let folder = Folder::new();
    let file = folder.write("own.toml", "policy = \"multi-clock\"\n[cpu]\nbudget_percent = 2.0\n");
    let out = succeeded(&["config", "check", &file, "--json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    let differs = ["policy: \"tierwise\" -> \"multi-clock\"", "cpu.budget_percent: 1.0 -> 2.0"];
    assert_eq!(value["differs"], serde_json::json!(differs));
}

#[test]
fn mistakes_name_file_line_and_key() {
    let folder = Folder::new();
    let file = folder.write("wrong.toml", "policy = \"tpp\"\nstat = \"/x\"\n");
    let said = refused(&["config", "check", &file]);
    assert!(
        said.starts_with(&format!("{file}:2: stat: no such key; did you mean \"state\"?")),
        "{said}"
    );
    let said = refused(&["config", "check", &folder.name("absent.toml")]);
    assert!(said.contains("cannot be read: No such file"), "{said}");
}

#[test]
fn the_schema_is_json_schema() {
    let value: Value = serde_json::from_str(&succeeded(&["config", "schema"])).unwrap();
    assert!(value["$schema"].as_str().unwrap().contains("json-schema.org"));
    assert_eq!(value["properties"]["policy"]["default"], "tierwise");
}

#[test]
fn the_reference_of_the_configuration_is_up_to_date() {
    let page = succeeded(&["config", "reference"]);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    if std::env::var_os("TIERWISE_BLESS").is_some() {
        fs::write(&file, &page).unwrap();
    }
    let known = fs::read_to_string(&file).unwrap();
    assert!(
        page == known,
        "docs/config.md is stale; write it anew: tierwise config reference > docs/config.md"
    );
}
