//! What a process of a tenant reports reaches the view, and it reads its tenant's share.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use super::*;
use crate::tenants::{TenantReply, TenantSocket};

fn say(socket: &Path, line: &str) -> TenantReply {
    let mut stream = UnixStream::connect(socket).unwrap();
    // The daemon may refuse, and close, before it has read the line.
    let _ = stream.write_all(line.as_bytes());
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap()
}

/// The fake machine gets this test's process, whose pages are all on one node.
#[test]
fn report_reaches_world_share_reaches_process() {
    let me = std::process::id();
    let tenant = format!("[[tenant]]\nname = \"a\"\npids = [{me}]\ncap = \"1M\"");
    let (mut daemon, machine) = daemon(&format!("[control]\ntenants = \"/on\"\n{tenant}"));
    let socket = machine.path().join("tenants/socket");
    let _server = TenantSocket::start(&socket, daemon.channels.tenants.clone()).unwrap();
    let early = say(&socket, "{}\n");
    assert!(early.error.unwrap().contains("belongs to no tenant"), "no round has found it yet");
    std::os::unix::fs::symlink(
        format!("/proc/{me}"),
        daemon.options.roots.proc.join(me.to_string()),
    )
    .unwrap();
    daemon.round();
    daemon.exchange();
    let memory = vec![7_u8; 16 << 20];
    let at = memory.as_ptr() as u64;
    let line = format!("{{\"placed\":[[{at},{}]]}}\n", at + memory.len() as u64);
    let found = say(&socket, &line).entitlement.unwrap();
    assert_eq!((found.tenant.as_str(), found.cap_bytes), ("a", Some(1 << 20)));
    assert_eq!((found.fast_nodes, found.slow_nodes), (vec![0], vec![1]));
    daemon.exchange_now();
    daemon.round();
    // Node 0 has them, which is fast: there the report has no effect.
    assert_eq!(daemon.snapshot().tenants[0].placed_bytes, 0);
    assert!(daemon.channels.tenants.take().is_empty(), "it was taken");
}
