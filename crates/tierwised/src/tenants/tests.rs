//! The socket with this test's own process as a tenant's.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tempfile::TempDir;
use tierwise_linux::process::Process;
use tierwise_linux::world::placed::MAX_RANGES;

use super::*;

const START_TIME: u64 = 77;

fn me() -> Process {
    Process { pid: std::process::id() as i32, start_time: START_TIME }
}

fn entitlement(tenant: &str) -> TenantEntitlement {
    let (usage_bytes, cap_bytes) = (3 << 20, Some(4 << 20));
    TenantEntitlement {
        tenant: tenant.into(),
        usage_bytes,
        cap_bytes,
        ..TenantEntitlement::default()
    }
}

/// A socket at which this process speaks for the tenant `shop`.
fn socket() -> (TempDir, PathBuf, TenantBoard, TenantSocket) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tenants/socket");
    let board = TenantBoard::default();
    board.write([(me(), 0)].into_iter(), vec![entitlement("shop")], Instant::now());
    let socket = TenantSocket::start(&path, board.clone()).unwrap();
    (directory, path, board, socket)
}

fn say(path: &PathBuf, line: &[u8]) -> TenantReply {
    let mut stream = UnixStream::connect(path).unwrap();
    // The daemon may refuse before it has read all of it.
    let _ = stream.write_all(line);
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap()
}

#[test]
fn process_reports_for_itself_and_reads_share() {
    let (_directory, path, board, socket) = socket();
    let reply = say(&path, b"{\"placed\":[[4096,8192],[8192,12288]]}\n");
    assert_eq!(reply.entitlement, Some(entitlement("shop")));
    assert_eq!(board.take(), [(me(), vec![(4096, 8192), (8192, 12288)])].into());
    assert!(say(&path, b"{}\n").ok);
    assert!(board.take().is_empty(), "a question is no report");
    assert!(say(&path, b"{\"placed\":[]}\n").ok);
    assert_eq!(board.take(), [(me(), Vec::new())].into(), "it takes everything back");
    let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o666);
    let directory = path.parent().unwrap();
    assert_eq!(fs::metadata(directory).unwrap().permissions().mode() & 0o777, 0o755);
    drop(socket);
    assert!(!path.exists());
}

#[test]
fn process_of_no_tenant_is_refused() {
    let (_directory, path, board, _socket) = socket();
    board.write(std::iter::empty(), vec![entitlement("shop")], Instant::now());
    let refused = say(&path, b"{\"placed\":[[4096,8192]]}\n");
    assert!(refused.error.unwrap().contains("belongs to no tenant"));
    assert!(board.take().is_empty());
}

#[test]
fn hostile_lines_are_refused_and_harmless() {
    let (_directory, path, board, _socket) = socket();
    let many: Vec<(u64, u64)> =
        (0..=MAX_RANGES as u64).map(|n| ((1 << 46) + 2 * n, (1 << 46) + 2 * n + 1)).collect();
    let too_many = serde_json::to_vec(&Report { placed: Some(many.clone()) }).unwrap();
    assert!((too_many.len() as u64) < 16 * 1024, "the largest report fits");
    for (sent, message) in [
        (b"what?\n".to_vec(), "expected value"),
        (b"{\"placed\":[[9,4]]}\n".to_vec(), "allowed: ranges that ascend"),
        (b"{\"placed\":[[-1,4]]}\n".to_vec(), "invalid value"),
        (b"{\"tenant\":\"bank\"}\n".to_vec(), "unknown field `tenant`"),
        ([too_many, b"\n".to_vec()].concat(), "found 257 ranges"),
        (vec![b'['; 16 * 1024 - 2], "invalid type: sequence"),
        (vec![b'x'; 70_000], "a line is at most"),
    ] {
        let mut sent = sent;
        sent.push(b'\n');
        let refused = say(&path, &sent);
        assert!(!refused.ok && refused.entitlement.is_none());
        let error = refused.error.unwrap();
        assert!(error.contains(message), "{message}: {error}");
    }
    assert!(board.take().is_empty());
}

/// A tenant that holds its connections open, or speaks without end, must not keep the others out.
#[test]
fn tenant_cannot_use_up_the_socket() {
    let board = TenantBoard::default();
    let other = Process { pid: 7, start_time: 1 };
    let entitlements = || vec![entitlement("loud"), entitlement("quiet")];
    let members = || [(me(), 0), (other, 1)].into_iter();
    let now = Instant::now();
    board.write(members(), entitlements(), now);
    let first = board.start(me().pid, now).unwrap();
    let second = board.start(me().pid, now).unwrap();
    let refused = board.start(me().pid, now).unwrap_err();
    assert!(refused.contains("speaks too often"), "{refused}");
    drop(board.start(other.pid, now).unwrap());
    drop((first, second));
    let more = (0..).take_while(|_| board.start(me().pid, now).is_ok()).count();
    assert_eq!(more, 14, "two were before");
    drop(board.start(other.pid, now).unwrap());
    // Nor by a new reading of the tenants.
    board.write(members(), entitlements(), now);
    board.start(me().pid, now).unwrap_err();
    drop(board.start(me().pid, now + Duration::from_secs(1)).unwrap());
}

#[test]
fn silent_process_is_cut_off() {
    let (_directory, path, _board, _socket) = socket();
    let mut silent = UnixStream::connect(&path).unwrap();
    silent.write_all(b"{").unwrap();
    let mut answer = Vec::new();
    // The other side closes without an answer.
    silent.read_to_end(&mut answer).unwrap();
    assert!(answer.is_empty());
}

proptest! {
    #[test]
    fn no_bytes_break_the_report(
        bytes in prop::collection::vec(
            prop_oneof![
                any::<u8>(),
                prop::sample::select(&b"{\"placed\":[[0123456789,]]}"[..]),
            ],
            0..60,
        ),
    ) {
        fuzzing::report(&bytes);
    }

    #[test]
    fn ranges_are_taken_if_they_ascend(
        cuts in prop::collection::vec(0_u64..1 << 47, 0..12),
    ) {
        let ranges: Vec<(u64, u64)> = cuts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let ascends = ranges.is_sorted_by(|a, b| a.1 <= b.0) && ranges.iter().all(|r| r.0 < r.1);
        let line = serde_json::to_vec(&Report { placed: Some(ranges) }).unwrap();
        prop_assert_eq!(super::protocol::parse(&line).is_ok(), ascends);
    }
}
