//! Every numeric option refuses nonsense, and names the option, the value found and the values
//! allowed.

use std::collections::BTreeSet;

use crate::common::{Directory, succeeded, text, tierwise};

/// Names of values that are no numbers, in the help.
const TEXTS: &[&str] = &[
    "WHEN",
    "FILE",
    "DIR",
    "FIFO",
    "PATH",
    "NAME",
    "NAMES",
    "TEXT",
    "PRESET",
    "FORMAT",
    "TABLE",
    "CLASS",
    "CGROUP",
    "GUEST",
    "DIRECTORY|FILE",
];

const NONSENSE: &[&str] = &["-1", "nan", "inf", "1e400", "99999999999999999999", "text", ""];

/// A numeric option: its command with what the command requires beside it, and whether zero is
/// nonsense too.
struct Row {
    command: &'static [&'static str],
    option: &'static str,
    beside: &'static [&'static str],
    zero: Zero,
}

#[derive(Clone, Copy, PartialEq)]
enum Zero {
    Allowed,
    Refused,
}

use Zero::{Allowed, Refused};

const fn row(
    command: &'static [&'static str],
    option: &'static str,
    beside: &'static [&'static str],
    zero: Zero,
) -> Row {
    Row { command, option, beside, zero }
}

const COMPARE: &[&str] = &["compare"];
const SIMULATE: &[&str] = &["simulate"];
const ADVISE: &[&str] = &["advise"];
const PLAN: &[&str] = &["plan"];
const SWEEP: &[&str] = &["sweep"];
const CONFORM: &[&str] = &["conform"];
const PROFILE: &[&str] = &["profile"];
const RECORD: &[&str] = &["record"];
const RECORD_LIVE: &[&str] = &["record-live"];
const CUT: &[&str] = &["trace", "cut"];
const IMPORT: &[&str] = &["trace", "import"];
const ADD: &[&str] = &["daemon", "tenant", "add"];
const SET: &[&str] = &["daemon", "tenant", "set"];
const REPORT: &[&str] = &["daemon", "report"];

const POLICY: &[&str] = &["in.toml", "--policy", "static"];
const PROGRAM: &[&str] = &["-o", "out.twt", "--", "true"];
const PROCESSES: &[&str] = &["-o", "out.twt", "--pid", "1"];
const LATENCY: &[&str] = &["--tenant", "a", "--p99", "1ms"];

const ROWS: &[Row] = &[
    row(COMPARE, "--fast-share", &["in.toml"], Refused),
    row(COMPARE, "--fast", &["in.toml"], Refused),
    row(COMPARE, "--seed", &["in.toml"], Allowed),
    row(COMPARE, "--jobs", &["in.toml"], Refused),
    row(SWEEP, "--jobs", &["in.toml", "--out", "out"], Refused),
    row(SIMULATE, "--fast-share", POLICY, Refused),
    row(SIMULATE, "--fast", POLICY, Refused),
    row(SIMULATE, "--seed", POLICY, Allowed),
    row(SIMULATE, "--interval", POLICY, Refused),
    row(ADVISE, "--slowdown", &["in.toml"], Refused),
    row(ADVISE, "--points", &["in.toml"], Refused),
    row(ADVISE, "--seed", &["in.toml"], Allowed),
    row(ADVISE, "--jobs", &["in.toml"], Refused),
    row(PLAN, "--repeats", &["in.toml"], Refused),
    row(PLAN, "--points", &["in.toml"], Refused),
    row(PLAN, "--memory-bound", &["in.toml", "in.twt"], Refused),
    row(PLAN, "--alternatives", &["in.toml"], Allowed),
    row(PLAN, "--seed", &["in.toml"], Allowed),
    row(PLAN, "--jobs", &["in.toml"], Refused),
    row(&["doctor"], "--every", &["--nfd", "out"], Refused),
    row(&["explain"], "--page", &["run.json", "--tenant", "a"], Allowed),
    row(CONFORM, "--seed", &["static"], Allowed),
    row(CONFORM, "--jobs", &["static"], Refused),
    row(PROFILE, "--points", &["in.toml"], Refused),
    row(PROFILE, "--seed", &["in.toml"], Allowed),
    row(PROFILE, "--jobs", &["in.toml"], Refused),
    row(&["validate"], "--seed", &["in.json"], Allowed),
    row(&["validate"], "--jobs", &["in.json"], Refused),
    row(&["reproduce", "multi-clock"], "--seed", &[], Allowed),
    row(&["reproduce", "equilibria"], "--seed", &[], Allowed),
    row(&["reproduce", "mtat"], "--seed", &[], Allowed),
    row(&["reproduce", "mtat"], "--seeds", &[], Refused),
    row(&["reproduce", "memstrata"], "--seed", &[], Allowed),
    row(&["reproduce", "memstrata"], "--figures", &[], Refused),
    row(&["reproduce", "emt"], "--seed", &[], Allowed),
    row(&["reproduce", "all"], "--seed", &[], Allowed),
    row(RECORD, "--window", PROGRAM, Refused),
    row(RECORD, "--llc", PROGRAM, Refused),
    row(RECORD, "--max-instructions", PROGRAM, Refused),
    row(RECORD_LIVE, "--pid", &["-o", "out.twt"], Refused),
    row(RECORD_LIVE, "--duration", PROCESSES, Refused),
    row(RECORD_LIVE, "--interval", PROCESSES, Refused),
    row(RECORD_LIVE, "--sampling", PROCESSES, Refused),
    row(RECORD_LIVE, "--regions", PROCESSES, Refused),
    row(&["trace", "stat"], "--top", &["in.twt"], Allowed),
    row(CUT, "--windows", &["in.twt", "out.twt"], Refused),
    row(CUT, "--merge", &["in.twt", "out.twt"], Refused),
    row(IMPORT, "--window", &["in.txt", "out.twt"], Refused),
    row(IMPORT, "--llc", &["in.txt", "out.twt"], Refused),
    row(IMPORT, "--interval", &["in.txt", "out.twt"], Refused),
    row(IMPORT, "--instructions-per-access", &["in.txt", "out.twt"], Refused),
    row(IMPORT, "--max-memory", &["in.txt", "out.twt"], Refused),
    row(&["top"], "--interval", &[], Refused),
    row(ADD, "--pids", &["a"], Refused),
    row(ADD, "--weight", &["a", "--pids", "1"], Refused),
    row(ADD, "--floor", &["a", "--pids", "1"], Allowed),
    row(ADD, "--cap", &["a", "--pids", "1"], Allowed),
    row(ADD, "--slo", &["a", "--pids", "1"], Refused),
    row(ADD, "--full-load", &["a", "--pids", "1"], Refused),
    row(SET, "--weight", &["a"], Refused),
    row(SET, "--floor", &["a"], Allowed),
    row(SET, "--cap", &["a"], Allowed),
    row(SET, "--slo", &["a"], Refused),
    row(SET, "--full-load", &["a"], Refused),
    row(REPORT, "--p99", &["--tenant", "a"], Refused),
    row(REPORT, "--operations", LATENCY, Allowed),
];

/// The options that take a number, with their commands: `tierwise reference` walks the command
/// tree.
fn numeric_options() -> BTreeSet<(String, String)> {
    let page = succeeded(&["reference"]);
    let mut command = String::new();
    let mut options = BTreeSet::new();
    for line in page.lines() {
        if let Some((hashes, name)) = line.split_once("# tierwise")
            && hashes.chars().all(|c| c == '#')
        {
            name.trim().clone_into(&mut command);
        }
        let line = line.trim_start();
        let Some((option, value)) = line.split_once(" <").filter(|_| line.starts_with('-')) else {
            continue;
        };
        let value = value.split('>').next().unwrap();
        if !TEXTS.contains(&value) {
            let long = option.rsplit(' ').next().unwrap();
            options.insert((command.clone(), long.to_owned()));
        }
    }
    options
}

#[test]
fn every_numeric_option_has_a_row() {
    let rows: BTreeSet<(String, String)> =
        ROWS.iter().map(|row| (row.command.join(" "), row.option.to_owned())).collect();
    assert_eq!(numeric_options(), rows);
}

#[test]
fn every_numeric_option_refuses_nonsense() {
    let directory = Directory::new();
    let within = |name: &&str| {
        if name.starts_with("out.") { directory.name(name) } else { (*name).to_owned() }
    };
    let mut wrong = Vec::new();
    for row in ROWS {
        let zero = (row.zero == Refused).then_some("0");
        for found in NONSENSE.iter().copied().chain(zero) {
            // As one argument and as two: a negative number is no option.
            for joined in [true, false] {
                let mut arguments: Vec<String> =
                    row.command.iter().map(|&part| part.to_owned()).collect();
                if joined {
                    arguments.push(format!("{}={found}", row.option));
                } else {
                    arguments.extend([row.option.to_owned(), found.to_owned()]);
                }
                arguments.extend(row.beside.iter().map(within));
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let output = tierwise(&arguments);
                let message = text(&output.stderr);
                let names = [row.option, found].iter().all(|part| message.contains(part));
                let allows = ["allowed", "write for instance"].iter().any(|w| message.contains(w));
                if output.status.code() != Some(2) || !names || !allows {
                    wrong.push(format!("{arguments:?}: {message}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(directory.files().is_empty(), "{:?}", directory.files());
}
