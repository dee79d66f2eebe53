use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use proptest::prelude::*;

use super::*;
use crate::topology::fixture;

fn found(roots: &Roots, guest: &Qemu) -> Option<i32> {
    find(roots, guest, &mut Reader::default()).unwrap().map(|process| process.pid)
}

fn message(roots: &Roots, guest: &Qemu) -> String {
    find(roots, guest, &mut Reader::default()).unwrap_err().to_string()
}

fn named(name: &str) -> Qemu {
    Qemu::Name(name.into())
}

/// A process of this user with this guest's name on its command line.
fn start(roots: &Roots, pid: i32, uid: u32, name: &str) {
    let directory = roots.proc.join(pid.to_string());
    let stat = format!("{pid} (qemu) S 1 1 1 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 900 0 0 0");
    fixture::put(&directory.join("stat"), &stat);
    fixture::put(&directory.join("status"), &format!("Name:\t\\nUid:\t0\nUid:\t{uid}\t0\t0\t0\n"));
    fixture::put(&directory.join("cmdline"), &format!("qemu-system-x86_64\0-name\0guest={name}\0"));
}

#[test]
fn guest_is_known_by_start_time() {
    let (_dir, roots) = fixture::copy("hmat-two-tier");
    let reader = &mut Reader::default();
    let before = find(&roots, &named("db-1"), reader).unwrap().unwrap();
    // The pid is reused by another QEMU of the same name.
    start(&roots, 301, 64055, "db-1");
    let after = find(&roots, &named("db-1"), reader).unwrap().unwrap();
    assert!(before.pid == after.pid && before != after, "{before:?} {after:?}");
}

#[test]
fn guest_names_match_libvirt_and_plain_forms() {
    let (_dir, roots) = fixture::copy("hmat-two-tier");
    assert_eq!(found(&roots, &named("db-1")), Some(301));
    assert_eq!(found(&roots, &named("web-1")), Some(302));
    assert_eq!(found(&roots, &named("db")), None);
    assert_eq!(guest_name(b"kvm\0-name\0a,,b,process=x\0"), Some(b"a,b".to_vec()));
    assert_eq!(guest_name(b"kvm\0-name\0debug-threads=on,guest=z\0"), Some(b"z".to_vec()));
    assert_eq!(guest_name(b"kvm\0-name\0guest=\xff\n\0"), Some(b"\xff\n".to_vec()));
    assert_eq!(guest_name(b"kvm\0-name"), None);
}

#[test]
fn command_line_alone_is_not_trusted() {
    let (dir, roots) = fixture::copy("hmat-two-tier");
    // An ordinary user's program that claims to be QEMU, and an ordinary user's QEMU.
    start(&roots, 7, 1001, "db-1");
    fixture::put(&dir.path().join("sleep"), "");
    symlink(dir.path().join("sleep"), roots.proc.join("7/exe")).unwrap();
    start(&roots, 8, 1001, "db-1");
    crate::qemu::process::install(dir.path(), &roots, &[8]);
    assert_eq!(found(&roots, &named("db-1")), Some(301));
    fs::remove_dir_all(roots.proc.join("301")).unwrap();
    assert_eq!(
        message(&roots, &named("db-1")),
        "no guest of a system user is named \"db-1\"; the name of another user's QEMU does not \
         count: process 8 is of user 1001; name it by its pid file, its QMP socket or its \
         control group"
    );
}

#[test]
fn two_guests_of_one_name_are_refused() {
    let (dir, roots) = fixture::copy("hmat-two-tier");
    start(&roots, 9, 107, "db-1");
    crate::qemu::process::install(dir.path(), &roots, &[9]);
    assert_eq!(
        message(&roots, &named("db-1")),
        "2 guests are named \"db-1\": process 9 of user 107; process 301 of user 64055; name it \
         by its pid file, its QMP socket or its control group"
    );
}

#[test]
fn guest_is_found_by_listening_socket() {
    let (dir, roots) = fixture::copy("hmat-two-tier");
    let path = dir.path().join("db.qmp");
    let guest = Qemu::Qmp(path.clone());
    assert_eq!(found(&roots, &guest), None);
    let own = i32::try_from(std::process::id()).unwrap();
    start(&roots, own, 1001, "any");
    crate::qemu::process::install(dir.path(), &roots, &[own]);
    let listener = UnixListener::bind(&path).unwrap();
    assert_eq!(found(&roots, &guest), Some(own));
    // Another program listens there.
    fixture::put(&dir.path().join("nc"), "");
    fs::remove_file(roots.proc.join(format!("{own}/exe"))).unwrap();
    symlink(dir.path().join("nc"), roots.proc.join(format!("{own}/exe"))).unwrap();
    let refused = message(&roots, &guest);
    assert!(refused.contains(&format!("process {own} listens on ")), "{refused}");
    assert!(refused.contains("which is no QEMU"), "{refused}");
    drop(listener);
    // The file is still there, and no process listens.
    assert_eq!(found(&roots, &guest), None);
}

#[test]
fn forged_socket_line_names_nothing() {
    let (dir, roots) = fixture::copy("hmat-two-tier");
    let path = dir.path().join("db.qmp");
    let line = "0000000000000000: 00000002 00000000 00010000 0001 01";
    let forged = format!("{line}  1500 /tmp/x\n{line}  4242 {}\n", path.display());
    fixture::put(&roots.proc.join("net/unix"), &forged);
    assert_eq!(found(&roots, &Qemu::Qmp(path)), None);
}

#[test]
fn stale_or_foreign_pidfile_names_no_guest() {
    let (dir, roots) = fixture::copy("hmat-two-tier");
    let path = dir.path().join("db.pid");
    let guest = Qemu::Pidfile(path.clone());
    assert_eq!(found(&roots, &guest), None);
    fixture::put(&path, "");
    assert_eq!(found(&roots, &guest), None);
    fixture::put(&path, "301\n");
    assert_eq!(found(&roots, &guest), Some(301));
    fixture::put(&path, "101\n");
    assert!(message(&roots, &guest).contains("names process 101: its executable is not known"));
    fixture::put(&path, "9999\n");
    assert_eq!(found(&roots, &guest), None);
    fs::write(&path, b"\x1b[2J\xff").unwrap();
    let refused = message(&roots, &guest);
    assert!(refused.contains("db.pid: found \"\\u{1b}[2J\\xff\""), "{refused}");
    let own = geteuid().as_raw();
    assert!(may_name(0, 107) && may_name(own, 107) && may_name(own + 1, own + 1));
    assert!(!may_name(own + 1, own + 2));
}

#[test]
fn pidfile_pipe_does_not_block() {
    let (dir, roots) = fixture::copy("hmat-two-tier");
    let path = dir.path().join("db.pid");
    let mode = rustix::fs::Mode::from_raw_mode(fs::Permissions::from_mode(0o600).mode());
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(found(&roots, &Qemu::Pidfile(path)), None);
}

proptest! {
    #[test]
    fn no_command_line_panics(text in "(kvm|-name|guest=|,|\0|.{0,4}){0,8}") {
        let _ = guest_name(text.as_bytes());
    }
}
