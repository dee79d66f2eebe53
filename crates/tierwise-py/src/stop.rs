//! Ends a simulation from within.
//!
//! A run has no early return: an agent answers with an action, and progress is only reported.
//! Unwinding leaves the run, and drops the engine and the host as any return does.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The payload of the unwinding.
struct Stopped;

/// Leaves the surrounding [`unless_stopped`]. Nothing is printed, as it is no panic.
pub(crate) fn now() -> ! {
    resume_unwind(Box::new(Stopped))
}

/// The value of `run`, or `None` if it was stopped.
pub(crate) fn unless_stopped<T>(run: impl FnOnce() -> T) -> Option<T> {
    // Unwinding drops the values of `run`, and nothing uses them afterwards.
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(value) => Some(value),
        Err(thrown) if thrown.is::<Stopped>() => None,
        Err(panic) => resume_unwind(panic),
    }
}
