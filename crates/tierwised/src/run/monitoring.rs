//! A daemon that cannot see which pages are hot must not move any: it observes, says why, and tries
//! again, because what is in the way is mostly somebody else who uses DAMON for a while.

use std::time::{Duration, Instant};

use super::{Daemon, setup};
use crate::judgement::BLIND;
use crate::view::Mode;

/// How long it waits before it tries again: trying is cheap, but another user of DAMON is there for
/// minutes.
const AGAIN: Duration = Duration::from_secs(30);

/// What a daemon does that cannot look. Why stands where it is said what it looks by.
pub(super) fn blind(mode: (Mode, String)) -> (Mode, String) {
    // A machine on which nothing can be moved has said so.
    if mode.0 == Mode::Observe {
        return mode;
    }
    (Mode::Observe, format!("{BLIND}; it tries again every {} s", AGAIN.as_secs()))
}

/// A mode in a sentence.
pub(super) fn verb(mode: Mode) -> &'static str {
    match mode {
        Mode::Manage => "manages",
        Mode::DryRun => "moves nothing",
        Mode::Observe => "only observes",
        Mode::Paused => "is paused",
    }
}

impl Daemon {
    /// Looking failed while it was at work.
    pub(super) fn on_monitoring_failed(&mut self, problem: &str) {
        (self.mode, self.mode_reason) = blind((self.mode, std::mem::take(&mut self.mode_reason)));
        self.monitoring = format!("nothing: {problem}");
        self.monitor_tried = Instant::now();
        self.world.set_dry_run(true);
    }

    /// Tries to look, if it does not and the last try is long ago.
    pub(super) fn retry_monitoring(&mut self) {
        if self.world.is_monitoring() || self.monitor_tried.elapsed() < AGAIN {
            return;
        }
        self.monitor_tried = Instant::now();
        match self.see_again() {
            Ok(()) => {
                let at = self.uptime();
                let line =
                    format!("monitors accesses with {}: {}", self.monitoring, verb(self.mode));
                self.history.notice(at, line);
            }
            // It was said when it became so, and the view goes on saying it.
            Err(e) => tracing::debug!("cannot monitor accesses yet: {e:#}"),
        }
    }

    fn see_again(&mut self) -> anyhow::Result<()> {
        self.monitoring = setup::start_monitoring(&self.start, &mut self.world)?;
        let (mode, reason) = setup::mode(&self.start, self.world.host());
        if mode == Mode::Manage {
            setup::take_over(&self.start, &mut self.settings)?;
        }
        // What the engine knew of pages is as old as the last look.
        self.engine = setup::engine(&self.start.config, &self.world, mode)?;
        self.history.shares.clear();
        self.world.set_tenants(setup::selectors(&self.start.config)?, true);
        let Ok(()) = self.driver.start(&self.engine, &mut self.world);
        self.world.set_dry_run(mode != Mode::Manage);
        (self.mode, self.mode_reason) = (mode, reason);
        Ok(())
    }
}
