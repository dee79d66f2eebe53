use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::common::{Directory, refused, text, tierwise};

#[test]
fn recording_is_refused_before_changing_anything() {
    let directory = Directory::new();
    let trace = directory.write("a.twt", "x");
    let state = directory.name("state");
    let refused_with = |more: &[&str]| {
        refused(&[&["record-live", "-o", &trace, "--pid", "1", "--state", &state], more].concat())
    };
    assert!(refused_with(&[]).contains("the file exists; --force replaces it"));
    let message = refused_with(&["--sampling", "1s", "--interval", "100ms"]);
    assert!(message.contains("--sampling is longer than --interval"), "{message}");
    assert_eq!(directory.files(), ["a.twt"]);
    for wrong in [&["--pid", "0"][..], &["--pid", "1", "--cgroup", "a.slice"], &[]] {
        let output = tierwise(&[&["record-live", "-o", "b.twt"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
    let b = directory.name("b.twt");
    let message = refused(&["record-live", "-o", &b, "--cgroup", "../x", "--state", &state]);
    assert!(message.contains("are not allowed"), "{message}");
}

/// Puts a program in the place of QEMU that sends a signal to the recording when it is asked for
/// its version, which is before anything else, and otherwise waits.
fn signalling_qemu(directory: &Directory) {
    let qemu = directory.path(&format!("bin/qemu-{}", std::env::consts::ARCH));
    fs::create_dir(directory.path("bin")).unwrap();
    let script = "#!/bin/sh\n[ \"$1\" != --version ] || exec kill -TERM $PPID\nexec sleep 1000\n";
    fs::write(&qemu, script).unwrap();
    fs::set_permissions(&qemu, Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn early_signal_leaves_nothing_behind() {
    let directory = Directory::new();
    signalling_qemu(&directory);
    fs::create_dir(directory.path("tmp")).unwrap();
    let search = format!("{}:/usr/bin:/bin", directory.name("bin"));
    let output = Command::new(assert_cmd::cargo::cargo_bin!("tierwise"))
        .args(["record", "-o", &directory.name("a.twt"), "--", "true"])
        .env("PATH", search)
        .env("TMPDIR", directory.path("tmp"))
        .env("TIERWISE_RECORDER", "/bin/true")
        .output()
        .unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{message}");
    assert!(message.contains("SIGTERM"), "{message}");
    assert_eq!(directory.files(), ["bin", "tmp"]);
    assert_eq!(fs::read_dir(directory.path("tmp")).unwrap().count(), 0);
}

#[test]
fn command_lines_may_be_any_bytes() {
    let directory = Directory::new();
    let strange = OsStr::from_bytes(b"/no/\xff.toml");
    for (arguments, expected) in [
        (&["record", "-o", &directory.name("a.twt"), "--"][..], "no such program"),
        (&["daemon", "policy"], "is not UTF-8, as the names in the daemon's configuration are"),
    ] {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("tierwise"));
        let output = command.args(arguments).arg(strange).output().unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}
