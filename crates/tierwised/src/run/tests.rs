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
        pods: SharedPods::default(),
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

/// The group of a pod's container in the recorded machine.
const POD_GROUP: &str = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7d1f.slice";

fn started(daemon: &mut Daemon, name: &str, floor: &str) {
    let annotations = [("tierwise.io/floor".to_owned(), floor.to_owned())].into();
    let pod = crate::pods::Pod {
        namespace: "shop".into(),
        name: name.into(),
        uid: name.into(),
        annotations,
        address: None,
    };
    let container = crate::pods::Container {
        sandbox: name.into(),
        name: "main".into(),
        group: POD_GROUP.into(),
        memory_limit: None,
    };
    daemon.channels.pods.lock().started(name.into(), pod, name.into(), container);
    daemon.pods.forget();
    daemon.follow_pods();
}

fn ended(daemon: &mut Daemon, name: &str) {
    daemon.channels.pods.lock().pod_ended(name);
    daemon.pods.forget();
    daemon.follow_pods();
}

#[test]
fn pods_are_tenants_while_they_run() {
    let config = format!("[kubernetes]\nnri = \"/run/nri.sock\"\n{CAPPED}");
    let (mut daemon, _machine) = daemon(&config);
    started(&mut daemon, "web", "64Mi");
    daemon.round();
    let view = daemon.snapshot();
    let names: Vec<&str> = view.tenants.iter().map(|tenant| tenant.name.as_str()).collect();
    assert_eq!(names, ["a", "shop/web"]);
    let (web, pod) = (&view.tenants[1], view.tenants[1].pod.as_ref().unwrap());
    assert_eq!((&*pod.namespace, &*pod.pod, &*pod.qos_class), ("shop", "web", "Burstable"));
    assert!(web.processes > 0 && web.tiers[0].usage_bytes > 0, "{web:?}");
    assert_eq!(web.tiers[0].floor_bytes, Some(64 << 20));
    assert_eq!(view.pods.unwrap().pods, 1);
    // A command cannot change what annotations decide, and a reload keeps the pods.
    let change = crate::control::TenantChange { weight: Some(7), ..Default::default() };
    let set = ControlCommand::TenantSet { name: "shop/web".into(), change };
    assert!(daemon.answer(set).error.unwrap().contains("is a pod: its annotations"));
    assert_eq!(daemon.answer(ControlCommand::Reload).error, None);
    assert_eq!(daemon.snapshot().tenants.len(), 2);
    ended(&mut daemon, "web");
    daemon.round();
    assert_eq!(daemon.snapshot().tenants.len(), 1);
    assert_eq!(notices(&daemon, "pod shop/web has ended"), 1);
}

/// A new pod must not make the engine learn the others' pages again.
#[test]
fn arriving_pods_keep_others_history() {
    let (mut daemon, _machine) = daemon(CAPPED);
    daemon.round();
    let plans = daemon.engine.metrics().samples;
    let blocks = daemon.world.blocks();
    started(&mut daemon, "web", "1Mi");
    assert_eq!((daemon.engine.metrics().samples, daemon.world.blocks()), (plans, blocks));
    assert_eq!(daemon.engine.specs().len(), 2);
}

#[test]
fn a_thousand_pods_come_and_go() {
    let (mut daemon, _machine) = daemon(CAPPED);
    for number in 0..1000 {
        started(&mut daemon, &format!("web-{number}"), "1Gi");
        if number >= 3 {
            ended(&mut daemon, &format!("web-{}", number - 3));
        }
        let places = daemon.options.config.tenants.len();
        assert!(places <= 140, "{places} places after {number} pods");
    }
    daemon.round();
    let names: Vec<String> = daemon.snapshot().tenants.into_iter().map(|t| t.name).collect();
    assert_eq!(names, ["a", "shop/web-997", "shop/web-998", "shop/web-999"]);
    // Their floors exceed the fast memory of this machine, and each is lowered.
    let sum: u64 =
        daemon.snapshot().tenants[1..].iter().filter_map(|t| t.tiers[0].floor_bytes).sum();
    let capacity = daemon.snapshot().tiers[0].capacity_bytes;
    assert!(sum <= capacity && daemon.engine.specs().len() == daemon.options.config.tenants.len());
}
