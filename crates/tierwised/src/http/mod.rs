//! The daemon's view to be read over HTTP: metrics, API, events and the dashboard.
//!
//! - Nothing can be changed here; commands go over the control socket.
//! - It listens on loopback only and answers only requests that name loopback as their host: a page
//!   of another site that has its own name resolved to 127.0.0.1 (DNS rebinding) learns nothing.
//! - One thread serves everybody, and does nothing while nobody asks.
//! - A request and its answer have deadlines, and connections have places: who sends no request
//!   loses his to who does.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::TcpStream;
//! use std::sync::Arc;
//!
//! use tierwised::http::Server;
//! use tierwised::view::Snapshot;
//! use tokio::sync::watch;
//!
//! let (_views, seen) = watch::channel(Arc::new(Snapshot { policy: "tpp".into(), ..Snapshot::default() }));
//! let (waker, _asked) = crossbeam_channel::bounded(1);
//! let server = Server::start("127.0.0.1:0".parse().unwrap(), seen, waker).unwrap();
//!
//! let mut stream = TcpStream::connect(server.address()).unwrap();
//! stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
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

pub use metrics::reference;
pub use server::Server;
