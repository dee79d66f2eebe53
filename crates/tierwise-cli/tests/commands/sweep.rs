//! `tierwise sweep`: what is kept when workers or the sweep itself are killed.

use std::collections::HashMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::common::{Directory, TINY, refused, succeeded};

/// Twelve units that take a moment.
const PLAN: &str = r#"
scenarios = ["tiny.toml"]
recipes = ["static", "multi-clock"]
seeds = [1, 2]
[[list]]
scenario.machine.fast_share = 0.1
[[list]]
scenario.machine.fast_share = 0.25
[[list]]
scenario.machine.fast_share = 0.5
"#;

/// Units that take long enough to be killed.
fn slow(windows: u32) -> String {
    TINY.replace("windows = 20", &format!("windows = {windows}"))
}

fn directory(scenario: &str) -> (Directory, String, String) {
    let directory = Directory::new();
    directory.write("tiny.toml", scenario);
    let plan = directory.write("plan.toml", PLAN);
    let out = directory.name("out");
    (directory, plan, out)
}

/// The number of whole records of each key.
fn kept(directory: &Directory) -> HashMap<String, usize> {
    let mut keys = HashMap::new();
    let Ok(logs) = fs::read_dir(directory.path("out/kept")) else { return keys };
    for log in logs {
        let text = fs::read_to_string(log.unwrap().path()).unwrap();
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let key = line.split('"').nth(3).unwrap().to_owned();
            *keys.entry(key).or_insert(0) += 1;
        }
    }
    keys
}

fn start(plan: &str, out: &str, jobs: &str) -> Child {
    Command::new(assert_cmd::cargo::cargo_bin!("tierwise"))
        .args(["sweep", plan, "--jobs", jobs, "--out", out])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn kill(signal: &str, pid: u32) {
    let killed = Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
    assert!(killed.success());
}

/// A worker of a sweep; waits until there is one other than `before`.
fn worker_of(sweep: u32, before: Option<u32>) -> u32 {
    loop {
        let file = format!("/proc/{sweep}/task");
        for task in fs::read_dir(file).unwrap() {
            let children = fs::read_to_string(task.unwrap().path().join("children"));
            let children = children.unwrap_or_default();
            let mut children = children.split_whitespace().map(|pid| pid.parse().unwrap());
            if let Some(pid) = children.find(|pid| Some(*pid) != before) {
                return pid;
            }
        }
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn second_sweep_computes_nothing_again() {
    let (directory, plan, out) = directory(TINY);
    let first = succeeded(&["sweep", &plan, "--out", &out, "--jobs", "2"]);
    assert!(first.starts_with("12 units in ") && first.contains("; 0 kept from before"), "{first}");
    let table = fs::read(directory.path("out/plan.parquet")).unwrap();
    let second = succeeded(&["sweep", &plan, "--out", &out, "--jobs", "2"]);
    assert!(second.starts_with("0 units in ") && second.contains("; 12 kept from before"));
    assert_eq!(fs::read(directory.path("out/plan.parquet")).unwrap(), table);
    assert_eq!(kept(&directory).into_values().collect::<Vec<_>>(), [1; 12]);
}

#[test]
fn two_plans_share_their_results() {
    let (directory, plan, out) = directory(TINY);
    succeeded(&["sweep", &plan, "--out", &out]);
    // The same units in other words, one of them under another name.
    let other =
        "scenarios = [\"other.toml\"]\nrecipes = [\"static\"]\nseeds = { from = 2, count = 2 }\n";
    directory.write("other.toml", &TINY.replace("name = \"tiny\"", "name = \"other\""));
    let other = directory.write("second.toml", other);
    let counted = succeeded(&["sweep", &other, "--out", &out, "--dry-run"]);
    assert_eq!(counted, "2 units: 1 kept, 1 to run\n");
    // A recipe's own value is no other parameter; a changed scenario is another unit.
    let same = "scenarios = [\"tiny.toml\"]\nrecipes = [\"multi-clock\"]\n[grid]\n\
                estimator.interval_ms = [1000, 500]\n";
    let same = directory.write("third.toml", same);
    let counted = succeeded(&["sweep", &same, "--out", &out, "--dry-run"]);
    assert_eq!(counted, "2 units: 1 kept, 1 to run\n");
    directory.write("tiny.toml", &TINY.replace("2000", "2001"));
    let counted = succeeded(&["sweep", &same, "--out", &out, "--dry-run"]);
    assert_eq!(counted, "2 units: 0 kept, 2 to run\n");
}

#[test]
fn killed_sweep_goes_on_where_it_stopped() {
    for (signal, number) in [("-KILL", 9), ("-INT", 2)] {
        let (directory, plan, out) = directory(&slow(4000));
        let mut sweep = start(&plan, &out, "1");
        while kept(&directory).len() < 3 {
            sleep(Duration::from_millis(2));
        }
        kill(signal, sweep.id());
        assert_eq!(sweep.wait().unwrap().signal(), Some(number));
        let there = kept(&directory).len();
        assert!((3..12).contains(&there), "the sweep was over before it was killed: {there}");
        let rest = succeeded(&["sweep", &plan, "--out", &out]);
        assert!(rest.starts_with(&format!("{} unit", 12 - there)), "{there}: {rest}");
        assert_eq!(kept(&directory).into_values().collect::<Vec<_>>(), [1; 12]);
    }
}

#[test]
fn worker_that_dies_loses_one_unit() {
    let (directory, plan, out) = directory(&slow(4000));
    let sweep = start(&plan, &out, "1");
    kill("-KILL", worker_of(sweep.id(), None));
    let output = sweep.wait_with_output().unwrap();
    let (out, err) = (output.stdout, String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{err}");
    assert!(err.contains("was killed by signal 9 (SIGKILL) with tiny, "), "{err}");
    assert!(String::from_utf8(out).unwrap().starts_with("12 units in "));
    assert_eq!(kept(&directory).into_values().collect::<Vec<_>>(), [1; 12]);
}

#[test]
fn unit_that_kills_twice_has_failed() {
    let directory = Directory::new();
    // Minutes, so that both workers die within it.
    directory.write("tiny.toml", &slow(10_000_000));
    let plan = "scenarios = [\"tiny.toml\"]\nrecipes = [\"static\"]\n";
    let (plan, out) = (directory.write("plan.toml", plan), directory.name("out"));
    let sweep = start(&plan, &out, "1");
    let first = worker_of(sweep.id(), None);
    kill("-KILL", first);
    kill("-KILL", worker_of(sweep.id(), Some(first)));
    let output = sweep.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let because = "1 unit failed, the first because: its worker was killed by signal 9";
    assert!(output.status.success() && printed.contains(because), "{printed}");
    let counted = succeeded(&["sweep", &plan, "--out", &out, "--dry-run"]);
    assert_eq!(counted, "1 unit: 0 kept, 1 to run\n", "another sweep tries it again");
}

#[test]
fn refused_unit_is_kept_with_reason() {
    let directory = Directory::new();
    directory.write(
        "big.toml",
        &TINY.replace("fast_share = 0.25", "fast = \"64KiB\"\nslow = \"64KiB\""),
    );
    let plan = "scenarios = [\"big.toml\"]\nrecipes = [\"static\"]\n";
    let (plan, out) = (directory.write("plan.toml", plan), directory.name("out"));
    let printed = succeeded(&["sweep", &plan, "--out", &out]);
    assert!(printed.contains("1 unit failed, the first because: workload \"w\": "), "{printed}");
    let counted = succeeded(&["sweep", &plan, "--out", &out, "--dry-run"]);
    assert_eq!(counted, "1 unit: 1 kept, 0 to run\n", "the engine would refuse it again");
}

#[test]
fn wrong_plans_are_refused_by_line() {
    let directory = Directory::new();
    directory.write("tiny.toml", TINY);
    let head = "scenarios = [\"tiny.toml\"]\nrecipes = [\"multi-clock\"]\n";
    for (text, why) in [
        ("scenarios = 3\n", "plan.toml:1: scenarios: allowed: a list of "),
        ("recipes = [\"tpp\"]\n", "plan.toml:1: scenarios: missing"),
        ("scenarios = [\"no.toml\"]\nrecipes = [\"tpp\"]\n", "plan.toml:1: scenarios: "),
        ("scenarios = [\"tiny.toml\"]\nrecipes = [\"tp\"]\n", "plan.toml:2: recipes: no policy is"),
        (&format!("{head}seed = [1]\n"), "plan.toml:3: seed: unknown key; did you mean \"seeds\"?"),
        (&format!("{head}seeds = [-1]\n"), "plan.toml:3: seeds: allowed: a list of whole"),
        (
            &format!("{head}[grid]\nestimator.interval_ms = 5\n"),
            "plan.toml:4: grid.estimator.interval_ms: allowed: a list of one or more",
        ),
        (
            &format!("{head}[grid]\nestimater.x = [1]\n"),
            "plan.toml:4: grid.estimater.x: unknown table \"estimater\"; did you mean ",
        ),
        (
            &format!("{head}[[list]]\nestimator.scan_pages = \"many\"\n"),
            "plan.toml:4: list[0].estimator.scan_pages: found \"many\"; allowed: ",
        ),
        (
            &format!("{head}[grid]\nscenario.machine.fast_shar = [0.5]\n"),
            "plan.toml:4: grid.scenario.machine.fast_shar: unknown key; did you mean ",
        ),
        (
            &format!("{head}[grid]\nscenario.workload.x.weight = [5]\n"),
            "plan.toml:4: grid.scenario.workload.x.weight: no workload is called x",
        ),
    ] {
        let plan = directory.write("plan.toml", text);
        let message = refused(&["sweep", &plan, "--out", &directory.name("out")]);
        assert!(message.contains(why), "{message}\nfor {text}");
    }
}
