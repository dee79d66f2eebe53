//! A socket for the processes of tenants: they report the memory that they have placed in slow
//! tiers themselves, and read what their tenant may have ([`TenantSocket`]). One JSON object per
//! line in, one per line out.
//!
//! ```
//! use tierwised::tenants::{Report, TenantReply};
//!
//! // A process that has bound 2 MiB to a slow node.
//! let report: Report = serde_json::from_str(r#"{"placed":[[2097152,4194304]]}"#).unwrap();
//! assert_eq!(report.placed, Some(vec![(2 << 20, 4 << 20)]));
//! let refused = TenantReply::refused("try again");
//! assert_eq!(serde_json::to_string(&refused).unwrap(), r#"{"ok":false,"error":"try again"}"#);
//! ```
//!
//! The kernel tells which process has connected (`SO_PEERCRED`): nobody reports for another, nor
//! names a tenant. The daemon's thread neither waits for a message nor is woken by one. Once a
//! second it takes the reports from the [`TenantBoard`], and writes there what the answers have.

mod board;
mod protocol;
mod server;
#[cfg(test)]
mod tests;

pub use board::TenantBoard;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use protocol::fuzzing;
pub use protocol::{Report, TenantEntitlement, TenantReply};
pub use server::TenantSocket;
