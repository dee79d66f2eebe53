//! Tests that the examples in the documents and the help are correct. Each TOML block is a valid
//! file of its kind. Each command runs in the directory that the README presumes, or is in a list
//! with the reason why it is not run here. (`src/documented.rs` tests that the command understands
//! all of them.)

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(dead_code, reason = "the test inside the command uses the rest")]
mod blocks;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use blocks::{FencedBlock, blocks, commands, documents, project};

/// The commands that are not run, by their start, with the reason.
const NOT_RUN: &[(&str, &[&str])] = &[
    (
        "it builds or tests the whole project",
        &["make run", "make test", "make package", "make lab-shell", "pip install"],
    ),
    ("it needs root, and changes the machine", &["sudo "]),
    ("another command installs it", &["/opt/"]),
    (
        "it asks or changes a running daemon",
        &[
            "tierwise status",
            "tierwise daemon",
            "tierwise explain --tenant shop",
            "tierwise config check new.toml && tierwise daemon reload",
        ],
    ),
    (
        "it reads what `config example | sudo tee` would have written",
        &["tierwise config example | sudo tee"],
    ),
    ("without a file it reads this machine's own", &["tierwise config check"]),
    (
        "it runs for tens of seconds to hours; its files are checked",
        &[
            "tierwise compare",
            "tierwise advise",
            "tierwise plan",
            "tierwise conform",
            "tierwise profile",
            "tierwise reproduce",
            "tierwise sweep",
        ],
    ),
    ("it records with the plugin, which is built apart", &["tierwise record -o"]),
    ("it needs a tool of others", &["valgrind ", "perf ", "damo ", "cachesim "]),
    ("it trains for hours", &["S=", "python -m tierwise.train"]),
    ("it needs PyTorch, and trains for minutes", &["python python/examples/"]),
    ("it reports on a service that the reader has", &["TIERWISE_EMT=1 ", "head -n 12 cold.txt"]),
    ("it replays records of guests that the lab made", &["tierwise validate"]),
];

/// Commands that [`NOT_RUN`] would exclude and that the test runs nevertheless.
const RUN: &[&str] = &["tierwise config check tierwised.toml"];

fn reason_not_to_run(line: &str) -> Option<&'static str> {
    if RUN.contains(&line) {
        return None;
    }
    let begins = |starts: &[&str]| starts.iter().any(|start| line.starts_with(start));
    NOT_RUN.iter().find(|(_, starts)| begins(starts)).map(|(why, _)| *why)
}

/// The directory that the README presumes: the project's files, and the files that a reader has
/// created by then.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for directory in ["scenarios", "plans", "recipes", "profiles", "sweeps"] {
            copy(&project().join(directory), &place.0.path().join(directory));
        }
        // Traces are large: they are linked. The help calls one of them a.
        let traces = place.0.path().join("traces");
        fs::create_dir(&traces).unwrap();
        for trace in fs::read_dir(project().canonicalize().unwrap().join("traces")).unwrap() {
            let trace = trace.unwrap();
            symlink(trace.path(), traces.join(trace.file_name())).unwrap();
        }
        symlink("redis-ycsb-d.twt", traces.join("a.twt")).unwrap();
        let lines = (0..4000u32).map(|i| format!(" L {:x},8\n", 0x10_0000 + i * 7919 % 64 * 4096));
        fs::write(place.0.path().join("ls.txt"), lines.collect::<String>()).unwrap();
        for trace in ["mine.twt", "a.twt", "shop.twt"] {
            place.succeeds(&format!("tierwise trace import ls.txt {trace}"));
        }
        let foreign = project().join("crates/tierwise-trace/tests/foreign");
        for (recording, name) in [
            ("walk.champsimtrace.xz", "mcf.champsimtrace.xz"),
            ("faults.perf", "mem.txt"),
            ("stairs.damo", "damon.data"),
        ] {
            fs::copy(foreign.join(recording), place.0.path().join(name)).unwrap();
        }
        // A recording with the mark that the help cuts at.
        symlink("traces/a.twt", place.0.path().join("all.twt")).unwrap();
        fs::write(place.0.path().join("SCENARIO.toml"), SCENARIO).unwrap();
        fs::write(place.0.path().join("my-scenario.toml"), SCENARIO).unwrap();
        fs::create_dir(place.0.path().join("my-directory")).unwrap();
        fs::write(place.0.path().join("my-directory/mine.toml"), SCENARIO).unwrap();
        fs::create_dir_all(place.0.path().join(".local/share/bash-completion/completions"))
            .unwrap();
        fs::create_dir_all(place.0.path().join(".local/share/man")).unwrap();
        place
    }

    fn run(&self, line: &str) -> Output {
        let program: &Path = assert_cmd::cargo::cargo_bin!("tierwise");
        let path =
            format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("bash");
        shell
            .args(["-e", "-o", "pipefail", "-c", line])
            .env("PATH", path)
            .env("HOME", self.0.path());
        shell.current_dir(self.0.path()).output().unwrap()
    }

    fn succeeds(&self, line: &str) {
        assert_eq!(self.problem(line), None);
    }

    fn problem(&self, line: &str) -> Option<String> {
        let output = self.run(line);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        (!output.status.success()).then(|| format!("{line}: {}: {message}", output.status))
    }
}

/// A scenario that takes a moment.
const SCENARIO: &str = r#"
name = "small"
summary = "x"
[machine]
preset = "dram-cxl"
fast_share = 0.25
[[workload]]
name = "NAME"
[workload.generator]
pattern = "zipf"
footprint = "1600KiB"
accesses_per_window = 2000
windows = 20
"#;

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn every_block() -> Vec<FencedBlock> {
    documents().iter().flat_map(|(name, text)| blocks(name, text)).collect()
}

#[test]
fn every_documented_toml_block_is_valid() {
    let place = Place::new();
    let toml: Vec<FencedBlock> =
        every_block().into_iter().filter(|b| b.language == "toml").collect();
    assert!(toml.len() >= 3, "the README has a scenario and a configuration");
    for block in toml {
        let kind = block.text.lines().next().unwrap_or_default().to_owned();
        fs::write(place.0.path().join("block.toml"), &block.text).unwrap();
        let check = if kind.ends_with(": a scenario") {
            "tierwise scenario check block.toml"
        } else if kind.ends_with(": a plan") {
            // Everything is read before this policy is refused.
            let refused = place.problem("tierwise plan block.toml --policy oracle").unwrap();
            assert!(refused.contains("is a bound"), "{}: {refused}", block.place);
            continue;
        } else if kind.ends_with(": a recipe") {
            "tierwise compare SCENARIO.toml --policies static --recipe block.toml"
        } else if kind.ends_with(": a sweep") {
            "tierwise sweep block.toml --dry-run --out results"
        } else if kind.ends_with("tierwised.toml") {
            "tierwise config check --file-only block.toml"
        } else {
            panic!(
                "{}: what kind of file is it? Say so in its first line, as a comment",
                block.place
            )
        };
        assert_eq!(place.problem(check), None, "{}", block.place);
    }
}

#[test]
fn every_documented_command_runs_or_is_excused() {
    let (mut wrong, mut ran) = (Vec::new(), 0);
    for block in every_block() {
        let mut commands = commands(&block).unwrap_or_else(|why| panic!("{why}"));
        commands.retain(|command| reason_not_to_run(&command.line).is_none());
        if commands.is_empty() {
            continue;
        }
        // Each block gets a directory of its own: it does not find another block's files.
        let place = Place::new();
        ran += commands.len();
        for command in commands {
            let reported = |problem| format!("{}: {problem}", command.place);
            wrong.extend(place.problem(&command.line).map(reported));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(ran > 20, "only {ran} commands ran");
}

#[test]
fn documented_comparisons_exist_and_are_valid() {
    let place = Place::new();
    let lines = every_block().into_iter().flat_map(|block| commands(&block).unwrap());
    let words = lines.filter(|c| c.line.starts_with("tierwise")).map(|c| c.line);
    let mut files: Vec<String> = words
        .flat_map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter(|word| word.starts_with("scenarios/") && word.ends_with(".toml"))
        .collect();
    files.sort();
    files.dedup();
    assert!(!files.is_empty());
    place.succeeds(&format!("tierwise scenario check {}", files.join(" ")));
}
