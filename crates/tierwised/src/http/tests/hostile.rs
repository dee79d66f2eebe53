//! Tests with hostile clients.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::bounded;
use tokio::sync::watch;

use super::client::{connect, get};
use super::{snapshot, start, start_with};
use crate::http::HttpServer;
use crate::http::places::{ConnectionPlace, MAX_CONNECTIONS, Places};
use crate::http::server::Deadlines;
use crate::system::optional::{Optional, Unavailable};

#[test]
fn cost_of_answers_is_counted_apart() {
    let (server, _views) = start();
    let before = crate::system::answering::cpu();
    // The thread notes its time before it waits for, and when it has, the next connection.
    for _ in 0..2 {
        assert_eq!(get(&server, "/metrics").status, 200);
    }
    assert!(crate::system::answering::cpu() > before);
}

#[test]
fn one_byte_connections_lock_no_client_out() {
    let (server, _views) = start();
    let mut idle: Vec<_> = (0..2 * MAX_CONNECTIONS).map(|_| connect(server.address())).collect();
    idle.iter_mut().for_each(|stream| {
        // Connections that lost their places already are closed.
        let _ = stream.write_all(b"G");
    });
    assert_eq!(get(&server, "/metrics").status, 200);
    assert_eq!(get(&server, "/api/v1/snapshot").status, 200);
}

#[test]
fn oldest_answer_makes_room() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let places = Places::new();
        let mut held = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            held.push(places.take().await.unwrap());
        }
        // All have sent a whole request, the first is an event stream, and none is done.
        held.iter().for_each(ConnectionPlace::answer);
        held[0].keep();
        let oldest = held.remove(1);
        let leaves = async {
            oldest.needed().await;
            drop(oldest);
        };
        let (newest, ()) = tokio::join!(places.take(), leaves);
        assert!(newest.is_some());
    });
}

#[test]
fn busy_port_costs_http_only() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let unavailable = Unavailable::default();
    let (views, _) = watch::channel(Arc::new(snapshot()));
    let (waker, _asked) = bounded(1);
    let attempt = move || HttpServer::start(address, views.subscribe(), waker.clone());
    let _http = Optional::start("http", &unavailable, attempt).unwrap();
    let (feature, reason) = unavailable.list().remove(0);
    assert!(feature == "http" && reason.contains("is in use by another program"), "{reason}");
    drop(other);
    while !unavailable.list().is_empty() {
        thread::sleep(Duration::from_millis(10));
    }
    let mut stream = connect(address);
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn endless_head_is_cut_off() {
    let head = Duration::from_millis(20);
    let (server, _views) = start_with(Deadlines { head, ..Deadlines::default() });
    let mut stream = connect(server.address());
    stream.write_all(b"GET / HTTP/1.1\r\nHo").unwrap();
    // The connection ends instead of waiting for more; a reset is an end as well.
    let mut rest = Vec::new();
    if stream.read_to_end(&mut rest).is_ok() {
        assert!(!rest.starts_with(b"HTTP/1.1 200"));
    }
}

#[test]
fn connection_serves_one_request() {
    let (server, _views) = start();
    let mut stream = connect(server.address());
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}
