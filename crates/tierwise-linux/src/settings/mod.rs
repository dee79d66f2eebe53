//! Kernel settings that Tierwise changes while it runs: the kernel's own tiering and others.
//!
//! - [`Knob`]: the settings that may change; no other file is ever written.
//! - [`Settings`]: changes them, and restores them when it is dropped.
//! - [`restore_after`]: restores the settings of a process that was killed.
//!
//! Only a setting that still has a value written here is restored: a value that another program set
//! since stays.

mod knob;
mod promotion;
mod saved;
mod state;

/// Parses a state file's bytes for the fuzz target: a valid state is written and read unchanged,
/// and an error is one short line.
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
pub(crate) use promotion::MEMORY_TIERING;
pub use saved::{Fate, RestoreReport, Settings, restore_after};
