//! Memory tiers of this host.
//!
//! - [`nodes`]: NUMA nodes with memory, their size and distances.
//! - [`tiers`]: the tiers that the kernel made of them.
//! - [`access`]: latency and bandwidth where the firmware says them.
//! - [`overrides`]: the operator's own list, which goes before the kernel's.
//! - [`figures`]: which latency and bandwidth a tier is taken to have, and who says so.
//! - [`zoneinfo`]: the kernel's watermarks, and free pages that CPUs keep to themselves.
//! - [`LinuxHost`] puts them together; [`Fingerprint`] tells cheaply whether it would come out
//!   otherwise, and [`Suitability`] says whether there is anything to tier.

pub mod access;
pub mod figures;
mod fingerprint;
#[cfg(test)]
pub(crate) mod fixture;
mod host;
pub mod nodes;
pub mod overrides;
mod suitability;
pub mod tiers;
pub mod zoneinfo;

pub use access::Access;
pub use figures::{FigureSource, Figures, SourcedFigure};
pub use fingerprint::Fingerprint;
pub use host::{HostTier, LinuxHost, TierChange};
pub use nodes::MemoryNode;
pub use overrides::{Override, TierOverride};
pub use suitability::Suitability;
