//! The daemon on a fake machine: what stays of a feature after a failure.

use std::fs;
use std::path::Path;
use std::process::Command;

use crossbeam_channel::unbounded;
use tempfile::TempDir;

use super::*;
use crate::control::ControlCommand;

const FIXTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/linux/hmat-two-tier/.");

const CAPPED: &str = "[[tenant]]\nname = \"a\"\ncgroup = \"redis-server.service\"\ncap = \"1M\"";

/// A daemon on a copy of a recorded machine with two tiers, and the copy. The machine has an empty
/// idle page bitmap and no generations of pages.
fn daemon(config: &str) -> (Daemon, TempDir) {
    let machine = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-a").arg(FIXTURE).arg(machine.path()).status().unwrap();
    assert!(copied.success());
    let bitmap = machine.path().join("sys/kernel/mm/page_idle/bitmap");
    fs::create_dir_all(bitmap.parent().unwrap()).unwrap();
    fs::write(bitmap, "").unwrap();
    let state = machine.path().join("state");
    let config = format!("state = {state:?}\n{config}\n[monitor]\nsource = \"idle-bitmap\"\n");
    let file = machine.path().join("tierwised.toml");
    fs::write(&file, &config).unwrap();
    let options = Options {
        config: Config::parse("t.toml", &config).unwrap(),
        file: Some(file),
        roots: Roots::under(machine.path()),
        dry_run: false,
    };
    let (waker, wake) = unbounded();
    let (views, _) = watch::channel(Arc::default());
    let channels = DaemonChannels {
        requests: unbounded().1,
        wake,
        waker,
        stop: Arc::default(),
        views,
        unavailable: Unavailable::default(),
    };
    (Daemon::new(options, channels).unwrap(), machine)
}

fn notices(daemon: &Daemon, start: &str) -> usize {
    daemon.history.notices.iter().filter(|notice| notice.text.starts_with(start)).count()
}

fn demotion_switch(machine: &Path) -> std::path::PathBuf {
    machine.join("sys/kernel/mm/numa/demotion_enabled")
}

/// Monitoring that ran beside a mode that only observes would pass for a daemon that needs no
/// further attempt.
#[test]
fn failed_restart_leaves_nothing_monitored() {
    let (mut daemon, machine) =
        daemon("[kernel]\ndemotion = true\n[[tenant]]\nname = \"a\"\npids = [101]\nfloor = \"1M\"");
    assert!(daemon.world.is_monitoring() && daemon.activity.manages());
    daemon.settings.restore().unwrap();
    daemon.world.stop().unwrap();
    daemon.on_monitoring_failed("a test ended it");
    let switch = demotion_switch(machine.path());
    fs::rename(&switch, switch.with_extension("gone")).unwrap();
    daemon.restart_monitoring().unwrap_err();
    assert!(!daemon.world.is_monitoring() && !daemon.activity.manages());
    fs::rename(switch.with_extension("gone"), &switch).unwrap();
    daemon.restart_monitoring().unwrap();
    assert!(daemon.world.is_monitoring() && daemon.activity.manages());
    assert_eq!(fs::read_to_string(switch).unwrap().trim(), "1");
}

/// Demotion of page cache fails on this machine, which has no generations.
#[test]
fn refused_page_cache_is_reported_once() {
    let (mut daemon, _machine) = daemon(&format!("[move]\npage_cache = true\n{CAPPED}"));
    daemon.round();
    let refused = "page cache is left where it is";
    daemon.demote_above_caps();
    assert!(daemon.page_cache.refusal.holds(), "the next attempt waits");
    daemon.demote_above_caps();
    assert_eq!(notices(&daemon, refused), 1);
    assert!(daemon.activity.manages(), "the other features go on");
    let reply = daemon.answer(ControlCommand::Reload);
    assert_eq!(reply.error, None);
    assert!(!daemon.page_cache.refusal.holds(), "a new configuration is tried at once");
    daemon.demote_above_caps();
    assert_eq!(notices(&daemon, refused), 2);
}
