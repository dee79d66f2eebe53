//! Warm start: what was hot is kept in the state directory, so that a restart of the daemon or of a
//! program need not learn it again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tierwise_linux::monitor::thread_cpu;
use tierwise_linux::roots::Roots;
use tierwise_linux::state_file::{self, boot_id};
use tierwise_linux::world::LiveWorld;
use tierwise_linux::world::heat::file;

use super::pace::RestPace;
use super::{Daemon, History, Options};
use crate::view::DaemonMode;

/// The part of a CPU that recording may take.
const PART: f64 = 0.001;

/// The least cost that counts, so that a turn is at most every ten seconds: what a killed daemon
/// has not recorded is learned again in about that time.
const LEAST: Duration = Duration::from_millis(10);

/// Path of the file, below the directory of the state files.
fn path(state: &Path) -> PathBuf {
    state.join("heat.json")
}

/// The state of the feature.
#[derive(Debug)]
pub(super) struct WarmStart {
    /// `None` if nothing is remembered.
    file: Option<(PathBuf, String)>,
    pace: RestPace,
    failed: bool,
}

impl WarmStart {
    /// Gives the world the memory of an earlier daemon. A file that cannot be used is reported, and
    /// costs nothing else. Without `monitor.remember` an earlier file is removed.
    pub(super) fn start(options: &Options, world: &mut LiveWorld, history: &mut History) -> Self {
        let path = path(&options.config.state);
        let mut warm = Self { file: None, pace: RestPace::new(), failed: false };
        if !options.config.monitor.remember {
            if let Err(e) = state_file::remove(&path) {
                history.notice(0.0, format!("{e}; remove it by hand"));
            }
            return warm;
        }
        match recalled(&options.roots, &path, world, history) {
            Ok(boot) => warm.file = Some((path, boot)),
            Err(e) => history.notice(0.0, format!("does not remember what is hot: {e}")),
        }
        warm
    }
}

fn recalled(
    roots: &Roots,
    path: &Path,
    world: &mut LiveWorld,
    history: &mut History,
) -> tierwise_linux::error::Result<String> {
    let boot = boot_id(roots)?;
    let (memory, damage) = file::read(path, &boot)?;
    if let Some(damage) = damage {
        history.notice(0.0, format!("{damage}; what was hot is learned again"));
    }
    world.remember_with(memory);
    Ok(boot)
}

impl Daemon {
    /// Records what is hot, when it is time for it.
    pub(super) fn remember(&mut self) {
        if !self.warm_start.pace.is_due() {
            return;
        }
        let before = thread_cpu();
        self.remember_now();
        let cost = thread_cpu().saturating_sub(before).max(LEAST);
        self.warm_start.pace.rest(cost, PART);
    }

    /// Records what is hot. A failure is reported once.
    pub(super) fn remember_now(&mut self) {
        // An engine that decides nothing counts nothing: what is known stays.
        if matches!(self.activity.mode, DaemonMode::Observe | DaemonMode::Steer) {
            return;
        }
        let Some((path, boot)) = &self.warm_start.file else { return };
        let engine = &self.engine;
        let Some(memory) = self.world.remember(|page| engine.heat(page)) else { return };
        match file::write(path, boot, memory) {
            Ok(()) => self.warm_start.failed = false,
            Err(e) if !self.warm_start.failed => {
                self.warm_start.failed = true;
                let line = format!("what is hot is not kept for the next start: {e}");
                self.history.notice(self.uptime(), line);
            }
            Err(_) => {}
        }
    }
}
