//! The kernel's own tiering and whatever else of the machine is set differently while Tierwise runs.
//!
//! - [`Knob`]: the settings that may be changed; no other file is ever written.
//! - [`Settings`]: changes them, and gives them back when it is dropped.
//! - [`restore_after`]: gives back what a process left that was killed.
//!
//! Only what still has a value written here is given back: what somebody else set since is theirs.

mod keeper;
mod knob;
mod state;

pub use keeper::{Fate, Report, Settings, restore_after};
pub use knob::Knob;
