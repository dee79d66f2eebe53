//! Memory tiers of this host.
//!
//! - [`nodes`]: NUMA nodes with memory, their size and distances.
//! - [`tiers`]: the tiers that the kernel made of them.
//! - [`access`]: latency and bandwidth from the firmware.
//! - [`overrides`]: the operator's own list, which takes precedence over the kernel's.
//! - [`figures`]: the latency and bandwidth that a tier is taken to have, and their sources.
//! - [`zoneinfo`]: the kernel's watermarks, and free pages on per-CPU lists.
//! - [`LinuxHost`] combines them; [`Fingerprint`] detects changes cheaply, and [`Suitability`]
//!   reports whether the machine has tiers.

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
