//! A minimal HTTP client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::http::HttpServer;

/// Turns a test that hangs into one that fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// An answer.
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl HttpAnswer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// The sentence of a refusal.
    pub(super) fn error(&self) -> String {
        self.json()["error"].as_str().unwrap().to_owned()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

pub(super) fn get(server: &HttpServer, path: &str) -> HttpAnswer {
    ask(server, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
}

pub(super) fn ask(server: &HttpServer, request: &str) -> HttpAnswer {
    let mut stream = connect(server.address());
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    HttpAnswer { status, head: head.to_owned(), body: body.to_owned() }
}

pub(super) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// An open event stream.
pub(super) struct EventStream(BufReader<TcpStream>);

impl EventStream {
    /// Opens a stream; the status shows whether the server granted it.
    pub(super) fn open(server: &HttpServer) -> (u16, Self) {
        let mut stream = connect(server.address());
        let request = "GET /api/v1/events HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        (line.split(' ').nth(1).unwrap().parse().unwrap(), Self(reader))
    }

    /// The data of the next event; nothing at the end of the stream.
    pub(super) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        while self.0.read_line(&mut line).unwrap() > 0 {
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).unwrap());
            }
            line.clear();
        }
        None
    }
}
