//! Tests of the files that are written, unchanged and restored.

use std::fs;
use std::time::Duration;

use super::admin::KdamondState;
use super::fake::{FakeDamon, put};
use super::*;
use crate::process::{Process, Reader};
use crate::roots::Roots;
use tierwise_core::observe::DamonAttrs;
use tierwise_core::units::Bytes;

fn monitoring(target: DamonTarget, schemes: Vec<Scheme>) -> Monitoring {
    Monitoring { target, attrs: DamonAttrs::default(), schemes }
}

const REDIS: Process = Process { pid: 77, start_time: 5 };

#[test]
fn a_process_is_monitored_as_configured() {
    let fake = FakeDamon::new(0);
    let mut admin = fake.admin();
    let mut taken = admin.take(2).unwrap();
    assert_eq!(taken.iter().map(Kdamond::index).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(fs::read_to_string(fake.kdamonds().join("nr_kdamonds")).unwrap(), "4");

    let kdamond = &mut taken[1];
    kdamond
        .configure(&monitoring(
            DamonTarget::Processes(vec![REDIS.pid.into()]),
            vec![Scheme::stat()],
        ))
        .unwrap();
    kdamond.on(&fake.roots).unwrap();
    assert!(kdamond.is_on().unwrap());
    let context = |name: &str| fake.text(1, &format!("contexts/0/{name}"));
    assert_eq!(context("operations"), "vaddr");
    assert_eq!(context("targets/0/pid_target"), "77");
    assert_eq!(context("monitoring_attrs/intervals/aggr_us"), "100000");
    assert_eq!(context("monitoring_attrs/intervals/update_us"), "1000000");
    assert_eq!(context("schemes/0/action"), "stat");
    assert_eq!(context("schemes/0/access_pattern/sz/max"), u64::MAX.to_string());
    assert_eq!(context("schemes/0/filters/nr_filters"), "0");

    admin.restore(taken).unwrap();
    assert_eq!(
        (fake.text(1, "state"), fake.text(1, "contexts/nr_contexts")),
        ("off".into(), "0".into())
    );
    assert_eq!(fs::read_to_string(fake.kdamonds().join("nr_kdamonds")).unwrap(), "0");
    assert!(!fake.record.exists());
}

#[test]
fn schemes_name_node_quota_and_cgroup() {
    let fake = FakeDamon::new(1);
    let mut taken = fake.admin().take(1).unwrap();
    let scheme = Scheme {
        action: DamosAction::MigrateHot { node: 3 },
        pattern: AccessPattern { nr_accesses: 1..=20, ..AccessPattern::default() },
        quota: Quota { bytes: Bytes(1 << 20), ..Quota::default() },
        filters: vec![Filter::Memcg("/a/b".into()), Filter::Files],
    };
    let physical = DamonTarget::Physical(vec![(0, 1 << 30)]);
    taken[0].configure(&monitoring(physical, vec![scheme])).unwrap();
    let scheme = |name: &str| fake.text(0, &format!("contexts/0/schemes/0/{name}"));
    assert_eq!((scheme("action"), scheme("target_nid")), ("migrate_hot".into(), "3".into()));
    assert_eq!(scheme("access_pattern/nr_accesses/min"), "1");
    assert_eq!(
        (scheme("filters/0/type"), scheme("filters/0/memcg_path")),
        ("memcg".into(), "/a/b".into())
    );
    assert_eq!(
        (scheme("filters/nr_filters"), scheme("filters/0/matching")),
        ("2".into(), "N".into())
    );
    assert_eq!(
        (scheme("filters/1/type"), scheme("filters/1/matching")),
        ("anon".into(), "Y".into())
    );
    assert_eq!(fake.text(0, "contexts/0/targets/0/regions/0/end"), (1u64 << 30).to_string());

    let quota = Quota { time: Duration::from_millis(7), ..Quota::default() };
    taken[0].write_quota(0, quota).unwrap();
    assert_eq!((scheme("quotas/ms"), scheme("quotas/bytes")), ("7".into(), "0".into()));
    assert!(taken[0].write_quota(5, quota).is_err());
    for (name, value) in [("sz_tried", 9), ("sz_applied", 4), ("qt_exceeds", 1)] {
        put(&fake.file(0, &format!("contexts/0/schemes/0/stats/{name}")), &value.to_string());
    }
    let stats = taken[0].stats(0).unwrap();
    assert_eq!(stats, SchemeStats { tried: Bytes(9), applied: Bytes(4), quota_exceeded: 1 });
}

#[test]
fn dropping_stops_the_kdamond() {
    let fake = FakeDamon::new(1);
    let mut taken = fake.admin().take(1).unwrap();
    taken[0]
        .configure(&monitoring(
            DamonTarget::Processes(vec![REDIS.pid.into()]),
            vec![Scheme::stat()],
        ))
        .unwrap();
    taken[0].on(&fake.roots).unwrap();
    drop(taken);
    assert_eq!(
        (fake.text(0, "state"), fake.text(0, "contexts/nr_contexts")),
        ("off".into(), "0".into())
    );
}

#[test]
fn what_others_use_stays_as_it_is() {
    let fake = FakeDamon::new(3);
    fake.run(0, 900, 1);
    put(&fake.file(1, "contexts/nr_contexts"), "1\n");
    let mut admin = fake.admin();
    assert_eq!(
        admin.places().unwrap(),
        [KdamondState::Taken(Some(900)), KdamondState::Taken(None), KdamondState::Empty]
    );
    let taken = admin.take(2).unwrap();
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].index(), 2);
    // A taken place is in the record, but empty in sysfs until it is configured.
    put(&fake.file(2, "contexts/nr_contexts"), "1\n");
    let error = admin.take(1).unwrap_err().to_string();
    assert!(error.contains("0 (on, thread 900 kdamond.0), 1 (configured, off)"), "{error}");
    assert!(error.contains("stop that user"), "{error}");
    admin.restore(taken).unwrap();
    assert_eq!(fs::read_to_string(fake.kdamonds().join("nr_kdamonds")).unwrap().trim(), "3");
    assert_eq!(
        (fake.text(0, "state"), fake.text(1, "contexts/nr_contexts")),
        ("on".into(), "1".into())
    );
}

#[test]
fn only_a_killed_process_leftovers_are_stopped() {
    let fake = FakeDamon::new(4);
    let mut admin = fake.admin();
    let taken = admin.take(3).unwrap();
    for (i, pid) in [(0, 900), (1, 901), (2, 902)] {
        put(&fake.file(i, "contexts/nr_contexts"), "1\n");
        fake.run(i, pid, 10);
    }
    admin.note(&taken, &mut Reader::default()).unwrap();
    taken.into_iter().for_each(std::mem::forget);
    drop(admin);
    // Another program has taken place 1 since, and place 3 was never taken here.
    fake.run(1, 905, 20);
    fake.run(3, 906, 20);
    fake.admin();
    let states: Vec<String> = (0..4).map(|i| fake.text(i, "state")).collect();
    assert_eq!(states, ["off", "on", "off", "on"]);
    assert_eq!(fake.text(1, "contexts/nr_contexts"), "1");
    assert!(!fake.record.exists());
}

#[test]
fn killed_process_leaves_no_places() {
    let number = |fake: &FakeDamon| {
        fs::read_to_string(fake.kdamonds().join("nr_kdamonds")).unwrap().trim().to_owned()
    };
    for other_uses_one in [false, true] {
        let fake = FakeDamon::new(0);
        let mut admin = fake.admin();
        let taken = admin.take(1).unwrap();
        put(&fake.file(0, "contexts/nr_contexts"), "1\n");
        fake.run(0, 900, 10);
        admin.note(&taken, &mut Reader::default()).unwrap();
        taken.into_iter().for_each(std::mem::forget);
        drop(admin);
        if other_uses_one {
            put(&fake.file(1, "contexts/nr_contexts"), "1\n");
        }
        fake.admin();
        assert_eq!(number(&fake), if other_uses_one { "3" } else { "0" });
    }
}

/// Turning it off would wait as long, and so would the start or `tierwise restore`.
#[test]
fn waiting_leftover_stops_no_start() {
    let fake = FakeDamon::new(2);
    let mut admin = fake.admin();
    let taken = admin.take(2).unwrap();
    for (i, pid) in [(0, 900), (1, 901)] {
        put(&fake.file(i, "contexts/nr_contexts"), "1\n");
        fake.run(i, pid, 10);
    }
    admin.note(&taken, &mut Reader::default()).unwrap();
    taken.into_iter().for_each(std::mem::forget);
    drop(admin);
    let stat = fake.roots.proc.join("900/stat");
    let running = fs::read_to_string(&stat).unwrap();
    put(&stat, &running.replace(") S ", ") D "));
    let clean_up = || admin::clean_up_recorded(&fake.roots, &fake.record).unwrap();
    let admin::Left::Unknown(message) = clean_up() else { panic!("nothing waited") };
    assert!(message.starts_with("kdamond 0 of an earlier run waits"), "{message}");
    assert_eq!((fake.text(0, "state").as_str(), fake.text(1, "state").as_str()), ("on", "off"));
    // After the lock is free, the record still lists the kdamond.
    put(&stat, &running);
    assert_eq!(clean_up(), admin::Left::Places(vec![0, 1]));
    assert_eq!(fake.text(0, "state"), "off");
}

#[test]
fn damaged_record_stops_no_start() {
    let fake = FakeDamon::new(2);
    let mut admin = fake.admin();
    let taken = admin.take(1).unwrap();
    put(&fake.file(0, "contexts/nr_contexts"), "1\n");
    fake.run(0, 900, 10);
    admin.note(&taken, &mut Reader::default()).unwrap();
    taken.into_iter().for_each(std::mem::forget);
    drop(admin);
    // Place 1 belongs to another program.
    fake.run(1, 905, 20);
    let whole = fs::read(&fake.record).unwrap();
    for length in 0..whole.len() {
        fs::write(&fake.record, &whole[..length]).unwrap();
        let left = admin::clean_up_recorded(&fake.roots, &fake.record).unwrap();
        let admin::Left::Unknown(message) = left else { panic!("{left:?}") };
        assert!(message.contains("damon.json.damaged"), "{message}");
        assert!(message.contains("kdamond 0, 1 runs"), "{message}");
        assert!(!fake.record.exists());
    }
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        fs::write(&fake.record, flipped).unwrap();
        fake.admin();
        assert_eq!(fake.text(1, "state"), "on", "byte {at}");
    }
    fs::write(&fake.record, whole).unwrap();
    fake.admin();
    assert_eq!((fake.text(0, "state"), fake.text(1, "state")), ("off".into(), "on".into()));
}

#[test]
fn stopped_kdamond_has_no_regions() {
    let fake = FakeDamon::new(1);
    let mut taken = fake.admin().take(1).unwrap();
    taken[0]
        .configure(&monitoring(
            DamonTarget::Processes(vec![REDIS.pid.into()]),
            vec![Scheme::stat()],
        ))
        .unwrap();
    fake.run(0, 900, 1);
    // 1.5 s at 100 ticks per second.
    let cpu = taken[0].cpu_time(&fake.roots, &mut Reader::default()).unwrap();
    assert_eq!(cpu, Duration::from_millis(1500));
    let mut out = vec![HostRegion { start: 0, end: 1, nr_accesses: 0, age: 0 }];
    // The plain file now holds the command instead of "on", as if the process had ended during the
    // command.
    assert!(!taken[0].regions(&mut Reader::default(), &mut out).unwrap());
    assert!(out.is_empty());
}

#[test]
fn kernel_without_damon_names_remedy() {
    let tree = tempfile::tempdir().unwrap();
    let message = Admin::probe(&Roots::under(tree.path())).unwrap_err().to_string();
    assert!(message.contains("CONFIG_DAMON_SYSFS"), "{message}");

    let fake = FakeDamon::new(1);
    let mut taken = fake.admin().take(1).unwrap();
    put(&fake.file(0, "contexts/0/avail_operations"), "paddr\n");
    let target = monitoring(DamonTarget::Processes(vec![REDIS.pid.into()]), vec![]);
    let message = taken[0].configure(&target).unwrap_err().to_string();
    assert!(message.contains("CONFIG_DAMON_VADDR"), "{message}");
}

#[test]
fn damon_stat_is_named_as_holder() {
    let fake = FakeDamon::new(1);
    assert_eq!(damon_stat(&fake.roots), None);
    let switch = fake.roots.sys.join("module/damon_stat/parameters/enabled");
    put(&switch, "N\n");
    assert_eq!(damon_stat(&fake.roots), None);
    put(&switch, "Y\n");
    assert_eq!(damon_stat(&fake.roots), Some(switch));
}
