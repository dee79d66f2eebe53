//! Tests of streams and files that cannot be written, and of readers that close a pipe.

use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};

use crate::common::{Directory, TINY, refused, succeeded, text};

/// Commands that write to stdout and need nothing.
const PRINTING: [&[&str]; 9] = [
    &["--help"],
    &["--version"],
    &["policies"],
    &["policies", "--json"],
    &["policies", "show", "tpp"],
    &["completions", "bash"],
    &["reference"],
    &["config", "example"],
    &["config", "reference"],
];

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("tierwise"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

fn failed_on_disk(output: &Output, what: &str) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{what}: {message}");
    let expected = format!("error: {what}: cannot be written: No space left on device");
    assert!(message.starts_with(&expected), "{message}");
}

#[test]
fn full_stdout_is_a_named_error() {
    for arguments in PRINTING {
        failed_on_disk(&command(arguments).stdout(full()).output().unwrap(), "stdout");
    }
}

#[test]
fn closed_stdout_is_no_error() {
    for arguments in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(arguments).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn broken_stderr_changes_no_exit_code() {
    let directory = Directory::new();
    let lackey = directory.write("lackey.txt", "I  04001200,3\n L 1ffefffe48,8\n");
    let trace = directory.name("a.twt");
    let good: &[&str] = &["trace", "import", &lackey, &trace];
    for (arguments, code) in [(good, 0), (&["compare", "absent.toml"], 2), (&["no-command"], 2)] {
        let output = command(arguments).stderr(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn limit_of_file_size_is_named() {
    let directory = Directory::new();
    let (scenario, out) = (directory.write("tiny.toml", TINY), directory.name("out.jsonl"));
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 0; exec \"$@\"", "shell"]);
    shell.arg(assert_cmd::cargo::cargo_bin!("tierwise"));
    shell.args(["simulate", &scenario, "--policy", "static", "--interval", "100ms", "-o", &out]);
    let output = shell.output().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("out.jsonl: cannot be written: File too large"), "{message}");
    assert_eq!(directory.files(), ["tiny.toml"]);
}

#[test]
fn unwritable_file_is_named() {
    let directory = Directory::new();
    let scenario = directory.write("tiny.toml", TINY);
    let simulate = ["simulate", &scenario, "--policy", "static", "--interval", "100ms"];
    for more in [&["-o", "/dev/full"][..], &["--record-run", "/dev/full"]] {
        let output = command(&[&simulate, more].concat()).output().unwrap();
        failed_on_disk(&output, "/dev/full");
    }
    let compare = ["compare", &scenario, "--policies", "static", "--html", "/dev/full"];
    failed_on_disk(&command(&compare).output().unwrap(), "/dev/full");
}

#[test]
fn manual_pages_are_written_beside_and_renamed() {
    let directory = Directory::new();
    fs::create_dir_all(directory.path("man/man1")).unwrap();
    let kept = directory.write("kept", "of another name");
    fs::hard_link(&kept, directory.path("man/man1/tierwise.1")).unwrap();
    succeeded(&["man", &directory.name("man")]);
    assert_eq!(fs::read_to_string(&kept).unwrap(), "of another name");
    assert!(
        fs::read_to_string(directory.path("man/man1/tierwise.1")).unwrap().contains("tierwise")
    );
    let file = directory.write("file", "");
    assert_eq!(refused(&["man", &file]), format!("{file}: is not a directory; name a directory"));
}

#[test]
fn names_of_any_bytes_are_handled() {
    let directory = Directory::new();
    let path = directory.path("").join(std::ffi::OsStr::from_bytes(b"\xff\x1b[2J.toml"));
    fs::write(&path, TINY).unwrap();
    let run = |first: &[&str]| {
        let output = command(first).arg(&path).output().unwrap();
        (output.status.code(), output.stderr)
    };
    assert_eq!(run(&["scenario", "check"]).0, Some(0));
    fs::write(&path, "name = 1").unwrap();
    for first in [
        &["compare"][..],
        &["scenario", "check"],
        &["trace", "info"],
        &["explain", "--tenant", "w"],
        &["conform"],
    ] {
        let (code, message) = run(&[first, &["--color", "always"]].concat());
        assert_eq!(code, Some(2), "{first:?}");
        let message = String::from_utf8(message).unwrap();
        assert!(message.contains("\\u{1b}[2J") && !message.contains("\u{1b}[2J"), "{message:?}");
    }
}

#[test]
fn full_disk_is_no_user_mistake() {
    let directory = Directory::new();
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/zstd-long.twt");
    let events: String =
        (0..200_000).map(|i| format!("I  04001200,3\n L {:x},8\n", i * 4096 + 0x1000)).collect();
    let lackey = directory.write("lackey.txt", &events);
    let out = directory.name("out.csv");
    let commands: [&[&str]; 3] = [
        &["trace", "cut", trace, &out, "--windows", "0..100"],
        &["trace", "export", trace, "-o", &out],
        &["trace", "import", &lackey, &out, "--window", "10000"],
    ];
    for arguments in commands {
        // A limit of 4 KiB stands for a disk that is full.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh"]);
        command.arg(assert_cmd::cargo::cargo_bin!("tierwise")).args(arguments);
        let output = command.output().unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
        assert!(message.contains("out.csv: cannot be written: "), "{arguments:?}: {message}");
        assert_eq!(directory.files(), ["lackey.txt"], "{arguments:?}");
    }
}
