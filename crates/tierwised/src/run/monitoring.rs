//! The loss of access monitoring. A daemon that does not know which pages are hot must not move
//! any: it observes, reports the obstacle, and tries again. Usually another program uses DAMON for
//! a while.

use std::time::Instant;

use super::activity::{RETRY_INTERVAL, verb};
use super::{Daemon, setup};
use crate::judgement::{self, SourceJudgement};
use crate::view::DaemonMode;

impl Daemon {
    /// Handles a failure of access monitoring that ran.
    pub(super) fn on_monitoring_failed(&mut self, problem: &str) {
        self.activity.lose_monitoring(problem);
        self.world.set_dry_run(true);
    }

    /// Tries to start access monitoring, if it does not run and the last attempt is long ago.
    pub(super) fn retry_monitoring(&mut self) {
        let steers = self.activity.mode == DaemonMode::Steer;
        if steers || self.world.is_monitoring() || self.activity.tried.elapsed() < RETRY_INTERVAL {
            return;
        }
        self.activity.tried = Instant::now();
        // The first attempt may have failed by what it left out.
        match self.restart_monitoring(judgement::source) {
            Ok(()) => {
                let at = self.uptime();
                let line = format!(
                    "monitors accesses with {}: {}",
                    self.activity.source,
                    verb(self.activity.mode)
                );
                self.history.notice(at, line);
            }
            // The log has the loss, and the view shows it until it ends.
            Err(e) => tracing::debug!("cannot monitor accesses yet: {e:#}"),
        }
    }

    /// Starts access monitoring, and manages again if the machine and the options allow it. On a
    /// failure nothing is monitored: monitoring that runs would pass for a daemon that needs no
    /// further attempt.
    pub(super) fn restart_monitoring(&mut self, source: SourceJudgement) -> anyhow::Result<()> {
        self.activity.source = setup::start_monitoring(source, &self.options, &mut self.world)?;
        let decided = self.decide_anew();
        if decided.is_err()
            && let Err(e) = self.world.stop()
        {
            tracing::warn!("{e}");
        }
        decided
    }

    fn decide_anew(&mut self) -> anyhow::Result<()> {
        let (mode, reason) = setup::mode(&self.options, self.world.host());
        if mode == DaemonMode::Manage {
            setup::take_over(&self.options, &mut self.settings)?;
        }
        // The engine's knowledge of pages is as old as the last access report.
        self.engine = setup::engine(&self.options.config, &self.world, mode)?;
        self.history.forget_shares();
        self.world.set_tenants(setup::selectors(&self.options.config)?, true);
        let Ok(()) = self.driver.start(&self.engine, &mut self.world);
        self.world.set_dry_run(mode != DaemonMode::Manage);
        (self.activity.mode, self.activity.reason) = (mode, reason);
        Ok(())
    }
}
