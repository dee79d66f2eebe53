//! `tierwise reproduce all`: what is kept, and what stands on the page.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::common::{Directory, TINY, refused, succeeded};

/// The part with the fewest files: two stores, each on two machines under seven recipes.
const PART: &str = "multi-clock-interval";
const RUNS: usize = 28;

/// A directory with both stores.
fn directory(windows: u32) -> Directory {
    let directory = Directory::new();
    let stores = directory.path("scenarios/multi-clock");
    fs::create_dir_all(&stores).unwrap();
    let text = TINY.replace("windows = 20", &format!("windows = {windows}"));
    let text = text.replace("fast_share", "cpus = 1\nfast_share");
    for name in ["store-a", "store-d"] {
        // Two contents, so that no run of one serves the other.
        let text = text.replace("1600KiB", if name == "store-a" { "1600KiB" } else { "1800KiB" });
        fs::write(stores.join(format!("{name}.toml")), text).unwrap();
    }
    directory
}

/// The arguments of the part on a directory.
fn arguments(directory: &Directory) -> Vec<String> {
    let [root, kept, page] = ["", "kept", "page.md"].map(|name| directory.name(name));
    let all = ["reproduce", "all", "--only", PART, "--root", &root, "--kept", &kept];
    let mut all = all.map(str::to_owned).to_vec();
    all.extend(["--page".to_owned(), page]);
    all
}

fn run(directory: &Directory) -> String {
    let arguments = arguments(directory);
    succeeded(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The number of whole records.
fn kept(directory: &Directory) -> usize {
    let Ok(logs) = fs::read_dir(directory.path("kept")) else { return 0 };
    let lines = |log: fs::DirEntry| fs::read_to_string(log.path()).unwrap().matches('\n').count();
    logs.map(|log| lines(log.unwrap())).sum()
}

#[test]
fn second_reproduction_computes_nothing_again() {
    let directory = directory(20);
    let first = run(&directory);
    assert!(first.starts_with(&format!("{RUNS} results computed in ")), "{first}");
    assert!(first.contains(", 0 kept from before\n"), "{first}");
    let page = fs::read_to_string(directory.path("page.md")).unwrap();
    let second = run(&directory);
    assert!(second.starts_with("0 results computed in "), "{second}");
    assert!(second.contains(&format!(", {RUNS} kept from before\n")), "{second}");
    assert_eq!(fs::read_to_string(directory.path("page.md")).unwrap(), page);
}

#[test]
fn killed_reproduction_goes_on_from_there() {
    let directory = directory(4000);
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("tierwise"))
        .args(arguments(&directory))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while kept(&directory) < 3 {
        sleep(Duration::from_millis(2));
    }
    command.kill().unwrap();
    assert_eq!(command.wait().unwrap().signal(), Some(9));
    let there = kept(&directory);
    assert!((3..RUNS).contains(&there), "the command was over before it was killed: {there}");
    let rest = run(&directory);
    let counts = format!("{} results computed in ", RUNS - there);
    assert!(rest.starts_with(&counts), "{there}: {rest}");
    assert!(rest.contains(&format!(", {there} kept from before\n")), "{there}: {rest}");
}

#[test]
fn missing_scenarios_stand_on_the_page() {
    let directory = directory(20);
    fs::remove_file(directory.path("scenarios/multi-clock/store-d.toml")).unwrap();
    run(&directory);
    let page = fs::read_to_string(directory.path("page.md")).unwrap();
    let row = page.lines().find(|line| line.contains("the best scan interval")).unwrap();
    assert!(row.contains("| not measured |") && row.contains("store-d.toml"), "{row}");
    let other = page.lines().find(|line| line.starts_with("| figure 8 |")).unwrap();
    assert!(other.contains("| not measured | left out by --only |"), "{other}");
}

#[test]
fn unknown_part_is_refused_with_names() {
    let error = refused(&["reproduce", "all", "--only", "mtat-7"]);
    let start = "--only: found \"mtat-7\"; allowed: equilibria-validations, ";
    assert!(error.starts_with(start) && error.contains("mtat-8"), "{error}");
}
