//! The daemon on a fake machine: what stays of a feature after a failure.

mod exchange;

use std::fs;
use std::path::Path;
use std::process::Command;

use crossbeam_channel::{bounded, unbounded};
use tempfile::TempDir;
use tierwise_linux::monitor::{AccessMonitor, AccessReport, MonitorTarget};

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
        tenants: TenantBoard::default(),
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
    daemon.restart_monitoring(judgement::source).unwrap_err();
    assert!(!daemon.world.is_monitoring() && !daemon.activity.manages());
    fs::rename(switch.with_extension("gone"), &switch).unwrap();
    daemon.restart_monitoring(judgement::source).unwrap();
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

/// Monitoring that ends when its channel is closed, and then writes a setting of the kernel.
#[derive(Debug)]
struct EndsLate(Receiver<()>, std::path::PathBuf);

impl AccessMonitor for EndsLate {
    fn name(&self) -> &'static str {
        "ends-late"
    }

    fn set_targets(&mut self, _: &[MonitorTarget]) -> tierwise_linux::error::Result<()> {
        Ok(())
    }

    fn collect(&mut self, _: &mut AccessReport) -> tierwise_linux::error::Result<()> {
        Ok(())
    }

    fn stop(&mut self) -> tierwise_linux::error::Result<()> {
        let _ = self.0.recv();
        fs::write(&self.1, "100").unwrap();
        Ok(())
    }

    fn cpu_time(&mut self) -> tierwise_linux::error::Result<Duration> {
        Ok(Duration::ZERO)
    }
}

/// Adds what steering needs to a recorded machine. Returns the file of the kernel's scan size.
fn make_steerable(machine: &Path) -> std::path::PathBuf {
    let kernel = machine.join("sys/kernel");
    let debug = kernel.join("debug/sched/numa_balancing");
    let settings =
        ["hot_threshold_ms", "scan_period_min_ms", "scan_period_max_ms", "scan_delay_ms"];
    let scan_size = debug.join("scan_size_mb");
    fs::create_dir_all(&debug).unwrap();
    settings.iter().for_each(|name| fs::write(debug.join(name), "1000").unwrap());
    fs::write(&scan_size, "256").unwrap();
    fs::create_dir_all(kernel.join("mm/lru_gen")).unwrap();
    fs::write(kernel.join("mm/lru_gen/enabled"), "0x0007\n").unwrap();
    fs::write(kernel.join("debug/lru_gen"), "").unwrap();
    scan_size
}

/// A source that takes seconds to end, and holds settings that steering sets too.
#[test]
fn steering_waits_for_the_end_of_monitoring() {
    let tenant = "[[tenant]]\nname = \"a\"\npids = [101]\nclass = \"latency-critical\"\n";
    let (mut daemon, machine) = daemon(&format!("{tenant}slo_ms = 4.0\n"));
    let scan_size = make_steerable(machine.path());
    daemon.world.stop().unwrap();
    let (end, ended) = bounded(0);
    let late = EndsLate(ended, scan_size.clone());
    daemon.world.monitor_with(Box::new(late)).unwrap();
    daemon.round();
    assert!(daemon.report_latency("a", 1.0, 1000).ok);
    daemon.steer();
    daemon.round();
    assert!(daemon.world.is_releasing() && daemon.activity.mode == DaemonMode::Steer);
    assert!(daemon.world.max_wait() < MAX_WAIT, "it steers as soon as monitoring has ended");
    // The daemon answers meanwhile, and waits even if a limit binds.
    assert!(daemon.report_latency("a", 3.0, 1000).ok);
    (0..5).for_each(|_| daemon.steer());
    assert!(daemon.snapshot().steering.is_none() && daemon.world.is_releasing());
    assert_eq!(fs::read_to_string(&scan_size).unwrap(), "256");
    drop(end);
    while daemon.world.is_releasing() {
        std::thread::yield_now();
    }
    daemon.steer();
    assert!(daemon.world.is_monitoring() && daemon.activity.manages(), "a limit binds");
    assert_eq!(daemon.world.max_wait(), MAX_WAIT);
    assert_eq!(fs::read_to_string(scan_size).unwrap(), "100");
    // The limit bound once: the wait has not grown.
    assert!(daemon.report_latency("a", 1.0, 1000).ok);
    let (slack, config) = (&mut daemon.steering.slack, &daemon.options.config);
    let page = tierwise_core::units::Bytes(4096);
    let reason = slack.binding(config, |_| &[], page, false, Instant::now()).unwrap();
    assert!(reason.contains("none did for 10 s"), "{reason}");
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

#[test]
fn claims_hold_until_they_are_replaced() {
    let config = format!("[kubernetes]\nnri = \"/run/nri.sock\"\nreserve_percent = 25.0\n{CAPPED}");
    let (mut daemon, _machine) = daemon(&config);
    let claims = |daemon: &mut Daemon, floors: Option<&[(&str, u64)]>| {
        let floors = floors.map(|f| f.iter().map(|(uid, b)| ((*uid).to_owned(), *b)).collect());
        let reply = daemon.answer(ControlCommand::Claims { floors });
        daemon.pods.forget();
        daemon.follow_pods();
        reply
    };
    let floor = |daemon: &mut Daemon| {
        daemon.snapshot().tenants.iter().find(|t| t.name == "shop/web")?.tiers[0].floor_bytes
    };
    // The claim is there before its pod runs.
    let reply = claims(&mut daemon, Some(&[("web", 32 << 20), ("other", 1 << 20)]));
    let held = reply.claims.unwrap();
    let fastest = daemon.snapshot().tiers[0].capacity_bytes;
    assert_eq!((held.capacity_bytes, held.floors["web"]), (fastest / 4 * 3, 32 << 20));
    started(&mut daemon, "web", "64Mi");
    assert_eq!(floor(&mut daemon), Some(32 << 20));
    let view = daemon.snapshot().pods.unwrap();
    assert_eq!((view.claims, view.claimed_bytes), (2, 33 << 20));
    assert_eq!(view.capacity_bytes, fastest / 4 * 3);
    assert_eq!(notices(&daemon, "pod shop/web is a tenant: claimed floor 32"), 1);
    // Asking alone changes nothing; a list without the pod takes its claim away.
    assert_eq!(claims(&mut daemon, None).claims, Some(held));
    assert_eq!(floor(&mut daemon), Some(32 << 20));
    assert!(claims(&mut daemon, Some(&[("web", u64::MAX)])).error.unwrap().contains("up to 1125"));
    assert_eq!(floor(&mut daemon), Some(32 << 20));
    assert!(claims(&mut daemon, Some(&[])).ok);
    assert_eq!(floor(&mut daemon), Some(64 << 20), "its annotation's");
}

#[test]
fn claims_need_the_container_runtime() {
    let (mut daemon, _machine) = daemon(CAPPED);
    let reply = daemon.answer(ControlCommand::Claims { floors: None });
    assert!(
        !reply.ok && reply.error.unwrap().starts_with("kubernetes.nri and kubernetes.cri are off")
    );
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
