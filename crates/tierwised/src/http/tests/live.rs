//! Event streams, and the end of the server.

use std::net::TcpStream;
use std::sync::Arc;

use super::client::{EventStream, get};
use super::start;
use crate::http::app::MAX_STREAMS;

#[test]
fn stream_starts_with_view_and_follows() {
    let (server, views) = start();
    let (status, mut events) = EventStream::open(&server);
    assert_eq!(status, 200);
    let first = events.next().unwrap();
    assert_eq!((&first["uptime"], &first["tenants"][0]["name"]), (&12.5.into(), &"shop".into()));
    views.send_modify(|view| Arc::make_mut(view).uptime = 13.5);
    assert_eq!(events.next().unwrap()["uptime"], 13.5);
}

#[test]
fn streams_end_with_the_views() {
    let (server, views) = start();
    let (_, mut events) = EventStream::open(&server);
    events.next().unwrap();
    drop(views);
    assert!(events.next().is_none());
    // The last view can still be read.
    assert_eq!(get(&server, "/api/v1/snapshot").json()["uptime"], 12.5);
}

#[test]
fn streams_end_with_the_server() {
    let (server, _views) = start();
    let address = server.address();
    let (_, mut events) = EventStream::open(&server);
    events.next().unwrap();
    drop(server);
    assert!(events.next().is_none());
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn excess_stream_ends_the_oldest() {
    let (server, _views) = start();
    let mut open: Vec<_> = (0..=MAX_STREAMS).map(|_| EventStream::open(&server)).collect();
    assert!(open.iter().all(|(status, _)| *status == 200));
    let (_, oldest) = &mut open[0];
    while oldest.next().is_some() {}
    let (_, newest) = &mut open[MAX_STREAMS];
    assert!(newest.next().is_some());
    assert_eq!(get(&server, "/metrics").status, 200);
}
