//! Clients that do not mean well.

use std::io::{Read, Write};
use std::time::Duration;

use super::client::{connect, get};
use super::{start, start_with};
use crate::http::places::MOST_CONNECTIONS;
use crate::http::server::Deadlines;

#[test]
fn connections_that_send_one_byte_lock_nobody_out() {
    let (server, _views) = start();
    let mut idle: Vec<_> = (0..2 * MOST_CONNECTIONS).map(|_| connect(server.address())).collect();
    idle.iter_mut().for_each(|stream| {
        // Those that had to make room already are closed.
        let _ = stream.write_all(b"G");
    });
    assert_eq!(get(&server, "/metrics").status, 200);
    assert_eq!(get(&server, "/api/v1/snapshot").status, 200);
}

#[test]
fn a_head_that_does_not_end_is_cut_off() {
    let head = Duration::from_millis(20);
    let (server, _views) = start_with(Deadlines { head, ..Deadlines::default() });
    let mut stream = connect(server.address());
    stream.write_all(b"GET / HTTP/1.1\r\nHo").unwrap();
    // It ends instead of waiting for more; a reset is an end as well.
    let mut rest = Vec::new();
    if stream.read_to_end(&mut rest).is_ok() {
        assert!(!rest.starts_with(b"HTTP/1.1 200"));
    }
}

#[test]
fn a_connection_is_for_one_request() {
    let (server, _views) = start();
    let mut stream = connect(server.address());
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}
