//! Threads of this crate.

use std::thread::{self, JoinHandle};

use crate::error::{LinuxError, Result};

/// Starts a thread with this name.
///
/// # Errors
/// No thread can be started.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    thread::Builder::new().name(name.into()).spawn(body).map_err(|source| LinuxError::Missing {
        what: format!("no thread can be started ({source})"),
        remedy: "raise the limit of tasks (TasksMax= of the unit)".into(),
    })
}
