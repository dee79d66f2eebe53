//! The daemon `tierwised`: the engine on this host.
//!
//! - [`args`]: the command line.
//! - [`config`]: what the operator writes.
//! - [`judgement`]: what that comes to on a machine; the daemon and the commands that check ask
//!   here.
//! - [`run`]: one thread that looks, decides and moves.
//! - [`view`]: what the outside may see of it, as data.
//! - [`control`]: commands over a Unix socket, one JSON object a line; also the client's side.
//! - [`http`]: the same view to be read over HTTP on loopback.
//! - [`system`]: privileges, systemd, logs.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod args;
pub mod config;
pub mod control;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod http;
pub mod judgement;
pub mod run;
pub mod system;
pub mod view;
