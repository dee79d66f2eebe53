use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::thread::{self, JoinHandle};

use serde_json::Value;
use tierwised::control::{ControlCommand, Reply};
use tierwised::view::{Snapshot, TenantTierView, TenantView, TierView};

use crate::common::{Directory, keys, refused, succeeded, text, tierwise};

/// A daemon that answers once, and returns the command that it received.
fn answering(directory: &Directory, reply: Reply) -> (String, JoinHandle<ControlCommand>) {
    let listener = UnixListener::bind(directory.path("control.sock")).unwrap();
    let thread = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        let mut answer = serde_json::to_vec(&reply).unwrap();
        answer.push(b'\n');
        (&stream).write_all(&answer).unwrap();
        serde_json::from_str(&line).unwrap()
    });
    (directory.name("control.sock"), thread)
}

/// Runs a command against a daemon that answers with `reply`. Returns the command's output, and the
/// request that the daemon received.
fn sent(arguments: &[&str], reply: Reply) -> (String, ControlCommand) {
    let directory = Directory::new();
    let (socket, thread) = answering(&directory, reply);
    let out = succeeded(&[arguments, &["--socket", &socket]].concat());
    (out, thread.join().unwrap())
}

fn changed(line: &str) -> Reply {
    Reply::changed(vec![line.to_owned()])
}

fn with_snapshot() -> Reply {
    let tier = |name: &str| TierView { name: name.into(), ..TierView::default() };
    let held =
        TenantTierView { usage_bytes: 1 << 30, promote_success: 5, ..TenantTierView::default() };
    let tenant = TenantView {
        name: "shop".into(),
        tiers: vec![held, TenantTierView::default()],
        ..TenantView::default()
    };
    let snapshot = Snapshot {
        policy: "tierwise".into(),
        tiers: vec![tier("DRAM"), tier("CXL")],
        tenants: vec![tenant],
        ..Snapshot::default()
    };
    Reply { snapshot: Some(Box::new(snapshot)), ..Reply::done() }
}

#[test]
fn commands_arrive_and_what_changed_is_printed() {
    let (out, asked) = sent(&["daemon", "pause"], changed("paused: nothing is moved"));
    assert_eq!((out.as_str(), asked), ("paused: nothing is moved\n", ControlCommand::Pause));
    let (out, asked) = sent(&["daemon", "resume"], Reply::done());
    assert_eq!((out.as_str(), asked), ("nothing changed\n", ControlCommand::Resume));
    let (out, asked) = sent(&["daemon", "reload", "--json"], changed("policy: 1"));
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&value["changed"][0], asked), (&Value::from("policy: 1"), ControlCommand::Reload));
    let (_, asked) = sent(&["daemon", "policy", "tpp"], Reply::done());
    assert_eq!(asked, ControlCommand::Policy { recipe: "tpp".into() });
    let (_, asked) = sent(&["daemon", "policy", "own.toml"], Reply::done());
    let ControlCommand::Policy { recipe } = asked else { panic!("{asked:?}") };
    assert!(recipe.starts_with('/') && recipe.ends_with("/own.toml"), "{recipe}");
}

#[test]
fn tenants_are_given_as_in_the_configuration() {
    let add = ["daemon", "tenant", "add", "shop", "--cgroup", "shop.slice", "--floor", "80GB"];
    let more = ["--class", "latency-critical", "--slo", "5ms"];
    let (_, asked) = sent(&[&add[..], &more].concat(), Reply::done());
    let ControlCommand::TenantAdd { tenant } = asked else { panic!("{asked:?}") };
    let written: Value = serde_json::to_value(&tenant).unwrap();
    assert_eq!(
        written,
        serde_json::json!({"name": "shop", "cgroup": "shop.slice", "class": "latency-critical",
                           "slo_ms": 5.0, "weight": 100, "floor": "80GB"})
    );
    let set = ["daemon", "tenant", "set", "shop", "--cap", "25%", "--weight", "200"];
    let (_, asked) = sent(&set, Reply::done());
    let ControlCommand::TenantSet { name, change } = asked else { panic!("{asked:?}") };
    assert_eq!((name.as_str(), change.weight, change.floor), ("shop", Some(200), None));
    let (_, asked) = sent(&["daemon", "tenant", "remove", "shop"], Reply::done());
    assert_eq!(asked, ControlCommand::TenantRemove { name: "shop".into() });
    let report = ["daemon", "report", "--tenant", "shop", "--p99", "12ms", "--operations", "9"];
    let (out, asked) = sent(&report, Reply::done());
    let latency = ControlCommand::Latency { tenant: "shop".into(), p99_ms: 12.0, operations: 9 };
    assert_eq!((out.as_str(), asked), ("", latency));
}

#[test]
fn refusal_exits_two_and_silence_does_not() {
    let directory = Directory::new();
    let (socket, thread) = answering(&directory, Reply::refused("no tenant \"x\""));
    let message = refused(&["daemon", "tenant", "remove", "x", "--socket", &socket]);
    thread.join().unwrap();
    assert_eq!(message, "no tenant \"x\"");
    for command in [&["status"][..], &["daemon", "pause"], &["explain", "--tenant", "a"]] {
        let output = tierwise(&[command, &["--socket", &directory.name("absent.sock")]].concat());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("no tierwised listens there"), "{message}");
    }
    let wrong = ["daemon", "tenant", "add", "a", "--pids", "1", "--floor", "much"];
    let output = tierwise(&wrong);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("allowed: an amount"), "{}", text(&output.stderr));
    for wrong in [&["add", "a"][..], &["add", "a", "--pids", "1", "--qemu", "b"], &["set", "a"]] {
        let output = tierwise(&[&["daemon", "tenant"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn status_and_snapshot_are_the_daemons_view() {
    let (out, asked) = sent(&["status"], with_snapshot());
    assert_eq!(asked, ControlCommand::Snapshot);
    assert!(out.contains("DRAM") && out.contains("shop"), "{out}");
    for command in [&["status", "--json"][..], &["daemon", "snapshot"]] {
        let value: Snapshot = serde_json::from_str(&sent(command, with_snapshot()).0).unwrap();
        assert_eq!(Some(Box::new(value)), with_snapshot().snapshot);
    }
}

#[test]
fn a_tenant_of_the_daemon_is_explained() {
    let (out, _) = sent(&["explain", "--tenant", "shop"], with_snapshot());
    assert!(out.contains("In DRAM it holds 1 GiB"), "{out}");
    assert!(out.contains("promotion into DRAM"), "{out}");
    let (out, _) = sent(&["explain", "--tenant", "shop", "--json"], with_snapshot());
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        keys(&value),
        [
            "because",
            "causes",
            "decisions",
            "fast_access_ratio",
            "holdings",
            "mode",
            "mode_reason",
            "moves",
            "p99_ms",
            "placed_bytes",
            "pod",
            "policy",
            "processes",
            "slo_ms",
            "tenant",
            "thrash_events"
        ]
    );
    let directory = Directory::new();
    let (socket, thread) = answering(&directory, with_snapshot());
    let message = refused(&["explain", "--tenant", "shpo", "--socket", &socket]);
    thread.join().unwrap();
    assert!(message.contains("did you mean \"shop\"?"), "{message}");
    assert_eq!(tierwise(&["explain", "--tenant", "a", "--page", "3"]).status.code(), Some(2));
}

#[test]
fn top_without_a_terminal_names_status() {
    assert!(refused(&["top"]).contains("`tierwise status` prints the same once"));
}

#[test]
fn status_and_explain_keep_within_the_width() {
    let name = "a-tenant-with-a-rather-long-name.slice";
    let commands: [&[&str]; 2] = [&["status"], &["explain", "--tenant", name]];
    for (width, arguments) in [80, 100, 120].into_iter().flat_map(|w| commands.map(|c| (w, c))) {
        let directory = Directory::new();
        let mut reply = with_snapshot();
        let snapshot = reply.snapshot.as_mut().unwrap();
        snapshot.tenants[0].name = name.into();
        let (socket, thread) = answering(&directory, reply);
        let mut command = assert_cmd::Command::new(assert_cmd::cargo::cargo_bin!("tierwise"));
        command.env("COLUMNS", width.to_string()).args(arguments).args(["--socket", &socket]);
        let out = text(&command.output().unwrap().stdout);
        thread.join().unwrap();
        assert!(out.contains("a-tenant-with-a-rather-long-name"), "{out}");
        for line in out.lines().filter(|line| line.contains("  ")) {
            assert!(line.chars().count() <= width, "{width}: {line}\n{out}");
        }
    }
}
