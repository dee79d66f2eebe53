//! `tierwise restore`: restores the kernel's settings after a process was killed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anstyle::Style;
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tierwise_linux::damon::admin::{self, Left};
use tierwise_linux::damon::trace;
use tierwise_linux::migrate::page_cache::promotion::cache_record;
use tierwise_linux::monitor::hint_faults::hint_fault_record;
use tierwise_linux::roots::Roots;
use tierwise_linux::settings;
use tierwise_linux::world::damon_record;
use tierwised::config::Config;

use crate::failure::{CommandResult, Failure};
use crate::prose::paragraph;
use crate::record_live;

/// Longest wait for a daemon that is about to end: half of the minute that a pod of the chart has.
const PATIENCE: Duration = Duration::from_secs(30);

/// Interval of trying again meanwhile.
const PAUSE: Duration = Duration::from_millis(200);

/// Restore kernel settings and stop DAMON's threads after a tierwised or a recording was killed.
///
/// The changes are in a state file. Settings that another program changed since stay as they are.
/// The command refuses while the process of the file runs: that process restores everything itself.
/// tierwised does the same when it starts.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  sudo tierwise restore")]
pub struct Restore {
    /// The directory of the state file: `state` of the configuration. [default: /var/lib/tierwise]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Wait for SIGTERM or SIGINT, then restore as soon as no daemon runs: a container of the
    /// daemon's pod that ends after it.
    #[arg(long)]
    at_end: bool,
    /// Find the kernel's file systems under this directory: for tests on a tree of their own.
    #[arg(long, value_name = "DIR", hide = true)]
    root: Option<PathBuf>,
}

impl Restore {
    pub fn execute(&self) -> CommandResult {
        let roots = self.root.clone().map_or_else(Roots::default, Roots::under);
        let lines = if self.at_end {
            Signals::new([SIGTERM, SIGINT])?.forever().next();
            self.lines_after_daemon(&roots, PATIENCE)?
        } else {
            self.lines(&roots)?
        };
        let mut out = anstream::stdout().lock();
        if lines.is_empty() {
            writeln!(out, "there was nothing to restore")?;
        }
        for line in lines {
            paragraph(&mut out, Style::new(), "", &line)?;
        }
        Ok(out.flush()?)
    }

    /// Tries again while it fails: a daemon that ends at the same time restores what it took.
    fn lines_after_daemon(&self, roots: &Roots, within: Duration) -> Result<Vec<String>, Failure> {
        let deadline = Instant::now() + within;
        loop {
            match self.lines(roots) {
                Err(Failure::Internal(_)) if Instant::now() < deadline => thread::sleep(PAUSE),
                result => return result,
            }
        }
    }

    fn lines(&self, roots: &Roots) -> Result<Vec<String>, Failure> {
        let directory = self.state.clone().unwrap_or_else(|| Config::default().state);
        if !directory.is_dir() {
            if self.state.is_none() {
                return Ok(Vec::new());
            }
            let directory = directory.display();
            return Err(Failure::User(format!(
                "{directory}: there is no such directory; --state names the one of the \
                 configuration's key state"
            )));
        }
        let mut lines = Vec::new();
        let daemon = [damon_record(&directory), cache_record(&directory)];
        lines.extend(restore(roots, &directory.join("settings.json"), &daemon)?);
        lines.extend(restore(roots, &hint_fault_record(&directory), &[])?);
        let (settings, damon) = record_live::state_files(&directory);
        lines.extend(restore(roots, &settings, &[damon])?);
        Ok(lines)
    }
}

/// Stops DAMON's threads first: the kernel's own use of DAMON cannot be switched on while they run.
/// Changes nothing while the owner of the state file runs.
fn restore(roots: &Roots, state: &Path, damon: &[PathBuf]) -> Result<Vec<String>, Failure> {
    // A dangling link counts as well.
    let there = |path: &Path| path.symlink_metadata().is_ok();
    if !there(state) && !damon.iter().any(|record| there(record)) {
        return Ok(Vec::new());
    }
    let mut lines = Vec::new();
    let report = settings::restore_after(roots, state, || {
        for record in damon {
            match admin::clean_up_recorded(roots, record)? {
                Left::Nothing => {}
                Left::OtherBoot => {
                    let record = record.display();
                    lines.push(format!("{record}: of an earlier boot: nothing to stop"));
                }
                Left::Places(places) => lines.extend(places.iter().map(|place| {
                    format!("kdamond {place}: stopped, unless another user has taken it meanwhile")
                })),
                Left::Unknown(message) => lines.push(message),
            }
        }
        let left = trace::remove_left(roots)?;
        lines.extend(left.iter().map(|name| format!("trace instance {name}: removed")));
        Ok(())
    });
    let report = report.map_err(|error| Failure::Internal(error.to_string()))?;
    lines.extend(report.to_string().lines().map(str::to_owned));
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tierwise_linux::settings::{Knob, Settings};

    use super::*;

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn tree() -> (tempfile::TempDir, Roots, Restore) {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        put(&roots.proc.join("sys/kernel/random/boot_id"), "b1\n");
        put(&roots.proc.join("sys/kernel/numa_balancing"), "1\n");
        let state = tree.path().join("state");
        fs::create_dir(&state).unwrap();
        let root = Some(tree.path().to_owned());
        let restore = Restore { state: Some(state), at_end: false, root };
        (tree, roots, restore)
    }

    #[test]
    fn killed_daemons_settings_are_restored_once() {
        let (tree, roots, restore) = tree();
        let state = tree.path().join("state/settings.json");
        let (mut settings, _) = Settings::open(&roots, &state).unwrap();
        settings.take(Knob::NumaBalancing, "2").unwrap();
        let message = match restore.lines(&roots) {
            Err(Failure::Internal(message)) => message,
            other => panic!("{other:?}"),
        };
        assert!(message.contains("in use by a Tierwise that still runs"), "{message}");
        // As after kill -9: the file exists, its owner does not.
        let left = fs::read(&state).unwrap();
        drop(settings);
        fs::write(&state, left).unwrap();
        fs::write(roots.proc.join("sys/kernel/numa_balancing"), "2\n").unwrap();
        assert_eq!(restore.lines(&roots).unwrap(), ["numa_balancing: 1 again"]);
        let now = fs::read_to_string(roots.proc.join("sys/kernel/numa_balancing")).unwrap();
        assert_eq!(now, "1");
        assert!(restore.lines(&roots).unwrap().is_empty());
    }

    #[test]
    fn restore_waits_for_ending_daemon() {
        let (tree, roots, restore) = tree();
        let (mut settings, _) =
            Settings::open(&roots, &tree.path().join("state/settings.json")).unwrap();
        settings.take(Knob::NumaBalancing, "2").unwrap();
        let value = || fs::read_to_string(roots.proc.join("sys/kernel/numa_balancing")).unwrap();
        assert!(restore.lines_after_daemon(&roots, Duration::ZERO).is_err());
        assert_eq!(value(), "2");
        let ending = thread::spawn(move || drop(settings));
        assert!(restore.lines_after_daemon(&roots, PATIENCE).is_ok());
        ending.join().unwrap();
        assert_eq!(value(), "1");
    }

    #[test]
    fn leftover_kdamond_is_stopped() {
        let (tree, roots, restore) = tree();
        let place = roots.sys.join("kernel/mm/damon/admin/kdamonds/0");
        put(&place.join("state"), "on\n");
        put(&place.join("pid"), "77\n");
        put(&place.join("contexts/nr_contexts"), "1\n");
        let stat = "77 (kdamond.0) S 2 0 0 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 900 0 0 0";
        put(&roots.proc.join("77/stat"), stat);
        let (_, record) = record_live::state_files(&tree.path().join("state"));
        let text = r#"{"boot":"b1","taken":[{"index":0,"thread":{"pid":77,"start_time":900}}]}"#;
        put(&record, text);
        let lines = restore.lines(&roots).unwrap();
        assert_eq!(lines, ["kdamond 0: stopped, unless another user has taken it meanwhile"]);
        assert_eq!(fs::read_to_string(place.join("state")).unwrap().trim(), "off");
        assert!(!record.exists());
    }

    #[test]
    fn damaged_state_file_does_not_block_restore() {
        let (tree, roots, restore) = tree();
        let directory = tree.path().join("state");
        let (settings, _) = record_live::state_files(&directory);
        let left = r#"{"version":1,"boot_id":"b1","changes":[
            {"knob":"numa_balancing","before":"1","written":["2"]}]}"#;
        for damaged in ["", "{\"boot", "[]", "{\"boot\":\"b1\"}"] {
            put(&settings, left);
            put(&roots.proc.join("sys/kernel/numa_balancing"), "2\n");
            for name in ["settings.json", "damon.json"] {
                put(&directory.join(name), damaged);
            }
            let lines = restore.lines(&roots).unwrap().join("\n");
            for part in ["settings.json: cannot be used", "damon.json: cannot be used"] {
                assert!(lines.contains(part), "{lines}");
            }
            assert!(lines.ends_with("numa_balancing: 1 again"), "{lines}");
            assert!(restore.lines(&roots).unwrap().is_empty());
        }
    }

    #[test]
    fn missing_directory_is_an_error_if_named() {
        let (tree, roots, _) = tree();
        let state = Some(tree.path().join("absent"));
        let restore = Restore { state, at_end: false, root: None };
        assert!(matches!(restore.lines(&roots), Err(Failure::User(_))));
    }
}
