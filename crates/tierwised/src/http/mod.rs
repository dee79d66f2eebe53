//! The daemon's view over HTTP: metrics, API, events and the dashboard.
//!
//! - HTTP is read-only; commands go over the control socket.
//! - The server listens on loopback only and answers only requests that name loopback as their
//!   host: a page of another site whose own name resolves to 127.0.0.1 (DNS rebinding) learns
//!   nothing.
//! - A second server has the metrics alone, at any address, for those who bring its token.
//! - One thread serves all clients, and sleeps while there are no requests.
//! - A request and its answer have deadlines, and connections have places: a client that sends no
//!   request loses its place to one that does.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::TcpStream;
//! use std::sync::Arc;
//!
//! use tierwised::http::HttpServer;
//! use tierwised::view::Snapshot;
//! use tokio::sync::watch;
//!
//! let snapshot = Snapshot { policy: "tpp".into(), ..Snapshot::default() };
//! let (_views, seen) = watch::channel(Arc::new(snapshot));
//! let (waker, _asked) = crossbeam_channel::bounded(1);
//! let server = HttpServer::start("127.0.0.1:0".parse().unwrap(), seen, waker).unwrap();
//!
//! let mut stream = TcpStream::connect(server.address()).unwrap();
//! let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
//! stream.write_all(request).unwrap();
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer).unwrap();
//! assert!(answer.contains("tierwise_policy_info{policy=\"tpp\"} 1\n"), "{answer}");
//! ```

mod api;
mod app;
mod connection;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod guard;
mod metrics;
mod openmetrics;
mod places;
mod router;
mod server;
#[cfg(test)]
mod tests;
mod token;

pub use metrics::reference;
pub use server::HttpServer;
