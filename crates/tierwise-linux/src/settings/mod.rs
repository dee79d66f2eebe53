//! The kernel's own tiering and whatever else of the machine is set differently while Tierwise
//! runs.
//!
//! - [`Knob`]: the settings that may be changed; no other file is ever written.
//! - [`Settings`]: changes them, and gives them back when it is dropped.
//! - [`restore_after`]: gives back what a process left that was killed.
//!
//! Only what still has a value written here is given back: what another program set since is
//! theirs.

mod knob;
mod saved;
mod state;

/// Parses a state file's bytes: what it holds is written and read as the same, and a refusal is one
/// short line.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz_state(bytes: &[u8]) {
    match state::parse(bytes) {
        Ok(Some(state)) => {
            let written = serde_json::to_vec(&state).unwrap_or_default();
            assert_eq!(state::parse(&written), Ok(Some(state)));
        }
        Ok(None) => {}
        Err(message) => assert!(message.len() < 1 << 14 && !message.contains('\n'), "{message:?}"),
    }
}

pub use knob::Knob;
pub use saved::{Fate, RestoreReport, Settings, restore_after};
