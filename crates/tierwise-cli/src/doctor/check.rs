//! One line of the report.

use serde::Serialize;
use tierwise_linux::error::LinuxError;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckResult {
    /// The part is present and works.
    Ok,
    /// Information that stops nothing.
    Note,
    /// The part is missing.
    Missing,
}

/// The abilities that depend on a missing part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stops {
    /// None: there are alternatives.
    Nothing,
    /// Moving pages: tierwised only observes.
    Managing,
    /// All abilities: tierwised does not start, or observes nothing.
    Everything,
}

/// One line. Keys of `--json` stay.
#[derive(Debug, Clone, Serialize)]
pub struct HostCheck {
    pub name: &'static str,
    pub status: CheckResult,
    pub found: String,
    /// The remedy for a missing part or a note.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    pub stops: Stops,
}

impl HostCheck {
    pub fn ok(name: &'static str, found: impl Into<String>) -> Self {
        let (status, stops) = (CheckResult::Ok, Stops::Nothing);
        Self { name, status, found: found.into(), remedy: None, stops }
    }

    pub fn note(name: &'static str, found: impl Into<String>, remedy: Option<String>) -> Self {
        Self { status: CheckResult::Note, remedy, ..Self::ok(name, found) }
    }

    pub fn missing(
        name: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { status: CheckResult::Missing, remedy: Some(remedy.into()), ..Self::ok(name, found) }
    }

    /// The kernel's refusal.
    pub fn failed(name: &'static str, error: &LinuxError) -> Self {
        match error {
            LinuxError::Missing { what, remedy } => Self::missing(name, what, remedy),
            LinuxError::File { source, .. } | LinuxError::Process { source, .. }
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                Self::missing(name, error.to_string(), "run as root: sudo tierwise doctor")
            }
            _ if error.is_gone() => Self::missing(
                name,
                error.to_string(),
                "use a kernel that has it, with its file systems mounted where distributions \
                 mount them",
            ),
            _ => Self::missing(name, error.to_string(), "see what wrote this file"),
        }
    }

    /// Returns the result of a probe.
    pub fn probed(name: &'static str, answer: Result<(), LinuxError>, found: &str) -> Self {
        match answer {
            Ok(()) => Self::ok(name, found),
            Err(error) => Self::failed(name, &error),
        }
    }

    /// Sets the abilities that depend on this part.
    pub fn stopping(self, stops: Stops) -> Self {
        if self.status == CheckResult::Missing { Self { stops, ..self } } else { self }
    }
}
