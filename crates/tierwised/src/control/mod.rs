//! Commands over a Unix socket of mode 0600: one JSON object per line in, one per line out; and
//! a scheduler's messages from a POSIX message queue, if one is configured ([`Listener`]).
//!
//! ```
//! use tierwised::control::{ControlCommand, Reply};
//!
//! let line = r#"{"command":"tenant-add","tenant":{"name":"shop","cgroup":"shop.slice"}}"#;
//! let ControlCommand::TenantAdd { tenant } = serde_json::from_str(line).unwrap() else {
//!     unreachable!()
//! };
//! assert_eq!(tenant.name, "shop");
//! assert_eq!(serde_json::to_string(&Reply::done()).unwrap(), r#"{"ok":true}"#);
//! ```

mod client;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod protocol;
#[cfg(feature = "server")]
mod queue;
#[cfg(feature = "server")]
mod server;
mod until;

pub use client::{ClientError, call};
pub use protocol::{Claims, ControlCommand, Reply, TenantChange};
#[cfg(feature = "server")]
pub use queue::Listener;
#[cfg(feature = "server")]
pub use server::{Accepted, ControlRequest, ControlServer};
#[cfg(feature = "server")]
pub(crate) use server::{bind_beside, clear_the_way, next};
#[cfg(feature = "server")]
pub(crate) use until::Until;
