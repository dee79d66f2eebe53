//! The daemon's mode, its reason, and its source of access monitoring.

use std::time::{Duration, Instant};

use tierwise_driver as driver;

use crate::judgement::BLIND;
use crate::view::DaemonMode;

/// Time between two attempts to start access monitoring. An attempt is cheap, but another user of
/// DAMON keeps it for minutes.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// The state that decides how much a round does.
#[derive(Debug)]
pub(super) struct Activity {
    pub(super) mode: DaemonMode,
    /// The reason why the mode is not [`DaemonMode::Manage`]; empty if it is.
    pub(super) reason: String,
    /// The source of access monitoring and the reason for it, as text.
    pub(super) source: String,
    /// The last attempt to start access monitoring.
    pub(super) tried: Instant,
    pub(super) paused: bool,
}

impl Activity {
    pub(super) fn new((mode, reason): (DaemonMode, String), source: String) -> Self {
        Self { mode, reason, source, tried: Instant::now(), paused: false }
    }

    /// Returns true if the daemon moves pages now.
    pub(super) fn manages(&self) -> bool {
        !self.paused && self.mode == DaemonMode::Manage
    }

    /// The driver's steps in this activity.
    pub(super) fn driver_mode(&self) -> driver::RoundMode {
        if self.paused || matches!(self.mode, DaemonMode::Observe | DaemonMode::Steer) {
            driver::RoundMode::Observe
        } else {
            driver::RoundMode::Manage
        }
    }

    /// Records a failure of access monitoring.
    pub(super) fn lose_monitoring(&mut self, problem: &str) {
        (self.mode, self.reason) = observing((self.mode, std::mem::take(&mut self.reason)));
        self.source = format!("nothing: {problem}");
        self.tried = Instant::now();
    }
}

/// Returns the mode and reason without access monitoring. [`Activity::source`] holds the obstacle.
pub(super) fn observing(mode: (DaemonMode, String)) -> (DaemonMode, String) {
    // A machine on which no page can be moved has a reason already.
    if mode.0 == DaemonMode::Observe {
        return mode;
    }
    (DaemonMode::Observe, format!("{BLIND}; it tries again every {} s", RETRY_INTERVAL.as_secs()))
}

/// Describes a mode in a sentence.
pub(super) fn verb(mode: DaemonMode) -> &'static str {
    match mode {
        DaemonMode::Manage => "manages",
        DaemonMode::Steer => "steers the kernel's tiering",
        DaemonMode::DryRun => "moves nothing",
        DaemonMode::Observe => "only observes",
        DaemonMode::Paused => "is paused",
    }
}
