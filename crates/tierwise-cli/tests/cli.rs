//! Tests of the command as a process: exit codes, messages, and written files.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Directory, TINY, keys, refused, succeeded, text, tierwise};
use serde_json::Value;

#[test]
fn compare_prints_a_table_and_a_verdict() {
    let directory = Directory::new();
    let scenario = directory.write("tiny.toml", TINY);
    let out = succeeded(&["compare", &scenario, "--policies", "fmem-all,oracle,static,tpp"]);
    assert!(!out.contains('\u{1b}'), "colours although stdout is no terminal: {out}");
    let rows: Vec<&str> = out.lines().skip_while(|l| !l.starts_with("POLICY")).take(5).collect();
    assert!(rows[1].starts_with("(fmem-all)") && rows[1].contains("1.000 x"), "{out}");
    let stars = rows.iter().filter(|row| row.starts_with("* ")).count();
    assert_eq!(stars, 1, "{out}");
    let ends = |row: &&str| row.len();
    assert!(rows.iter().all(|row| ends(row) == rows[0].len()), "columns do not line up: {out}");
    assert!(out.contains(" served best: its programs took "), "{out}");
}

#[test]
fn colour_comes_when_asked_for() {
    let directory = Directory::new();
    let scenario = directory.write("tiny.toml", TINY);
    let arguments = ["compare", &scenario, "--policies", "static", "--color", "always"];
    assert!(succeeded(&arguments).contains("\u{1b}["));
}

#[test]
fn json_has_the_documented_keys_and_repeats() {
    let directory = Directory::new();
    let scenario = directory.write("tiny.toml", TINY);
    let arguments = ["compare", &scenario, "--policies", "static,multi-clock", "--json"];
    let out = succeeded(&arguments);
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(keys(&value), ["results", "scenario", "seed"]);
    assert_eq!(value["scenario"], "tiny");
    let results = value["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    assert_eq!(
        keys(&results[0]),
        [
            "demotions",
            "distance_to_oracle",
            "fast_access_ratio",
            "migrated_bytes",
            "overhead_seconds",
            "policy",
            "promotions",
            "slowdown",
            "tenants",
            "throughput"
        ]
    );
    assert_eq!(results[1]["policy"], "multi-clock");
    assert_eq!(results[0]["tenants"][0]["name"], "w");
    let one_thread = [&arguments[..], &["--jobs", "1"]].concat();
    assert_eq!(succeeded(&one_thread), out, "the number of threads changed a result");
}

#[test]
fn several_scenarios_give_list_and_summary() {
    let directory = Directory::new();
    let a = directory.write("a.toml", TINY);
    let b = directory.write("b.toml", &TINY.replace("\"tiny\"", "\"other\""));
    let out = succeeded(&["compare", &a, &b, "--policies", "static,tpp", "--json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    let names: Vec<&Value> = value.as_array().unwrap().iter().map(|v| &v["scenario"]).collect();
    assert_eq!(names, ["tiny", "other"]);
    let out = succeeded(&["compare", &a, &b, "--policies", "static,tpp"]);
    assert!(out.contains("SCENARIO"), "{out}");
    assert!(out.contains("Over 2 scenarios"), "{out}");

    let message = refused(&["compare", &a, &a]);
    assert!(message.contains("the scenario \"tiny\" is also in"), "{message}");
}

#[test]
fn html_report_is_one_standalone_file() {
    let directory = Directory::new();
    let scenario = directory.write("tiny.toml", &TINY.replace("\"x\"", "\"<script>&\""));
    let html = directory.name("report.html");
    succeeded(&["compare", &scenario, "--policies", "static,tpp", "--html", &html]);
    assert_eq!(directory.files(), ["report.html", "tiny.toml"]);
    let page = fs::read_to_string(&html).unwrap();
    for part in ["<svg", "data:image/png;base64,", "virtual seconds", "&lt;script&gt;&amp;"] {
        assert!(page.contains(part), "{part}");
    }
    for foreign in ["<script", "<link", "src=\"http", "@import", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}

#[test]
fn nothing_is_written_when_a_comparison_fails() {
    let directory = Directory::new();
    let missing = TINY.replace("[workload.generator]", "trace = \"none.twt\"\n[workload.nothing]");
    let missing = missing.split("[workload.nothing]").next().unwrap().to_owned();
    let scenario = directory.write("tiny.toml", &missing);
    let html = directory.name("report.html");
    let message = refused(&["compare", &scenario, "--policies", "static", "--html", &html]);
    assert!(message.contains("none.twt"), "{message}");
    assert_eq!(directory.files(), ["tiny.toml"]);
}

#[test]
fn wrong_commands_explain_the_remedy() {
    let directory = Directory::new();
    let scenario = directory.write("tiny.toml", TINY);
    let message = refused(&["compare", &scenario, "--policies", "mutli-clock"]);
    assert!(message.contains("did you mean \"multi-clock\"?"), "{message}");
    let message = refused(&["simulate", &scenario, "--policy", "tppp"]);
    assert!(message.contains("did you mean \"tpp\"?"), "{message}");
    let message = refused(&["policies", "show", "statc"]);
    assert!(message.contains("did you mean \"static\"?"), "{message}");

    let absent = directory.name("absent.toml");
    assert_eq!(refused(&["compare", &absent]), format!("{absent}: No such file or directory"));
    let broken = directory.write("broken.toml", "name = 5\n");
    let message = refused(&["scenario", "check", &broken]);
    assert_eq!(message, format!("{broken}:1: name: found 5; allowed: a text in quotes"));

    let html = directory.name("no/such/report.html");
    let message = refused(&["compare", &scenario, "--html", &html]);
    assert!(message.contains("there is no directory"), "{message}");
    let message = refused(&["simulate", &scenario, "--policy", "tpp", "--format", "parquet"]);
    assert!(message.contains("-o FILE"), "{message}");
    assert_eq!(tierwise(&["no-such-command"]).status.code(), Some(2));
}

#[test]
fn compare_without_a_scenario_has_one() {
    let output = tierwise(&["compare", "--policies", "static"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).starts_with("redis-ycsb-c: Redis"));
    assert!(text(&output.stderr).contains("recorded/redis-ycsb-c.toml"));
}

#[test]
fn a_recipe_of_ones_own_takes_part() {
    let directory = Directory::new();
    let scenario = directory.write("tiny.toml", TINY);
    let shown = succeeded(&["policies", "show", "static"]);
    let own = directory.write("own.toml", &shown.replace("\"static\"", "\"my-own\""));
    let out =
        succeeded(&["compare", &scenario, "--policies", "static", "--recipe", &own, "--json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["results"][1]["policy"], "my-own");
    assert_eq!(value["results"][1]["slowdown"], value["results"][0]["slowdown"]);

    let twin = directory.write("twin.toml", &shown);
    let message = refused(&["compare", &scenario, "--policies", "static", "--recipe", &twin]);
    assert!(message.contains("named twice"), "{message}");
    let broken = directory.write("broken.toml", &format!("{shown}\n[estimater]\n"));
    let message = refused(&["compare", &scenario, "--recipe", &broken]);
    assert!(message.contains("did you mean \"estimator\"?"), "{message}");
}

#[test]
fn simulate_writes_points_in_order() {
    let directory = Directory::new();
    let scenario = directory.write("tiny.toml", TINY);
    let arguments = ["simulate", &scenario, "--policy", "tpp", "--interval", "100ms"];
    let out = succeeded(&arguments);
    let points: Vec<Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert!(points.len() > 3);
    let times: Vec<f64> = points.iter().map(|p| p["time_seconds"].as_f64().unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
    assert_eq!(points[0]["tenants"][0]["name"], "w");

    let file = directory.name("points.jsonl");
    succeeded(&[&arguments[..], &["-o", &file]].concat());
    assert_eq!(fs::read_to_string(&file).unwrap(), out);
    assert_eq!(directory.files(), ["points.jsonl", "tiny.toml"]);
}

#[cfg(feature = "parquet")]
#[test]
fn simulate_writes_a_parquet_file() {
    let directory = Directory::new();
    let scenario = directory.write("tiny.toml", TINY);
    let file = directory.name("points.parquet");
    let arguments = ["simulate", &scenario, "--policy", "tpp", "--format", "parquet", "-o", &file];
    assert_eq!(succeeded(&arguments), "");
    let bytes = fs::read(&file).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}

#[test]
fn policies_are_listed_with_what_they_need() {
    let value: Value = serde_json::from_str(&succeeded(&["policies", "--json"])).unwrap();
    let find = |name: &str| {
        value.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap().clone()
    };
    assert_eq!(keys(&find("tpp")), ["bound", "name", "needs", "source", "summary"]);
    assert_eq!(find("static")["needs"].as_array().unwrap().len(), 0);
    assert!(find("tpp")["needs"].as_array().unwrap().contains(&"hint faults".into()));
    assert_eq!(find("oracle")["bound"], true);
}

#[test]
fn a_scenario_is_checked_with_its_sizes() {
    let directory = Directory::new();
    let scenario = directory.write("tiny.toml", TINY);
    let out = succeeded(&["scenario", "check", &scenario, "--json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value[0]["tenants"][0]["resident_bytes"], 1600 << 10);
    assert_eq!(value[0]["tiers"][0]["capacity_bytes"], 400 << 10);
    assert_eq!(value[0]["tiers"][1]["capacity_bytes"], 3200 << 10);
    assert!(succeeded(&["scenario", "check", &scenario]).contains("generator zipf"));
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_shipped_scenario_is_listed_and_good() {
    let directory = project().join("scenarios");
    let out = succeeded(&["scenario", "list", directory.to_str().unwrap(), "--json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    let listed = value.as_array().unwrap();
    let traces = fs::read_dir(project().join("traces")).unwrap();
    let traces =
        traces.filter(|f| f.as_ref().unwrap().path().extension().is_some_and(|e| e == "twt"));
    let recorded = listed.iter().filter(|l| l["file"].as_str().unwrap().contains("/recorded/"));
    assert_eq!(recorded.count(), traces.count(), "a scenario for each recorded trace");
    let files: Vec<&str> = listed.iter().map(|l| l["file"].as_str().unwrap()).collect();
    succeeded(&[&["scenario", "check"], files.as_slice()].concat());
}

#[test]
fn traces_can_be_examined_and_cut() {
    let directory = Directory::new();
    let trace = project().join("traces/redis-ycsb-d.twt");
    let trace = trace.to_str().unwrap();
    let value: Value =
        serde_json::from_str(&succeeded(&["trace", "info", trace, "--json"])).unwrap();
    assert_eq!(value[0]["operations"], 300_000);
    let run = value[0]["phases"].as_array().unwrap().iter().find(|p| p["name"] == "run").unwrap();
    let load_windows = run["first_window"].as_u64().unwrap();

    let part = directory.name("load.twt");
    let windows = format!("0..{load_windows}");
    succeeded(&["trace", "cut", trace, &part, "--windows", &windows]);
    let stat = succeeded(&["trace", "stat", &part, "--json", "--top", "3"]);
    let stat: Value = serde_json::from_str(&stat).unwrap();
    assert_eq!(stat["windows"].as_array().unwrap().len() as u64, load_windows);
    assert_eq!(stat["top_pages"].as_array().unwrap().len(), 3);

    let message = refused(&["trace", "cut", trace, &part, "--phase", "run"]);
    assert!(message.contains("exists"), "{message}");
    let message = refused(&["trace", "cut", trace, &directory.name("x.twt"), "--phase", "nix"]);
    assert!(message.contains("there is no phase \"nix\""), "{message}");
    assert_eq!(directory.files(), ["load.twt"]);

    let table = directory.name("windows.csv");
    succeeded(&["trace", "export", &part, "--table", "windows", "-o", &table]);
    let rows = fs::read_to_string(&table).unwrap().lines().count() as u64;
    assert_eq!(rows, load_windows + 1);
    let message = refused(&["trace", "info", &table]);
    assert!(message.contains("not a trace"), "{message}");
}

#[test]
fn an_import_becomes_a_trace() {
    let directory = Directory::new();
    let lackey = directory.write("lackey.txt", "I  04001200,3\n L 1ffefffe48,8\n S 1ffefffe40,8\n");
    let trace = directory.name("a.twt");
    succeeded(&["trace", "import", &lackey, &trace, "--command", "ls -l"]);
    let value: Value =
        serde_json::from_str(&succeeded(&["trace", "info", &trace, "--json"])).unwrap();
    assert_eq!(value[0]["instructions"], 1);
    assert_eq!(value[0]["header"]["command"], serde_json::json!(["ls", "-l"]));
    let broken = directory.write("broken.txt", "what is this\n");
    let message = refused(&["trace", "import", &broken, &directory.name("b.twt")]);
    assert!(message.contains("broken.txt:1:"), "{message}");
}

#[test]
fn import_of_no_event_keeps_trace() {
    let directory = Directory::new();
    let old = directory.write("old.twt", "precious");
    // Without --trace-mem=yes valgrind prints its own messages alone.
    for (name, lackey) in [("empty.txt", ""), ("messages.txt", "==7== Lackey\n==7==\n\n")] {
        let lackey = directory.write(name, lackey);
        let message = refused(&["trace", "import", &lackey, &old, "--force"]);
        let why = format!("{name}: there is no instruction and no access in it");
        assert!(message.contains(&why) && message.contains("--trace-mem=yes"), "{message}");
        assert_eq!(fs::read_to_string(&old).unwrap(), "precious");
    }
}

#[test]
fn a_recording_of_nothing_is_refused() {
    let directory = Directory::new();
    let out = directory.name("a.twt");
    let message = refused(&["record", "-o", &out, "--", "no-such-program-here"]);
    assert!(message.contains("no such program"), "{message}");
    assert!(directory.files().is_empty());
    let output = tierwise(&["record", "-o", &out, "--llc", "3/1", "--", "ls"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_closed_pipe_is_no_error() {
    for arguments in [&["completions", "bash"][..], &["policies"], &["policies", "--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = std::process::Command::new(assert_cmd::cargo::cargo_bin!("tierwise"))
            .args(arguments)
            .stdout(writer)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn completions_and_manual_pages_are_made() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(succeeded(&["completions", shell]).contains("compare"), "{shell}");
    }
    let directory = Directory::new();
    succeeded(&["man", &directory.name("man")]);
    assert!(directory.path("man/man1/tierwise.1").is_file());
    assert!(directory.path("man/man1/tierwise-compare.1").is_file());
    assert!(directory.path("man/man8/tierwised.8").is_file());
}

#[test]
fn the_reference_is_up_to_date() {
    let page = succeeded(&["reference"]);
    let file = fs::read_to_string(project().join("docs/cli.md")).unwrap();
    assert!(page == file, "docs/cli.md is stale; write it again: tierwise reference > docs/cli.md");
}

#[test]
fn every_command_has_an_example() {
    let page = succeeded(&["reference"]);
    let sections = page.split("\n##").skip(1);
    for section in sections {
        let name = section.lines().next().unwrap();
        assert!(section.contains("EXAMPLE\n"), "{name}");
    }
}

#[test]
fn bare_trace_stands_in_for_a_scenario() {
    let directory = Directory::new();
    let lackey: String =
        (0..20_000u64).map(|i| format!(" L {:x},8\n", 0x10_0000 + i * 7919 % 64 * 4096)).collect();
    let lackey = directory.write("lackey.txt", &lackey);
    let trace = directory.name("mine.twt");
    succeeded(&["trace", "import", &lackey, &trace]);
    let compared = ["compare", &trace, "--policies", "static", "--fast-share", "0.25", "--json"];
    let value: Value = serde_json::from_str(&succeeded(&compared)).unwrap();
    assert_eq!(value["scenario"], "mine");
    let points = succeeded(&["simulate", &trace, "--policy", "static", "--fast", "64KiB"]);
    let last: Value = serde_json::from_str(points.lines().last().unwrap()).unwrap();
    // The kernel keeps a part of each tier free.
    let fast = last["tenants"][0]["usage_bytes"][0].as_u64().unwrap() >> 10;
    assert!((32..=64).contains(&fast), "{fast} KiB");

    let scenario = directory.write("tiny.toml", TINY);
    let message = refused(&["compare", &scenario, "--fast-share", "0.5"]);
    assert!(message.contains("--fast-share describes the machine of a bare trace"), "{message}");
    let output = tierwise(&["compare", &trace, "--fast-share", "33"]);
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(message.contains("did you mean 0.33?"), "{message}");
    let message = refused(&["scenario", "check", &trace]);
    assert!(message.contains("mine.twt: is a trace, and a scenario is needed here"), "{message}");

    fs::write(directory.path("binary.toml"), [0x00, 0xff, 0xfe]).unwrap();
    let (binary, empty) = (directory.name("binary.toml"), directory.write("empty.toml", "\n"));
    let neither = "is neither a trace (.twt) nor a scenario (TOML): ";
    for command in [&["compare"][..], &["advise"], &["simulate", "--policy", "static"]] {
        let on = |file: &str| refused(&[command, &[file]].concat());
        assert_eq!(on(&binary), format!("{binary}: {neither}it is not UTF-8 text at byte 1"));
        assert_eq!(on(&empty), format!("{empty}: {neither}it is empty"));
        let parent = directory.name("");
        assert_eq!(on(&parent), format!("{parent}: is a directory; name a file in it"));
    }
    let message = refused(&["compare", &scenario, "--recipe", &binary]);
    assert_eq!(message, format!("{binary}: is no recipe (TOML): it is not UTF-8 text at byte 1"));
}

#[test]
fn trace_text_commands_no_terminal() {
    let directory = Directory::new();
    let lackey = directory.write("lackey.txt", "I  04001200,3\n L 1ffefffe48,8\n");
    let trace = directory.name("a.twt");
    succeeded(&["trace", "import", &lackey, &trace, "--command", "ls \u{1b}[2J\u{7}"]);
    let out = succeeded(&["trace", "info", &trace, "--color", "always"]);
    assert!(!out.contains('\u{1b}') && !out.contains('\u{7}'), "{out:?}");
    assert!(out.contains("ls \\u{1b}[2J\\u{7}"), "{out:?}");
}

/// Lines of a table have blanks between columns; sentences have none.
fn table_lines(out: &str) -> impl Iterator<Item = &str> {
    out.lines().filter(|line| line.contains("  "))
}

#[test]
fn every_table_keeps_within_the_width() {
    let directory = Directory::new();
    let long = "a-tenant-with-a-rather-long-name.slice";
    let second = TINY.split_once("[[workload]]").unwrap().1;
    let first = TINY.replace("\"w\"", &format!("\"{long}-0\""));
    let more: String = (1..6)
        .map(|i| format!("[[workload]]{}", second.replace("\"w\"", &format!("\"{long}-{i}\""))))
        .collect();
    let scenario = directory.write("tenants.toml", &(first + &more));
    let other =
        directory.write("other.toml", &TINY.replace("\"tiny\"", "\"a-rather-long-name-of-one\""));
    let trace = project().join("traces/redis-ycsb-d.twt");
    let trace = trace.to_str().unwrap();
    let run = directory.name("run.json");
    succeeded(&["simulate", &scenario, "--policy", "equilibria", "--record-run", &run]);
    let scenarios = project().join("scenarios");
    let tenant = format!("{long}-0");
    let machine = directory.name("");
    let commands: [&[&str]; 10] = [
        &["profile", &scenario, "--workload", &tenant, "--points", "5"],
        &["trace", "info", trace],
        &["policies"],
        &["doctor", "--root", &machine],
        &["compare", &scenario, &other, "--policies", "oracle,static,tpp,equilibria-multi-clock"],
        &["advise", &scenario, "--points", "3"],
        &["explain", "--tenant", &tenant, &run],
        &["scenario", "check", &scenario],
        &["scenario", "list", scenarios.to_str().unwrap()],
        &["trace", "stat", trace, "--top", "3"],
    ];
    for arguments in commands {
        for width in [80, 100, 120] {
            let mut command = assert_cmd::Command::new(assert_cmd::cargo::cargo_bin!("tierwise"));
            let output =
                command.env("COLUMNS", width.to_string()).env("NO_COLOR", "1").args(arguments);
            let out = common::text(&output.output().unwrap().stdout);
            assert!(table_lines(&out).count() > 1, "{arguments:?}: no table");
            for line in table_lines(&out) {
                let columns = line.chars().count();
                assert!(columns <= width, "{arguments:?}: {columns} of {width}: {line}\n{out}");
            }
        }
    }
}
