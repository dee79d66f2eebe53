//! The daemon `tierwised`: the engine on this host.
//!
//! - [`args`]: the command line.
//! - [`config`]: the configuration file.
//! - [`judgement`]: the effect of a configuration on a machine, for the daemon and for the commands
//!   that check.
//! - [`nri`]: the conversation with the container runtime; [`cri`]: questions to one without it;
//!   [`pods`]: pods as tenants.
//! - [`run`]: the thread that monitors accesses, decides and moves pages.
//! - [`view`]: the daemon's state as data.
//! - [`control`]: commands over a Unix socket, one JSON object per line; also the client's side.
//! - [`tenants`]: what tenants' processes report, and read of their tenant's share.
//! - [`http`]: the view over HTTP on loopback, read-only.
//! - [`system`]: privileges, systemd, logs.
//!
//! Without the feature `server` there is what `tierwise` needs: all but the threads, the servers
//! and what they use.

#![cfg_attr(not(test), warn(unreachable_pub))]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod args;
pub mod config;
pub mod control;
#[cfg(feature = "server")]
pub mod cri;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "server")]
pub mod http;
pub mod judgement;
#[cfg(feature = "server")]
pub mod nri;
#[cfg(feature = "server")]
pub mod pods;
#[cfg(feature = "server")]
pub mod run;
pub mod system;
#[cfg(feature = "server")]
pub mod tenants;
pub mod view;
